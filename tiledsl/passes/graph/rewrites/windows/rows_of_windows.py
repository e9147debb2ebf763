"""Rows of windows as one axis: what a row of each window sees of an image lies side by side in a wider copy of it, with
the padding of rows and a few zeros behind the channels of each pixel.

    %p = pad(%x)                                   3 channels are 4, 224 pixels of a row 230
    %r = reshape(transpose(window(%p, rows)))      [n, h, q, 32]: a view in which rows of windows overlap

Windows slide along the other axes of that view alone. Weights have zeros for what rows have beyond a window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu.tensor_maps import UNIT_BYTES
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.rewrites.windows.windows_product import WindowsProduct, insert, windows_of

Widths = tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """Rows of windows as one axis: those along the axis `number` of windows, of `long` pixels with those that are
    multiplied by zeros, each with `wide` elements with those that fill it up. `clocks`: of TMA or of products, for a
    position."""

    number: int
    long: int
    wide: int
    clocks: float = 0.0


@dataclass(frozen=True)
class RowsProduct:
    """A product as one of rows, elements of `width` bytes: the axes of the copy of the image, rows and channels last,
    and those of the weights."""

    product: WindowsProduct
    rows: Rows
    width: int

    @property
    def row(self) -> str:
        return self.product.slid[self.rows.number]

    @property
    def order(self) -> list[str]:
        product = self.product
        images = [name for name in product.of_image if name not in product.slid and name != product.channels]
        others = [name for name in product.of_image if name in product.slid and name != self.row]
        return [*images, *others, self.row, product.channels]

    @property
    def within(self) -> list[str]:
        return [name for n, name in enumerate(self.product.within) if n != self.rows.number]

    @property
    def of_weights(self) -> list[str]:
        product = self.product
        return [*product.columns, *self.within, product.within[self.rows.number], product.channels]

    @property
    def reach(self) -> int:
        """Pixels of a window's row: what lies between its places is multiplied by zeros."""
        windows, number = self.product.windows, self.rows.number
        size = windows.sizes[number]
        assert isinstance(size, int)
        return (size - 1) * windows.dilations[number] + 1

    @property
    def needed(self) -> int:
        """Pixels of a row of the copy that windows see."""
        windows, number = self.product.windows, self.rows.number
        return (sizes_of(windows.result)[windows.axes[number]] - 1) * windows.strides[number] + self.rows.long

    def image_widths(self) -> tuple[Widths, Widths]:
        """What the copy has in front of each axis of the image and behind it, in that order: its rows start where TMA
        finds them."""
        product, rows = self.product, self.rows
        low = dict(zip(product.of_image, product.low))[self.row]
        there = low + product.size(self.row)
        line = UNIT_BYTES // math.gcd(UNIT_BYTES, rows.wide * self.width)
        behind = -(-max(self.needed, there) // line) * line - there
        none = (0,) * (len(self.order) - 2)
        return (*none, low, 0), (*none, behind, rows.wide - product.size(product.channels))

    def weights_widths(self) -> tuple[Widths, Widths]:
        """The same of the weights, of whose places none are apart."""
        none = (0,) * (len(self.of_weights) - 2)
        behind = self.rows.long - self.reach, self.rows.wide - self.product.size(self.product.channels)
        return (*none, 0, 0), (*none, *behind)

    def seen(self, copy: Value) -> Value:
        """Rows of windows, side by side, of a copy of the image; axes in front of its own stay."""
        op, stride, long = self.product.op, self.product.windows.strides[self.rows.number], self.rows.long
        sizes = sizes_of(copy)
        rank = len(sizes)
        if sizes[-2] > self.needed:  # windows end before the row does
            stops = (*sizes[:-2], self.needed, sizes[-1])
            copy = insert(op, ops.Slice(op.location, source=copy, starts=(0,) * rank, stops=stops, steps=(1,) * rank))
        rows = insert(op, ops.Window(op.location, source=copy, axes=(rank - 2,), sizes=(long,), strides=(stride,),
                                     dilations=(1,)))  # fmt: skip
        turned = (*range(rank - 1), rank, rank - 1)
        rows = insert(op, ops.Transpose(op.location, source=rows, permutation=turned))
        return last_two_as_one(op, rows)

    def windows(self, seen: Value, lead: int = 0) -> Value:
        """Windows along the other axes, of rows that have so many axes in front of those of the image."""
        product, windows = self.product, self.product.windows
        kept = [n for n in range(len(product.slid)) if n != self.rows.number]
        order = [*(f"lead_{n}" for n in range(lead)), *self.order]
        low, high = (dict(zip(product.of_image, widths)) for widths in (product.low, product.high))
        return windows_of(
            product.op, seen, order, low, high, tuple(order.index(product.slid[n]) for n in kept),
            [windows.sizes[n] for n in kept], [windows.strides[n] for n in kept], [windows.dilations[n] for n in kept],
        )  # fmt: skip


def last_two_as_one(before: Op, value: Value) -> Value:
    """A value whose last two axes are one."""
    *first, long, wide = sizes_of(value)
    return insert(before, ops.Reshape(before.location, source=value, shape=(*first, long * wide)))
