"""Makes one call of those that make the parts of a join by the same program, but for numbers.

    %a = graph.call(%x, slice(%w, 0:3:2)) {callee = f}         f: out[n, p, k] = ... x[n, p + (r - 1), c] * w[r, c, k]
    %b = graph.call(%x, slice(%w, 1:4:2)) {callee = g}         g: out[n, p, k] = ... x[n, p + (r - 0), c] * w[r, c, k]
    %y = graph.interleave([%a, %b]) {axis = 1}
 =>
    %j = graph.call(%x, %w) {callee = f_joined}    out[n, p, t, k] = ... x[n, p + (r + t - 1), c] * w[2 * r + t, c, k]
    %y = graph.reshape(%j)

`t` is one more axis of the grid, of blocks of one: which of the parts a program makes. So parts that would leave most
of a device idle, one after the other, are made side by side by one launch. Joins of joins become calls with an axis for
each. What may differ: integers that go up or down in equal steps from part to part, and where slices of one tensor
begin, along axes of which the program reads one element at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from tiledsl.ir import graph_ops as graph
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Function, Index, Module, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu.tensor_maps import PLACES
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.substitute import substitute_symbols
from tiledsl.ir.symbolic import Dim, symbols_of
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import BlockSize, TensorType, TileType, scalar
from tiledsl.ir.verifier import Form, is_tile_function
from tiledsl.passes.analysis.scalars.scalar_limits import most_of
from tiledsl.passes.graph.analysis.joins import JOINS, Join
from tiledsl.passes.graph.analysis.outline import is_soft
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.manager import PassContext


@dataclass(frozen=True)
class JoinCalls:
    """Of the entry, on GPUs: elsewhere parts wait for nothing but threads."""

    name: ClassVar[str] = "join-calls"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        joins = [op for op in module.entry.body.ops if isinstance(op, JOINS)] if self.arch.startswith("sm_") else []
        programs = {function.name: function for function in module.functions[1:]}
        for join in joins:
            parts = _parts_of(join, programs)
            made = parts and _joined(parts, programs)
            if parts and made:
                _replace(join, parts, made)
                text = f"{len(parts.calls)} parts are made by one launch of @{made.function.name}"
                context.remark(self.name, join.location, text)
        if joins:
            tidy(module.entry)
        called = graph.called_by(module.functions)
        return Module([module.entry, *(function for name, function in programs.items() if name in called)])


@dataclass(frozen=True)
class _Parts:
    """The calls that make all parts of a join, and where in their results the axis of parts belongs."""

    calls: tuple[graph.Call, ...]
    programs: tuple[Function, ...]
    place: int


@dataclass(frozen=True)
class _Slid:
    """An operand that is another slice of one tensor for each part. `starts`, `stops`, `steps`: of the slice that has
    all of them. `dims`: for each of its axes that of the program's parameter; None for those that it lacks."""

    source: Value
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    steps: tuple[int, ...]
    moved: dict[int, tuple[int, int, int]]
    """By axis: the steps within a part, where part 0 begins, and how much further each other one does."""
    dims: tuple[int | None, ...]
    passed: tuple[int, ...]
    """The sizes that the program was passed with."""

    @property
    def kept(self) -> list[int]:
        """The axes that are passed: those that the program has, and those along which parts differ."""
        return [axis for axis, dim in enumerate(self.dims) if dim is not None or axis in self.moved]


@dataclass(frozen=True)
class _Joined:
    function: Function
    inputs: tuple[Value | _Slid, ...]


def _parts_of(join: Join, programs: dict[str, Function]) -> _Parts | None:
    """None where a part is no call of its own, or other parts lie between elements that a program stores at once."""
    calls = [_call_of(source) for source in join.sources]
    found = [call for call in calls if call is not None and call.callee in programs]
    sizes = {sizes_of(source) for source in join.sources}
    if len({*found}) != len(calls) or len(calls) < 2 or len(sizes) > 1 or 0 in sizes_of(join.result):
        return None
    functions = tuple(programs[call.callee] for call in found)
    cut = join.axis + isinstance(join, graph.Interleave)
    before, made = math.prod(sizes_of(join.sources[0])[:cut]), {sizes_of(call.result) for call in found}
    if len(made) > 1 or not all(map(is_tile_function, functions)):
        return None
    (shape,) = made
    place = next((n for n in range(len(shape)) if math.prod(shape[:n]) == before), None)
    return None if place is None else _Parts(tuple(found), functions, place)


def _call_of(value: Value) -> graph.Call | None:
    """The call whose only result a value is, maybe under another shape, if nobody else reads it."""
    while len(value.users) == 1 and sum(value.users.values()) == 1:
        if isinstance(value.op, graph.Call):
            return value.op if len(value.op.results) == 1 else None
        if not isinstance(value.op, graph.Reshape):
            return None
        value = value.op.source
    return None


def _joined(parts: _Parts, programs: dict[str, Function]) -> _Joined | None:
    """The program that makes all parts, and what it is called with."""
    if len({_structure(function) for function in parts.programs}) > 1:
        return None
    inputs: list[Value | _Slid] = []
    for given in zip(*(call.inputs for call in parts.calls)):
        one = _same(given) or _slid(given)
        if one is None:
            return None
        inputs.append(one)
    function = parts.programs[0].clone()
    function.name = _unused(f"{function.name}_joined", programs)
    numbers = _numbers(parts.programs)
    if numbers is None or not _with_parts(function, len(parts.calls), parts.place, numbers, inputs):
        return None
    programs[function.name] = function
    return _Joined(function, tuple(inputs))


def _unused(name: str, programs: dict[str, Function]) -> str:
    while name in programs:
        name += "_"
    return name


def _integers(function: Function) -> Iterator[ops.Constant | ops.Size]:
    """The integers that a program may have instead of others."""
    for op in function.walk():
        is_integer = isinstance(op, ops.Constant) and op.dtype == i64 and isinstance(op.value, int)
        if is_integer or (isinstance(op, ops.Size) and isinstance(op.value, int)):
            assert isinstance(op, (ops.Constant, ops.Size))
            yield op


def _structure(function: Function) -> tuple[object, ...]:
    """What the programs of parts have in common: all but the integers."""
    plain = function.clone()
    plain.name = "program"
    for op in _integers(plain):
        op.attributes["value"] = 0
    return Module([plain]).structure(locations=False)


def _numbers(programs: Sequence[Function]) -> list[int] | None:
    """By how much each integer goes up from part to part; None where one does not in equal steps."""
    found: list[int] = []
    for same in zip(*map(_integers, programs)):
        step = _step([value for op in same if isinstance(value := op.value, int)])
        if step is None:
            return None
        found.append(step)
    return found


def _step(values: Sequence[int]) -> int | None:
    steps = {after - before for before, after in pairwise(values)}
    return steps.pop() if len(steps) == 1 else None


def _same(values: Sequence[Value]) -> Value | None:
    """The value that all parts read, if it is one, maybe reindexed by ops of its own for each."""
    views = [view_of_value(value) for value in values]
    return values[0] if None not in views and len(set(views)) == 1 else None


def _slid(values: Sequence[Value]) -> _Slid | None:
    """The slices that parts read of one tensor."""
    slices = [_slice_of(value) for value in values]
    found = [op for op in slices if op is not None]
    if len(found) < len(slices) or len({op.source for op in found}) > 1 or len({op.steps for op in found}) > 1:
        return None
    first = found[0]
    seen = [_ints(op.starts) for op in found], [_ints(op.stops) for op in found]
    starts, stops = [[n for n in one if n is not None] for one in seen]
    if len(starts) < len(found) or len(stops) < len(found):
        return None
    moved: dict[int, tuple[int, int, int]] = {}
    low, high, steps = list(starts[0]), list(stops[0]), list(first.steps)
    for axis, apart in enumerate(zip(*starts)):
        step = _step(apart)
        if step is None:
            return None
        if step:
            low[axis], high[axis] = min(apart), max(stop[axis] for stop in stops)
            moved[axis] = (steps[axis], apart[0] - low[axis], step)
            steps[axis] = 1
    dims = _dims(sizes_of(first.result), sizes_of(values[0]))
    return _Slid(first.source, tuple(low), tuple(high), tuple(steps), moved, dims, sizes_of(values[0]))


def _slice_of(value: Value) -> graph.Slice | None:
    """The slice that a value is, maybe without axes of one element."""
    op = value.op
    if isinstance(op, graph.Reshape) and is_soft(op):
        op = op.source.op
    return op if isinstance(op, graph.Slice) else None


def _ints(dims: Sequence[Dim]) -> tuple[int, ...] | None:
    numbers = tuple(n for n in dims if isinstance(n, int))
    return numbers if len(numbers) == len(dims) else None


def _dims(sizes: Sequence[int], passed: Sequence[int]) -> tuple[int | None, ...]:
    """For each axis of a slice the one of what is passed, which lacks axes of one element."""
    if tuple(sizes) == tuple(passed):
        return tuple(range(len(sizes)))
    left = [n for n, size in enumerate(passed) if size != 1]
    return tuple(None if size == 1 else left.pop(0) for size in sizes)


def _with_parts(
    function: Function, count: int, place: int, numbers: Sequence[int], inputs: Sequence[Value | _Slid]
) -> bool:  # fmt: skip
    """Gives a program an axis of parts; False where it cannot have one."""
    grids = [op for op in function.body.ops if isinstance(op, ops.Grid)]
    made = [op for op in function.body.ops if isinstance(op, ops.Empty)]
    last = function.body.terminator
    if len(grids) != 1 or len(made) != 1 or not isinstance(last, ops.Return) or last.values != (made[0].result,):
        return False
    (grid,), (out,) = grids, made
    stores = [op for op in out.result.users if not isinstance(op, ops.Return)]
    if out.fill is not None or not all(isinstance(op, ops.Store) and not op.in_bounds for op in stores):
        return False
    differ = [(op, step) for op, step in zip(list(_integers(function)), numbers, strict=True) if step]
    _with_numbers(function, inputs)  # which makes more integers
    if not all(_is_within(op, grid) and _is_near(op, step * (count - 1)) for op, step in differ):
        return False
    for parameter, given in zip(function.parameters, inputs):
        if isinstance(given, _Slid) and not _can_move(parameter, given):
            return False
    build = Rewriter(grid)
    grid.set_field("stops", (build.size(count), *grid.stops))
    grid.attributes["blocks"] = (BlockSize.fixed(1), *grid.blocks)
    part = Value(scalar(i64), "part", grid.body)
    grid.body.arguments.insert(0, part)
    for op, step in differ:
        _move(op, part, step)
    for parameter, given in zip(function.parameters, inputs):
        if isinstance(given, _Slid):
            _read_at_part(parameter, given, part)
    _store_at_part(out, place, count, part)
    return True


def _is_within(op: Op, grid: ops.Grid) -> bool:
    block = op.parent
    while block is not None and block.parent is not None:
        if block.parent is grid:
            return True
        block = block.parent.parent
    return False


def _is_near(number: ops.Constant | ops.Size, further: int) -> bool:
    """Whether TMA reaches all places of windows from where the first part's begin: what is taken away is padding."""
    for user in number.result.users:
        if _goes_down(user, number.result, further):
            assert isinstance(user, ops.Map)
            most = most_of(user.inputs[0])
            if most is None or most - further >= min(PLACES.values()):
                return False
    return True


def _can_move(parameter: Value, given: _Slid) -> bool:
    """Whether a program only loads of a parameter, one element at a time along the axes that parts differ in."""
    dims = [dim for axis in given.moved if (dim := given.dims[axis]) is not None]
    loads = [op for op in parameter.users if isinstance(op, ops.Load) and not op.in_bounds]
    single = all(_is_single(op.indices[dim]) for op in loads for dim in dims)
    return len(loads) == len(parameter.users) and single and tensor_type(parameter).unit not in dims


def _with_numbers(function: Function, inputs: Sequence[Value | _Slid]) -> None:
    """Writes the sizes of axes as numbers that parts differ in: what is passed is longer."""
    sizes: dict[str, Dim] = {}
    for parameter, given in zip(function.parameters, inputs):
        for axis in given.moved if isinstance(given, _Slid) else ():
            dim = given.dims[axis] if isinstance(given, _Slid) else None
            size = tensor_type(parameter).shape[dim] if dim is not None else 0
            if isinstance(given, _Slid) and dim is not None and not isinstance(size, int):
                sizes |= dict.fromkeys(symbols_of(size), given.passed[dim])
    substitute_symbols(function, sizes)


def _is_single(index: Index) -> bool:
    return isinstance(index, Value) and isinstance(index.type, TileType) and not index.shape


def _move(op: ops.Constant | ops.Size, part: Value, step: int) -> None:
    """The integer of part 0 becomes that of each part. Where it is taken away and goes down, what it is taken from goes
    up, so that it can be seen how far it goes down in all."""
    build = Rewriter(op)
    for user in list(op.result.users):
        if step < 0 and isinstance(user, ops.Map) and user.fn == "sub" and user.inputs[1] is op.result:
            build.move_to(user)
            more = build.map("mul", part, build.constant(-step, i64))
            user.set_field("inputs", (build.map("add", user.inputs[0], more), op.result))
    others = [user for user in op.result.users if not _goes_down(user, op.result, step)]
    if others:
        assert op.parent is not None
        build.move_to(op.parent.ops[op.parent.index(op) + 1])
        moved = build.map("add", build.map("mul", part, build.constant(step, i64)), op.result)
        for user in others:
            user.replace_operand(op.result, moved)


def _goes_down(user: Op, number: Value, step: int) -> bool:
    return step < 0 and isinstance(user, ops.Map) and user.fn == "sub" and user.inputs[1] is number


def _read_at_part(parameter: Value, given: _Slid, part: Value) -> None:
    """Loads of a parameter read the elements of the part at hand."""
    type_ = tensor_type(parameter)
    shape, unit = list(type_.shape), None
    dims: list[Dim] = []
    for axis in given.kept:
        dim = given.dims[axis]
        if dim is not None and dim == type_.unit:
            unit = len(dims)
        size = given.stops[axis] - given.starts[axis]
        dims.append(size if axis in given.moved or dim is None else shape[dim])
    loads = [op for op in parameter.users if isinstance(op, ops.Load)]
    parameter.type = TensorType(type_.dtype, tuple(dims), unit)
    for load in loads:
        build = Rewriter(load)
        indices: list[Index] = []
        for axis in given.kept:
            dim = given.dims[axis]
            if axis not in given.moved:
                assert dim is not None
                indices.append(load.indices[dim])
                continue
            within, first, step = given.moved[axis]
            at = build.map("mul", part, build.constant(step, i64)) if step != 1 else part
            if first:
                at = build.map("add", at, build.constant(first, i64))
            if dim is not None:
                index = load.indices[dim]
                assert isinstance(index, Value)
                at = build.map("add", build.map("mul", index, build.constant(within, i64)), at)
            indices.append(at)
        load.set_field("indices", tuple(indices))


def _store_at_part(out: ops.Empty, place: int, count: int, part: Value) -> None:
    shape = (*out.shape[:place], count, *out.shape[place:])
    build = Rewriter(out)
    made = build.emit(ops.Empty, shape=shape, dtype=out.dtype, scratch=out.scratch, result_names=[out.result.name])
    for user in list(out.result.users):
        if isinstance(user, ops.Store):
            user.set_field("tensor", made.result)
            user.set_field("indices", (*user.indices[:place], part, *user.indices[place:]))
    out.result.replace_with(made.result)
    out.erase()


def _replace(join: Join, parts: _Parts, made: _Joined) -> None:
    """One call in the place of a join."""
    block, call = join.parent, parts.calls[0]
    assert isinstance(block, Block)
    inputs: list[Value] = []
    for given in made.inputs:
        if isinstance(given, Value):
            inputs.append(given)
            continue
        seen = graph.Slice(call.location, source=given.source, starts=given.starts, stops=given.stops,
                           steps=given.steps)  # fmt: skip
        block.insert_before(join, seen)
        kept = tuple(sizes_of(seen.result)[axis] for axis in given.kept)
        inputs.append(_reshaped(join, seen.result, kept))
    shape = sizes_of(call.result)
    shape = (*shape[: parts.place], len(parts.calls), *shape[parts.place :])
    types, names = [TensorType(tensor_type(join.result).dtype, shape)], [call.result.name]
    whole = graph.Call(call.location, inputs=inputs, callee=made.function.name, types=types, result_names=names)
    block.insert_before(join, whole)
    join.result.replace_with(_reshaped(join, whole.result, sizes_of(join.result)))
    join.erase()


def _reshaped(before: Op, value: Value, shape: tuple[int, ...]) -> Value:
    if sizes_of(value) == shape:
        return value
    assert before.parent is not None
    op = graph.Reshape(before.location, source=value, shape=shape)
    before.parent.insert_before(before, op)
    return op.result
