"""What may be left out of IR text, what is read into what, and that nothing but clear errors comes of broken text."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.every_op import GRAPH, TILE
from tests.support.gpu_code.every_gpu_op import GPU
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Op
from tiledsl.ir.symbolic import Dim, floordiv, maximum, minimum, mod, symbol
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.types import WHOLE, AxisType, BlockSize, Slice, TensorType, TileType
from tiledsl.support.errors import TileError, TileSyntaxError
from tiledsl.support.location import Location

M, N = symbol("M"), symbol("N")


def ops_of(body: str) -> list[Op]:
    return list(parse_module(f"func @f(%x: tensor<f32, [M, N]>, %s: f32) {{\n{body}\n}}", "t.tir").walk())


def size_of(text: str) -> Dim:
    (op,) = ops_of(f"%y = tile.size() {{value = {text}}}")
    assert isinstance(op, tile_ops.Size)
    return op.value


def test_types_that_the_op_implies_may_be_left_out() -> None:
    load, reduce = ops_of("%t = tile.load(%x, [:, 0:8])\n%r = tile.reduce([%t]) {axes = [1], fn = add}")
    assert load.result.type == TileType(load.result.dtype, (M, 8))
    assert str(reduce.result.type) == "tile<f32, [M]>"


def test_written_types_give_the_level() -> None:
    (load,) = ops_of("%t = tile.load(%x, [:, :]) : tile<f32, [M, N], shared>")
    assert load.result.tile.level == "shared"


def test_types() -> None:
    module = parse_module("func @f(%a: tensor<i8, []>, %b: tensor<f32, [M, 3], unit=1>, %c: bool, %d: axis<M + 1>) {}")
    types = [p.type for p in module.entry.parameters]
    assert [str(t) for t in types] == ["tensor<i8, []>", "tensor<f32, [M, 3], unit=1>", "bool", "axis<M + 1>"]
    assert isinstance(types[1], TensorType)
    assert types[3] == AxisType(M + 1)


def test_comments_and_spaces_do_not_matter() -> None:
    spread = "# a program\nfunc\t@f ( )\n\n{ # nothing\n\n  tile.return ( [ ] ) # the end\n}\n# CHECK: more"
    assert parse_module(spread).structure(locations=False) == parse_module("func @f(){tile.return([])}").structure(
        locations=False
    )


def test_an_op_without_location_is_located_in_the_text() -> None:
    (first, second) = ops_of("  %y = tile.cast(%s)\n      {dtype = f16}\n  tile.print([%y])")
    assert first.location == Location("t.tir", 2, 3, 3, 20)
    assert second.location == Location("t.tir", 4, 3, 4, 19)


def test_locations_of_an_inlined_op() -> None:
    (op,) = ops_of('tile.print([]) loc("a.py":3:5-8 called from "b.py":9:1-12:2 called from "c.py":1:1-2)')
    outer = Location("b.py", 9, 1, 12, 2, Location("c.py", 1, 1, 1, 2))
    assert op.location == Location("a.py", 3, 5, 3, 8, outer)


@pytest.mark.parametrize(
    ("text", "dim"),
    [
        ("12", 12),
        ("-3", -3),
        ("M + 2 * N - 1", M + 2 * N - 1),
        ("2 * (M + N) // 2", M + N),
        ("-M // 4", floordiv(-M, 4)),
        ("-(M // 4)", -floordiv(M, 4)),
        ("M - N - 1", M - N - 1),
        ("M // 4 % 3 * 2", mod(floordiv(M, 4), 3) * 2),
        ("min(M, max(N, 8)) % 16", mod(minimum(M, maximum(N, 8)), 16)),
        ("inf + nan + none + func", symbol("inf") + symbol("nan") + symbol("none") + symbol("func")),
        ("\u03b1 + _x1", symbol("\u03b1") + symbol("_x1")),
    ],
)
def test_sizes(text: str, dim: Dim) -> None:
    assert size_of(text) == dim


def test_indices_slices_and_blocks() -> None:
    load, *_, grid = ops_of(
        """%t = tile.load(%x, [0:min(M, 4), :])
        %i = tile.constant() {value = 4, dtype = i64}
        tile.grid([%i, %i, %i]) {blocks = [auto, 64, upto(32, 8)]} body(%a: axis<a>, %b: axis<b>, %c: axis<c>) { }"""
    )
    assert isinstance(load, tile_ops.Load)
    assert load.indices == (Slice(0, minimum(M, 4)), WHOLE)
    assert isinstance(grid, tile_ops.Grid)
    assert grid.blocks == (BlockSize.auto(), BlockSize.fixed(64), BlockSize.upto(32, 8))


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("1.0", 1.0), ("true", True), ("-inf", -math.inf), ("1e3", 1000.0), ("-2", -2), ("3.", 3.0)],
)
def test_numbers_keep_their_kind(text: str, value: float) -> None:
    (op,) = ops_of(f"%c = tile.constant() {{value = {text}, dtype = f32}}")
    assert isinstance(op, tile_ops.Constant)
    assert op.value == value
    assert type(op.value) is type(value)


def test_bodies_may_use_a_name_each() -> None:
    once = "tile.reduce([%t]) {axes = [1], fn = custom} combiner(%a: f32, %b: f32) { tile.yield([%a]) }"
    load, first, second = (op for op in ops_of(f"%t = tile.load(%x, [:, :])\n%p = {once}\n%q = {once}") if op.results)
    assert load.result.users == {first: 1, second: 1}


def test_a_name_is_known_only_where_it_is_in_scope() -> None:
    text = "tile.if(%c) then() { %y = tile.cast(%s) {dtype = f16} tile.yield([]) } otherwise() { tile.yield([]) }"
    with pytest.raises(TileSyntaxError, match="`%y` is not defined here"):
        ops_of(f"%c = tile.constant() {{value = true, dtype = bool}}\n{text}\ntile.print([%y])")


WORDS = (TILE + GRAPH + GPU).split()


@given(st.randoms(use_true_random=False), st.sampled_from((TILE, GRAPH, GPU)))
def test_broken_text_gives_clear_errors_only(source: random.Random, text: str) -> None:
    characters = list(text)
    for _ in range(source.randint(1, 3)):
        at = source.randrange(len(characters))
        match source.randrange(4):
            case 0:
                del characters[at : at + source.randint(1, 9)]
            case 1:
                characters.insert(at, source.choice(text))
            case 2:
                characters[at] = source.choice(text)
            case _:
                characters[at:at] = [" ", *source.choice(WORDS), " "]
    error = error_of("".join(characters))
    if error is not None:
        assert error.location is not None
        assert error.location.file == "broken.tir"
        assert error.fix


def error_of(text: str) -> TileError | None:
    """What is wrong with the text, if anything is."""
    try:
        parse_module(text, "broken.tir")
    except TileError as error:
        return error
    return None
