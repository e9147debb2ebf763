"""Where tiles live while a program runs, and how an element of one is addressed.

A tile is either *lazy* (evaluated where it is read, inside the loop nest of its reader) or stored in a `Buffer`:
a part of the thread's scratch memory, which stays in its caches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, Union

from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import FunctionWriter
from tiledsl.ir.dtypes import DType
from tiledsl.ir.types import Shape


@dataclass(frozen=True)
class Point:
    """One element of a tile, or `lanes` consecutive ones along the axis `lane`.

    `indices` holds an i64 operand per axis; at the lane axis, that of the first lane. `mask` is None where all lanes
    exist, else a vector of i1. `checked`: it may lie outside of what is loaded there, although the whole does not.
    """

    indices: tuple[str, ...]
    lane: int | None = None
    lanes: int = 1
    mask: str | None = None
    checked: bool = False

    def moved(self, axis: int, index: str) -> Point:
        """The point with another index on one axis."""
        return replace(self, indices=(*self.indices[:axis], index, *self.indices[axis + 1 :]))

    def at(self, indices: tuple[str, ...], lane: int | None) -> Point:
        """The point of another tile that this one maps to; without a lane axis it is a single element."""
        if lane is None:
            return Point(indices, checked=self.checked)
        return Point(indices, lane, self.lanes, self.mask, self.checked)


NEAR = (2, -1)
"""From one lane to the next: what vectors are picked apart for where a stride turns out to be that."""


@dataclass(frozen=True)
class Place:
    """An element offset from the base, and how many elements lie from one lane to the next.

    `near`: what that number may be, so that it is worth while to ask.
    """

    offset: str
    lane_stride: str
    near: tuple[int, ...] = NEAR


def dot_product(writer: FunctionWriter, indices: tuple[str, ...], strides: tuple[str, ...]) -> str:
    """The sum of indices times strides."""
    total = "0"
    for index, stride in zip(indices, strides):
        total = o.add(writer, total, o.multiply(writer, index, stride))
    return total


@dataclass(frozen=True)
class Buffer:
    """A strided tile in scratch. `padded`: rows are a whole number of vectors, so lane accesses need no mask."""

    base: str
    strides: tuple[str, ...]
    dtype: DType
    padded: bool = True

    def locate(self, writer: FunctionWriter, point: Point) -> Place:
        """The element offset of a point, and the distance between its lanes."""
        total = dot_product(writer, point.indices, self.strides)
        return Place(total, "1" if point.lane is None else self.strides[point.lane])


@dataclass(frozen=True)
class PackedLeft:
    """The left operand of a dot, rows in order: [batch][depth chunk][row][chunk + pad], so that a lane runs along k.

    The row stride is a constant, which lets the micro-kernel reach all its rows from one pointer; its padding keeps the
    rows from falling into the same cache sets.
    """

    base: str
    chunk: int
    row_stride: int
    chunk_stride: str
    batch_strides: tuple[str, ...]
    dtype: DType
    turns_signs: bool = False
    """Whether its bytes are stored with their sign bits turned over (see `byte_products`)."""
    padded: bool = True

    def locate(self, writer: FunctionWriter, point: Point) -> Place:
        """The element offset of a point, and the distance between its lanes."""
        *batch, row, depth = point.indices
        total = o.multiply(writer, row, str(self.row_stride))
        if self.chunk_stride == "0":  # a single chunk
            total = o.add(writer, total, depth)
        else:
            which = o.divide(writer, depth, str(self.chunk))
            total = o.add(writer, total, o.multiply(writer, which, self.chunk_stride))
            total = o.add(writer, total, o.remainder(writer, depth, str(self.chunk)))
        total = o.add(writer, total, dot_product(writer, tuple(batch), self.batch_strides))
        return Place(total, _lane_stride(point.lane, self.batch_strides, str(self.row_stride)))


@dataclass(frozen=True)
class PackedRight:
    """The right operand of a dot in panels of `width` columns: [batch][panel][k][column].

    The last panel is as wide as what is left of `columns` (already rounded up to whole vectors).
    """

    base: str
    width: int
    depth: str
    columns: str
    batch_strides: tuple[str, ...]
    dtype: DType
    padded: bool = True

    def locate(self, writer: FunctionWriter, point: Point) -> Place:
        """The element offset of a point, and the distance between its lanes."""
        *batch, depth, column = point.indices
        first = o.multiply(writer, o.divide(writer, column, str(self.width)), str(self.width))
        width = o.smaller(writer, str(self.width), o.subtract(writer, self.columns, first))
        total = o.multiply(writer, first, self.depth)
        total = o.add(writer, total, o.multiply(writer, depth, width))
        total = o.add(writer, total, o.subtract(writer, column, first))
        total = o.add(writer, total, dot_product(writer, tuple(batch), self.batch_strides))
        return Place(total, _lane_stride(point.lane, self.batch_strides, width))


@dataclass(frozen=True)
class Joined:
    """An operand of a dot under another shape, in which some of its axes are several: `groups` has them for each axis
    of the operand, and `sizes` their lengths.
    """

    whole: PackedLeft | PackedRight
    groups: tuple[tuple[int, ...], ...]
    sizes: tuple[str, ...]
    padded: bool = False

    @property
    def base(self) -> str:
        return self.whole.base

    @property
    def dtype(self) -> DType:
        return self.whole.dtype

    def locate(self, writer: FunctionWriter, point: Point) -> Place:
        """The element offset of a point, and the distance between its lanes."""
        indices: list[str] = []
        lane, apart = None, "1"
        for number, group in enumerate(self.groups):
            total = "0"
            for axis in group:
                total = o.add(writer, o.multiply(writer, total, self.sizes[axis]), point.indices[axis])
                if lane == number:
                    apart = o.multiply(writer, apart, self.sizes[axis])
                elif axis == point.lane:
                    lane = number
            indices.append(total)
        place = self.whole.locate(writer, Point(tuple(indices), lane, point.lanes))
        return Place(place.offset, o.multiply(writer, place.lane_stride, apart))


def groups_of(source: Shape, shape: Shape) -> tuple[tuple[int, ...], ...] | None:
    """The axes of a shape that each axis of another one, with as many elements, is made of; None if it is of no whole
    axes.
    """
    groups: list[tuple[int, ...]] = []
    at = 0
    for dim in shape:
        start, product = at, source[at] if at < len(source) else 0
        at += 1
        while product != dim and at < len(source):
            product = product * source[at]
            at += 1
        if product != dim:
            return None
        groups.append(tuple(range(start, at)))
    return tuple(groups) if at == len(source) else None


def _lane_stride(lane: int | None, batch_strides: tuple[str, ...], row_stride: str) -> str:
    """From one lane to the next in packed matrices, whose columns are neighbours. Lanes run along a batch axis where
    the matrices are of one element.
    """
    strides = (*batch_strides, row_stride, "1")
    return "1" if lane is None else strides[lane]


Storage: TypeAlias = Union[Buffer, PackedLeft, PackedRight, Joined]
