"""Products of f32 with windows of an image, by planes of bf16 of the image: what `split-floats` makes of matrices.

    %y = contract(window(pad(%x)), %w)             %x: f32[n, c, h, w]
 =>
    %px = graph.call(transpose(%x))                bf16[3, n, h, w, c]: planes, channels side by side
    %pw = graph.call(transpose(%w))                bf16[3, k, r, s, c]
    %y = contract(window(pad(%px)), %pw, window(pad(transpose(%x))), transpose(%w)) {precision = planes}

TMA brings windows of each plane, so that no window is copied: planes are as large as one and a half images, where
copied windows are an image for each place. Whether that is faster than what `copy-windows` and `split-floats` would
make is estimated.

Where a pixel has few channels rows of windows come as one axis (`rows_of_windows.py`), and, where there are few
columns, several positions side by side are columns of one product (`widen-columns`):

    %px, %cx = graph.call(transpose(%x))           bf16[3, n, h, w, 4], f32[n, h, w, 4]: 3 channels, padded rows
    %r = reshape(transpose(window(%px, rows)))     bf16[3, n, h, q', 32]: what 6 positions see in a row
    %y = contract(window(%r), %pw, window(of %cx), %cw) {precision = planes}          columns are (j, k)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Value
from tiledsl.ir.dtypes import DType, bf16, f32
from tiledsl.ir.gpu.tensor_maps import MOST_AXES, UNIT_BYTES
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.tile_ops import PLANE_PAIRS, PLANES
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu_machine import GpuMachine, machine_with_warpgroups
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of, volume
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.split_floats import (
    COLUMNS,
    FMA_SHARE,
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
from tiledsl.passes.graph.rewrites.windows.copy_windows import COPIED_BYTES, IN_PLACE_SHARE, MOST_ON_GPU, parts_of
from tiledsl.passes.graph.rewrites.windows.lay_images import MOST_BYTES, SPANS
from tiledsl.passes.graph.rewrites.windows.rows_of_windows import Rows, RowsProduct, last_two_as_one
from tiledsl.passes.graph.rewrites.windows.widen_columns import LEAST, positions_as_columns, widen
from tiledsl.passes.graph.rewrites.windows.wider_weights import WiderWeights
from tiledsl.passes.graph.rewrites.windows.windows_product import (
    LEAST_USES,
    WindowsProduct,
    in_order,
    insert,
    windows_of,
    windows_product,
)
from tiledsl.passes.manager import PassContext

MOST_CHANNELS = 24
"""Of pixels that come by rows."""
MOST_COLUMNS = 256
"""Of a block: windows are brought again for more."""
ROW_BYTES, DEPTHS = 128, (16, 32, 64)
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
        taken = {function.name for function in module.functions}
        planes, wider = Planes(taken, "image_planes"), WiderWeights(taken)
        for op in list(module.entry.body.ops):
            product = windows_product(op, _is_taken, least=LEAST) if isinstance(op, ops.Contract) else None
            if product is None or not _can_be_split(product):
                continue
            before = _seconds_of_copies(product, machine)
            way = min(_ways(product, machine), key=lambda way: way.seconds, default=None)
            if way is not None and way.seconds < GAIN * before:
                _split_so(product, way, planes, wider)
                text = f"windows of {PLANES} planes of bf16: {way.seconds * 1e6:.1f} us, {before * 1e6:.1f} of copies"
                context.remark(self.name, op.location, f"{text}{way.said}")
        tidy(module.entry)
        return Module([*module.functions, *wider.functions, *planes.functions])


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
        and all(isinstance(size, int) for size in windows.sizes)
        and len(windows.axes) == len(sizes) - 2
        and len(sizes) <= MOST_AXES
        and all(sizes[axis] > 1 for axis in windows.axes)
    )


class _Way(NamedTuple):
    """So many positions as columns of one product, of rows of windows or of pixels, and what is estimated for it."""

    together: int
    rows: Rows | None
    seconds: float

    @property
    def said(self) -> str:
        rows = f", rows of {self.rows.long} pixels" if self.rows is not None else ""
        return rows + (f", {self.together} positions as columns" if self.together > 1 else "")


def _seconds_of_copies(product: WindowsProduct, machine: GpuMachine) -> float:
    """With windows that are copied, or read in place where `copy-windows` would leave them there."""
    op, memory = product.op, machine.copied_bytes_per_second
    depth = _places(product) * product.size(product.channels)
    columns, copied = product.size(product.columns[0]), volume(product.windows.result)
    rows, out = copied // depth, bytes_of(op.result)
    number = 0 if op.a is product.windows.result else 1
    if not parts_of(op, number, MOST_ON_GPU, machine):
        return max(
            by_multiply_adds(machine, rows * columns * depth) * FMA_SHARE / IN_PLACE_SHARE,
            (copied * OPERAND_BYTES + out) / memory,
        )
    single, split = seconds_by(machine, (1, rows, columns, depth), copied + volume(product.weights), out)
    return copied * COPIED_BYTES / memory + min(single, split)


def _places(product: WindowsProduct) -> int:
    return math.prod(numbers(product.windows.sizes))


def _ways(product: WindowsProduct, machine: GpuMachine) -> Iterator[_Way]:
    """With windows of planes that TMA brings: pixel by pixel where these are whole units, or by rows."""
    channels, width, memory = product.size(product.channels), bf16.bytes, machine.copied_bytes_per_second
    copied = volume(product.windows.result)
    rows, columns = copied // (_places(product) * channels), product.size(product.columns[0])
    moved, out = volume(product.image), bytes_of(product.op.result)
    made = (moved + volume(product.weights)) * (OPERAND_BYTES + PLANES_BYTES) / memory + 2 * machine.speeds.launch
    if channels * width % UNIT_BYTES == 0 and columns >= LEAST_USES:
        done = _multiplied(machine, rows, columns, _places(product), channels)
        yield _Way(1, None, made + max(done, (moved * PLANES_BYTES + out) / memory))
    number = len(product.slid) - 1
    windows = product.windows
    if number < 1 or channels > MOST_CHANNELS or windows.dilations[number] != 1:
        return
    size, row = numbers(windows.sizes)[number], product.slid[number]
    positions = sizes_of(windows.result)[windows.axes[number]]
    others = _places(product) // size
    for together in (1, *positions_as_columns(product)):
        if together * columns < LEAST_USES:
            continue
        stride = windows.strides[number] * together
        reach = size + (together - 1) * windows.strides[number]
        step = UNIT_BYTES // math.gcd(UNIT_BYTES, stride * width)
        wide = up(channels, step)
        for long in sorted({up(reach, span // math.gcd(span, wide * width)) for span in SPANS}):
            pixels = (-(-positions // together) - 1) * stride + long
            copy = moved // (product.size(row) * channels) * max(pixels, product.size(row)) * wide
            seconds = made + copy * (OPERAND_BYTES + PLANES_BYTES) / memory
            if together > 1:
                seconds += machine.speeds.launch
                seconds += (
                    2 * out / memory * (product.result[-1] not in product.columns)
                )  # channels are put first again
            lines, start = rows // positions * -(-positions // together), math.gcd(stride * wide * width, ROW_BYTES)
            done = _multiplied(machine, lines, columns * together, others, long * wide, start)
            seconds += max(done, (copy * PLANES_BYTES + out) / memory)
            if copy * OPERAND_BYTES <= MOST_BYTES:
                yield _Way(together, Rows(number, long, wide), seconds)


def _multiplied(
    machine: GpuMachine, rows: int, columns: int, places: int, depth: int, start: int = ROW_BYTES
) -> float:  # fmt: skip
    """Seconds in which windows of planes are brought, and in which they are multiplied, whichever is longer. `start`:
    rows begin at multiples of so many bytes."""
    speeds = machine.speeds
    device = machine.multiprocessors * speeds.clock
    turn = min(DEPTHS, key=lambda size: (up(depth, size), -size))
    whole = up(rows, ROWS) * up(columns, COLUMNS) * places * up(depth, turn)
    multiplied = (
        len(PLANE_PAIRS) * whole / (device * speeds.products_of(bf16.bytes) * speeds.power_limit * PLANES_SHARE)
    )
    span = min(ROW_BYTES, turn * bf16.bytes)
    brought = PLANES * rows * places * (up(depth, turn) * bf16.bytes // span) * speeds.row_of_windows(span, start=start)
    brought *= -(-columns // MOST_COLUMNS) / device
    return max(multiplied, brought)


def _split_so(product: WindowsProduct, way: _Way, planes: Planes, wider: WiderWeights) -> None:
    if way.together > 1:
        made = widen(product, way.together, wider)
        widened = windows_product(made, _is_taken)
        assert widened is not None, "positions as columns leave a product of windows"
        product = widened
    if way.rows is None:
        _split(product, planes)
    else:
        _split_rows(RowsProduct(product, way.rows, bf16.bytes), planes)


def _split_rows(made: RowsProduct, planes: Planes) -> None:
    product, op = made.product, made.product.op
    image = in_order(op, product.image, product.of_image, made.order)
    weights = in_order(op, product.weights, product.of_weights, made.of_weights)
    images = planes.padded(op, image, *made.image_widths())
    left, exact_left = (made.windows(made.seen(each), lead) for each, lead in zip(images, (1, 0)))
    right, exact_right = (last_two_as_one(op, each) for each in planes.padded(op, weights, *made.weights_widths()))
    of_weights = [*made.of_weights[:-2], product.channels]
    text = f"planes_a {' '.join([*made.order, *made.within])}, planes_b {' '.join(of_weights)}"
    _replace(op, ops.Contract(
        op.location, a=left, b=right, exact_a=exact_left, exact_b=exact_right, dtype=op.dtype, precision="planes",
        axes=f"{text} -> {' '.join(product.result)}", result_names=[op.result.name],
    ))  # fmt: skip


def _replace(op: ops.Contract, by: ops.Contract) -> None:
    op.result.replace_with(insert(op, by))
    op.erase()


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
    _replace(op, ops.Contract(
        op.location, a=left, b=split_weights, exact_a=seen(image, order), exact_b=weights, dtype=op.dtype,
        precision="planes", axes=f"{text} -> {' '.join(product.result)}", result_names=[op.result.name],
    ))  # fmt: skip
