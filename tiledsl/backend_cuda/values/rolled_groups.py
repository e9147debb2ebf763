"""Long elementwise code as a loop that runs: registers move down to where the code reads them.

    #pragma unroll 1
    for (int part = 0; part < 6; ++part) {
        unsigned done[16];
        ... of acc[0] to acc[31]                          // gelu, packed: 16 instructions for each element
        for (int s = 0; s < 160; ++s) acc[s] = acc[s + 32];
        for (int s = 0; s < 16; ++s) acc[160 + s] = done[s];
    }

Registers have no index at run time, so that code on 192 of them is written out 192 times: 50 KiB for gelu, several
times what an instruction cache holds, and each warp waits for memory to bring what comes next. In rounds it is a sixth
of that, for a few moves. Results go where their operands were, if nobody reads these again: then there are no registers
that a plan did not count on. What somebody reads again comes back to its place in the last round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm

from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.functions.storage import Registers, Scalar, Storage, View
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.gpu.async_ops import Role
from tiledsl.ir.tile_ops import Cast, Map
from tiledsl.passes.gpu.plans.facts.operation_units import units_of

LONG = 2600
"""Instructions of a group, as they are counted beforehand, that are too many to be written out, those of other roles
with the same code among them. On an H200 gelu behind 8192x1024x4096 took 163 us written out and 117 in rounds where two
roles have 192 elements of a thread each (118 KiB), 140 and 111 where they have 128, 148 and 139 where there is one
role; and 122 and 129 where one has 128 (32 KiB)."""
ROUND_SLOTS = 32
"""The most slots of a round."""
FEWEST_SLOTS = 8
"""Rounds of fewer would move more than they compute."""


@dataclass(frozen=True)
class Moved:
    """An array of registers that moves down by `step` words after each round, or after `every` so many of them.
    `dead`: nobody reads it again."""

    registers: Registers
    step: int
    dead: bool
    every: int = 1


@dataclass(frozen=True)
class Rounds:
    """How a group is computed in rounds."""

    slots: int
    """Of one round."""
    count: int
    moved: tuple[Moved, ...]
    operands: Mapping[Value, Storage] = field(default_factory=dict[Value, Storage])
    """Where a round finds what it reads."""


def rounds_of(
    frame: KernelFrame,
    ops: Sequence[Op],
    slots: int,
    kept: Iterable[Registers],
    resolved: Callable[[Value], Value],
    waiting: Collection[Op],
) -> Rounds | None:
    """The rounds of a group of so many slots; None for one that is short, or whose operands do not lie in rounds.

    `waiting`: ops before it that have not been written yet.
    """
    if frame.recomputes:
        return None
    instructions = 0.0
    for op in ops:
        if not isinstance(op, (Map, Cast)):
            return None
        units = units_of(op)
        instructions += units.arithmetic + units.special
    if instructions * slots * _roles_alike(ops[-1]) < LONG:
        return None
    results = {op.result for op in ops}
    read = dict.fromkeys(value for op in ops for value in map(resolved, op.operands) if value not in results)
    stored = {value: frame.storage(value) for value in read}
    arrays = [one for one in stored.values() if isinstance(one, Registers)]
    together = lcm(*(one.per_word for one in (*arrays, *kept)), *_words_of_views(stored.values()))
    size = max((n for n in range(together, ROUND_SLOTS + 1, together) if slots % n == 0), default=0)
    if size < FEWEST_SLOTS or slots < 2 * size:
        return None
    moved: dict[str, Moved] = {}
    operands: dict[Value, Storage] = {}
    for value, storage in stored.items():
        match storage:
            case Scalar():
                continue
            case Registers() if storage.slots == slots:
                step, every, here = size, 1, storage
            case View():
                (step, every), here = _step(storage, size, slots), View(storage.source, storage.table[:size])
            case _:
                return None
        array = storage.source if isinstance(storage, View) else storage
        if step is None or step % array.per_word or step * (slots // size // every) % array.slots:
            return None
        operands[value] = here
        dead = isinstance(storage, Registers) and _is_dead(frame, array, ops, waiting)
        one = Moved(array, step // array.per_word, dead, every)
        if moved.setdefault(array.name, one) != one:
            return None  # read in two ways
    return Rounds(size, slots // size, tuple(one for one in moved.values() if one.step), operands)


def _roles_alike(op: Op) -> int:
    """How many roles of a kernel have the code of an op: consumers that take turns have it each."""
    role = op
    while role.parent is not None and not isinstance(role, Role):
        if role.parent.parent is None:
            return 1
        role = role.parent.parent
    if role.parent is None:
        return 1
    beside = (other for other in role.parent.ops if isinstance(other, Role))
    same = (any(type(one) is type(op) and one.location == op.location for one in other.walk()) for other in beside)
    return max(1, sum(same))


def _words_of_views(found: Iterable[Storage]) -> list[int]:
    return [one.source.per_word for one in found if isinstance(one, View)]


def _step(view: View, size: int, slots: int) -> tuple[int | None, int]:
    """By how much a view's slots go on, around the end of its array, and after how many rounds they do each time; None
    if not all alike. What is repeated along rows goes on where the second 64 rows of a warpgroup begin."""
    table, length, count = view.table, view.source.slots, slots // size
    steps: list[int] = []
    for number in range(count - 1):
        here = {(table[slot + size] - table[slot]) % length for slot in range(number * size, (number + 1) * size)}
        if len(here) > 1:
            return None, 1
        steps += here
    for every in (every for every in range(1, count) if count % every == 0):
        (*others, last) = steps[:every]
        if steps == [*([*others, last] * count)[: count - 1]] and not any(others):
            return last, every
    return None, 1


def _is_dead(frame: KernelFrame, array: Registers, ops: Sequence[Op], waiting: Collection[Op]) -> bool:
    """Whether nothing behind the group reads an array: it belongs to the block, and its readers have been written."""
    first = ops[0]
    block = first.parent
    assert block is not None
    for value, storage in frame.values.items():
        name = (
            storage.name if isinstance(storage, Registers) else storage.source.name if isinstance(storage, View) else ""
        )
        if name != array.name:
            continue
        if not _is_inside(value, block):
            return False
        for user in value.users:
            at = _place_in(user, block)
            if at is None or user in waiting or (user not in ops and at >= block.index(first)):
                return False
    return True


def _is_inside(value: Value, block: Block) -> bool:
    """Whether a value is made in a block, or within one of its ops."""
    if value.op is not None:
        return _place_in(value.op, block) is not None
    owner = value.op_around
    return owner is not None and _place_in(owner, block) is not None


def _place_in(op: Op, block: Block) -> int | None:
    """Where the op of a block stands that an op is, or stands in."""
    while op.parent is not None and op.parent is not block:
        if op.parent.parent is None:
            return None
        op = op.parent.parent
    return block.index(op) if op.parent is block else None


class Places:
    """Where the results of rounds are kept until the last one: behind operands that nobody reads again, or apart."""

    def __init__(self, frame: KernelFrame, rounds: Rounds) -> None:
        self.frame, self.rounds = frame, rounds
        self.free = {one.registers.name: one for one in rounds.moved if one.dead and _is_of_words(one.registers)}
        self.taken = dict.fromkeys(self.free, 0)
        self.of: dict[Value, tuple[Registers, Registers, int, int]] = {}
        """Of each result: its registers of a round, where it is kept, at which word of a round, and a round's words."""

    def add(self, value: Value, registers: Registers) -> Registers:
        """Finds a place for a result. Gives the registers that a round writes."""
        done = Registers(self.frame.names.fresh("done"), registers.dtype, self.rounds.slots)
        for name, one in self.free.items():
            if _is_of_words(registers) and self.taken[name] + done.words <= one.step:
                self.of[value] = (done, one.registers, self.taken[name], one.step)
                self.taken[name] += done.words
                return done
        self.of[value] = (done, registers, 0, done.words)
        return done

    def declare(self) -> None:
        """The registers of a round."""
        for done, *_ in self.of.values():
            self.frame.line(f"{done.declaration};")

    def move(self, round_: str) -> None:
        """At the end of the round of that number: all goes down, results behind it."""
        steps = {one.registers.name: one for one in self.rounds.moved}
        for _, kept, _, step in self.of.values():
            steps.setdefault(kept.name, Moved(kept, step, True))
        for one in steps.values():
            if one.every == 1:
                self._move_down(one)
                continue
            with self.frame.block(f"if ({round_} % {one.every} == {one.every - 1})"):
                self._move_down(one)
        for done, kept, place, step in self.of.values():
            self._copy(done, f"{kept.words - step + place} + ", kept, "", done.words)

    def _move_down(self, one: Moved) -> None:
        frame, array, step = self.frame, one.registers, one.step
        left = array.words - step
        first = Registers(frame.names.fresh("first"), array.dtype, step * array.per_word)
        if not one.dead:
            frame.line(f"{first.declaration};")
            self._copy(array, "", first, "", step)
        self._copy(array, "", array, f"{step} + ", left)
        if not one.dead:
            self._copy(first, f"{left} + ", array, "", step)

    def _copy(self, source: Registers, to: str, target: Registers, at: str, count: int) -> None:
        with self.frame.unrolled("s", count) as s:
            self.frame.line(f"{target.name}[{to}{s}] = {_as(target, source, f'{source.name}[{at}{s}]')};")

    def take_out(self, value: Value, registers: Registers) -> None:
        """After the last round: a result in registers of its own."""
        done, kept, place, step = self.of[value]
        if kept is registers:
            return
        with self.frame.unrolled("s", registers.words) as s:
            index = f"{s} / {done.words} * {step} + {place} + {s} % {done.words}"
            self.frame.line(f"{registers.name}[{s}] = {_as(registers, kept, f'{kept.name}[{index}]')};")


def _is_of_words(registers: Registers) -> bool:
    return registers.element_type in ("float", "unsigned")


def _as(target: Registers, source: Registers, text: str) -> str:
    """The bits of a register as another one has them."""
    if target.element_type == source.element_type:
        return text
    return f"__float_as_uint({text})" if target.element_type == "unsigned" else f"__uint_as_float({text})"
