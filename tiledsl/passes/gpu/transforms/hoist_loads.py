"""Loads that stand behind a meeting of threads are asked for before it, so that a block waits for memory once.

    %a = gpu.load(%x, ...)                    %a = gpu.load(%x, ...)
    %sum = gpu.reduce([%a], %scratch)         %w_1 = gpu.load(%w, ...)
    %w_1 = gpu.load(%w, ...)            =>    %sum = gpu.reduce([%a], %scratch)
    ...                                       ...

Folds among threads, and what goes through shared memory, end in barriers, and no compiler moves a load across one. What
is moved waits in registers: a few of them, and never across a loop or a branch. What all programs load is in a cache,
and stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.gpu.async_ops import Role
from tiledsl.ir.gpu.gpu_ops import Atomic, Convert, Launch, Load, Read, Reduce, Scan, Store, Wait, Write
from tiledsl.ir.types import TensorType
from tiledsl.ir.verifier import Form
from tiledsl.passes.manager import PassContext

MEETINGS = (Convert, Read, Reduce, Scan, Wait, Write)
"""What threads may have to meet for, and waits for copies that run ahead."""
MOST_WORDS = 24
"""Registers of a thread that what is moved in one block takes at most."""
MOST_THREADS = 512
"""Of a block whose threads have registers to spare."""


@dataclass(frozen=True)
class HoistLoads:
    """Moves loads of tensors that the launch does not write."""

    name: ClassVar[str] = "hoist-loads"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU

    def run(self, module: Module, context: PassContext) -> Module:
        for op in list(module.walk()):
            if (
                isinstance(op, Launch)
                and op.threads <= MOST_THREADS
                and not any(isinstance(o, Role) for o in op.walk())
            ):
                written = {o.tensor for o in op.walk() if isinstance(o, (Store, Atomic))}
                for block in list(_blocks(op)):
                    _hoist(block, written)
        return module


def _blocks(op: Op) -> Iterator[Block]:
    for block in op.bodies.values():
        yield block
        for inner in block.ops:
            yield from _blocks(inner)


def _hoist(block: Block, written: Set[Value]) -> None:
    """Within one block: each load goes before the first meeting behind which nothing that it needs is made, but for
    scalars, which go with it."""
    words = 0
    for op in list(block.ops):
        if isinstance(op, Load) and op.shape and op.tensor not in written and _is_of_program(op):
            place, scalars = _place(block, op)
            words += -(-op.result.layout.slots * op.result.dtype.bytes // 4) if place is not None else 0
            if place is not None and words <= MOST_WORDS:
                for moved in (*scalars, op):
                    del block.ops[block.index(moved)]
                    block.insert_before(place, moved)


def _is_of_program(load: Load) -> bool:
    """Whether programs or turns load other parts of a tensor each: what all of them load is in a cache."""
    seen, work = set[Value](), list(load.operands)
    while work:
        value = work.pop()
        if isinstance(value.type, TensorType) or value in seen:
            continue
        if value.op is None:
            return True
        seen.add(value)
        work += value.op.operands
    return False


def _place(block: Block, load: Load) -> tuple[Op | None, list[Op]]:
    """The first meeting that a load may be made before (None where there is none), and the scalars that it needs."""
    needed = {value.op for value in load.operands}
    found: Op | None = None
    scalars, behind = list[Op](), list[Op]()
    for op in reversed(block.ops[: block.index(load)]):
        if op in needed:
            if op.effect != "pure" or op.bodies or any(value.shape for value in op.results):
                break
            needed |= {value.op for value in op.operands}
            behind.insert(0, op)
        elif op.bodies:
            break
        elif isinstance(op, MEETINGS):
            found, scalars = op, list(behind)
    return found, scalars
