"""Steps that read weights alone: they run once, and their results are weights of what is left.

w = constant                                first: w -> t                   rest: t = constant
t = step 0(w)                        =>       t = step 0(w)            =>     y = step 1(x, t)
y = step 1(x, t)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from tiledsl.runtime.programs.schedule import Buffer, Role, Schedule, Step

MOST_GROWTH = 4
"""Times the bytes that a step reads: one that makes more is left in the call, rather than keep so much memory."""
SMALL_BYTES = 1 << 20
"""What may be kept whatever was read for it."""


@dataclass(frozen=True)
class Split:
    """`first` has no inputs and gives `kept`, buffers that are constants of `rest`. Both count buffers alike."""

    first: Schedule
    rest: Schedule

    @property
    def kept(self) -> tuple[int, ...]:
        return self.first.outputs


def split_constant_steps(schedule: Schedule, fixed: Collection[int]) -> Split | None:
    """The steps that depend on nothing but the constants `fixed`, and those that are left; None if there are none."""
    constant = constant_steps(schedule, fixed)
    if not constant:
        return None
    early = [step for number, step in enumerate(schedule.steps) if number in constant]
    late = [step for number, step in enumerate(schedule.steps) if number not in constant]
    made = {buffer for step in early for buffer in _written(step)}
    used = {buffer for step in late for buffer in step.buffers} | set(schedule.outputs)
    kept = tuple(sorted(made & used))
    read = {buffer for step in early for buffer in step.buffers}
    first = Schedule(
        name=schedule.name,
        buffers=_with_role(schedule.buffers, kept, "output"),
        inputs=(),
        constants=tuple(n for n in schedule.constants if n in read),
        outputs=kept,
        steps=tuple(early),
    )
    rest = replace(
        schedule,
        buffers=_with_role(schedule.buffers, kept, "constant"),
        constants=(*(n for n in schedule.constants if n in used), *kept),
        steps=tuple(late),
    )
    return Split(first, rest)


def constant_steps(schedule: Schedule, fixed: Collection[int]) -> set[int]:
    """The numbers of the steps that depend on nothing but the constants `fixed`, and may run before all others."""
    found = set(range(len(schedule.steps)))
    while True:
        left = _without_dependent(schedule, fixed, found)
        if left == found:
            return found
        found = left


def _without_dependent(schedule: Schedule, fixed: Collection[int], steps: Collection[int]) -> set[int]:
    """Those of `steps` that read only what is fixed or was made by others of them, into memory that no other step
    writes, nor reads before they are done."""
    written_by_others: set[int] = set()
    last: dict[int, int] = {}
    for number, step in enumerate(schedule.steps):
        for buffer in _written(step):
            if number in steps:
                last[buffer] = number
            else:
                written_by_others.add(buffer)
    for number, step in enumerate(schedule.steps):
        if number not in steps:
            written_by_others.update(b for b in step.buffers if number < last.get(b, -1))
    known, found = set(fixed), set[int]()
    for number, step in enumerate(schedule.steps):
        if number in steps and _is_constant(schedule, step, known, written_by_others):
            found.add(number)
            known |= _written(step)
    return found


def _is_constant(schedule: Schedule, step: Step, known: Collection[int], shared: Collection[int]) -> bool:
    written = _written(step)
    read = step.buffers - written
    if not read <= set(known) or any(schedule.buffers[b].role != "inner" or b in shared for b in written):
        return False
    made = sum(schedule.buffers[b].bytes for b in written)
    return made <= SMALL_BYTES + MOST_GROWTH * sum(schedule.buffers[b].bytes for b in read)


def _written(step: Step) -> set[int]:
    return {step.tensors[place].buffer for place in step.written}


def _with_role(buffers: tuple[Buffer, ...], numbers: Collection[int], role: Role) -> tuple[Buffer, ...]:
    return tuple(replace(b, role=role) if n in numbers else b for n, b in enumerate(buffers))
