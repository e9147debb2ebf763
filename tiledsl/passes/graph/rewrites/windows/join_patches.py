"""Products of windows that lie side by side, as patches of an image do, as products of matrices.

    %w = window(%x: [n, c, h, w]) {sizes = [s, s], strides = [s, s]}
    %y = contract(%w, %k)  "n c p q r s, o c r s -> n o p q"
 =>
    %p = reshape(transpose(reshape(%x, [n, c, p, r, q, s])), [n, p, q, c * r * s])       each element is in one window
    %y = contract(%p, reshape(%k))  "n p q m, o m -> n o p q"

Read in place, windows give a product for each place in them, over the channels alone: few, as in the colours of an
image, fill no matrix instruction. A copy of the patches, which is as large as the image, makes one long axis of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.windows.windows_product import WindowsProduct, in_order, insert, windows_product
from tiledsl.passes.manager import PassContext

MOST_CHANNELS = 32
"""Of an image: so many fill a turn of a product's loop by themselves."""
LEAST_DEPTH = 64
"""Channels of all places of a window: of fewer there is no product to speak of."""


@dataclass(frozen=True)
class JoinPatches:
    """Of the entry, on GPUs."""

    name: ClassVar[str] = "join-patches"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        products = [op for op in module.entry.body.ops if isinstance(op, ops.Contract)]
        for op in products if self.arch.startswith("sm_") else ():
            product = windows_product(op, lambda _: True)
            if product is not None and are_patches(product):
                context.remark(self.name, op.location, "windows lie side by side: they are copied, as one matrix")
                _join(product)
        tidy(module.entry)
        return module


def are_patches(product: WindowsProduct) -> bool:
    """Whether windows do not overlap, and have few channels in many places."""
    windows, channels = product.windows, product.size(product.channels)
    places = math.prod(sizes_of(windows.result)[len(product.of_image) :])
    side_by_side = all(
        n == stride and step == 1 for n, stride, step in zip(windows.sizes, windows.strides, windows.dilations)
    )
    few = channels < MOST_CHANNELS and places > 1 and channels * places >= LEAST_DEPTH
    return side_by_side and few and not any((*product.low, *product.high))


def _join(product: WindowsProduct) -> None:
    """Lets a product read patches whose places and channels are one axis."""
    op, summed = product.op, (product.channels, *product.within)
    kept = [name for name in product.result if name in product.of_image]
    patches = _as_one(op, *_patches(product), kept, summed)
    columns = product.columns
    weights = _as_one(op, product.weights, product.of_weights, columns, summed)
    depth = product.channels
    axes = f"{' '.join(kept)} {depth}, {' '.join(columns)} {depth} -> {' '.join(product.result)}"
    made = ops.Contract(
        op.location, a=patches, b=weights, axes=axes, dtype=op.dtype, precision=op.precision,
        result_names=[op.result.name],
    )  # fmt: skip
    op.result.replace_with(insert(op, made))
    op.erase()


def _patches(product: WindowsProduct) -> tuple[Value, list[str]]:
    """The image with each axis that windows slide over as two, positions and places; and the names of its axes."""
    op, windows, rank = product.op, product.windows, len(product.of_image)
    positions = sizes_of(windows.result)
    whole: list[int] = []
    split: list[int] = []
    names: list[str] = []
    for axis, (name, size) in enumerate(zip(product.of_image, positions[:rank])):
        whole.append(size)
        split.append(size)
        names.append(name)
        if axis in windows.axes:
            number = windows.axes.index(axis)
            places = positions[rank + number]
            whole[-1] *= places
            split.append(places)
            names.append(product.within[number])
    zeros, ones = (0,) * rank, (1,) * rank
    part = insert(op, ops.Slice(op.location, source=windows.source, starts=zeros, stops=tuple(whole), steps=ones))
    return insert(op, ops.Reshape(op.location, source=part, shape=tuple(split))), names


def _as_one(before: Op, value: Value, names: Sequence[str], kept: Sequence[str], joined: Sequence[str]) -> Value:
    """A value with its axes in the order of those that are kept, and the others as one behind them."""
    turned = in_order(before, value, names, [*kept, *joined])
    sizes = sizes_of(turned)
    shape = (*sizes[: len(kept)], math.prod(sizes[len(kept) :]))
    return insert(before, ops.Reshape(before.location, source=turned, shape=shape))
