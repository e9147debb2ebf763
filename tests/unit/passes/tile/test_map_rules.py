"""Each rule of elementwise functions, where it fits and where it must not."""

from __future__ import annotations

import pytest

from tests.support.pass_runs import ops_after, scalar_program
from tiledsl.ir.dtypes import BY_NAME
from tiledsl.passes.tile.map_rules import is_exact

PARAMETERS = "%x: f32, %y: f32, %i: i32, %j: i32, %u: u8, %b: bool, %c: bool, %h: f16, %n: i64"


def simplified(*lines: str) -> list[str]:
    """The ops that are left of `lines`, the last of which defines `%r`, in scalars."""
    return ops_after("canonicalise,dce", scalar_program(PARAMETERS, "\n".join(lines), "r"))


def constant(name: str, value: object, dtype: str) -> str:
    return f"%{name} = tile.constant() {{value = {value}, dtype = {dtype}}}"


def binary(fn: str, left: str, right: str, name: str = "r") -> str:
    return f"%{name} = tile.map([%{left}, %{right}]) {{fn = {fn}}}"


@pytest.mark.parametrize(
    ("fn", "operand", "value", "dtype"),
    [
        ("add", "x", "-0.0", "f32"),
        ("sub", "x", "0.0", "f32"),
        ("mul", "x", "1.0", "f32"),
        ("div", "x", "1.0", "f32"),
        ("pow", "x", "1.0", "f32"),
        ("minimum", "x", "inf", "f32"),
        ("maximum", "h", "-inf", "f16"),
        ("add", "i", "0", "i32"),
        ("mul", "i", "1", "i32"),
        ("floordiv", "i", "1", "i32"),
        ("and", "i", "-1", "i32"),
        ("and", "u", "255", "u8"),
        ("or", "i", "0", "i32"),
        ("xor", "i", "0", "i32"),
        ("shl", "i", "0", "i32"),
        ("minimum", "u", "255", "u8"),
        ("maximum", "i", "-2147483648", "i32"),
        ("and", "b", "true", "bool"),
        ("or", "b", "false", "bool"),
    ],
)
def test_neutral_constants_vanish(fn: str, operand: str, value: str, dtype: str) -> None:
    assert simplified(constant("k", value, dtype), binary(fn, operand, "k")) == []


@pytest.mark.parametrize(
    ("fn", "operand", "value", "dtype"),
    [
        ("add", "x", "0.0", "f32"),  # -0 + 0 is 0
        ("sub", "x", "-0.0", "f32"),
        ("mul", "x", "0.0", "f32"),  # NaN * 0 is NaN
        ("mul", "x", "-1.0", "f32"),
        ("floordiv", "x", "1.0", "f32"),
        ("minimum", "x", "-inf", "f32"),  # NaN stays NaN
        ("mul", "i", "-1", "i32"),
        ("floordiv", "i", "2", "i32"),
    ],
)
def test_other_constants_stay(fn: str, operand: str, value: str, dtype: str) -> None:
    lines = simplified(constant("k", value, dtype), binary(fn, operand, "k"))
    assert lines[-1].startswith(f"%r = tile.map([%{operand}, %k]) {{fn = {fn}}}")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([constant("k", 0, "i32"), binary("mul", "k", "i")], "value = 0, dtype = i32"),
        ([constant("k", 1, "i32"), binary("mod", "i", "k")], "value = 0, dtype = i32"),
        ([constant("k", -1, "i32"), binary("or", "i", "k")], "value = -1, dtype = i32"),
        ([constant("k", "false", "bool"), binary("and", "b", "k")], "dtype = bool"),
        ([constant("k", 0, "u8"), binary("minimum", "u", "k")], "value = 0, dtype = u8"),
        ([binary("sub", "i", "i")], "value = 0, dtype = i32"),
        ([binary("mod", "i", "i")], "value = 0, dtype = i32"),
        ([binary("xor", "b", "b")], "dtype = bool"),
        ([binary("eq", "i", "i")], "value = true"),
        ([binary("lt", "i", "i")], "value = false"),
    ],
)
def test_what_becomes_constant(lines: list[str], expected: str) -> None:
    (line,) = simplified(*lines)
    assert line.startswith("%r = tile.constant()")
    assert expected in line


@pytest.mark.parametrize(
    "line", [binary("sub", "x", "x"), binary("eq", "x", "x"), binary("floordiv", "i", "i"), binary("mod", "x", "x")]
)
def test_what_looks_constant_but_is_not(line: str) -> None:
    (left,) = simplified(line)  # NaN - NaN is NaN, NaN == NaN is false, 0 // 0 is 0
    assert left.startswith(line)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["%a = tile.map([%x]) {fn = neg}", "%r = tile.map([%a]) {fn = neg}"], []),
        (["%a = tile.map([%b]) {fn = not}", "%r = tile.map([%a]) {fn = not}"], []),
        (["%a = tile.map([%x]) {fn = neg}", "%r = tile.map([%a]) {fn = abs}"], ["%r = tile.map([%x]) {fn = abs}"]),
        (["%a = tile.map([%x]) {fn = abs}", "%r = tile.map([%a]) {fn = abs}"], ["%r = tile.map([%x]) {fn = abs}"]),
        (["%a = tile.map([%y]) {fn = neg}", binary("add", "x", "a")], [binary("sub", "x", "y")]),
        (["%a = tile.map([%y]) {fn = neg}", binary("add", "a", "x")], [binary("sub", "x", "y")]),
        (["%a = tile.map([%y]) {fn = neg}", binary("sub", "x", "a")], [binary("add", "x", "y")]),
        ([binary("maximum", "x", "x")], []),
        ([binary("maximum", "i", "j", "a"), binary("maximum", "a", "j")], [binary("maximum", "i", "j", "a")]),
        ([binary("lt", "i", "j", "a"), "%r = tile.map([%a]) {fn = not}"], [binary("ge", "i", "j")]),
        ([binary("eq", "x", "y", "a"), "%r = tile.map([%a]) {fn = not}"], [binary("ne", "x", "y")]),
        (["%r = tile.map([%b, %x, %x]) {fn = where}"], []),
        (
            ["%a = tile.map([%b]) {fn = not}", "%r = tile.map([%a, %x, %y]) {fn = where}"],
            ["%r = tile.map([%b, %y, %x]) {fn = where}"],
        ),
        ([constant("k", "true", "bool"), "%r = tile.map([%k, %x, %y]) {fn = where}"], []),
        ([constant("k", "2.0", "f32"), binary("pow", "x", "k")], [binary("mul", "x", "x")]),
    ],
)
def test_identities(lines: list[str], expected: list[str]) -> None:
    assert [line.rpartition(" : ")[0] for line in simplified(*lines)] == expected


@pytest.mark.parametrize(
    "lines",
    [
        [binary("lt", "x", "y", "a"), "%r = tile.map([%a]) {fn = not}"],  # with NaN both are false
        ["%a = tile.map([%u]) {fn = neg}", "%r = tile.map([%a]) {fn = abs}"],  # -1 is 255
        [binary("maximum", "x", "y", "a"), binary("maximum", "a", "y")],  # of 0 and -0
    ],
)
def test_what_looks_alike_but_is_not(lines: list[str]) -> None:
    assert [line.rpartition(" : ")[0] for line in simplified(*lines)] == lines


@pytest.mark.parametrize(("divisor", "factor"), [("4.0", "0.25"), ("0.5", "2.0"), ("-8.0", "-0.125")])
def test_division_by_powers_of_two(divisor: str, factor: str) -> None:
    made, product = simplified(constant("k", divisor, "f32"), binary("div", "x", "k"))
    assert f"value = {factor}" in made
    assert "fn = mul" in product


@pytest.mark.parametrize("divisor", ["3.0", "0.0", "inf", "1e38"])
def test_other_divisions_stay(divisor: str) -> None:
    assert "fn = div" in simplified(constant("k", divisor, "f32"), binary("div", "x", "k"))[-1]


def test_constants_of_integers_come_together() -> None:
    lines = simplified(constant("k", 3, "i32"), binary("add", "k", "i", "a"), binary("add", "a", "k"))
    assert lines[0].endswith("= tile.constant() {value = 6, dtype = i32} : i32")
    assert len(lines) == 2


def test_sizes_of_symbols_compare_only_where_it_is_certain() -> None:
    parameters = "%t: tensor<f32, [M, N]>"
    sizes = "%a = tile.size() {value = M + 1}\n%b = tile.size() {value = M}\n%c = tile.size() {value = N}\n"
    for fn, right, answer in (("gt", "b", "true"), ("le", "b", "false"), ("ne", "a", "false"), ("lt", "c", None)):
        lines = ops_after("canonicalise,dce", scalar_program(parameters, sizes + binary(fn, "a", right), "r"))
        assert (f"value = {answer}" in lines[-1]) == (answer is not None), fn


def test_sizes_are_divided_only_by_what_is_positive() -> None:
    parameters = "%t: tensor<f32, [M, N]>"
    sizes = "%a = tile.size() {value = M}\n%k = tile.constant() {value = 4, dtype = i64}\n"
    known = ops_after("canonicalise,dce", scalar_program(parameters, sizes + binary("floordiv", "a", "k"), "r"))
    assert known == ["%r = tile.size() {value = M // 4} : i64"]
    unknown = ops_after("canonicalise,dce", scalar_program(parameters, sizes + binary("floordiv", "a", "a"), "r"))
    assert "fn = floordiv" in unknown[-1]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["%a = tile.cast(%h) {dtype = f32}", "%r = tile.cast(%a) {dtype = f64}"],
            ["%r = tile.cast(%h) {dtype = f64}"],
        ),
        (["%a = tile.cast(%h) {dtype = f32}", "%r = tile.cast(%a) {dtype = f16}"], []),
        (
            ["%a = tile.cast(%u) {dtype = i32}", "%r = tile.cast(%a) {dtype = f16}"],
            ["%r = tile.cast(%u) {dtype = f16}"],
        ),
        (["%r = tile.cast(%x) {dtype = f32}"], []),
    ],
)
def test_casts_after_exact_casts(lines: list[str], expected: list[str]) -> None:
    assert [line.rpartition(" : ")[0] for line in simplified(*lines)] == expected


def test_casts_that_round_stay() -> None:
    lines = ["%a = tile.cast(%x) {dtype = f16}", "%r = tile.cast(%a) {dtype = f32}"]
    assert [line.rpartition(" : ")[0] for line in simplified(*lines)] == lines


@pytest.mark.parametrize(
    ("source", "target", "exact"),
    [
        ("f16", "bf16", False),
        ("bf16", "f32", True),
        ("f8e4m3", "f16", True),
        ("i32", "f32", False),
        ("i16", "f32", True),
        ("i8", "u16", False),
        ("u8", "i16", True),
        ("u8", "bf16", True),
        ("i16", "bool", False),
        ("bool", "f8e5m2", True),
        ("u64", "f64", False),
    ],
)
def test_exact_conversions(source: str, target: str, exact: bool) -> None:
    assert is_exact(BY_NAME[source], BY_NAME[target]) == exact
