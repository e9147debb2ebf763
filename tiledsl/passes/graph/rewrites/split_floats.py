"""Products of f32 operands with all their digits, by matrix instructions for bf16: an operand is three planes.

    %c = contract(%a, %b)                          %a, %b: f32
 =>
    %pa = graph.call(%a)                           bf16[3, m, k]: pa[0] + pa[1] + pa[2] is 2**16 times a, exactly
    %pb = graph.call(%b)
    %c = contract(%pa, %pb, %a, %b) {precision = planes}

Each plane has 8 of the 24 digits. Of nine products of planes six are made; what is left out is 2**-26 of a * b at
most. Whether that is faster than single multiply-adds is estimated: six products at the rate of 16 bits, and the
planes, which are written once and read instead of the operands. Windows are copied before (`copy-windows`), so that
they are matrices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir import tile_ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Index, Module, Op, Value, free_names
from tiledsl.ir.dtypes import bf16, f32, i64
from tiledsl.ir.gpu.tensor_maps import UNIT_BYTES
from tiledsl.ir.symbolic import symbol
from tiledsl.ir.tile_ops import PLANE_PAIRS, PLANES
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import AxisType, BlockSize, TensorType, scalar
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu_machine import GpuMachine, gpu_machine
from tiledsl.passes.graph.analysis.limits import limits_of
from tiledsl.passes.graph.analysis.products_in_a_row import stay_matrices
from tiledsl.passes.graph.analysis.shapes import axis_sizes, bytes_of, sizes_of, volume
from tiledsl.passes.graph.analysis.views import place_of, view_of_value
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.placed_copies import MOST_BLOCKED, blocked_axes, moved
from tiledsl.passes.manager import PassContext
from tiledsl.support.location import BUILTIN, Location

FMA_SHARE = 0.55
"""Of the rate of single multiply-adds, that products reach by them (measured: 36 of 67 TFLOP/s on an H200)."""
PLANES_SHARE = 0.8
"""Of the rate that the device has power for, that products of planes are taken to reach."""
GAIN = 0.85
"""Products are made of planes if that takes no more of the time."""
ROWS, COLUMNS, DEPTH = 64, 32, 32
"""Tiles come in multiples of these."""
OPERAND_BYTES, PLANES_BYTES = 4, 6
"""Of an element."""


@dataclass(frozen=True)
class SplitFloats:
    """Of the entry, where `arch` has products by warpgroups."""

    name: ClassVar[str] = "split-floats"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        if not self.arch.startswith("sm_"):
            return module
        machine = gpu_machine(self.arch, BUILTIN)
        if not machine.has_warpgroups:
            return module
        planes, head = Planes({function.name for function in module.functions}), limits_of(self.arch).head
        for op in list(module.entry.body.ops):
            if isinstance(op, ops.Contract) and _can_be_split(op) and not meets_a_product(op, head):
                before, after = _seconds(op, machine)
                if after < GAIN * before:
                    _split(op, planes)
                    text = f"{PLANES} planes of bf16: {after * 1e6:.1f} us, {before * 1e6:.1f} by single multiply-adds"
                    context.remark(self.name, op.location, text)
        tidy(module.entry)
        return Module([*module.functions, *planes.functions])


def meets_a_product(op: ops.Contract, head: int, *, least: int = 1) -> bool:
    """Whether a product is one of two in a row that one kernel may make (attention); with `least` elements at least of
    what the first one sums, and as many columns of the second one."""
    pairs = [(first, op) for first in _products_before(op)] + [(op, second) for second in _products_behind(op)]
    return any(_meets(*pair, head, least) and stay_matrices(*pair) for pair in pairs)


def _can_be_split(op: ops.Contract) -> bool:
    """Whether it is a product of matrices in f32, with all digits."""
    if op.precision != "ieee" or any(tensor_type(v).dtype != f32 for v in (op.a, op.b)) or op.dtype != f32:
        return False
    if isinstance(op.a.op, ops.Window) or isinstance(op.b.op, ops.Window):
        return False
    a, b, result = op.axis_names()
    summed = [name for name in a if name in b and name not in result]
    rows, columns = ([n for n in mine if n not in other] for mine, other in ((a, b), (b, a)))
    return bool(rows and columns) and (len(summed) == 1 or _are_behind_each_other(op, summed))


def _are_behind_each_other(op: ops.Contract, run: Sequence[str]) -> bool:
    """Whether axes follow each other wherever a product has them, so that strides can tell them as one."""
    names = op.axis_names()
    for mine, value in zip(names, (op.a, op.b, op.result)):
        if not set(run) & set(mine):
            continue
        start = mine.index(run[0]) if run[0] in mine else 0
        if mine[start : start + len(run)] != list(run):
            return False
        place = None if value is op.result else place_of(value, _joined(sizes_of(value), start, len(run)))
        if value is not op.result and place is None:
            return False
    return len(run) > 0


def _joined(sizes: Sequence[int], start: int, count: int) -> tuple[int, ...]:
    """Sizes with one in place of so many."""
    return (*sizes[:start], math.prod(sizes[start : start + count]), *sizes[start + count :])


def _trailing(op: ops.Contract, names: Sequence[str], value: Value) -> int:
    """How many of the last axes of an operand may be one row of its planes: of what is summed, or of what follows each
    other in the result. Then rows are as long as they can be, and begin where TMA finds them."""
    a, b, result = op.axis_names()
    count = 1
    while count < len(names):
        run = names[len(names) - count - 1 :]
        free = all((name in a) != (name in b) and name in result for name in run)
        if not (free or all(name in a and name in b and name not in result for name in run)):
            break
        if (
            not _follow(run, result)
            or place_of(value, _joined(sizes_of(value), len(names) - len(run), len(run))) is None
        ):
            break
        count += 1
    return count


def _follow(run: Sequence[str], names: Sequence[str]) -> bool:
    """Whether names follow each other in others, if these have them."""
    start = names.index(run[0]) if run[0] in names else 0
    return run[0] not in names or list(names[start : start + len(run)]) == list(run)


def _seconds(op: ops.Contract, machine: GpuMachine) -> tuple[float, float]:
    """By single multiply-adds, and by planes."""
    a, b, result = op.axis_names()
    sizes = axis_sizes(op)
    rows, columns = (math.prod(sizes[n] for n in mine if n not in other) for mine, other in ((a, b), (b, a)))
    batches = math.prod(sizes[n] for n in result if n in a and n in b)
    depth = math.prod(sizes[n] for n in a if n not in result)
    return seconds_by(machine, (batches, rows, columns, depth), volume(op.a) + volume(op.b), bytes_of(op.result))


def by_multiply_adds(machine: GpuMachine, count: int) -> float:
    """Seconds of so many single multiply-adds of a product."""
    return count / (machine.multiprocessors * machine.speeds.clock * machine.speeds.instructions * FMA_SHARE)


def seconds_by(
    machine: GpuMachine, sizes: tuple[int, int, int, int], operands: int, out: int
) -> tuple[float, float]:  # fmt: skip
    """By single multiply-adds, and by planes: so many batches, rows, columns and elements that are added up, of
    operands of so many elements, and of a result of so many bytes."""
    batches, rows, columns, depth = sizes
    whole = batches * up(rows, ROWS) * up(columns, COLUMNS) * up(depth, DEPTH)
    speeds, memory = machine.speeds, machine.copied_bytes_per_second
    device = machine.multiprocessors * speeds.clock
    before = max(by_multiply_adds(machine, batches * rows * columns * depth), (operands * OPERAND_BYTES + out) / memory)
    products = len(PLANE_PAIRS) * whole / (device * speeds.products_of(bf16.bytes) * speeds.power_limit * PLANES_SHARE)
    made = operands * (OPERAND_BYTES + PLANES_BYTES) / memory + 2 * speeds.launch
    return before, made + max(products, (operands * PLANES_BYTES + out) / memory)


def up(size: int, unit: int) -> int:
    """The next multiple of a unit."""
    return -(-size // unit) * unit


def _products_before(op: ops.Contract) -> set[ops.Contract]:
    found: set[ops.Contract] = set()
    pending, seen = [op.a, op.b], {op.a, op.b}
    while pending:
        before = pending.pop().op
        if isinstance(before, ops.Contract):
            found.add(before)
        if before is None or isinstance(before, (ops.Contract, ops.Call)):  # what a call gives is in memory
            continue
        for value in before.operands:
            if value not in seen:
                seen.add(value)
                pending.append(value)
    return found


def _products_behind(op: ops.Contract) -> set[ops.Contract]:
    found: set[ops.Contract] = set()
    pending, seen = [op.result], {op.result}
    while pending:
        for user in pending.pop().users:
            if isinstance(user, ops.Contract):
                found.add(user)
            if isinstance(user, (ops.Contract, ops.Call)):
                continue
            for value in user.results:
                if value not in seen:
                    seen.add(value)
                    pending.append(value)
    return found


def _meets(first: ops.Contract, second: ops.Contract, head: int, least: int) -> bool:
    """Whether what is between two products may be kept within one kernel: the first one sums over few elements, the
    second one gives few columns."""
    depth = math.prod(
        n for name, n in zip(first.axis_names()[0], sizes_of(first.a)) if name not in first.axis_names()[2]
    )
    a, b, _ = second.axis_names()
    columns = math.prod(n for name, n in zip(b, sizes_of(second.b)) if name not in a)
    return least <= depth <= head and least <= columns <= head


def _split(op: ops.Contract, planes: Planes) -> None:
    a, b, result = op.axis_names()
    given: list[tuple[Value, Value, list[str]]] = []
    for value, names, first in ((op.a, a, "planes_a"), (op.b, b, "planes_b")):
        ordered, exact = _unit_last(op, value, names)
        given.append((planes.of(op, exact, _trailing(op, ordered, exact)), exact, [first, *ordered]))
    (left, exact_a, of_a), (right, exact_b, of_b) = given
    new = ops.Contract(
        op.location, a=left, b=right, exact_a=exact_a, exact_b=exact_b, dtype=op.dtype, precision="planes",
        axes=_text(of_a, of_b, result), result_names=[op.result.name],
    )  # fmt: skip
    op.result.replace_with(_insert(op, new))
    op.erase()


def _text(a: Sequence[str], b: Sequence[str], result: Sequence[str]) -> str:
    return f"{' '.join(a)}, {' '.join(b)} -> {' '.join(result)}"


def _insert(before: Op, op: Op) -> Value:
    assert before.parent is not None
    before.parent.insert_before(before, op)
    return op.results[0]


def _unit_last(before: Op, value: Value, names: Sequence[str]) -> tuple[list[str], Value]:
    """An operand with the axis last whose elements lie side by side, where that is known."""
    view = view_of_value(value)
    unit = None if view is None else view.place.unit
    if unit is None or unit == len(names) - 1:
        return list(names), value
    order = [*(axis for axis in range(len(names)) if axis != unit), unit]
    turned = _insert(before, ops.Transpose(before.location, source=value, permutation=tuple(order)))
    return [names[axis] for axis in order], turned


@dataclass
class Planes:
    """The calls that make planes, one for each value, and their programs."""

    taken: set[str]
    called: str = "planes"
    functions: list[Function] = field(default_factory=list[Function])
    made: dict[object, Value] = field(default_factory=dict[object, Value])
    both: dict[object, tuple[Value, Value]] = field(default_factory=dict[object, tuple[Value, Value]])

    def of(self, before: Op, value: Value, together: int) -> Value:
        """The planes of a value, [3, *shape]; so many of its last axes are one row."""
        view = view_of_value(value)
        key = value if view is None else (view, sizes_of(value))
        found = self.made.get(key)
        if found is None:
            shape = sizes_of(value)
            joined = _joined(shape, len(shape) - together, together)
            matrix = (math.prod(joined[:-1]), joined[-1])
            joined = matrix if place_of(value, matrix) is not None else joined
            rows = value
            if joined != shape:
                rows = _insert(before, ops.Reshape(before.location, source=value, shape=joined))
            found = self._made(before, rows)
            if joined != shape:
                found = _insert(before, ops.Reshape(before.location, source=found, shape=(PLANES, *shape)))
            self.made[key] = found
        return found

    def of_view(self, before: Op, value: Value) -> Value:
        """The planes of a view, [3, *shape], its last axis side by side: of as few axes as strides can tell."""
        view, shape = view_of_value(value), sizes_of(value)
        found = self.made.get((view, shape))
        if found is None:
            start = 0
            joined = shape
            while start + 2 < len(joined):  # neighbouring axes as one
                fewer = _joined(joined, start, 2)
                if place_of(value, fewer) is None:
                    start += 1
                else:
                    joined = fewer
            rows = value
            if joined != shape:
                rows = _insert(before, ops.Reshape(before.location, source=value, shape=joined))
            found = self._made(before, rows)
            if joined != shape:
                found = _insert(before, ops.Reshape(before.location, source=found, shape=(PLANES, *shape)))
            self.made[view, shape] = found
        return found

    def padded(self, before: Op, value: Value, low: Sequence[int], high: Sequence[int]) -> tuple[Value, Value]:
        """The planes of a view among zeros, [3, *shape], and a copy of it among zeros, by one program; the view itself
        where there are none and its last two axes are one in memory."""
        view = view_of_value(value)
        if not any((*low, *high)) and place_of(value, _joined(sizes_of(value), len(low) - 2, 2)) is not None:
            return self.of_view(before, value), value
        key = (view, sizes_of(value), tuple(low), tuple(high))
        if key not in self.both:
            shape = tuple(sum(widths) for widths in zip(low, sizes_of(value), high))
            unit = None if view is None else view.place.unit
            name = self._name()
            self.functions.append(planes_among_zeros(name, sizes_of(value), unit, low, shape, before.location))
            types = [TensorType(bf16, (PLANES, *shape)), TensorType(f32, shape)]
            call = ops.Call(before.location, inputs=[value], callee=name, types=types, result_names=["planes", "copy"])
            _insert(before, call)
            self.both[key] = call.results[0], call.results[1]
        return self.both[key]

    def _name(self) -> str:
        name = free_names(self.taken, f"{self.called}_{len(self.functions)}")
        self.taken.add(name)
        return name

    def _made(self, before: Op, value: Value) -> Value:
        name = self._name()
        shape = sizes_of(value)
        view = view_of_value(value)
        unit = len(shape) - 1 if view is None else view.place.unit
        line = UNIT_BYTES // bf16.bytes
        room = (PLANES, *shape[:-1], up(shape[-1], line))
        self.functions.append(planes_of(name, shape, unit, room, before.location))
        planes = _insert(before, ops.Call(
            before.location, inputs=[value], callee=name, types=[TensorType(bf16, room)], result_names=["planes"],
        ))  # fmt: skip
        if room[-1] == shape[-1]:
            return planes
        stops = (PLANES, *shape)
        return _insert(before, ops.Slice(
            before.location, source=planes, starts=(0,) * len(stops), stops=stops, steps=(1,) * len(stops),
        ))  # fmt: skip


def planes_of(
    name: str, shape: Sequence[int], unit: int | None, room: Sequence[int], location: Location
) -> Function:  # fmt: skip
    """A tile program that gives the planes of a tensor, behind each other; rows may be longer than they need be."""
    body = Block()
    builder = Builder(body, location)
    source = body.add_argument(TensorType(f32, tuple(shape), unit), "x")
    out = builder.emit(tile_ops.Empty, shape=tuple(room), dtype=bf16, result_names=["planes"]).result
    axes = [axis for axis, size in enumerate(shape) if size != 1] or [0]
    blocked = {axes[-1], unit} if unit in axes[:-1] else {*axes[-2:]}
    inner = Block()
    blocks: dict[int, Value] = {}
    for axis in axes:
        blocks[axis] = inner.add_argument(AxisType(symbol(f"n{axis}")) if axis in blocked else scalar(i64), f"n{axis}")
    with builder.inside(inner):
        zero = builder.constant(0, i64)
        at: list[Index] = [blocks.get(axis, zero) for axis in range(len(shape))]
        tile = builder.emit(tile_ops.Load, tensor=source, indices=at).result
        _store_planes(builder, out, at, tile)
    sizes = tuple(BlockSize.auto() if axis in blocked else BlockSize.fixed(1) for axis in axes)
    stops = [builder.constant(shape[axis], i64) for axis in axes]
    builder.emit(tile_ops.Grid, stops=stops, blocks=sizes, body=inner)
    builder.emit(tile_ops.Return, values=[out])
    return Function(name, body, (), location)


def _store_planes(builder: Builder, out: Value, at: Sequence[Index], tile: Value) -> None:
    for number in range(PLANES):
        plane = builder.cast(builder.map(f"plane_{number + 1}", tile), bf16)
        builder.emit(tile_ops.Store, tensor=out, indices=[builder.constant(number, i64), *at], value=plane)


def planes_among_zeros(
    name: str, shape: Sequence[int], unit: int | None, low: Sequence[int], room: Sequence[int], location: Location
) -> Function:  # fmt: skip
    """A tile program that gives the planes of a tensor, behind each other, and a copy of it, both as large as `room`
    and with zeros where the tensor, which begins at `low`, is not."""
    body = Block()
    builder = Builder(body, location)
    source = body.add_argument(TensorType(f32, tuple(shape), unit), "x")
    out = builder.emit(tile_ops.Empty, shape=(PLANES, *room), dtype=bf16, result_names=["planes"]).result
    copy = builder.emit(tile_ops.Empty, shape=tuple(room), dtype=f32, result_names=["copy"]).result
    axes = [axis for axis, size in enumerate(room) if size != 1] or [0]
    blocked = blocked_axes(room, unit, axes, MOST_BLOCKED)
    inner = Block()
    blocks: dict[int, Value] = {}
    for axis in axes:
        blocks[axis] = inner.add_argument(AxisType(symbol(f"n{axis}")) if axis in blocked else scalar(i64), f"n{axis}")
    with builder.inside(inner):
        zero = builder.constant(0, i64)
        at: list[Index] = [blocks.get(axis, zero) for axis in range(len(room))]
        seen = [moved(builder, blocks.get(axis), -start, axis in blocked) for axis, start in enumerate(low)]
        tile = builder.emit(tile_ops.Load, tensor=source, indices=seen).result
        _store_planes(builder, out, at, tile)
        builder.emit(tile_ops.Store, tensor=copy, indices=at, value=tile)
    sizes = tuple(BlockSize.auto() if axis in blocked else BlockSize.fixed(1) for axis in axes)
    builder.emit(tile_ops.Grid, stops=[builder.constant(room[axis], i64) for axis in axes], blocks=sizes, body=inner)
    builder.emit(tile_ops.Return, values=[out, copy])
    return Function(name, body, (), location)
