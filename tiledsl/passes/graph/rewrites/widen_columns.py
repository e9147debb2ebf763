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
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Module, Op, Value, free_names
from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu.tensor_maps import CORNERS, MOST_STRIDE, PLACES, last_corner
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import TensorType
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu_machine import GpuMachine, gpu_machine
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.lay_images import LEAST_GAIN, ROW_BYTES, clocks_of_rows, insert, is_taken
from tiledsl.passes.graph.rewrites.widen_groups import behind_maps
from tiledsl.passes.graph.rewrites.windows_product import WindowsProduct, windows_product
from tiledsl.passes.manager import PassContext
from tiledsl.support.location import BUILTIN

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
        machine = gpu_machine(self.arch, BUILTIN) if self.arch.startswith("sm_") else None
        if machine is None or not machine.has_warpgroups:
            return module
        programs = _Programs({function.name for function in module.functions})
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


def _widen(product: WindowsProduct, together: int, programs: _Programs) -> None:
    op, windows, row = product.op, product.windows, _row_of(product)
    assert row is not None
    (column,), place = product.columns, product.within[-1]
    size = row.size + (together - 1) * row.stride
    seen = insert(op, ops.Window(
        windows.location, source=windows.source, axes=windows.axes, sizes=(*windows.sizes[:-1], size),
        strides=(*windows.strides[:-1], together * row.stride), dilations=windows.dilations,
        result_names=[windows.result.name],
    ))  # fmt: skip
    wide = programs.wider(product, place, row, together)
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
        _repeat_operands(behind, together, programs)
        behind_maps(behind)


def _repeat_operands(value: Value, together: int, programs: _Programs) -> None:
    """Repeats what maps of a product add to its columns, or multiply them with, for each position."""
    assert isinstance(value.op, ops.Reshape)
    wide, shape, columns = sizes_of(value.op.source), sizes_of(value), sizes_of(value)[-1]
    while len(value.users) == 1 and isinstance(user := next(iter(value.users)), (ops.Map, ops.Cast)):
        for operand in dict.fromkeys(user.operands):
            source = operand.op.source if isinstance(operand.op, ops.Broadcast) else None
            if source is None or math.prod(sizes_of(source)) != columns or sizes_of(source)[-1] != columns:
                continue
            each = programs.repeated(user, source, together)
            each = insert(user, ops.Broadcast(user.location, source=each, shape=wide))
            user.replace_operand(operand, insert(user, ops.Reshape(user.location, source=each, shape=shape)))
        value = user.result


class _Programs:
    """Programs that write weights, and what belongs to columns, for several positions: each tensor once."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.functions: list[Function] = []
        self.known: dict[tuple[Value | DType | int, ...], Value] = {}

    @staticmethod
    def order(product: WindowsProduct) -> list[str]:
        """The axes of wider weights: with columns last where these are, else with channels last."""
        if product.of_weights[-1] in product.columns:
            return [*product.within, product.channels, *product.columns]
        return [*product.columns, *product.within, product.channels]

    def wider(self, product: WindowsProduct, place: str, row: _Row, together: int) -> Value:
        """The weights for `together` positions. Slices of one tensor along windows are slices of what is wider."""
        names, op, weights = product.of_weights, product.op, product.weights
        cut = weights.op if isinstance(weights.op, ops.Slice) else None
        if cut is not None and any(
            sizes_of(cut.source)[axis] != size and name not in product.within
            for axis, (name, size) in enumerate(zip(names, sizes_of(weights)))
        ):
            cut = None
        at = names.index(place)
        source, apart = (weights, row.stride) if cut is None else (cut.source, row.stride * cut.steps[at])
        key = (source, at, apart, together)
        if key not in self.known:
            self.known[key] = self._made(product, source, at, apart, together)
        wide = self.known[key]
        if cut is None:
            return wide
        bounds = dict(zip(names, zip(numbers(cut.starts), numbers(cut.stops), cut.steps)))
        first, stop, step = bounds[place]
        bounds[place] = (first, stop + (together - 1) * apart, step)
        order = self.order(product)
        kept = [bounds[name] if name in product.within else (0, size, 1) for name, size in zip(order, sizes_of(wide))]
        starts, stops, steps = zip(*kept)
        return insert(op, ops.Slice(op.location, source=wide, starts=starts, stops=stops, steps=steps))

    def _made(self, product: WindowsProduct, source: Value, at: int, apart: int, together: int) -> Value:
        """Position j sees element s - j * apart at place s: windows of weights with zeros on both sides."""
        names, order, op = list(product.of_weights), self.order(product), product.op
        (column,), rank = product.columns, len(names)
        reach = (together - 1) * apart
        widths = tuple(reach if axis == at else 0 for axis in range(rank))
        body = Block()
        build = Builder(body, op.location)
        value = body.add_argument(source.type, "weight")
        value = build.emit(ops.Pad, source=value, low=widths, high=widths, value=0.0).result
        value = build.emit(
            ops.Window, source=value, axes=(at,), sizes=(together,), strides=(1,), dilations=(-apart,)
        ).result
        value = build.emit(ops.Cast, source=value, dtype=tensor_type(source).dtype).result
        wanted = [part for name in order for part in (("", name) if name == column else (name,))]
        permutation = tuple([*names, ""].index(part) for part in wanted)
        value = build.emit(ops.Transpose, source=value, permutation=permutation).result
        made = self.called(op, body, source, value)
        sizes = dict(zip(wanted, sizes_of(made)))
        shape = tuple(sizes[name] * (together if name == column else 1) for name in order)
        return insert(op, ops.Reshape(op.location, source=made, shape=shape))

    def repeated(self, before: Op, source: Value, together: int) -> Value:
        """What belongs to columns, once for each position behind each other."""
        dtype, columns = tensor_type(source).dtype, sizes_of(source)[-1]
        if isinstance(source.op, ops.Cast):
            source = source.op.source  # by the same program
        key = (source, dtype, together)
        if key not in self.known:
            flat = insert(before, ops.Reshape(before.location, source=source, shape=(columns,)))
            body = Block()
            build = Builder(body, before.location)
            value = body.add_argument(flat.type, "column")
            value = build.emit(ops.Broadcast, source=value, shape=(together, columns)).result
            value = build.emit(ops.Cast, source=value, dtype=dtype).result
            self.known[key] = self.called(before, body, flat, value)
        return insert(before, ops.Reshape(before.location, source=self.known[key], shape=(together * columns,)))

    def called(self, before: Op, body: Block, source: Value, result: Value) -> Value:
        """The result of a call of a program with that body."""
        body.append(ops.Return(before.location, values=[result]))
        function = Function(free_names(self.taken, "wider_columns"), body, (), before.location)
        self.taken.add(function.name)
        self.functions.append(function)
        types = [TensorType(tensor_type(result).dtype, sizes_of(result))]
        return insert(before, ops.Call(before.location, inputs=[source], callee=function.name, types=types,
                                       result_names=["wider"]))  # fmt: skip
