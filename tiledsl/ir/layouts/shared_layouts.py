"""Chooses how a buffer lies in shared memory: so that those who write and read it meet few bank conflicts.

Everything is counted from addresses, as the hardware takes them: an access of a warp is made in phases of 128 bytes
(32 lanes of 4 bytes, 16 of 8, 8 of 16; for a matrix 8 rows of 16 bytes), and a phase takes one wavefront for each word
that its most wanted bank has to give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Literal

import numpy as np

from tiledsl.ir.dtypes import DType
from tiledsl.ir.layouts.buffer_layout import BANK_BYTES, BANKS, SharedLayout, Swizzle
from tiledsl.ir.layouts.layout import WARP, Integers, RegisterLayout

Method = Literal["plain", "copy", "matrix", "matrix-transposed"]
MATRICES: tuple[Method, ...] = ("matrix", "matrix-transposed")
WARPS = 4
"""How many warps are counted: the others repeat them."""
GROUPS = 8
"""How many groups of slots are counted when a layout is chosen."""
VECTOR_BYTES = 16
COPY_BYTES = 4
"""The least that an asynchronous copy takes at once."""
ROW_BYTES = 16
"""A row of a matrix of ldmatrix and stmatrix: held by four lanes, one word each."""
LINE_BITS = 7
"""One wavefront gives 128 bytes: all banks."""
WAVEFRONT_COST = 4
"""One wavefront of shared memory, in instructions: four warps issue while it is made."""


@dataclass(frozen=True)
class Access:
    """One way of writing or reading a tile of a buffer. `places`: the buffer axis along which each tile axis runs.

    `method`: that of `gpu.read` and `gpu.write`, or `copy` (`gpu.copy`). `vector`: how many elements a thread takes at
    once, if the buffer's layout allows for it; 0 for as many as can be.
    """

    layout: RegisterLayout
    places: tuple[int, ...]
    method: Method = "plain"
    vector: int = 0

    def wanted_vector(self, dtype: DType) -> int:
        """How many elements a thread would take at once in the best of buffers."""
        last = self.layout.slot_digits[-1] if self.layout.slot_digits else None
        run = last.size if last is not None and last.stride == 1 else 1
        most = min(run & -run, max(1, VECTOR_BYTES // dtype.bytes))
        return min(self.vector, most) if self.vector else most


# What a layout allows for


def vector_elements(
    layout: RegisterLayout, shared: SharedLayout, shape: Sequence[int], dtype: DType, places: Sequence[int]
) -> int:
    """The widest vector, in elements and of at most 16 bytes, with which threads can access a buffer of `shape`.

    Its elements stand in consecutive slots and side by side in memory, aligned to its size wherever the tile begins:
    that is, along the fastest axis, at multiples of the tile's extent.
    """
    fastest = shared.order[-1]
    if fastest not in places or not layout.slot_digits:
        return 1
    axis = tuple(places).index(fastest)
    last = layout.slot_digits[-1]
    if last.axis != axis or last.stride != 1:
        return 1
    apart = [stride for place, stride in enumerate(shared.strides(shape)) if place != fastest and shape[place] > 1]
    if shared.panel:
        apart.append(shared.panel)
    if layout.shape[axis] != shape[fastest]:
        apart.append(layout.shape[axis])
    together = VECTOR_BYTES if shared.swizzle is None else min(VECTOR_BYTES, 1 << shared.swizzle.base)
    vector = 1
    while 2 * vector * dtype.bytes <= together and all(number % (2 * vector) == 0 for number in (last.size, *apart)):
        vector *= 2
    return vector


def fits_matrix(access: Access, shared: SharedLayout, shape: Sequence[int], dtype: DType) -> bool:
    """Whether ldmatrix or stmatrix can make the access: four lanes' words are one row of 16 bytes, side by side.

    Transposed, a row is what lanes 0, 4, ... 28 hold: it is for elements of two bytes alone.
    """
    elements = BANK_BYTES // dtype.bytes
    layout = access.layout
    if dtype.bytes > BANK_BYTES or layout.slots % elements or layout.threads % WARP:
        return False
    if access.method == "matrix-transposed" and elements != 2:
        return False
    lanes = _numbers(min(layout.threads, WARPS * WARP))
    offsets = _offsets(access, shared, shape, dtype, lanes, _numbers(layout.slots))
    cells: Integers = np.reshape(offsets, (len(lanes) // WARP, 8, 4, layout.slots // elements, elements))
    if access.method == "matrix-transposed":
        # lane 4c + i, element e: column c of row 2i + e
        rows = cells[:, :1]
        expected = rows + np.reshape(_numbers(8), (1, 8, 1, 1, 1)) * dtype.bytes
    else:
        rows = cells[:, :, :1, :, :1]
        along: Integers = np.reshape(_numbers(4), (1, 1, 4, 1, 1)) * BANK_BYTES
        expected = rows + along + _numbers(elements) * dtype.bytes
    return bool((cells == expected).all() and (rows % ROW_BYTES == 0).all())


def _numbers(count: int) -> Integers:
    return np.arange(count, dtype=np.int64)


def _offsets(
    access: Access, shared: SharedLayout, shape: Sequence[int], dtype: DType, threads: Integers, slots: Integers
) -> Integers:
    """The byte offsets of the elements of these threads and slots: [threads, slots]."""
    of_threads = access.layout.thread_coordinates(threads[:, None])
    of_slots = access.layout.slot_coordinates(slots[None, :])
    coordinates: list[Integers] = [np.zeros((1, 1), np.int64)] * len(shape)
    for place, thread, slot in zip(access.places, of_threads, of_slots):
        coordinates[place] = thread + slot
    offsets = shared.offset(shape, dtype, coordinates)
    return np.broadcast_to(offsets, (len(threads), len(slots)))


# Counting


@dataclass(frozen=True)
class Wavefronts:
    """What an access costs: wavefronts, how many there would be without conflicts, and instructions."""

    count: int
    ideal: int
    instructions: int


def access_wavefronts(access: Access, shared: SharedLayout, shape: Sequence[int], dtype: DType) -> int:
    """How many wavefronts shared memory takes for the access of all slots by the first warps (at most four)."""
    found = access_turns(access, shared, tuple(shape), dtype)
    assert found is not None, f"{access} cannot be made in {shared}"
    return found.count


def is_conflict_free(access: Access, shared: SharedLayout, shape: Sequence[int], dtype: DType) -> bool:
    """Whether no phase of the access takes more than one wavefront."""
    found = access_turns(access, shared, tuple(shape), dtype)
    return found is not None and found.count == found.ideal


def _vector_of(access: Access, shared: SharedLayout, shape: tuple[int, ...], dtype: DType) -> int:
    return min(access.wanted_vector(dtype), vector_elements(access.layout, shared, shape, dtype, access.places))


@lru_cache(maxsize=4096)
def access_turns(
    access: Access, shared: SharedLayout, shape: tuple[int, ...], dtype: DType, groups: int = 0
) -> Wavefronts | None:
    """Counts an access, or only about `groups` groups of slots of it; None if it cannot be made in this layout."""
    threads = _numbers(min(access.layout.threads, WARPS * WARP))
    slots = access.layout.slots
    if access.method in MATRICES:
        if not fits_matrix(access, shared, shape, dtype):
            return None
        rows = _matrix_rows(access, shared, shape, dtype, threads, groups)
        matrices = slots * len(threads) * dtype.bytes // (8 * ROW_BYTES)
        count = _wavefronts_of_phases(rows, ROW_BYTES) * matrices / len(rows)
        return Wavefronts(round(count), matrices, -(-matrices // 4))
    vector = _vector_of(access, shared, shape, dtype)
    width = vector * dtype.bytes
    if access.method == "copy" and width < COPY_BYTES:
        return None
    firsts = _numbers(slots // vector) * vector
    firsts = firsts[:: max(1, len(firsts) // groups)] if groups else firsts
    offsets = _offsets(access, shared, shape, dtype, threads, firsts)
    lanes = min(WARP, WARP * BANK_BYTES // max(width, BANK_BYTES))
    phases: Integers = np.reshape(np.transpose(offsets), (-1, min(lanes, len(threads))))
    scale = slots // vector / len(firsts)
    instructions = len(firsts) * -(-len(threads) // WARP)
    count = _wavefronts_of_phases(phases, width)
    return Wavefronts(round(count * scale), round(len(phases) * scale), round(instructions * scale))


def _matrix_rows(
    access: Access, shared: SharedLayout, shape: tuple[int, ...], dtype: DType, threads: Integers, groups: int
) -> Integers:
    """The row addresses of each 8 x 8 matrix: [matrices, 8]."""
    elements = BANK_BYTES // dtype.bytes
    words = _numbers(access.layout.slots // elements)
    words = words[:: max(1, len(words) // groups)] if groups else words
    if access.method == "matrix":
        of_rows = threads[::4]
        return np.reshape(np.transpose(_offsets(access, shared, shape, dtype, of_rows, words * elements)), (-1, 8))
    of_rows: Integers = np.reshape(np.reshape(threads, (-1, WARP))[:, :4], (-1,))
    slots: Integers = np.reshape(words[:, None] * elements + _numbers(elements), (-1,))
    offsets = _offsets(access, shared, shape, dtype, of_rows, slots)
    cells: Integers = np.reshape(offsets, (-1, 4, len(words), elements))
    return np.reshape(np.transpose(cells, (0, 2, 1, 3)), (-1, 8))


def _wavefronts_of_phases(addresses: Integers, width: int) -> int:
    """The wavefronts of many phases, `addresses` [phases, lanes]: for each, how often its most wanted bank is asked.

    Lanes that ask for one word share it.
    """
    words = addresses // BANK_BYTES
    if width > BANK_BYTES:
        words = np.reshape(words[:, :, None] + _numbers(width // BANK_BYTES), (len(addresses), -1))
    words = np.sort(words, axis=1)
    wanted = np.ones(words.shape, np.bool_)
    wanted[:, 1:] = words[:, 1:] != words[:, :-1]
    keys = (_numbers(len(words))[:, None] * BANKS + words % BANKS)[wanted]
    asked = np.reshape(np.bincount(keys, minlength=len(words) * BANKS), (-1, BANKS))
    return int(np.max(asked, axis=1).sum())


# Choosing


def choose_shared_layout(
    shape: Sequence[int], dtype: DType, accesses: Sequence[Access], order: tuple[int, ...] | None = None
) -> SharedLayout:
    """The layout of a buffer in which all accesses together cost least; row-major if they are alike in all.

    `order` fixes the order of the axes. Among equals the first candidate wins: plain ones before swizzled ones before
    padded ones. An access that no candidate allows for (a matrix, a copy of less than 4 bytes) is left out of account.
    """
    return _chosen(tuple(shape), dtype, tuple(accesses), order)


@lru_cache(maxsize=1024)
def _chosen(
    shape: tuple[int, ...], dtype: DType, accesses: tuple[Access, ...], order: tuple[int, ...] | None
) -> SharedLayout:
    best: SharedLayout | None = None
    least = 0
    for candidate in _candidates(shape, dtype, accesses, order):
        if best is not None and _least_cost(candidate, shape, dtype, accesses) >= least:
            continue
        cost = _cost(candidate, shape, dtype, accesses)
        if cost is not None and (best is None or cost < least):
            best, least = candidate, cost
    if best is not None:
        return best
    possible = tuple(access for access in accesses if access.method == "plain")
    if len(possible) < len(accesses):
        return _chosen(shape, dtype, possible, order)
    return SharedLayout(order or tuple(range(len(shape))))


def _cost(layout: SharedLayout, shape: tuple[int, ...], dtype: DType, accesses: Sequence[Access]) -> int | None:
    """The cost of one of each access; None if one of them cannot be made."""
    total = 0
    for access in accesses:
        cost = access_turns(access, layout, shape, dtype, GROUPS)
        if cost is None:
            return None
        total += WAVEFRONT_COST * cost.count + cost.instructions
    return total


def _least_cost(layout: SharedLayout, shape: tuple[int, ...], dtype: DType, accesses: Sequence[Access]) -> int:
    """What the accesses cost if there are no conflicts: at least this, and found without counting any."""
    total = 0
    for access in accesses:
        vector = _vector_of(access, layout, shape, dtype)
        threads = min(access.layout.threads, WARPS * WARP)
        if access.method in MATRICES:
            phases = access.layout.slots * threads * dtype.bytes // (8 * ROW_BYTES)
            total += WAVEFRONT_COST * phases + -(-phases // 4)
        else:
            instructions = access.layout.slots // vector * -(-threads // WARP)
            width = max(vector * dtype.bytes, BANK_BYTES)
            total += (WAVEFRONT_COST * width // BANK_BYTES + 1) * instructions
    return total


def _candidates(
    shape: tuple[int, ...], dtype: DType, accesses: Sequence[Access], order: tuple[int, ...] | None
) -> Iterator[SharedLayout]:
    """Every order that makes an axis of some tile the fastest, plain, swizzled, padded."""
    rank = len(shape)
    used = {place for access in accesses for place in access.places}
    fastest = [axis for axis in reversed(range(rank)) if axis in used and shape[axis] > 1] or [rank - 1]
    orders = [order] if order else [(*(axis for axis in range(rank) if axis != last), last) for last in fastest]
    for axes in orders:
        yield SharedLayout(axes)
    for axes in orders:
        row = shape[axes[-1]] * dtype.bytes if rank > 1 else 1
        for swizzle in _swizzles(row, dtype.bytes):
            yield SharedLayout(axes, 0, swizzle)
    for axes in orders if rank > 1 else ():
        for bytes_ in (16, 8, 4):
            if bytes_ >= dtype.bytes:
                yield SharedLayout(axes, bytes_ // dtype.bytes)


def _swizzles(row: int, element: int) -> Iterator[Swizzle]:
    """Swizzles for rows of so many bytes: where in a line of 128 bytes something stands changes with its row.

    First by pieces of 16 bytes, with the number of the line, or of the row where that is longer; then with the number
    of a group of rows, for those who go down columns by vectors; then by smaller pieces, for narrower accesses.
    """
    line = max(row, BANKS * BANK_BYTES)
    top = (line & -line).bit_length() - 1  # the first bit that rows count in, or some bit of a row of odd length
    top = max(top, LINE_BITS)
    for base, groups in ((4, 0), (5, 0), *list(product((4, 3, 2), range(4)))[1:]):
        if 1 << base >= element:
            yield Swizzle(LINE_BITS - base, base, top - base + groups)
