"""What the verifier lets pass, and the reason that it gives for each thing that it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from tests.support.every_op import GRAPH, TILE
from tests.support.tile_programs import ATTENTION, GEMM, LAYER_NORM, RANDOM, SOFTMAX
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Block, Fact, Function, Module, Op
from tiledsl.ir.dtypes import f16, f32, i64
from tiledsl.ir.symbolic import symbol
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.types import AxisType, BlockSize, Slice, TensorType, TileType, Type, scalar
from tiledsl.ir.verifier import Form, verify
from tiledsl.support.errors import TileError
from tiledsl.support.location import BUILTIN, Location

PROGRAM = """func @f(%x: tensor<f32, [M]>, %s: f32, %flag: bool, %i: i64) {
  %M = tile.size() {value = M}
  OUTSIDE
  tile.grid([%M]) {blocks = [auto]} body(%m: axis<m>) {
    %t = tile.load(%x, [%m])
    INSIDE
  }
  tile.return([])
}"""


def reason(module: Module, form: Form = Form.TILE) -> str:
    """Why the module is rejected."""
    with pytest.raises(TileError) as caught:
        verify(module, form)
    error = caught.value
    assert error.code == "ir-invalid"
    assert error.fix
    prefix = f"not legal in form `{form.value}`: "
    assert error.message.startswith(prefix)
    return error.message[len(prefix) :]


def program(inside: str = "", outside: str = "") -> Module:
    return parse_module(PROGRAM.replace("INSIDE", inside).replace("OUTSIDE", outside))


@pytest.mark.parametrize("text", [TILE, GEMM, SOFTMAX, LAYER_NORM, ATTENTION, RANDOM])
def test_legal_programs(text: str) -> None:
    verify(parse_module(text))
    verify(Module([]), Form.TILE_TILED)


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("%c = tile.empty() {shape = [M], dtype = f32}", "`tile.empty`: makes a tensor inside of a grid"),
        ("tile.grid([%M]) {blocks = [auto]} body(%k: axis<k>) {}", "`tile.grid`: stands inside of a `tile.grid`"),
        ("tile.return([])", "`tile.return`: stands where it cannot"),
        ("tile.yield([]) tile.print([])", "`tile.yield`: ends its block, but ops follow"),
        ("tile.yield([%t])", "`tile.grid`: the body `body` yields tile<f32, [m]>, but nothing is expected"),
        ("%k = tile.arange() {extent = K}", "`tile.arange`: `extent` speaks of the size `K`, which is not in scope"),
        ("%k = tile.broadcast(%s) {shape = [K]}", "`tile.broadcast`: `shape` speaks of the size `K`, which is not in"),
        ("%k = tile.broadcast(%s) {shape = [-1]}", "`tile.broadcast`: %k has the size -1"),
        ("%k = tile.load(%x, [0:K])", "`tile.load`: the slice `0:K` speaks of the size `K`, which is not in scope"),
        (
            "tile.range(%i, %i, []) {blocks = [auto]} body(%n: axis<m>) { }",
            "`tile.range`: the extent `m` is declared already",
        ),
        (
            "tile.range(%i, %i, []) {blocks = [auto]} body(%n: i64) { }",
            "`tile.range`: %n is no axis",
        ),
        (
            "tile.range(%i, %i, []) {blocks = [1]} body(%n: f32) { }",
            "`tile.range`: %n is no axis",
        ),
        (
            "%r = tile.range(%i, %i, [%s]) {blocks = [auto]} body(%n: axis<n>, %a: f32) { }",
            "`tile.range`: the body `body` does not end in tile.yield",
        ),
        (
            "%r = tile.range(%i, %i, [%s]) {blocks = [auto]} body(%n: axis<n>, %a: f32) { tile.yield([%i]) }",
            "`tile.range`: the body `body` yields i64, but f32 is expected",
        ),
        (
            "tile.for(%i, %i, %i, []) body(%n: f32) { }",
            "`tile.for`: the first argument of the body must be an i64 scalar",
        ),
        (
            "%w = tile.while([%i]) condition(%a: f32) { tile.yield([%flag]) } body(%b: i64) { tile.yield([%b]) }",
            "`tile.while`: %a starts as i64",
        ),
        (
            "%w = tile.while([%i]) condition(%a: i64) { tile.yield([%a]) } body(%b: i64) { tile.yield([%b]) }",
            "`tile.while`: the body `condition` yields i64, but bool is expected",
        ),
        (
            "tile.while([]) condition() { tile.store(%x, [%i], %s) tile.yield([%flag]) } body() { }",
            "`tile.store`: writes in a condition",
        ),
        (
            "%r = tile.reduce([%t]) {axes = [0], fn = custom} combiner(%a: f32, %b: f32) "
            "{ %c = tile.load(%x, [%i]) tile.yield([%c]) }",
            "`tile.load`: stands in a combiner",
        ),
        (
            "%r = tile.reduce([%t]) {axes = [0], fn = custom} combiner(%a: f32, %b: f32) { tile.yield([%i]) }",
            "`tile.reduce`: the body `combiner` yields i64, but f32 is expected",
        ),
    ],
)
def test_what_a_grid_may_not_hold(inside: str, expected: str) -> None:
    assert reason(program(inside)).startswith(expected)


def test_a_size_declared_in_a_body_ends_with_it() -> None:
    module = program()
    grid = cast(tile_ops.Grid, module.entry.body.ops[1])
    op = tile_ops.Arange(BUILTIN, extent=symbol("m"))
    module.entry.body.insert_before(module.entry.body.ops[2], op)
    assert grid.body.ops
    assert reason(module).startswith("`tile.arange`: `extent` speaks of the size `m`, which is not in scope")


def function(*ops: Op, parameters: tuple[TensorType | TileType | AxisType, ...] = ()) -> Module:
    body = Block([(type_, f"p{i}") for i, type_ in enumerate(parameters)])
    for op in (*ops, tile_ops.Return(BUILTIN)):
        body.append(op)
    return Module([Function("f", body, [], BUILTIN)])


def undefined_operand() -> Module:
    constant = tile_ops.Constant(BUILTIN, value=1.0, dtype=f32)
    return function(tile_ops.Cast(BUILTIN, source=constant.result, dtype=f16))


def used_before_definition() -> Module:
    constant = tile_ops.Constant(BUILTIN, value=1.0, dtype=f32, result_names=["late"])
    return function(tile_ops.Cast(BUILTIN, source=constant.result, dtype=f16), constant)


def no_location() -> Module:
    return function(tile_ops.Constant(cast(Location, None), value=1.0, dtype=f32))


def two_places() -> Module:
    op = tile_ops.Constant(BUILTIN, value=1.0, dtype=f32)
    return function(op, op)


def wrong_parent() -> Module:
    op = tile_ops.Constant(BUILTIN, value=1.0, dtype=f32)
    module = function(op)
    op.parent = Block()
    return module


def wrong_owner() -> Module:
    module = function(parameters=(scalar(f32),))
    module.entry.parameters[0].owner = Block()
    return module


def lost_use() -> Module:
    op = tile_ops.Constant(BUILTIN, value=1.0, dtype=f32, result_names=["c"])
    module = function(op, tile_ops.Cast(BUILTIN, source=op.result, dtype=f16))
    op.result.users.clear()
    return module


def extra_use() -> Module:
    op = tile_ops.Constant(BUILTIN, value=1.0, dtype=f32, result_names=["c"])
    tile_ops.Cast(BUILTIN, source=op.result, dtype=f16)  # reads %c from nowhere
    return function(op)


def wrong_type() -> Module:
    return function(tile_ops.Constant(BUILTIN, value=1.0, dtype=f32, types=[scalar(i64)], result_names=["c"]))


def wrong_result_count() -> Module:
    return function(tile_ops.Constant(BUILTIN, value=1.0, dtype=f32, types=[]))


def impossible_operands() -> Module:
    one, two = (tile_ops.Constant(BUILTIN, value=1, dtype=dtype) for dtype in (f32, i64))
    return function(one, two, tile_ops.Map(BUILTIN, fn="add", inputs=[one.result, two.result], types=[scalar(f32)]))


def no_return() -> Module:
    return Module([Function("f", Block(), [], BUILTIN)])


def unknown_choice() -> Module:
    module = function(tile_ops.Constant(BUILTIN, value=1.0, dtype=f32))
    constant = module.entry.body.ops[0].result
    module.entry.body.insert_before(
        module.entry.body.ops[1], tile_ops.Map(BUILTIN, fn="plus", inputs=[constant], types=[scalar(f32)])
    )
    return module


def no_tuple() -> Module:
    constant = tile_ops.Constant(BUILTIN, value=1.0, dtype=f32)
    return function(constant, tile_ops.Broadcast(BUILTIN, source=constant.result, shape=[3], types=[scalar(f32)]))


def empty_block() -> Module:
    size = tile_ops.Size(BUILTIN, value=4)
    body = Block([(AxisType(symbol("m")), "m")])
    return function(size, tile_ops.Grid(BUILTIN, stops=[size.result], blocks=(BlockSize.fixed(0),), body=body))


def same_names() -> Module:
    return Module([*function().functions, *function().functions])


def strange_name() -> Module:
    module = function()
    module.entry.name = "not a name"
    return module


def strange_size() -> Module:
    return function(parameters=(TensorType(f32, (symbol("not a name"),)),))


def false_fact() -> Module:
    module = function()
    module.entry.facts = (Fact(6, 4),)
    return module


def unknown_fact() -> Module:
    module = function()
    module.entry.facts = (Fact(symbol("M"), 4),)
    return module


def moved_body() -> Module:
    module = program()
    module.entry.body.ops[1].bodies["body"].parent = None
    return module


def slice_of_unknown_size() -> Module:
    module = program()
    load = next(op for op in module.walk() if isinstance(op, tile_ops.Load))
    load.set_field("indices", (Slice(0, symbol("K")),))
    return module


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (undefined_operand, "`tile.cast`: reads a value without a name (f32), which is not defined before it"),
        (used_before_definition, "`tile.cast`: reads %late, which is not defined before it"),
        (no_location, "`tile.constant`: has no location"),
        (two_places, "`tile.constant`: stands in two places"),
        (wrong_parent, "`tile.constant`: names another parent"),
        (wrong_owner, "`@f`: %p0 names another owner"),
        (lost_use, "`tile.constant`: the use list of %c is wrong"),
        (extra_use, "`tile.constant`: the use list of %c is wrong"),
        (wrong_type, "`tile.constant`: %c is i64, but the op gives f32"),
        (wrong_result_count, "`tile.constant`: gives 1 results"),
        (impossible_operands, "`tile.map`: add of f32 and i64"),
        (no_return, "`@f`: does not end in a return"),
        (unknown_choice, "`tile.map`: `fn` is `plus`"),
        (no_tuple, "`tile.broadcast`: `shape` is no tuple"),
        (empty_block, "`tile.grid`: a block size is less than 1"),
        (same_names, "`@f`: the name is taken"),
        (strange_name, "`@not a name`: the name is no identifier"),
        (strange_size, "`@f`: the size `not a name` of %p0 is no identifier"),
        (false_fact, "`@f`: the fact `(6) % 4 == 0` does not hold"),
        (unknown_fact, "`@f`: the fact `M % 4 == 0` speaks of the size `M`, which is not in scope"),
        (moved_body, "`tile.grid`: the body `body` names another parent"),
        (slice_of_unknown_size, "`tile.load`: the slice `0:K` speaks of the size `K`, which is not in scope"),
    ],
)
def test_what_no_form_allows(make: Callable[[], Module], expected: str) -> None:
    assert reason(make()) == expected


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (TileType(f32, (4,)), "`@f`: parameter %p0 is neither a tensor nor a scalar"),
        (AxisType(4), "`@f`: parameter %p0 is neither a tensor nor a scalar"),
        (TensorType(f32, (-1,)), "`@f`: %p0 has the size -1"),
        (TensorType(f32, (symbol("M") + 1,)), "`@f`: no parameter has an axis of size `M` alone"),
    ],
)
def test_parameters(type_: TensorType | TileType | AxisType, expected: str) -> None:
    assert reason(function(parameters=(type_,))) == expected


def test_errors_are_where_the_op_is() -> None:
    module = program("%c = tile.empty() {shape = [M], dtype = f32}")
    with pytest.raises(TileError) as caught:
        verify(module)
    assert caught.value.location == next(op for op in module.walk() if isinstance(op, tile_ops.Empty)).location


# Forms


def with_levels(module: Module) -> Module:
    """The module after every result that is a tile has been put into shared memory."""
    for value in [v for op in module.walk() for v in op.results]:
        if isinstance(value.type, TileType) and value.type.shape:
            value.type = TileType(value.type.dtype, value.type.shape, "shared")
    return module


def test_placed() -> None:
    verify(with_levels(program()), Form.TILE_PLACED)
    assert reason(program(), Form.TILE_PLACED) == "`tile.load`: %t has no level"
    carried = "%r = tile.range(%i, %i, [%t]) {blocks = [4]} body(%n: axis<n>, %a: tile<f32, [m]>) { tile.yield([%a]) }"
    assert reason(with_levels(program(carried)), Form.TILE_PLACED) == "`tile.range`: %a has no level"


def test_tiled() -> None:
    module = with_levels(program())
    assert reason(module, Form.TILE_TILED) == "`tile.grid`: a block size is still `auto`"
    module.entry.body.ops[1].attributes["blocks"] = (BlockSize.upto(64, 8),)
    verify(module, Form.TILE_TILED)


def test_graph() -> None:
    verify(parse_module(GRAPH), Form.GRAPH)
    assert reason(program(), Form.GRAPH) == "`tile.size`: is no op of the GRAPH vocabulary"
    assert reason(parse_module(GRAPH), Form.TILE) == "`graph.constant`: is no op of the TILE vocabulary"


def test_the_functions_that_a_graph_calls_are_verified() -> None:
    unknown = parse_module(GRAPH.replace("callee = other", "callee = else"))
    assert reason(unknown, Form.GRAPH) == "`graph.call`: calls @else, which is no function after @graph"
    wrong = parse_module(GRAPH.replace("(%x: tensor<f32, [A, B]>)", "(%x: tensor<f32, [A, A]>)"))
    assert reason(wrong, Form.GRAPH) == (
        "`graph.call`: %x is tensor<f32, [M, N]>, but %x of @other is tensor<f32, [M, M]> here"
    )
    other = parse_module(GRAPH.replace("  tile.return([%x])", "  %t = tile.arange() {extent = Z}\n  tile.return([%x])"))
    assert reason(other).startswith("`graph.constant`")
    with pytest.raises(TileError, match=r"not legal in form `tile`: `tile\.arange`"):
        verify(other, Form.GRAPH)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("callee = step", "callee = other", "`graph.loop`: runs the tile program @other"),
        ("count = M", "count = N", "`graph.loop`: %x has M along axis 0, and there are N steps"),
        ("graph.return([%next, %row])", "graph.return([%row, %row])", "`graph.loop`: %scale is carried as tensor<f32"),
        ("graph.return([%next, %row])", "graph.return([])", "`graph.loop`: @step returns fewer values than"),
        ("([%scale], [%x], [%N])", "([%scale], [%x], [])", "`graph.loop`: @step takes 3 inputs, not 2"),
        (": tensor<f32, []>, tensor<f32, [M, N]>\n  graph.return", ": tensor<f32, []>\n  graph.return", ""),
    ],
)  # fmt: skip
def test_the_steps_of_loops_are_verified(old: str, new: str, said: str) -> None:
    assert old in GRAPH
    text = GRAPH.replace(old, new)
    if not said:
        text = text.replace("%last, %stacked =", "%last =").replace(", %last, %stacked]", ", %last]")
        said = "`graph.loop`: gives 2 results"
    assert reason(parse_module(text), Form.GRAPH).startswith(said)


def ops_of(module: Module, kind: type[Op]) -> list[Op]:
    return [op for op in module.walk() if type(op) is kind]


MAPPED = "%u = tile.map([%t, %t]) {fn = add} %v = tile.map([%u]) {fn = sin} tile.store(%x, [%m], %v)"


def test_types_are_inferred_once_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    inferred: list[Op] = []
    infer = tile_ops.Map.infer_types

    def counted(op: tile_ops.Map) -> tuple[Type, ...]:
        inferred.append(op)
        return infer(op)

    module = program(MAPPED)
    monkeypatch.setattr(tile_ops.Map, "infer_types", counted)
    verify(module)
    verify(module)
    verify(module.clone())
    assert len(inferred) == 2


def _another_function(module: Module) -> None:
    ops_of(module, tile_ops.Map)[1].attributes["fn"] = "invert"


def _another_result(module: Module) -> None:
    ops_of(module, tile_ops.Map)[0].result.type = TileType(f16, (symbol("m"),))


def _another_operand(module: Module) -> None:
    ops_of(module, tile_ops.Load)[0].result.type = TileType(f32, ())


def _another_count(module: Module) -> None:
    add, sine = ops_of(module, tile_ops.Map)
    sine.set_field("inputs", (add.result, add.result))


def _another_size(module: Module) -> None:
    ops_of(module, tile_ops.Size)[0].attributes["value"] = symbol("K")


@pytest.mark.parametrize(
    "change", [_another_function, _another_result, _another_operand, _another_count, _another_size]
)
@pytest.mark.parametrize("cloned", [False, True])
def test_what_changes_after_it_was_verified_is_verified_again(change: Callable[[Module], None], cloned: bool) -> None:
    module = program(MAPPED)
    verify(module)
    module = module.clone() if cloned else module
    change(module)
    assert reason(module)


def test_sizes_that_go_out_of_scope_are_found_again() -> None:
    module = program("%size = tile.size() {value = m}")
    verify(module)
    (grid,) = ops_of(module, tile_ops.Grid)
    size = ops_of(module, tile_ops.Size)[1]
    body = grid.bodies["body"]
    body.ops.remove(size)
    module.entry.body.insert_before(grid, size)
    assert "speaks of the size `m`, which is not in scope" in reason(module)
