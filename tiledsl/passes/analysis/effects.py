"""Which tensors are written where. Tensors never overlap another that is written: the runtime sees to it."""

from __future__ import annotations

from collections.abc import Iterable

from tiledsl.ir.core import Op, Value
from tiledsl.ir.tile_ops import Atomic, Store


def tensors_written(ops: Iterable[Op]) -> frozenset[Value]:
    """The tensors that the ops, or those nested in them, store to."""
    return frozenset(nested.tensor for op in ops for nested in op.walk() if isinstance(nested, (Store, Atomic)))


def has_effect(op: Op) -> bool:
    """Whether the op does anything besides giving its results: writes, prints, checks, or contains what does."""
    return any(nested.effect == "write" for nested in op.walk())
