"""Tensor maps: what TMA copies by the boxes of an op is the tile, at the places that the buffer's layout says."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, bf16, f8e4m3, f32, i4, i64
from tiledsl.ir.gpu.async_ops import Mbarriers, TmaLoad, TmaStore
from tiledsl.ir.gpu.matrix_descriptors import SPANS, swizzle_of
from tiledsl.ir.gpu.tensor_maps import Box, TensorMap, boxes_of, bytes_of, part_of, tensor_map_of
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import Integers
from tiledsl.ir.layouts.text import parse_layout
from tiledsl.ir.types import TensorType, TileType, scalar
from tiledsl.support.location import BUILTIN


def load(
    tensor: TensorType,
    buffer: TileType,
    shape: tuple[int, ...],
    axes: tuple[int, ...] = (0, 1),
    places: tuple[int, ...] = (0, 1),
    multicast: bool = False,
) -> TmaLoad:
    zero = Value(scalar(i64), "zero")
    return TmaLoad(
        BUILTIN,
        tensor=Value(tensor, "x"),
        indices=(zero,) * len(tensor.shape),
        buffer=Value(buffer, "s"),
        offsets=(zero,) * len(buffer.shape),
        barriers=Mbarriers(BUILTIN, count=1, arrivals=1).result,
        index=zero,
        axes=axes,
        places=places,
        shape=shape,
        multicast=multicast,
    )


def shared(dtype: DType, shape: tuple[int, ...], layout: str) -> TileType:
    return TileType(dtype, shape, "shared", parse_layout(layout))


MATRIX = TensorType(bf16, (1000, 1000), 1)


def test_a_tile_of_rows_as_long_as_the_swizzle_is_one_box() -> None:
    op = load(MATRIX, shared(bf16, (4, 128, 64), "rows(0, 1, 2, swizzle=(3, 4, 3))"), (128, 64), places=(1, 2))
    assert tensor_map_of(op, 1) == TensorMap(bf16, (1, 0), (64, 128), 128)
    assert boxes_of(op, 1) == (Box((0, 0), 0),)
    assert part_of(op, 1) is None
    assert bytes_of(op, 1) == 128 * 64 * 2


def test_panels_are_boxes() -> None:
    op = load(MATRIX, shared(bf16, (128, 256), "rows(0, 1, swizzle=(3, 4, 3), panel=64)"), (128, 256))
    assert tensor_map_of(op, 1).box == (64, 128)
    assert boxes_of(op, 1) == tuple(Box((0, 64 * i), 128 * 128 * i) for i in range(4))


def test_long_axes_are_cut() -> None:
    op = load(MATRIX, shared(bf16, (320, 64), "rows(0, 1, swizzle=(3, 4, 3))"), (320, 64))
    assert boxes_of(op, 1) == (Box((0, 0), 0), Box((160, 0), 160 * 128))
    vector = load(TensorType(f32, (4000,), 0), shared(f32, (1024,), "rows(0)"), (1024,), (0,), (0,))
    assert tensor_map_of(vector, 1) == TensorMap(f32, (0,), (256,), 0)
    assert boxes_of(vector, 1) == tuple(Box((256 * i,), 1024 * i) for i in range(4))


def test_blocks_have_their_own_part() -> None:
    op = load(MATRIX, shared(bf16, (64, 128), "rows(0, 1, swizzle=(3, 4, 3), panel=64)"), (128, 128))
    assert [box.start for box in boxes_of(op, 2)] == [(0, 0), (0, 64)]
    assert boxes_of(op, 2, 1) == (Box((64, 0), 0), Box((64, 64), 64 * 128))
    assert bytes_of(op, 2) == 64 * 128 * 2
    part = part_of(op, 2)
    assert part is not None
    assert (part.axis, part.size, part.offset) == (0, 64, 0)


def test_what_is_sent_to_all_blocks_comes_in_parts() -> None:
    buffer = shared(bf16, (128, 128), "rows(0, 1, swizzle=(3, 4, 3), panel=64)")
    op = load(MATRIX, buffer, (128, 128), multicast=True)
    assert tensor_map_of(op, 2).box == (64, 64)
    assert boxes_of(op, 2) == (Box((0, 0), 0), Box((0, 64), 128 * 128))
    assert boxes_of(op, 2, 1) == (Box((64, 0), 64 * 128), Box((64, 64), 128 * 128 + 64 * 128))
    assert bytes_of(op, 2) == 128 * 128 * 2
    assert boxes_of(op, 1) == boxes_of(load(MATRIX, buffer, (128, 128)), 1)


def test_a_store_asks_for_the_same_as_a_load() -> None:
    op = load(MATRIX, shared(bf16, (128, 64), "rows(0, 1, swizzle=(3, 4, 3))"), (128, 64))
    fields = {name: getattr(op, name) for name in ("tensor", "indices", "buffer", "offsets", "axes", "places", "shape")}
    store = TmaStore(BUILTIN, **fields)
    assert tensor_map_of(store, 1) == tensor_map_of(op, 1)
    assert boxes_of(store, 1) == boxes_of(op, 1)


# What TMA does: it writes the box in order, the map's first axis fastest, and swizzles addresses.


def written(op: TmaLoad, cluster: int, base: int) -> dict[tuple[int, ...], Integers]:
    """By the block that gets it: the address of each element of the tile, -1 where it has none."""
    map_, buffer = tensor_map_of(op, cluster), op.buffer.tile
    swizzle = swizzle_of(map_.swizzle)
    found = {block: np.full(op.shape, -1, np.int64) for block in range(cluster)}
    running = [op.axes[axis] for axis in map_.axes if op.axes[axis] >= 0]
    lengths = [length for axis, length in zip(map_.axes, map_.box) if op.axes[axis] >= 0]
    for block in range(cluster):
        for box in boxes_of(op, cluster, block):
            steps = np.unravel_index(np.arange(prod(lengths)), lengths, order="F")
            coordinates = [np.full(prod(lengths), start) for start in box.start]
            for axis, step in zip(running, steps):
                coordinates[axis] = coordinates[axis] + step
            addresses = base + box.offset + np.arange(prod(lengths)) * buffer.dtype.bytes
            addresses = addresses if swizzle is None else swizzle.apply(addresses)
            for target in range(cluster) if op.multicast else (block,):
                assert (found[target][tuple(coordinates)] == -1).all()
                found[target][tuple(coordinates)] = addresses
    return {(block,): table for block, table in found.items()}


@st.composite
def copies(draw: st.DrawFn) -> tuple[TmaLoad, int]:
    """A copy that TMA may be able to make, and of how many blocks."""
    dtype = draw(st.sampled_from((bf16, f32, f8e4m3)))
    cluster = draw(st.sampled_from((1, 1, 2, 4)))
    rank = draw(st.integers(1, 3))
    extra = draw(st.integers(0, 1))
    order = tuple(draw(st.permutations(range(rank + extra))))
    span = draw(st.sampled_from((0, 0, *SPANS)))
    sizes = [draw(st.sampled_from((1, 2, 8, 16, 24, 64, 320))) for _ in range(rank + extra)]
    row = (span or draw(st.sampled_from((16, 64, 128)))) // dtype.bytes
    sizes[order[-1]] = row * draw(st.integers(1, 3))
    panel = row if rank + extra > 1 and draw(st.booleans()) else 0
    layout = SharedLayout(order, 0, swizzle_of(span), panel)
    places = [place for place in draw(st.permutations(range(rank + extra))) if place == order[-1] or place < rank]
    places = tuple(places[:rank] if order[-1] in places[:rank] else [order[-1], *places[: rank - 1]])
    shape = [sizes[place] for place in places]
    multicast = cluster > 1 and draw(st.booleans())
    if cluster > 1 and not multicast:
        shape[draw(st.integers(0, rank - 1))] *= cluster
    # the axes of the tensor: those of the tile, and perhaps one that is fixed
    axes = list(draw(st.permutations([*range(rank), *[-1] * draw(st.integers(0, 1))])))
    unit = axes.index(places.index(order[-1]))
    tensor = TensorType(dtype, (1000,) * len(axes), unit)
    buffer = TileType(dtype, tuple(sizes), "shared", layout)
    return load(tensor, buffer, tuple(shape), tuple(axes), places, multicast), cluster


BESIDE = SharedLayout((0, 1, 2, 3), panel=64)
"""Rows of one element across, whose panels lie beside each other: no box goes on from one row to the next."""


@settings(max_examples=100)
@given(copies(), st.integers(0, 3))
@example(
    (
        load(
            TensorType(bf16, (1000, 1000, 1000), 0), TileType(bf16, (1, 2, 1, 128), "shared", BESIDE), (128, 1, 2),
            (0, 1, 2), (3, 0, 1),
        ),
        1,
    ),
    0,
)  # fmt: skip
def test_tma_writes_what_the_layout_says(copy: tuple[TmaLoad, int], blocks: int) -> None:
    op, cluster = copy
    try:
        tensor_map_of(op, cluster)
    except ValueError:
        assume(False)
    layout, buffer = op.buffer.tile.layout, op.buffer.tile
    assert isinstance(layout, SharedLayout)
    sizes = [dim for dim in buffer.shape if isinstance(dim, int)]
    part = part_of(op, cluster)
    base = max(layout.alignment, 128) * blocks
    map_ = tensor_map_of(op, cluster)
    assert sorted(map_.axes) == list(range(len(op.axes)))
    assert all(length <= 256 for length in map_.box)
    for (block,), table in written(op, cluster, base).items():
        coordinates = [np.zeros(op.shape, np.int64) for _ in sizes]
        held = np.ones(op.shape, np.bool_)
        for axis, place in enumerate(op.places):
            along = np.indices(op.shape)[axis]
            if part is not None and axis == part.axis and not op.multicast:
                held &= along // part.size == block
                along = along % part.size
            coordinates[place] = along
        expected = np.where(held, base + layout.offset(sizes, buffer.dtype, coordinates), -1)
        assert (table == expected).all()
        assert held.sum() * buffer.dtype.bytes == bytes_of(op, cluster)


@pytest.mark.parametrize(
    ("op", "cluster", "problem"),
    [
        (load(TensorType(bf16, (1000, 1000)), shared(bf16, (8, 64), "rows(0, 1)"), (8, 64)), 1, "no axis is known to"),
        (
            load(TensorType(f32, (8, 8, 8, 8, 8, 8), 5), shared(f32, (8,), "rows(0)"), (8,), (-1,) * 5 + (0,), (0,)),
            1,
            "copies of a tensor of 6 axes, of which TMA knows 5",
        ),
        (load(TensorType(i4, (4000,), 0), shared(i4, (64,), "rows(0)"), (64,), (0,), (0,)), 1, "less than a byte"),
        (load(MATRIX, shared(bf16, (8, 64), "rows(0, 1, padding=8)"), (8, 64)), 1, "to a padded buffer in rows(0, 1"),
        (load(MATRIX, shared(bf16, (8, 64), "rows(0, 1, swizzle=(3, 3, 3))"), (8, 64)), 1, "has the swizzle (3, 3, 3)"),
        (load(MATRIX, shared(bf16, (8, 64), "rows(1, 0)"), (8, 64)), 1, "does not run along the fastest axis"),
        (load(MATRIX, shared(bf16, (8, 64), "rows(0, 1)"), (8, 64), (1, 0)), 1, "does not run along the fastest axis"),
        (load(MATRIX, shared(bf16, (64, 4), "rows(0, 1)"), (64, 4)), 1, "rows of 8 bytes at a time, which must be a"),
        (
            load(MATRIX, shared(bf16, (8, 64), "rows(0, 1, swizzle=(2, 4, 3))"), (8, 64)),
            1,
            "copies rows of 128 bytes at a time, which must be the 64 of its swizzle",
        ),
        (
            load(MATRIX, shared(bf16, (16, 32), "rows(0, 1, swizzle=(3, 4, 3))"), (16, 32)),
            1,
            "copies rows of 64 bytes at a time, which must be the 128 of its swizzle",
        ),
        (load(MATRIX, shared(bf16, (8, 64), "rows(0, 1)"), (16, 64)), 1, "copies [16, 64] to a buffer of [8, 64]"),
        (load(MATRIX, shared(bf16, (8, 64), "rows(0, 1)"), (16, 128)), 2, "copies [16, 128] to a buffer of [8, 64]"),
        (
            load(MATRIX, shared(bf16, (8, 64), "rows(0, 1)"), (16, 64), multicast=True),
            2,
            "sends all of it to all blocks, but its buffer holds a part",
        ),
        (
            load(MATRIX, shared(bf16, (9, 64), "rows(0, 1)"), (9, 64), multicast=True),
            2,
            "sends 9 along its first axis in parts by 2 blocks",
        ),
        (
            load(MATRIX, shared(bf16, (8, 64), "rows(0, 1, swizzle=(3, 4, 3))"), (8, 64), multicast=True),
            2,
            "to places in rows(0, 1, swizzle=(3, 4, 3)) that are no multiples of 1024 bytes",
        ),
        (
            load(MATRIX, shared(bf16, (2, 4, 64), "rows(0, 1, 2, swizzle=(3, 4, 3))"), (4, 64), places=(1, 2)),
            1,
            "that are no multiples of 1024 bytes",
        ),
        (load(MATRIX, shared(bf16, (8, 40), "rows(0, 1)"), (4, 40)), 1, "that are no multiples of 128 bytes"),
        (
            load(MATRIX, shared(bf16, (8, 128), "rows(0, 1, panel=64)"), (8, 96)),
            1,
            "copies 96 elements to panels of 64",
        ),
        (
            load(MATRIX, shared(bf16, (8, 96), "rows(0, 1, panel=64)"), (8, 96)),
            1,
            "copies to a buffer whose panels of 64 are not whole",
        ),
    ],
)
def test_what_tma_cannot_copy(op: TmaLoad, cluster: int, problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        tensor_map_of(op, cluster)
    assert problem in str(caught.value)
