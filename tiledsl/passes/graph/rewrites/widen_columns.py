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
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.lay_images import LEAST_GAIN, ROW_BYTES, clocks_of_rows, insert, is_taken
from tiledsl.passes.graph.rewrites.widen_groups import behind_maps
from tiledsl.passes.graph.rewrites.wider_weights import WiderWeights, repeat_operands
from tiledsl.passes.graph.rewrites.windows_product import WindowsProduct, windows_product
from tiledsl.passes.manager import PassContext

LEAST = 4
"""Columns: products to fewer channels are folds."""
MOST_TOGETHER = 8
"""Positions: windows of more are mostly zeros."""


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
                _widen(product, together, programs)
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
    if row is None or each % ROW_BYTES:
        return 1
    width, columns = tensor_type(product.image).dtype.bytes, product.size(product.columns[0])
    others = math.prod(numbers(product.windows.sizes[:-1]))

    def clocks(together: int) -> float:
        places = others * (row.size + (together - 1) * row.stride)
        return clocks_of_rows(machine, places, each, together * columns, width) / together

    most = min(MOST_TOGETHER, row.positions // 2)
    ways = [n for n in range(2, most + 1) if row.positions % n == 0 and _fits_maps(product, row, n)]
    best = min(ways, key=clocks, default=1)
    positions = math.prod(sizes_of(product.op.result)) // columns
    gained = (clocks(1) - LEAST_GAIN * clocks(best)) * positions / machine.multiprocessors / machine.speeds.clock
    if product.result[-1] not in product.columns:  # channels are put first again
        gained -= 2 * bytes_of(product.op.result) / machine.copied_bytes_per_second
    return best if gained > least * 1e-6 else 1


def _fits_maps(product: WindowsProduct, row: _Row, together: int) -> bool:
    """Whether TMA knows windows so far apart and so long."""
    rank, axis, stride = len(product.slid) + 2, product.windows.axes[-1], together * row.stride
    last = last_corner(sizes_of(product.image)[axis], row.positions // together, stride, -product.low[axis])
    size = row.size + (together - 1) * row.stride
    return stride <= MOST_STRIDE and size <= PLACES[rank] and -CORNERS[rank] <= last < CORNERS[rank]


def _widen(product: WindowsProduct, together: int, programs: WiderWeights) -> None:
    op, windows, row = product.op, product.windows, _row_of(product)
    assert row is not None
    (column,), place = product.columns, product.within[-1]
    size = row.size + (together - 1) * row.stride
    seen = insert(op, ops.Window(
        windows.location, source=windows.source, axes=windows.axes, sizes=(*windows.sizes[:-1], size),
        strides=(*windows.strides[:-1], together * row.stride), dilations=windows.dilations,
        result_names=[windows.result.name],
    ))  # fmt: skip
    wide = programs.shifted(product, place, row.stride, together)
    rest = [name for name in product.result if name != column]
    a, b = [*product.of_image, *product.within], programs.order(product)
    text = f"{' '.join(a)}, {' '.join(b)} -> {' '.join([*rest, column])}"
    made = insert(op, ops.Contract(op.location, a=seen, b=wide, axes=text, dtype=op.dtype, precision=op.precision,
                                   result_names=[op.result.name]))  # fmt: skip
    sizes = dict(zip(product.result, sizes_of(op.result)))
    shape = tuple(sizes[name] for name in (*rest, column))
    behind = insert(op, ops.Reshape(op.location, source=made, shape=shape))
    turned = behind
    if product.result != (*rest, column):
        order = tuple([*rest, column].index(name) for name in product.result)
        turned = insert(op, ops.Transpose(op.location, source=behind, permutation=order))
    op.result.replace_with(turned)
    op.erase()
    if turned is behind:
        repeat_operands(behind, together, programs)
        behind_maps(behind)
