"""How a tile gets from one register layout into another: within threads, by shuffles of a warp, or through memory.

>>> from tiledsl.ir.layouts.layout import local, replicate, spatial
>>> convert_plan(spatial(8) * replicate(4, 1), replicate(4, 1) * spatial(8)).kind
'shuffle'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from tiledsl.ir.layouts.layout import WARP, Digit, Integers, RegisterLayout

LANE_BITS = 5


@dataclass(frozen=True)
class ConversionPlan:
    """Where each slot of the target comes from.

    - `registers`: target slot s of a thread is its own source slot `slots[s]`.
    - `shuffle`: it is source slot `slots[s]` of lane `lane(own lane, s)` of the same warp: the sum of
      `lane // divisor % size * factor` over `lane_digits`, and `lane_of_slot[s]`.
    - `shared`: elements cross warps, or the source slot depends on the lane: through a buffer.
    """

    kind: Literal["registers", "shuffle", "shared"]
    slots: tuple[int, ...] = ()
    lane_digits: tuple[tuple[int, int, int], ...] = ()
    lane_of_slot: tuple[int, ...] = ()

    def lane(self, lane: Any, slot: int) -> Any:
        """The lane that a lane (an int or an array of them) gets a slot from."""
        found: Any = 0 * lane + self.lane_of_slot[slot]
        for divisor, size, factor in self.lane_digits:
            found = found + lane // divisor % size * factor
        return found


SHARED = ConversionPlan("shared")


@lru_cache(maxsize=1024)
def convert_plan(source: RegisterLayout, target: RegisterLayout) -> ConversionPlan:
    """The cheapest way from one layout of a shape into another. Of copies, a thread takes its own, or its warp's."""
    assert source.shape == target.shape, f"{source!r} and {target!r}"
    if source.threads != target.threads:
        return SHARED
    threads, slots = _sources(source, target, [0] * target.rank)
    if (slots != slots[:1]).any():
        return SHARED
    from_slots = tuple(map(int, slots[0]))
    own: Integers = np.arange(target.threads, dtype=np.int64)[:, None]
    if (threads == own).all():
        return ConversionPlan("registers", from_slots)
    if target.threads % WARP or (threads // WARP != own // WARP).any():
        return SHARED
    lanes: Integers = np.reshape(threads % WARP, (-1, WARP, target.slots))
    if (lanes != lanes[:1]).any():
        return SHARED
    return _shuffle(from_slots, lanes[0])


@lru_cache(maxsize=1024)
def slice_slots(
    source: RegisterLayout, starts: tuple[int, ...], target: RegisterLayout, steps: tuple[int, ...] = ()
) -> tuple[int, ...] | None:
    """For each slot of `target`, a part of the tile that begins at `starts` and takes every `steps`-th element, the
    source slot of the same thread.

    None where a thread does not hold all that it is to hold, or where the slot depends on the thread.
    """
    if source.threads != target.threads:
        return None
    wanted = [step * axis + start for axis, start, step in zip(target.table, starts, steps or (1,) * len(starts))]
    own: Integers = np.arange(target.threads, dtype=np.int64)[:, None]
    slots, held = source.slots_of(own, wanted)
    slots = np.broadcast_to(slots, (target.threads, target.slots))
    if not np.all(held) or (slots != slots[:1]).any():
        return None
    return tuple(map(int, slots[0]))


def _sources(source: RegisterLayout, target: RegisterLayout, starts: Sequence[int]) -> tuple[Integers, Integers]:
    """The thread and the slot that hold what each target thread and slot is to hold: two arrays [threads, slots].

    A digit of the source's threads that makes copies is that of the thread itself.
    """
    coordinates = [axis + start for axis, start in zip(target.table, starts)]
    _, slots = source.place(coordinates)
    own: Integers = np.arange(target.threads, dtype=np.int64)[:, None]
    threads: Integers = np.zeros((target.threads, target.slots), np.int64)
    unit = 1
    for digit in reversed(source.thread_digits):
        threads = threads + unit * _digit_value(digit, coordinates, own // unit)
        unit *= digit.size
    return threads, np.broadcast_to(slots, threads.shape)


def _digit_value(digit: Digit, coordinates: Sequence[Integers], rest: Integers) -> Integers:
    if digit.axis is None:
        return rest % digit.size
    return coordinates[digit.axis] // digit.stride % digit.size


def _shuffle(slots: tuple[int, ...], lanes: Integers) -> ConversionPlan:
    """The plan for source lanes [lane, target slot]; they are to be a sum over the lane's bits and a slot's part."""
    base: Integers = lanes[0]
    steps = [int(lanes[1 << bit, 0] - lanes[0, 0]) for bit in range(LANE_BITS)]
    digits: list[tuple[int, int, int]] = []
    for bit, step in enumerate(steps):
        divisor, size, factor = digits[-1] if digits else (0, 1, 0)
        if step and digits and divisor * size == 1 << bit and factor * size == step:
            digits[-1] = (divisor, 2 * size, factor)
        elif step:
            digits.append((1 << bit, 2, step))
    plan = ConversionPlan("shuffle", slots, tuple(reversed(digits)), tuple(map(int, base)))
    numbers: Integers = np.arange(WARP, dtype=np.int64)
    right = all((plan.lane(numbers, slot) == lanes[:, slot]).all() for slot in range(len(slots)))
    return plan if right else SHARED
