"""Computes everything once: an op that repeats an earlier one is replaced by it.

    %x = tile.load(%a, [%m])          %x = tile.load(%a, [%m])
    tile.store(%b, [%m], %x)     =>   tile.store(%b, [%m], %x)
    %y = tile.load(%a, [%m])          tile.store(%c, [%m], %x)
    tile.store(%c, [%m], %y)

Before: any TILE form. After: the same form; no two ops of one body, or of a body and one around it, compute the same,
but for loads of a tensor that may have been written between them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.tile_ops import Atomic, Load, Store
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.manager import PassContext


@dataclass(frozen=True)
class EliminateCommonSubexpressions:
    """Replaces ops by equal ones before them."""

    name: ClassVar[str] = "cse"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            _Scopes().block(function.body, {})
        return module


class _Scopes:
    """Walks bodies in order. `versions` counts how often each tensor may have been written so far."""

    def __init__(self) -> None:
        self.versions: dict[Value, int] = {}

    def block(self, block: Block, known: dict[Hashable, Op]) -> None:
        """`known` has what is computed before the block, around it."""
        known = dict(known)
        for op in list(block.ops):
            if op.bodies:
                self.bodies(op, known)
            elif op.effect == "pure" or isinstance(op, Load):
                key = self.key(op)
                earlier = known.setdefault(key, op)
                if earlier is not op:
                    for old, new in zip(op.results, earlier.results):
                        old.replace_with(new)
                    op.erase()
            elif isinstance(op, (Store, Atomic)):
                self.write([op.tensor])

    def bodies(self, op: Op, known: dict[Hashable, Op]) -> None:
        # A body may run after itself, and one branch instead of the other: what is written in any, is written before.
        written = tensors_written([op])
        for body in op.bodies.values():
            self.write(written)
            # the combiner of a fold is a function of its own: it shall not read what is around it
            self.block(body, known if op.effect == "control" else {})
        self.write(written)

    def write(self, tensors: Iterable[Value]) -> None:
        for tensor in tensors:
            self.versions[tensor] = self.versions.get(tensor, 0) + 1

    def key(self, op: Op) -> Hashable:
        """Equal for ops that give the same. A number is told by its text: 1, 1.0 and True differ, and NaN is itself."""
        version = self.versions.get(op.tensor, 0) if isinstance(op, Load) else 0
        attributes = tuple(
            repr(value) if op.attribute_fields[name].kind == "number" else value
            for name, value in op.attributes.items()
        )
        types = tuple(v.type for v in op.results)
        return (type(op), tuple(op.fields.values()), attributes, types, version)
