"""Products of f32 with windows of an image, by planes of bf16 of the image: what `split-floats` makes of matrices.

    %y = contract(window(pad(%x)), %w)             %x: f32[n, c, h, w]
 =>
    %px = graph.call(transpose(%x))                bf16[3, n, h, w, c]: planes, channels side by side
    %pw = graph.call(transpose(%w))                bf16[3, k, r, s, c]
    %y = contract(window(pad(%px)), %pw, window(pad(transpose(%x))), transpose(%w)) {precision = planes}

TMA brings windows of each plane, so that no window is copied: planes are as large as one and a half images, where
copied windows are an image for each place. Whether that is faster than what `copy-windows` and `split-floats` would
make is estimated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Value
from tiledsl.ir.dtypes import DType, bf16, f32
from tiledsl.ir.gpu.tensor_maps import MOST_AXES, UNIT_BYTES
from tiledsl.ir.tile_ops import PLANE_PAIRS, PLANES
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu_machine import GpuMachine, machine_with_warpgroups
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of, volume
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.lay_images import in_order, insert, windows_of
from tiledsl.passes.graph.rewrites.split_floats import (
    COLUMNS,
    GAIN,
    OPERAND_BYTES,
    PLANES_BYTES,
    PLANES_SHARE,
    ROWS,
    Planes,
    by_multiply_adds,
    seconds_by,
    up,
)  # fmt: skip
from tiledsl.passes.graph.rewrites.windows_product import WindowsProduct, windows_product
from tiledsl.passes.manager import PassContext

COPIED_BYTES = 8
"""Of an element of windows that are copied: it is read and written."""
MOST_COLUMNS = 256
"""Of a block: windows are brought again for more."""
ROW_BYTES, DEPTHS = 128, (32, 64)
"""Of a row of windows, at most; elements that a turn of the loop takes."""


@dataclass(frozen=True)
class SplitWindows:
    """Of the entry, where `arch` has products by warpgroups."""

    name: ClassVar[str] = "split-windows"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        machine = machine_with_warpgroups(self.arch)
        if machine is None:
            return module
        planes = Planes({function.name for function in module.functions}, "image_planes")
        for op in list(module.entry.body.ops):
            product = windows_product(op, _is_taken) if isinstance(op, ops.Contract) else None
            if product is None or not _can_be_split(product):
                continue
            before, after = _seconds(product, machine)
            if after < GAIN * before:
                _split(product, planes)
                text = f"windows of {PLANES} planes of bf16: {after * 1e6:.1f} us, {before * 1e6:.1f} of copies"
                context.remark(self.name, op.location, text)
        tidy(module.entry)
        return Module([*module.functions, *planes.functions])


def _is_taken(dtype: DType) -> bool:
    return dtype == f32


def _can_be_split(product: WindowsProduct) -> bool:
    op, windows = product.op, product.windows
    views = [view_of_value(value) for value in (product.image, product.weights)]
    sizes = sizes_of(product.image)
    return (
        op.precision == "ieee"
        and op.dtype == f32
        and all(view is not None for view in views)
        and product.size(product.channels) * bf16.bytes % UNIT_BYTES == 0
        and all(isinstance(size, int) for size in windows.sizes)
        and len(windows.axes) == len(sizes) - 2
        and len(sizes) <= MOST_AXES
        and all(sizes[axis] > 1 for axis in windows.axes)
    )


def _seconds(product: WindowsProduct, machine: GpuMachine) -> tuple[float, float]:
    """With windows that are copied, the faster way of both, and with windows of planes that TMA brings."""
    op, speeds, memory = product.op, machine.speeds, machine.copied_bytes_per_second
    device = machine.multiprocessors * speeds.clock
    places = math.prod(size for size in product.windows.sizes if isinstance(size, int))
    channels, (column,) = product.size(product.channels), product.columns
    columns, copied = product.size(column), volume(product.windows.result)
    rows = copied // (places * channels)
    weights, out = volume(product.weights), bytes_of(op.result)
    single, split = seconds_by(machine, (1, rows, columns, places * channels), copied + weights, out)
    alone = by_multiply_adds(machine, rows * columns * places * channels)
    before = min(
        max(alone, (copied * OPERAND_BYTES + out) / memory), copied * COPIED_BYTES / memory + min(single, split)
    )
    depth = min(DEPTHS, key=lambda size: (up(channels, size), -size))
    made = (volume(product.image) + weights) * (OPERAND_BYTES + PLANES_BYTES) / memory + 2 * speeds.launch
    whole = up(rows, ROWS) * up(columns, COLUMNS) * places * up(channels, depth)
    multiplied = (
        len(PLANE_PAIRS) * whole / (device * speeds.products_of(bf16.bytes) * speeds.power_limit * PLANES_SHARE)
    )
    span = min(ROW_BYTES, depth * bf16.bytes)
    brought = PLANES * rows * places * (up(channels, depth) * bf16.bytes // span) * speeds.row_of_windows(span)
    brought *= -(-columns // MOST_COLUMNS) / device
    moved = (volume(product.image) * PLANES_BYTES + out) / memory
    return before, made + max(multiplied, brought, moved)


def _split(product: WindowsProduct, planes: Planes) -> None:
    op, windows, channels = product.op, product.windows, product.channels
    slid = product.slid
    images = [name for name in product.of_image if name not in slid and name != channels]
    order = [*images, *(name for name in product.of_image if name in slid), channels]
    image = in_order(op, product.image, product.of_image, order)
    of_weights = [*product.columns, *product.within, channels]
    weights = in_order(op, product.weights, product.of_weights, of_weights)
    low, high = (dict(zip(product.of_image, pads)) for pads in (product.low, product.high))

    def seen(value: Value, names: list[str]) -> Value:
        axes = tuple(names.index(name) for name in slid)
        return windows_of(op, value, names, low, high, axes, windows.sizes, windows.strides, windows.dilations)

    split_image, split_weights = planes.of_view(op, image), planes.of_view(op, weights)
    left = seen(split_image, ["planes_a", *order])
    text = f"planes_a {' '.join([*order, *product.within])}, planes_b {' '.join(of_weights)}"
    made = insert(op, ops.Contract(
        op.location, a=left, b=split_weights, exact_a=seen(image, order), exact_b=weights, dtype=op.dtype,
        precision="planes", axes=f"{text} -> {' '.join(product.result)}", result_names=[op.result.name],
    ))  # fmt: skip
    op.result.replace_with(made)
    op.erase()
