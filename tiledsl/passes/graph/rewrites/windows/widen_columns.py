"""Convolutions to few channels as ones to more: several positions, side by side, are columns of one product.

    y[n, p, q, k]       16 columns, windows of 7 pixels along q
 =>
    y[n, p, q', (j, k)] 64 columns, windows of 10 pixels for every fourth position; weights for j begin at pixel j

Tensor cores multiply 64 columns in the time of 16, and TMA brings 10 pixels for four positions and not 28. What a
position does not see is multiplied by zeros. The result is the same in memory: [q', j] is [q]. An inf or NaN in a pixel
makes NaN of the results of neighbours that are made with those that see it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Value
from tiledsl.ir.gpu.tensor_maps import CORNERS, MOST_STRIDE, PLACES, last_corner
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu_machine import GpuMachine, machine_with_warpgroups
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.split_floats import up
from tiledsl.passes.graph.rewrites.windows.lay_images import (
    LEAST_COLUMNS,
    LEAST_GAIN,
    ROW_BYTES,
    clocks_of_rows,
    is_taken,
    rows_that_are_brought,
)
from tiledsl.passes.graph.rewrites.windows.widen_groups import behind_maps
from tiledsl.passes.graph.rewrites.windows.wider_weights import WiderWeights, repeat_operands
from tiledsl.passes.graph.rewrites.windows.windows_product import WindowsProduct, insert, windows_product
from tiledsl.passes.manager import PassContext

LEAST = 4
"""Columns: products to fewer channels are folds."""
MOST_TOGETHER = 8
"""Positions: windows of more are mostly zeros."""
MOST_ROOM = 1.07
"""Positions that are made, of those that are there."""


@dataclass(frozen=True)
class WidenColumns:
    """Of the entry, where `arch` has TMA and products by warpgroups. `least`: microseconds that are to be gained, for
    launches, which write the weights and repeat what is added to channels, and more."""

    name: ClassVar[str] = "widen-columns"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"
    least: int = 10

    def run(self, module: Module, context: PassContext) -> Module:
        machine = machine_with_warpgroups(self.arch)
        if machine is None:
            return module
        programs = WiderWeights({function.name for function in module.functions})
        for op in list(module.entry.body.ops):
            product = windows_product(op, is_taken, least=LEAST) if isinstance(op, ops.Contract) else None
            together = 1 if product is None else _together(product, machine, self.least)
            if product is not None and together > 1:
                widen(product, together, programs)
                context.remark(self.name, op.location, f"{together} positions side by side are columns of one product")
        if programs.functions:
            tidy(module.entry)
        return Module([*module.functions, *programs.functions])


class _Row(NamedTuple):
    """The last axis of positions: how many there are, how far apart, and how many places windows have along it."""

    positions: int
    stride: int
    size: int


def _row_of(product: WindowsProduct) -> _Row | None:
    """None where the last axis of the result, columns aside, is none that windows slide along by neighbours."""
    windows, last = product.windows, [name for name in product.result if name not in product.columns][-1]
    size, is_slid = windows.sizes[-1], last == product.slid[-1]
    if _takes_turns(product.op.result, product.result.index(last)):
        return None  # positions do not lie behind each other in what is made
    if not is_slid or windows.dilations[-1] != 1 or not isinstance(size, int):
        return None
    return _Row(sizes_of(windows.result)[windows.axes[-1]], windows.strides[-1], size)


def _takes_turns(value: Value, axis: int) -> bool:
    """Whether the elements along an axis take turns with others, perhaps after maps."""
    for user in value.users:
        if isinstance(user, ops.Interleave):
            if user.axis == axis:
                return True
        elif isinstance(user, (ops.Map, ops.Cast, ops.Reshape)):
            stays = sizes_of(user.result)[: axis + 1] == sizes_of(value)[: axis + 1]
            if stays and _takes_turns(user.result, axis):
                return True
    return False


def _together(product: WindowsProduct, machine: GpuMachine, least: int) -> int:
    """How many positions had better be columns of one product: of which each takes the least time; else 1."""
    row, each = _row_of(product), product.pixel_bytes
    by_rows = each % ROW_BYTES != 0
    width, columns = tensor_type(product.image).dtype.bytes, product.size(product.columns[0])
    can_be_rows = len(product.slid) > 1 and columns < LEAST_COLUMNS and view_of_value(product.image) is not None
    if row is None or (by_rows and not can_be_rows):
        return 1
    others = math.prod(numbers(product.windows.sizes[:-1]))

    def clocks(together: int) -> float:
        made = up(row.positions, together) / together / row.positions
        if by_rows:
            return made * rows_that_are_brought(product, machine, together).clocks
        places = others * (row.size + (together - 1) * row.stride)
        return made * clocks_of_rows(machine, places, each, together * columns, width)

    ways = [n for n in positions_as_columns(product) if _fits_maps(product, row, n)]
    best = min(ways, key=clocks, default=1)
    positions = math.prod(sizes_of(product.op.result)) // columns
    gained = (clocks(1) - LEAST_GAIN * clocks(best)) * positions / machine.multiprocessors / machine.speeds.clock
    if product.result[-1] not in product.columns:  # channels are put first again
        gained -= 2 * bytes_of(product.op.result) / machine.copied_bytes_per_second
    return best if gained > least * 1e-6 else 1


def positions_as_columns(product: WindowsProduct) -> list[int]:
    """How many positions may be columns of one product: a part of all, or so many that few are made for nothing, where
    results are put in another order anyway."""
    row = _row_of(product)
    if row is None:
        return []
    room = row.positions if product.result[-1] in product.columns else row.positions * MOST_ROOM
    ways = range(2, min(MOST_TOGETHER, row.positions // 2) + 1)
    return [n for n in ways if up(row.positions, n) <= room]


def _fits_maps(product: WindowsProduct, row: _Row, together: int) -> bool:
    """Whether TMA knows windows so far apart and so long."""
    rank, axis, stride = len(product.slid) + 2, product.windows.axes[-1], together * row.stride
    last = last_corner(sizes_of(product.image)[axis], -(-row.positions // together), stride, -product.low[axis])
    size = row.size + (together - 1) * row.stride
    return stride <= MOST_STRIDE and size <= PLACES[rank] and -CORNERS[rank] <= last < CORNERS[rank]


def widen(product: WindowsProduct, together: int, programs: WiderWeights) -> ops.Contract:
    """Puts a product whose columns stand for so many positions in place of one, and gives it."""
    op, windows, row = product.op, product.windows, _row_of(product)
    assert row is not None
    (column,), place = product.columns, product.within[-1]
    size = row.size + (together - 1) * row.stride
    rest = [name for name in product.result if name != column]
    room, last = up(row.positions, together), windows.axes[-1]
    source = _with_room(product, (room - 1) * row.stride + row.size)
    seen = insert(op, ops.Window(
        windows.location, source=source, axes=windows.axes, sizes=(*windows.sizes[:-1], size),
        strides=(*windows.strides[:-1], together * row.stride), dilations=windows.dilations,
        result_names=[windows.result.name],
    ))  # fmt: skip
    wide = programs.shifted(product, place, row.stride, together)
    a, b = [*product.of_image, *product.within], programs.order(product)
    text = f"{' '.join(a)}, {' '.join(b)} -> {' '.join([*rest, column])}"
    product_op = ops.Contract(op.location, a=seen, b=wide, axes=text, dtype=op.dtype, precision=op.precision,
                              result_names=[op.result.name])  # fmt: skip
    made = insert(op, product_op)
    sizes = dict(zip(product.result, sizes_of(op.result)))
    shape = tuple(room if name == product.of_image[last] else sizes[name] for name in (*rest, column))
    turned = behind = insert(op, ops.Reshape(op.location, source=made, shape=shape))
    if room > row.positions:
        stops = tuple(sizes[name] for name in (*rest, column))
        turned = insert(op, ops.Slice(op.location, source=behind, starts=(0,) * len(stops), stops=stops,
                                      steps=(1,) * len(stops)))  # fmt: skip
    if product.result != (*rest, column):
        order = tuple([*rest, column].index(name) for name in product.result)
        turned = insert(op, ops.Transpose(op.location, source=turned, permutation=order))
    op.result.replace_with(turned)
    op.erase()
    if turned is behind:
        repeat_operands(behind, together, programs)
        behind_maps(behind)
    return product_op


def _with_room(product: WindowsProduct, pixels: int) -> Value:
    """What windows slide over, with at least so many pixels along the last axis."""
    windows, last = product.windows, product.windows.axes[-1]
    lacking = pixels - sizes_of(windows.source)[last]
    if lacking <= 0:
        return windows.source
    high = tuple(width + lacking * (axis == last) for axis, width in enumerate(product.high))
    return insert(product.op, ops.Pad(windows.location, source=product.image, low=product.low, high=high, value=0.0))
