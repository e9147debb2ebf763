"""Which tensors there are, and which are written. None overlaps another that is written: the runtime sees to it."""

from __future__ import annotations

from collections.abc import Iterable

from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.tile_ops import Atomic, Empty, Store
from tiledsl.ir.types import TensorType


def tensors_in_order(body: Block) -> list[Value]:
    """The tensors of a function, by its body, as plans count them: parameters, new ones, those of one run."""
    parameters = [value for value in body.arguments if isinstance(value.type, TensorType)]
    new = [op for op in body.ops if isinstance(op, Empty)]
    return [*parameters, *(op.result for op in new if not op.scratch), *(op.result for op in new if op.scratch)]


def tensors_written(ops: Iterable[Op]) -> frozenset[Value]:
    """The tensors that the ops, or those nested in them, store to."""
    return frozenset(nested.tensor for op in ops for nested in op.walk() if isinstance(nested, (Store, Atomic)))


def has_effect(op: Op) -> bool:
    """Whether the op does anything besides giving its results: writes, prints, checks, or contains what does."""
    return any(nested.effect == "write" for nested in op.walk())
