"""Register layouts that suit an access of global memory: 16 bytes per thread, neighbouring threads side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tiledsl.ir.layouts.layout import WARP, Digit, RegisterLayout
from tiledsl.support.powers_of_two import power_of_two_in, power_of_two_up_to

SHORT_RUN = 4
"""Neighbours that a thread has along each of several axes: of a window of 3 by 3, a patch of 4 by 4 needs 36 elements
instead of 144."""
LINE_BYTES = 128
"""What memory is read and written in."""


def access_layout(
    shape: Sequence[int],
    order: Sequence[int],
    threads: int,
    vector: int,
    element_bytes: int,
    row_threads: int = 0,
    runs: Sequence[int] = (),
) -> RegisterLayout:
    """A layout for a tile whose axis `order[-1]` is the one that counts fastest in memory.

    Each thread takes `vector` neighbours along that axis at a time. Rows are shared out among groups of threads, so
    that folding a row involves few of them, but no group is smaller than a line of memory (`row_threads`, if not 0,
    says how large they are instead). What is left of the threads holds replicas. Along the other axes that are in
    `runs` a thread has neighbours.

    >>> print(access_layout([4, 1024], [0, 1], 128, 8, 2))
    local(1, 4) * spatial(4, 32) * local(1, 8)
    >>> print(access_layout([64, 64], [0, 1], 128, 8, 2, runs=[0]))
    spatial(16, 8) * local(4, 8)
    """
    digits_of_slots: list[Digit] = []
    digits_of_threads: list[Digit] = []
    if not shape:
        return RegisterLayout((), [Digit(threads, None, 0)], [])
    fast = order[-1]
    vector = min(vector, power_of_two_in(shape[fast]))
    rows = 1
    for axis in order[:-1]:
        rows *= max(1, power_of_two_in(shape[axis]) // (SHORT_RUN if axis in runs else 1))
    while vector > 1 and _is_odd(shape[fast] // vector) and rows * power_of_two_in(shape[fast] // vector) < threads:
        vector //= 2  # 56 = 7 * 8: vectors of 8 would leave one thread for a row, and the others with nothing to do
    room = shape[fast] // vector
    line = max(1, LINE_BYTES // (vector * element_bytes))
    wanted = row_threads or max(threads // min(rows, threads), line)
    along = power_of_two_up_to(min(power_of_two_in(room), power_of_two_in(threads), wanted))
    left = threads // along
    # outermost first: slots of the slow axes, slots of the fast axis, then threads, then the vector
    spread: list[Digit] = []
    parts = _parts(shape, order, left, runs)
    left //= math.prod(parts.values())
    for axis in reversed(order[:-1]):
        part = parts[axis]
        each = shape[axis] // part
        spread.insert(0, Digit(part, axis, each if axis in runs else 1))
        if each > 1:
            digits_of_slots.insert(0, Digit(each, axis, 1 if axis in runs else part))
    digits_of_threads = [Digit(left, None, 0), *spread, Digit(along, fast, vector)]
    digits_of_slots += [Digit(room // along, fast, vector * along), Digit(vector, fast, 1)]
    return RegisterLayout(shape, digits_of_threads, digits_of_slots)


def _parts(shape: Sequence[int], order: Sequence[int], threads: int, runs: Sequence[int]) -> dict[int, int]:
    """Among how many threads each slow axis is shared out, the one that counts fastest first. Where several are to have
    runs, each keeps a short one as long as others have room for threads, and then the one that counts slowest is first.
    """
    slow = list(reversed(order[:-1]))
    parts = dict.fromkeys(slow, 1)
    for kept, axes in ((SHORT_RUN, slow), (1, slow[::-1])) if len(runs) > 1 else ((1, slow),):
        for axis in axes:
            room = power_of_two_in(shape[axis]) // parts[axis]
            part = min(max(1, room // kept) if axis in runs else room, power_of_two_in(threads))
            parts[axis] *= part
            threads //= part
    return parts


def _is_odd(count: int) -> bool:
    """Whether threads, which come in powers of two, cannot take one each of so many."""
    return power_of_two_in(count) != count


def contiguous_bytes(layout: RegisterLayout, axis: int, element_bytes: int) -> int:
    """How many bytes side by side in memory the threads of a warp access at once, `axis` counting fastest there."""
    run = layout.vector(axis)
    lanes = 1
    for digit in reversed(layout.thread_digits):
        if digit.axis != axis or digit.stride != run or lanes == WARP:
            break
        run *= min(digit.size, WARP // lanes)
        lanes = min(WARP, lanes * digit.size)
    return run * element_bytes


def run_along(layout: RegisterLayout, axis: int) -> int:
    """How many neighbours along an axis of a tile each thread has: 0 where it does not have one run of them."""
    own = [digit for digit in layout.slot_digits if digit.axis == axis]
    if axis < 0 or len(own) != 1 or layout.widened(axis, 1, own[0].size) is None:
        return 0
    return own[0].size
