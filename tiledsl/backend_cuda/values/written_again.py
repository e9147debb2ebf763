"""Which tiles are computed again behind a fold, rather than held in registers until it is known.

    float wide_[64];                                      // widened from unsigned x_[32]: half as many registers
    ... the mean of them, from all threads of a cluster
    for (int w = 0; w < 32; ++w) asm volatile("" : "+r"(x_[w]));
    ... wide_ once more, from x_

Long rows and columns are held until a fold of them is known, by as many threads as there is room for: what each holds
decides how many blocks a multiprocessor has at a time, and so whether one loads while another one waits. A tile that is
loaded in few bits is kept so, if what is made of it takes a few instructions. The empty statement keeps compilers from
keeping what they have made already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.functions.storage import Registers, Scalar, Storage, View
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.gpu.gpu_ops import Load
from tiledsl.ir.tile_ops import Cast, Map

LEAST_HELD = 48
"""Registers of a thread: tiles that take fewer leave room enough."""
LIGHT = ("add", "sub", "mul", "neg")
"""Functions of one instruction."""
MOST_OPS = 4
"""From the elements that were loaded."""
FEW = 16
"""Registers that may be held beside them."""
BESIDE = 32
"""Registers of a thread for addresses, sums and what is computed at a time."""
REGISTERS = 65536
"""Of a multiprocessor."""


def light_values(frame: KernelFrame, block: Block, resolved: Callable[[Value], Value]) -> dict[Value, set[Registers]]:
    """The large tiles of a block that were written so far and are light, each with the packed tiles it is made of."""
    found: dict[Value, set[Registers]] = {}
    for value, stored in frame.values.items():
        large = isinstance(stored, Registers) and stored.per_word == 1 and stored.slots >= LEAST_HELD
        if large and value.op is not None and value.op.parent is block:
            bases = _bases(frame, value, resolved, MOST_OPS)
            if bases:
                found[value] = bases
    return found


def _bases(frame: KernelFrame, value: Value, resolved: Callable[[Value], Value], ops: int) -> set[Registers] | None:
    """The packed tiles that a light value is computed from; None if it is not light."""
    op = value.op
    if ops == 0 or not isinstance(op, (Cast, Map)) or (isinstance(op, Map) and op.fn not in LIGHT):
        return None
    found: set[Registers] = set()
    for operand in map(resolved, op.operands):
        stored = frame.storage(operand) if operand in frame.values or not operand.shape else None
        if isinstance(stored, Scalar) or (isinstance(stored, (Registers, View)) and _words(stored) <= FEW):
            continue
        if isinstance(operand.op, Load) and isinstance(stored, Registers) and stored.per_word > 1:
            found.add(stored)
            continue
        bases = _bases(frame, operand, resolved, ops - 1)
        if bases is None:
            return None
        found |= bases
    return found


def _words(stored: Registers | View) -> int:
    return stored.words if isinstance(stored, Registers) else stored.source.words


def held_words(
    frame: KernelFrame, block: Block, fold: Op, bases: Iterable[Registers], released: Collection[Storage]
) -> int:
    """Registers of the tiles of a block that are wanted behind a fold, and of those that others are made anew of."""
    later = set(block.ops[block.ops.index(fold) + 1 :])
    made_of = {base.name for base in bases}
    held: dict[str, int] = {}
    for value, stored in frame.values.items():
        if not isinstance(stored, Registers) or stored.words <= FEW or stored in released:
            continue
        if stored.name in made_of or any(user in later for user in value.users):
            held[stored.name] = stored.slots if _comes_by_elements(value) else stored.words
    return sum(held.values())


def _comes_by_elements(value: Value) -> bool:
    """Whether each element of a tile comes in a register of its own, before it has its place in a word."""
    return isinstance(value.op, Load) and value.op.vector == 1


def blocks_at_once(threads: int, words: int) -> int:
    """How many blocks a multiprocessor has registers for, whose threads hold that much."""
    return max(1, REGISTERS // (threads * (words + BESIDE)))
