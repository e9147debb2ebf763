"""Lays images, and what is multiplied with their windows, so that TMA can bring windows to products by warpgroups.

    %y = contract(window(pad(%x)), %w)             %x: [n, c, h, w]
 =>
    %l = graph.call(transpose(%x))                 [n, h, w, c]: channels lie side by side
    %y = contract(window(pad(%l)), graph.call(transpose(%w)))

Weights that are turned round, as those of transposed convolutions, are read as they lie where they need no copy
otherwise (`turned_weights.py`).

Where a pixel has too few channels for a copy of TMA, or so few that copies of single pixels would be what limits the
product, those of a row of a window are made one axis. A wider copy is made of the image, with a few zeros at the end of
each pixel and the padding of rows; what a row of each window sees in it
lies side by side. So windows slide along the other axes alone, and read rows in place of pixels:

    %p = pad(%x)                                   3 channels are 4, 224 pixels of a row 230
    %r = reshape(transpose(window(%p, rows)))      [n, h, q, 32]: a view in which rows of windows overlap
    %y = contract(window(pad(%r), lines), reshape(pad(%w)))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Module, Op, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu.tensor_maps import UNIT_BYTES
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import TensorType
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu_machine import GpuMachine, machine_with_warpgroups
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of
from tiledsl.passes.graph.analysis.views import View, view_of_value
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.placed_copies import Place, placed_copies
from tiledsl.passes.graph.rewrites.split_floats import up
from tiledsl.passes.graph.rewrites.windows.rows_of_windows import Rows, RowsProduct, last_two_as_one
from tiledsl.passes.graph.rewrites.windows.turned_weights import straighten_slices, turned, with_straight_weights
from tiledsl.passes.graph.rewrites.windows.windows_product import (
    WindowsProduct,
    in_order,
    insert,
    windows_of,
    windows_product,
)
from tiledsl.passes.manager import PassContext

ROW_BYTES = 32
"""Rows of windows have multiples of it: the narrowest swizzle."""
MOST_BYTES = 1 << 33
"""Of a copy: more memory than that is not taken beside the image."""
SPANS = (32, 64, 128)
"""Bytes of a row of a box: those of swizzles."""
LEAST_GAIN = 1.2
"""Of rows over pixels, which have nothing that fills them up."""
LEAST_SECONDS = 2e-6
"""That rows are to gain."""
LEAST_COLUMNS, MOST_COLUMNS = 64, 256
"""Of a block: results are made as if there were so many, and windows are brought again for more."""


@dataclass(frozen=True)
class LayImages:
    """Of the entry, where `arch` has TMA and products by warpgroups."""

    name: ClassVar[str] = "lay-images"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        machine = machine_with_warpgroups(self.arch)
        if machine is None:
            return module
        straighten_slices(module.entry.body)
        copies = _Copies({function.name for function in module.functions})
        for op in list(module.entry.body.ops):
            product = windows_product(op, is_taken, in_groups=True) if isinstance(op, ops.Contract) else None
            if product is None or (product.groups and product.pixel_bytes % ROW_BYTES):
                continue  # a row would have channels of two groups
            rows = None if product.groups else _rows_of(product, machine)
            done = "" if rows is None or _is_by_pixels(product, rows, machine) else _with_rows(product, rows)
            if not done and product.has_wide_pixels:
                done = _with_channels_last(product, copies)
            if done:
                context.remark(self.name, op.location, done)
        tidy(module.entry)
        return Module([*module.functions, *copies.functions])


def _rows_of(product: WindowsProduct, machine: GpuMachine) -> Rows | None:
    """The rows that TMA brings soonest; None where windows slide along no other axis."""
    number, windows = len(product.slid) - 1, product.windows
    places = [size for size in windows.sizes if isinstance(size, int)]
    if number < 1 or len(places) < len(windows.sizes):
        return None
    return rows_that_are_brought(product, machine, 1)


def rows_that_are_brought(product: WindowsProduct, machine: GpuMachine, together: int) -> Rows:
    """Rows of windows along the last axis, which is one of several, as TMA brings them soonest where so many positions
    are columns of one product."""
    number, windows = len(product.slid) - 1, product.windows
    *others, size = numbers(windows.sizes)
    width, columns = tensor_type(product.image).dtype.bytes, math.prod(map(product.size, product.columns))
    stride, dilation = windows.strides[number], windows.dilations[number]
    step = UNIT_BYTES // math.gcd(UNIT_BYTES, together * stride * width)
    wide = up(product.size(product.channels), step)
    reach = (size - 1) * dilation + 1 + (together - 1) * stride  # what lies between is multiplied by zeros
    units = {span // math.gcd(span, wide * width) for span in SPANS}
    start = math.gcd(together * stride * wide * width, SPANS[-1])

    def clocks(long: int) -> float:
        return clocks_of_rows(machine, math.prod(others), long * wide * width, together * columns, width, start)

    long = min(sorted({up(reach, unit) for unit in units}), key=clocks)
    return Rows(number, long, wide, clocks(long))


def _is_by_pixels(product: WindowsProduct, rows: Rows, machine: GpuMachine) -> bool:
    """Whether TMA had better bring windows pixel by pixel than row by row: row by row it copies more at a time, and
    somewhat more in all, of a copy of the image that may have to be made for that alone."""
    if not product.has_wide_pixels:
        return False
    places = math.prod(size for size in product.windows.sizes if isinstance(size, int))
    by_pixels = _brought(product, machine, places, product.pixel_bytes)
    positions = math.prod(sizes_of(product.windows.result)[: len(product.of_image)]) // product.size(product.channels)
    gained = (by_pixels - LEAST_GAIN * rows.clocks) * positions / machine.multiprocessors / machine.speeds.clock
    view = view_of_value(product.image)
    is_given = view is not None and (view.buffer.op is None or isinstance(view.buffer.op, ops.Call))
    if is_given and not _counts_along(product.image, product.of_image, [product.channels]):
        return gained <= LEAST_SECONDS  # a copy is made in any case
    return gained <= LEAST_SECONDS + 2 * bytes_of(product.image) / machine.copied_bytes_per_second


def _brought(product: WindowsProduct, machine: GpuMachine, places: int, each: int) -> float:
    """Clocks of a multiprocessor for one position: in which TMA brings so many places of so many bytes each, or in
    which they are multiplied if that takes longer."""
    columns = math.prod(map(product.size, product.columns))
    return clocks_of_rows(machine, places, each, columns, tensor_type(product.image).dtype.bytes)


def clocks_of_rows(
    machine: GpuMachine, places: int, each: int, columns: int, width: int, start: int = SPANS[-1]
) -> float:  # fmt: skip
    """The same for a product with so many columns, of elements of `width` bytes. `start`: rows begin at multiples of so
    many bytes."""
    speeds = machine.speeds
    whole = -(-each // ROW_BYTES) * ROW_BYTES
    span = math.gcd(whole, SPANS[-1])
    last = speeds.row_of_windows(span, whole - each, start=start)
    brought = places * ((whole // span - 1) * speeds.row_of_windows(span, start=start) + last)
    room = -(-columns // LEAST_COLUMNS) * LEAST_COLUMNS
    multiplied = places * (whole // width) * room / speeds.products_of(width)
    return max(brought * -(-columns // MOST_COLUMNS), multiplied)


def is_taken(dtype: DType) -> bool:
    """Whether warpgroups multiply elements of which TMA brings windows."""
    return dtype.bits == 16 and dtype.is_float


class _Copies:
    """Programs that copy, each with a name of its own."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.functions: list[Function] = []
        self.known: dict[View, Value] = {}

    def of(self, before: Op, value: Value) -> Value:
        """A value, which is a view, row by row in memory: one copy for all products that read it."""
        view = view_of_value(value)
        assert view is not None, "a copy of what is not in memory"
        if view not in self.known:
            self.known[view] = self._copied(before, value, view)
        return self.known[view]

    def _copied(self, before: Op, value: Value, view: View) -> Value:
        sizes, dtype = sizes_of(value), tensor_type(value).dtype
        name = f"image_{len(self.functions)}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        place = Place.of(view, sizes, (0,) * len(sizes))
        self.functions.append(placed_copies(name, dtype, [place], sizes, None, before.location))
        source = _joined_so(before, value)
        call = ops.Call(before.location, inputs=[source], callee=name, types=[TensorType(dtype, sizes)],
                        result_names=["image"])  # fmt: skip
        insert(before, call)
        return call.result


def _joined_so(before: Op, value: Value) -> Value:
    """A transposed join as a join of what is transposed: what makes its parts writes them in the order of the copy."""
    turned = value.op
    join = turned.source.op if isinstance(turned, ops.Transpose) else None
    if not isinstance(turned, ops.Transpose) or not isinstance(join, ops.Concat):
        return value
    order = turned.permutation
    parts = [insert(before, ops.Transpose(before.location, source=part, permutation=order)) for part in join.sources]
    return insert(before, ops.Concat(before.location, sources=parts, axis=order.index(join.axis)))


def _counts_along(value: Value, names: Sequence[str], axes: Sequence[str]) -> bool:
    """Whether the elements of a view lie side by side along one of some axes."""
    view = view_of_value(value)
    return view is not None and view.place.unit is not None and names[view.place.unit] in axes


def _with_channels_last(product: WindowsProduct, copies: _Copies) -> str:
    """Channels side by side, in the image and in what it is multiplied with. Windows of what is not padded are those of
    what is padded by nothing: then they are no view, but read where they are."""
    if view_of_value(product.image) is None or view_of_value(product.weights) is None:
        return ""  # what is computed here is laid out as it is
    if bytes_of(product.image) > MOST_BYTES:
        return ""
    product, done = _with_straight_weights(product)
    op, windows = product.op, product.windows
    slid, channels = product.slid, product.channels
    images = [name for name in product.of_image if name not in (*slid, *product.groups, channels)]
    image, order = product.image, list(product.of_image)
    if not _counts_along(image, order, [channels]):
        wanted = [*images, *(name for name in order if name in slid), *product.groups, channels]
        image, done = copies.of(op, in_order(op, image, order, wanted)), "the image is copied, its channels last"
        order = wanted
    elif (isinstance(windows.source.op, ops.Pad) or all(size == 1 for size in windows.sizes)) and _counts_along(
        product.weights, product.of_weights, [channels, *product.columns]
    ):
        return done
    weights, of_weights = product.weights, list(product.of_weights)
    if not _counts_along(weights, of_weights, [channels, *product.columns]):
        wanted = [*product.groups, *product.columns, *product.within, channels]
        weights, of_weights = copies.of(op, in_order(op, weights, of_weights, wanted)), wanted
    low, high = (dict(zip(product.of_image, pads)) for pads in (product.low, product.high))
    axes = tuple(order.index(name) for name in slid)
    _replace(product, image, order, low, high, axes, windows.sizes, windows.strides, windows.dilations, product.within,
             weights, of_weights, product.result)  # fmt: skip
    return done or "windows are read where they are"


def _with_straight_weights(product: WindowsProduct) -> tuple[WindowsProduct, str]:
    """The product with windows turned round in place of the weights, where these need no copy then; and a remark."""
    if product.weights.op is None:
        return product, ""
    source = turned(product.weights, Rewriter(product.op)).source
    if not _counts_along(source, product.of_weights, [product.channels, *product.columns]):
        return product, ""  # a copy is made anyway, and turned on the way
    straight = with_straight_weights(product)
    return (product, "") if straight is None else (straight, "windows are turned round, and not the weights")


def _with_rows(product: WindowsProduct, rows: Rows) -> str:
    """Channels of a row of a window as one axis, in a wider copy of the image."""
    op, windows = product.op, product.windows
    width = tensor_type(product.image).dtype.bytes
    made = RowsProduct(product, rows, width)
    if view_of_value(product.image) is None or view_of_value(product.weights) is None:
        return ""
    (low, high), (low_w, high_w) = made.image_widths(), made.weights_widths()
    shape = [product.size(name) + before + behind for name, before, behind in zip(made.order, low, high)]
    if math.prod(shape) * width > MOST_BYTES:
        return ""
    image = in_order(op, product.image, product.of_image, made.order)
    image = insert(op, ops.Pad(op.location, source=image, low=low, high=high, value=0.0))
    weights = in_order(op, product.weights, product.of_weights, made.of_weights)
    weights = _with_holes(op, weights, windows.dilations[rows.number])
    weights = insert(op, ops.Pad(op.location, source=weights, low=low_w, high=high_w, value=0.0))
    weights = last_two_as_one(op, weights)
    text = f"{' '.join([*made.order, *made.within])}, {' '.join([*made.of_weights[:-2], product.channels])}"
    _multiply(product, made.windows(made.seen(image)), weights, f"{text} -> {' '.join(product.result)}")
    return "channels of a row of a window are one axis, in a wider copy of the image"


def _with_holes(before: Op, weights: Value, dilation: int) -> Value:
    """Weights with `dilation - 1` zeros between the elements of the last axis but one."""
    if dilation == 1:
        return weights
    *first, size, count = sizes_of(weights)
    apart = insert(before, ops.Reshape(before.location, source=weights, shape=(*first, size, 1, count)))
    none = (0,) * len(first)
    holes = insert(before, ops.Pad(
        before.location, source=apart, low=(*none, 0, 0, 0), high=(*none, 0, dilation - 1, 0), value=0.0,
    ))  # fmt: skip
    joined = insert(before, ops.Reshape(before.location, source=holes, shape=(*first, size * dilation, count)))
    stops = (*first, (size - 1) * dilation + 1, count)
    return insert(before, ops.Slice(
        before.location, source=joined, starts=(0,) * len(stops), stops=stops, steps=(1,) * len(stops),
    ))  # fmt: skip


def _replace(
    product: WindowsProduct, image: Value, order: Sequence[str], low: dict[str, int], high: dict[str, int],
    axes: tuple[int, ...], sizes: Sequence[object], strides: Sequence[int], dilations: Sequence[int],
    within: Sequence[str], weights: Value, of_weights: Sequence[str], result: Sequence[str],
) -> None:  # fmt: skip
    """Puts the product with windows of another image in place of the one that there is."""
    windows = windows_of(product.op, image, order, low, high, axes, sizes, strides, dilations)
    text = f"{' '.join([*order, *within])}, {' '.join(of_weights)} -> {' '.join(result)}"
    _multiply(product, windows, weights, text)


def _multiply(product: WindowsProduct, windows: Value, weights: Value, axes: str) -> None:
    op = product.op
    made = insert(op, ops.Contract(op.location, a=windows, b=weights, axes=axes, dtype=op.dtype,
                                    precision=op.precision, result_names=[op.result.name]))  # fmt: skip
    op.result.replace_with(made)
    op.erase()
