"""Types that the TILE ops give, and what they do not take."""

from __future__ import annotations

import pytest

from tiledsl.ir.text.parser import parse_module
from tiledsl.support.errors import TileTypeError

HEADER = """func @f(%x: tensor<f32, [M, N]>, %h: tensor<i32, [K]>, %s: f32, %i: i64, %b: bool, %m: axis<m>, %n: axis<n>,
        %t: tile<f32, [4, 8]>, %q: tile<i32, [8, 4]>, %v: tile<f32, [8]>, %c: tile<bool, [8]>, %j: tile<i64, [3, 1]>,
        %w: tile<f16, [2, 4, 8]>, %p: tile<i64, [5]>) {"""


def result_types(op: str) -> str:
    """The inferred types of the results of an op, in text."""
    results = "%r, %r2 = " if op.startswith("2 ") else "" if "tile.store" in op or "tile.grid" in op else "%r = "
    module = parse_module(f"{HEADER}\n{results}{op.removeprefix('2 ')}\n}}")
    return ", ".join(str(v.type) for v in module.entry.body.ops[-1].results)


@pytest.mark.parametrize(
    ("op", "type_"),
    [
        ("tile.load(%x, [%m, %n])", "tile<f32, [m, n]>"),
        ("tile.load(%x, [%i, :])", "tile<f32, [N]>"),
        ("tile.load(%x, [%i, %i])", "f32"),
        ("tile.load(%x, [0:4, %p])", "tile<f32, [4, 5]>"),
        ("tile.load(%x, [%j, %p])", "tile<f32, [3, 5]>"),
        ("tile.atomic(%h, [%p], %p2) {fn = add}", "tile<i32, [5]>"),
        ("tile.map([%t, %s]) {fn = maximum}", "tile<f32, [4, 8]>"),
        ("tile.map([%v, %v]) {fn = lt}", "tile<bool, [8]>"),
        ("tile.map([%c, %v, %s]) {fn = where}", "tile<f32, [8]>"),
        ("tile.broadcast(%v) {shape = [m, 8]}", "tile<f32, [m, 8]>"),
        ("tile.reshape(%t) {shape = [2, 16]}", "tile<f32, [2, 16]>"),
        ("tile.transpose(%w) {permutation = [2, 0, 1]}", "tile<f16, [8, 2, 4]>"),
        ("tile.extract(%t, [%i, 2:5])", "tile<f32, [3]>"),
        ("tile.dot(%w, %u) {dtype = f32}", "tile<f32, [2, 4, 3]>"),
        ("tile.reduce([%w]) {axes = [0, 2], fn = add}", "tile<f16, [4]>"),
        ("tile.reduce([%w]) {axes = [1], fn = argmax, keepdims = true}", "tile<i64, [2, 1, 8]>"),
        ("tile.random(%i, %p) {fn = bits}", "tile<u32, [5]>"),
        ("tile.index(%m)", "tile<i64, [m]>"),
        ("tile.shift(%n, %i)", "axis<n>"),
    ],
)
def test_result_types(op: str, type_: str) -> None:
    prelude = "%p2 = tile.cast(%p) {dtype = i32}\n%u0 = tile.extract(%w, [:, 0:3, :])\n"
    prelude += "%u = tile.transpose(%u0) {permutation = [0, 2, 1]}\n"
    module = parse_module(f"{HEADER}\n{prelude}%r = {op}\n}}")
    assert str(module.entry.body.ops[-1].result.type) == type_


CUSTOM = "fn = custom} combiner(%a1: f32, %a2: f32"


@pytest.mark.parametrize(
    ("op", "problem"),
    [
        ("tile.load(%t, [:, :])", "%t must be a tensor, not tile<f32, [4, 8]>"),
        ("tile.load(%x, [:])", "1 subscripts for 2 axes"),
        ("tile.load(%x, [%v, :])", "subscript %v must be of integers, not f32"),
        ("tile.load(%x, [%q, %p])", "the int tiles of a subscript do not broadcast together"),
        ("tile.load(%x, [:, :], %i)", "`other` must be a scalar of f32"),
        ("tile.load(%x, [:, :]) {in_bounds = [2]}", "in_bounds = [2] of rank 2"),
        ("tile.store(%x, [%i, 0:4], %p)", "stores i64 into a tensor of f32"),
        ("tile.store(%x, [%i, :], %v)", "stores [8] where [N] is selected"),
        ("tile.atomic(%h, [:], %q) {fn = add}", "combines [8, 4] where [K] is selected"),
        ("tile.atomic(%x, [%i, 0:8], %v) {fn = xor}", "xor does not take f32"),
        ("tile.map([%t, %v]) {fn = add}", "add of tile<f32, [8]> beside [4, 8]"),
        ("tile.map([%s, %i]) {fn = add}", "add of f32 and i64"),
        ("tile.map([%b]) {fn = exp}", "exp does not take bool"),
        ("tile.map([%s, %s, %s]) {fn = where}", "the condition of where must be bool"),
        ("tile.broadcast(%t) {shape = [8]}", "[4, 8] does not broadcast to [8]"),
        ("tile.reshape(%t) {shape = [M]}", "[4, 8] and [M] differ in size"),
        ("tile.transpose(%t) {permutation = [0]}", "not a permutation of the axes"),
        ("tile.extract(%t, [%p, :])", "a tile is subscripted by slices and i64 scalars"),
        ("tile.dot(%v, %t) {dtype = f32}", "dot of tile<f32, [8]> and tile<f32, [4, 8]>: ranks must agree, at least 2"),
        ("tile.dot(%t, %q) {dtype = f32}", "dot of f32 and i32"),
        ("tile.dot(%t, %t) {dtype = f32}", "contracts 8 with 4"),
        ("tile.reduce([%t]) {axes = [], fn = add}", "axes [] of rank 2"),
        ("tile.reduce([%t]) {axes = [0, 1], fn = argmax}", "argmax takes one axis"),
        ("tile.reduce([%c]) {axes = [0], fn = add}", "add does not take bool"),
        ("tile.reduce([%t]) {axes = [0], fn = or}", "or does not take f32"),
        ("tile.reduce([%t, %t]) {axes = [0], fn = add}", "add takes one source"),
        ("tile.reduce([%t]) {axes = [0], fn = custom}", "a combiner goes with fn = custom, and only with it"),
        (f"2 tile.reduce([%t, %v]) {{axes = [0], {CUSTOM}) {{ }}", "sources differ in shape"),
        (f"tile.reduce([%c]) {{axes = [0], {CUSTOM}) {{ }}", "the combiner takes two scalars for each source"),
        ("tile.scan([%v]) {axis = 1, fn = add}", "axis 1 of rank 1"),
        ("tile.random(%i, %v) {fn = bits}", "offsets must be integers, not f32"),
        ("tile.random(%s, %p) {fn = bits}", "%s must be an integer scalar, not f32"),
        ("tile.index(%i)", "%i must be a block of an axis, not i64"),
        ("tile.grid([%i, %i]) {blocks = [auto]} body(%a: axis<a>, %d: axis<d>) { }", "one block size per axis"),
        ("tile.grid([%i]) {blocks = [auto]} body(%a: axis<a>, %d: axis<d>) { }", "one body argument per axis"),
        ("tile.grid([%i]) {blocks = [auto]} body(%a: f32) { }", "grid arguments are axes or i64"),
        (
            "tile.range(%i, %i, [%s]) {blocks = [auto]} body(%a: axis<a>, %d: i64) { }",
            "%d is carried as i64 but starts as f32",
        ),
        (
            "tile.if(%b) then() { tile.yield([%s]) } otherwise() { tile.yield([%i]) }",
            "branches yield f32 and i64",
        ),
        ("tile.if(%i) then() { tile.yield([]) } otherwise() { tile.yield([]) }", "the condition must be a bool scalar"),
    ],
)
def test_what_does_not_fit(op: str, problem: str) -> None:
    with pytest.raises(TileTypeError) as caught:
        result_types(op)
    assert caught.value.message.endswith(problem)
