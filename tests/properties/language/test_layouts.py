"""The algebra of layouts against tables of all their elements, and of shared memory against slow models."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.support.generators.random_layouts import alike, factors, layouts, shared_layouts
from tiledsl.ir.dtypes import bf16, f32, f64, i8
from tiledsl.ir.layouts.buffer_layout import SharedLayout, Swizzle, ideal_wavefronts, wavefronts
from tiledsl.ir.layouts.conversions import convert_plan, slice_slots
from tiledsl.ir.layouts.layout import RegisterLayout, local, replicate, spatial
from tiledsl.ir.layouts.shared_layouts import (
    Access,
    access_turns,
    access_wavefronts,
    choose_shared_layout,
    vector_elements,
)
from tiledsl.ir.layouts.text import parse_layout

Table = list[list[tuple[int, ...]]]


def table_of(layout: RegisterLayout) -> Table:
    """The coordinates of each (thread, slot)."""
    return [
        [tuple(int(axis[thread, slot]) for axis in layout.table) for slot in range(layout.slots)]
        for thread in range(layout.threads)
    ]


# Products


@given(st.data(), st.integers(1, 3))
def test_products_associate(data: st.DataObject, rank: int) -> None:
    a, b, c = (data.draw(factors(rank)) for _ in range(3))
    assert (a * b) * c == a * (b * c)


@given(st.data(), st.integers(1, 3))
def test_a_product_is_tiles_of_tiles(data: st.DataObject, rank: int) -> None:
    outer, inner = data.draw(layouts(rank, 2)), data.draw(layouts(rank, 2))
    assume(outer.threads * outer.slots * inner.threads * inner.slots <= 4096)
    whole = table_of(outer * inner)
    outers, inners = table_of(outer), table_of(inner)
    assert whole == [
        [
            tuple(p * size + q for p, size, q in zip(outers[t][s], inner.shape, inners[u][r]))
            for s, r in product(range(outer.slots), range(inner.slots))
        ]
        for t, u in product(range(outer.threads), range(inner.threads))
    ]
    assert (outer * inner).divided(inner) == outer


@given(layouts(), st.data())
def test_a_quotient_is_what_gives_the_product(layout: RegisterLayout, data: st.DataObject) -> None:
    inner = data.draw(layouts(layout.rank, 2))
    quotient = layout.divided(inner)
    assert quotient is None or quotient * inner == layout


@given(layouts())
def test_every_element_has_its_copies(layout: RegisterLayout) -> None:
    held = [place for row in table_of(layout) for place in row]
    counts = {place: held.count(place) for place in set(held)}
    assert set(counts) == set(product(*map(range, layout.shape)))
    assert set(counts.values()) == {layout.replicas}
    assert layout.threads * layout.slots == math.prod(layout.shape) * layout.replicas


# Places


@given(layouts())
def test_place_inverts_coordinates(layout: RegisterLayout) -> None:
    table = table_of(layout)
    for coordinates in product(*map(range, layout.shape)):
        thread, slot = layout.place(coordinates)
        assert table[thread][slot] == coordinates
        holders = [(t, s) for t, row in enumerate(table) for s, place in enumerate(row) if place == coordinates]
        assert (thread, slot) == min(holders)
        assert [t for t, _ in holders if layout.is_first(t)] == [thread]


@given(layouts(), st.data())
def test_vectors_are_neighbours(layout: RegisterLayout, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, layout.rank - 1))
    count = layout.vector(axis)
    for row in table_of(layout):
        for first in range(0, layout.slots, count):
            start = row[first]
            expected = [tuple(c + i * (a == axis) for a, c in enumerate(start)) for i in range(count)]
            assert row[first : first + count] == expected


# Layouts made of others


@given(layouts(), st.data())
def test_reduced(layout: RegisterLayout, data: st.DataObject) -> None:
    axes = data.draw(st.sets(st.integers(0, layout.rank - 1)))
    kept = [axis for axis in range(layout.rank) if axis not in axes]
    reduced, flat = layout.reduced(sorted(axes), keepdims=True), layout.reduced(sorted(axes))
    assert flat.shape == tuple(layout.shape[axis] for axis in kept)
    assert reduced.shape == tuple(1 if axis in axes else size for axis, size in enumerate(layout.shape))
    for before, after, after_flat in zip(table_of(layout), table_of(reduced), table_of(flat)):
        projected = list(dict.fromkeys(tuple(place[axis] for axis in kept) for place in before))
        assert after_flat == projected
        assert after == [tuple(0 if axis in axes else place[axis] for axis in range(layout.rank)) for place in
                         (_unprojected(p, kept, layout.rank) for p in projected)]  # fmt: skip


def _unprojected(place: tuple[int, ...], kept: list[int], rank: int) -> list[int]:
    full = [0] * rank
    for axis, coordinate in zip(kept, place):
        full[axis] = coordinate
    return full


@given(layouts(), st.data())
def test_slot_of(layout: RegisterLayout, data: st.DataObject) -> None:
    axes = sorted(data.draw(st.sets(st.integers(0, layout.rank - 1))))
    part = layout.reduced([axis for axis in range(layout.rank) if axis not in axes])
    digits = layout.slot_of(part, axes)
    whole, parts = table_of(layout), table_of(part)
    for slot in range(layout.slots):
        found = sum(slot // divisor % size * factor for divisor, size, factor in digits)
        for thread in range(layout.threads):
            assert parts[thread][found] == tuple(whole[thread][slot][axis] for axis in axes)


@given(layouts(), st.data())
def test_expanded(layout: RegisterLayout, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, layout.rank))
    expanded = layout.expanded(axis)
    assert table_of(expanded) == [[(*p[:axis], 0, *p[axis:]) for p in row] for row in table_of(layout)]
    assert expanded.reduced([axis]) == layout


@given(layouts(), st.data())
def test_permuted(layout: RegisterLayout, data: st.DataObject) -> None:
    permutation = data.draw(st.permutations(range(layout.rank)))
    permuted = layout.permuted(permutation)
    assert table_of(permuted) == [[tuple(p[axis] for axis in permutation) for p in row] for row in table_of(layout)]
    inverse = [permutation.index(axis) for axis in range(layout.rank)]
    assert permuted.permuted(inverse) == layout


# One form of each


@given(layouts())
def test_text_round_trip(layout: RegisterLayout) -> None:
    assert parse_layout(str(layout)) == layout


@given(st.integers(1, 2), st.data())
def test_layouts_are_equal_if_their_tables_are(rank: int, data: st.DataObject) -> None:
    a, b = data.draw(layouts(rank)), data.draw(layouts(rank))
    same = a.shape == b.shape and table_of(a) == table_of(b)
    assert (a == b) is same
    assert not same or hash(a) == hash(b)


@given(st.sampled_from((local, spatial)), st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_a_factor_cut_in_pieces_is_the_same(kind: Any, sizes: list[int]) -> None:
    pieces = kind(sizes[0])
    for size in sizes[1:]:
        pieces = pieces * kind(size)
    assert pieces == kind(math.prod(sizes))
    assert str(pieces) == str(kind(math.prod(sizes)))


@given(layouts())
def test_the_digits_are_canonical(layout: RegisterLayout) -> None:
    for digits in (layout.thread_digits, layout.slot_digits):
        assert all(digit.size > 1 for digit in digits)
        for outer, inner in pairwise(digits):
            assert outer.axis != inner.axis or (outer.axis is not None and outer.stride != inner.stride * inner.size)
    assert RegisterLayout(layout.shape, layout.thread_digits, layout.slot_digits) == layout
    assert all(digit.axis is not None for digit in layout.slot_digits)


# Across warps


@given(layouts(), st.data(), st.sampled_from((2, 4, 6, 32)))
def test_crosses(layout: RegisterLayout, data: st.DataObject, group: int) -> None:
    axes = sorted(data.draw(st.sets(st.integers(0, layout.rank - 1))))
    kept = [axis for axis in range(layout.rank) if axis not in axes]
    folded = [d for d in layout.thread_digits if d.axis is not None and d.axis in axes]
    crosses = False
    if folded:
        others = _copy_number(layout)
        met: dict[object, set[int]] = {}
        for thread in range(layout.threads):
            place = layout.thread_coordinates(thread)
            key = (tuple(int(place[axis]) for axis in kept), others[thread])
            met.setdefault(key, set()).add(thread // group)
        crosses = any(len(groups) > 1 for groups in met.values())
    assert layout.crosses(axes, group) is crosses


def _copy_number(layout: RegisterLayout) -> list[tuple[int, ...]]:
    """For each thread, the values of its digits that make copies."""
    numbers: list[tuple[int, ...]] = []
    for thread in range(layout.threads):
        rest, values = thread, list[int]()
        for digit in reversed(layout.thread_digits):
            if digit.axis is None:
                values.append(rest % digit.size)
            rest //= digit.size
        numbers.append(tuple(values))
    return numbers


# Conversions


@given(alike())
@example((spatial(8, 4) * replicate(2, 2) * local(2, 2), replicate(2, 2) * spatial(8, 4) * local(2, 2)))
@example((local(2, 1) * spatial(8, 4) * local(1, 2), local(2, 1) * spatial(8, 4) * local(1, 2)))
def test_conversions_bring_every_element(pair: tuple[RegisterLayout, RegisterLayout]) -> None:
    source, target = pair
    plan = convert_plan(source, target)
    held, wanted = table_of(source), table_of(target)
    for thread in range(target.threads):
        for slot in range(target.slots) if plan.kind != "shared" else ():
            giver = thread if plan.kind == "registers" else thread // 32 * 32 + plan.lane(thread % 32, slot)
            assert held[giver][plan.slots[slot]] == wanted[thread][slot]
    stays = [
        {s for s in range(source.slots) if all(held[t][s] == wanted[t][slot] for t in range(target.threads))}
        for slot in range(target.slots)
    ]
    assert (plan.kind == "registers") is all(stays)


@given(layouts(), st.data())
def test_slices(part: RegisterLayout, data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 3), min_size=part.rank, max_size=part.rank))
    pieces = [data.draw(st.integers(0, count - 1)) for count in counts]
    layout = local(*counts) * part
    starts = tuple(piece * size for piece, size in zip(pieces, part.shape))
    found = slice_slots(layout, starts, part)
    assert found is not None
    whole, parts = table_of(layout), table_of(part)
    for thread, row in enumerate(parts):
        for slot, place in enumerate(row):
            assert whole[thread][found[slot]] == tuple(map(sum, zip(place, starts)))


def test_a_slice_of_what_other_threads_hold_is_none() -> None:
    assert slice_slots(spatial(32), (16,), spatial(16) * replicate(2, 1)) is None
    assert slice_slots(spatial(32) * local(2), (0,), local(1) * replicate(16, 1)) is None


# Shared memory


@given(st.integers(1, 4), st.integers(0, 5), st.integers(1, 5))
def test_swizzles_are_permutations(bits: int, base: int, shift: int) -> None:
    addresses = np.arange(1 << (bits + base + shift + 1))
    swizzled = Swizzle(bits, base, shift).apply(addresses)
    assert sorted(swizzled) == list(addresses)
    # whatever is aligned to the piece stays together, and in its block
    assert (swizzled % (1 << base) == addresses % (1 << base)).all()
    assert (swizzled >> (base + bits) == addresses >> (base + bits)).all()


@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.sampled_from((i8, bf16, f32, f64)), st.data())
def test_every_element_of_a_buffer_has_a_place_of_its_own(shape: list[int], dtype: Any, data: st.DataObject) -> None:
    layout = data.draw(shared_layouts(len(shape)))
    offsets = layout.offset(shape, dtype, list(np.indices(shape))).ravel()
    assert len(set(offsets)) == math.prod(shape)
    assert offsets.min() >= 0
    assert offsets.max() + dtype.bytes <= layout.bytes(shape, dtype)
    assert (offsets % dtype.bytes == 0).all()
    assert layout.alignment & (layout.alignment - 1) == 0
    assert parse_layout(str(layout)) == layout


def slow_wavefronts(addresses: list[int], width: int) -> int:
    """Turns, counted lane by lane: of a phase, the most words that one bank has to give."""
    lanes = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[width]
    total = 0
    for first in range(0, len(addresses), lanes):
        words: dict[int, set[int]] = {}
        for address in addresses[first : first + lanes]:
            for byte in range(address, address + width):
                words.setdefault(byte // 4 % 32, set()).add(byte // 4)
        total += max(len(asked) for asked in words.values())
    return total


@given(st.sampled_from((1, 2, 4, 8, 16)), st.lists(st.integers(0, 200), min_size=1, max_size=32))
def test_wavefronts(width: int, numbers: list[int]) -> None:
    addresses = np.array(numbers, np.int64) * width
    assert wavefronts(addresses, width) == slow_wavefronts([int(a) for a in addresses], width)


@given(st.sampled_from((1, 2, 4, 8, 16)))
def test_neighbouring_lanes_have_no_conflicts(width: int) -> None:
    assert wavefronts(np.arange(32, dtype=np.int64) * width, width) == ideal_wavefronts(32, width)


@given(layouts(rank=2), st.data(), st.sampled_from((bf16, f32, f64)), st.booleans())
def test_vectors_of_shared_memory(layout: RegisterLayout, data: st.DataObject, dtype: Any, turned: bool) -> None:
    shared = data.draw(shared_layouts(2))
    places = (1, 0) if turned else (0, 1)
    shape = tuple(layout.shape[places.index(axis)] for axis in range(2))
    count = vector_elements(layout, shared, shape, dtype, places)
    assert count * dtype.bytes <= 16
    for row in table_of(layout):
        offsets = [shared.offset(shape, dtype, [place[places.index(a)] for a in range(2)]) for place in row]
        for first in range(0, len(offsets), count):
            start = offsets[first]
            assert start % (count * dtype.bytes) == 0
            assert offsets[first : first + count] == [start + i * dtype.bytes for i in range(count)]


@given(st.data(), st.sampled_from((bf16, f32)), st.booleans(), st.integers(0, 3))
def test_accesses_are_counted_as_they_are_made(data: st.DataObject, dtype: Any, turned: bool, log: int) -> None:
    source, _ = data.draw(alike())
    assume(source.rank == 2)
    shared = data.draw(shared_layouts(2))
    places = (1, 0) if turned else (0, 1)
    shape = tuple(source.shape[places.index(axis)] for axis in range(2))
    access = Access(source, places, "plain", 1 << log)
    count = min(access.wanted_vector(dtype), vector_elements(source, shared, shape, dtype, places))
    table, total = table_of(source), 0
    for warp, slot in product(range(source.threads // 32), range(0, source.slots, count)):
        coordinates = [table[thread][slot] for thread in range(32 * warp, 32 * warp + 32)]
        offsets = [int(shared.offset(shape, dtype, [p[places.index(a)] for a in range(2)])) for p in coordinates]
        total += slow_wavefronts(offsets, count * dtype.bytes)
    assert access_wavefronts(access, shared, shape, dtype) == total


@given(alike(), st.sampled_from((bf16, f32)), st.booleans())
def test_the_layout_that_is_chosen_is_no_worse_than_plain_rows(
    pair: tuple[RegisterLayout, RegisterLayout], dtype: Any, turned: bool
) -> None:
    write, read = pair
    rank = write.rank
    places = tuple(reversed(range(rank)))
    shape = write.shape
    if turned:
        read = read.permuted(places)
    accesses = [Access(write, tuple(range(rank))), Access(read, places if turned else tuple(range(rank)))]
    chosen = choose_shared_layout(shape, dtype, accesses)
    turns = [
        sum(4 * t.count + t.instructions for t in (access_turns(a, layout, shape, dtype) for a in accesses) if t)
        for layout in (chosen, SharedLayout(tuple(range(rank))))
    ]
    assert turns[0] <= turns[1]
