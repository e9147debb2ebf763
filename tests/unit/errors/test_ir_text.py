"""One case for each message of `support/catalogue/ir_text.py`: where it points, what it says, what it advises."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.verifier import Form, verify
from tiledsl.support.catalogue.ir_text import ENTRIES
from tiledsl.support.errors import TileError

HEADER = "func @f(%x: tensor<f32, [M, 8]>, %s: f32, %i: i64) {\n"


def body(line: str) -> Callable[[], object]:
    """Parses a function whose second line is this one."""
    return partial(parse_module, f"{HEADER}{line}\n}}\n", "case.tir")


def whole(text: str) -> Callable[[], object]:
    return partial(parse_module, text, "case.tir")


def nested_grids() -> None:
    text = """func @f(%n: i64) {
  tile.grid([%n]) {blocks = [auto]} body(%m: axis<m>) {
    tile.grid([%n]) {blocks = [auto]} body(%k: axis<k>) { }
  }
  tile.return([])
}"""
    verify(parse_module(text, "case.tir"), Form.TILE)


def two_layouts() -> None:
    text = """func @f(%s: f32) {
  gpu.launch([]) {blocks = [], threads = 32, shared_bytes = 0} body() {
    %a = tile.broadcast(%s) {shape = [64]} : tile<f32, [64], register, spatial(32) * local(2)>
    %b = tile.broadcast(%s) {shape = [64]} : tile<f32, [64], register, local(2) * spatial(32)>
    %c = tile.map([%a, %b]) {fn = add} : tile<f32, [64], register, local(2) * spatial(32)>
  }
  tile.return([])
}"""
    verify(parse_module(text, "case.tir"), Form.GPU)


CASES: dict[str, Callable[[], object]] = {
    "text-unexpected": body("  %y = tile.cast(%s {dtype = f16}"),
    "text-too-deep": body(f"  %y = tile.size() {{value = {'-' * 3000}M}}"),
    "text-function-twice": whole("func @f() { tile.return([]) }\nfunc @f() { tile.return([]) }"),
    "text-op-unknown": body("  %y = tile.cats(%s) {dtype = f16}"),
    "text-value-undefined": body("  %y = tile.cast(%z) {dtype = f16}"),
    "text-value-twice": body("  %s = tile.cast(%s) {dtype = f16}"),
    "text-operand-count": body("  tile.store(%x, [%i, :])"),
    "text-operand-kind": body("  tile.store(%x, %i, %s)"),
    "text-attribute-unknown": body("  %y = tile.cast(%s) {dtpe = f16}"),
    "text-attribute-twice": body("  %y = tile.cast(%s) {dtype = f16, dtype = f16}"),
    "text-attribute-missing": body("  %y = tile.cast(%s)"),
    "text-attribute-kind": body("  %y = tile.map([%s, %s]) {fn = maximm}"),
    "text-body-unknown": body("  tile.grid([%i]) {blocks = [auto]} bdy(%m: axis<m>) { }"),
    "text-body-twice": body("  tile.grid([%i]) {blocks = [auto]} body(%m: axis<m>) { } body(%n: axis<n>) { }"),
    "text-body-missing": body("  tile.grid([%i]) {blocks = [auto]}"),
    "text-size": body("  %y = tile.size() {value = 8 * (M // 0)}"),
    "text-quotes": body('  tile.print([%s]) {text = "\\q"}'),
    "text-fact": whole("func @f(%x: tensor<f32, [M]>) facts [M // 8 == 0] { tile.return([]) }"),
    "text-type-unknown": body("  %y = tile.cast(%s) {dtype = f16} : tesor<f16, [M]>"),
    "text-level-unknown": body("  %y = tile.load(%x, [:, :]) : tile<f32, [M, 8], registers>"),
    "text-unit": whole("func @f(%x: tensor<f32, [M], unit=1>) { tile.return([]) }"),
    "text-layout": body("  %y = tile.load(%x, [:, :]) : tile<f32, [M, 8], register, local(2) * spatial(1, 8)>"),
    "text-result-count": body("  %y, %z = tile.cast(%s) {dtype = f16}"),
    "text-result-type": body("  %y = tile.cast(%s) {dtype = f16} : f32"),
    "text-op-types": body("  %y = tile.map([%s, %i]) {fn = add}"),
    "ir-invalid": nested_grids,
    "ir-layouts": two_layouts,
}

MESSAGES = {
    "text-unexpected": "expected `)` or `,`, found `{`",
    "text-too-deep": "the text is nested too deeply to be read",
    "text-function-twice": "there are two functions `@f`",
    "text-op-unknown": "there is no op `tile.cats`",
    "text-value-undefined": "`%z` is not defined here",
    "text-value-twice": "`%s` is defined already",
    "text-operand-count": "`tile.store` takes 3 operands, but 2 are given",
    "text-operand-kind": (
        "operand `indices` of `tile.store` must be a list of subscripts such as `[%m, 0:16, :]`, not `%i`"
    ),
    "text-attribute-unknown": "`tile.cast` has no attribute `dtpe`",
    "text-attribute-twice": "attribute `dtype` of `tile.cast` is given twice",
    "text-attribute-missing": "`tile.cast` needs the attribute `dtype`",
    "text-attribute-kind": "attribute `fn` of `tile.map` must be one of its choices, not `maximm`",
    "text-body-unknown": "`tile.grid` has no body `bdy`",
    "text-body-twice": "body `body` of `tile.grid` is given twice",
    "text-body-missing": "`tile.grid` needs the body `body`",
    "text-size": "a size is an integer expression over symbols, not a division by zero",
    "text-quotes": '"\\q" is no text: invalid \\escape',
    "text-fact": "a fact reads `SIZE % DIVISOR == 0`",
    "text-type-unknown": "there is no type `tesor`",
    "text-level-unknown": "a tile has no level `registers`",
    "text-unit": "a tensor of rank 1 has no `unit=1`",
    "text-layout": "this is no layout: factors of different ranks",
    "text-result-count": "`tile.cast` gives 1 result, but 2 names are written",
    "text-result-type": "`%y` is declared as `f32`, but `tile.cast` gives `f16`",
    "text-op-types": "`tile.map`: add of f32 and i64",
    "ir-invalid": "not legal in form `tile`: `tile.grid`: stands inside of a `tile.grid`",
    "ir-layouts": (
        "not legal in form `gpu`: `tile.map`: %a is laid out as spatial(32) * local(2), but %b as "
        "local(2) * spatial(32)"
    ),
}

CARETS = {
    "text-unexpected": "{",
    "text-too-deep": "f",
    "text-function-twice": "@f()",
    "text-op-unknown": "tile.cats",
    "text-value-undefined": "%z",
    "text-value-twice": "%s",
    "text-operand-count": "tile.store",
    "text-operand-kind": "%i",
    "text-attribute-unknown": "dtpe",
    "text-attribute-twice": "dtype",
    "text-attribute-missing": "tile.cast(%s)",
    "text-attribute-kind": "maximm",
    "text-body-unknown": "bdy",
    "text-body-twice": "body",
    "text-body-missing": "tile.grid([%i]) {blocks = [auto]}",
    "text-size": "0",
    "text-quotes": '"\\q"',
    "text-fact": "M // 8 == 0",
    "text-type-unknown": "tesor",
    "text-level-unknown": "registers",
    "text-unit": "unit=1",
    "text-layout": "local(2) * spatial(1, 8)",
    "text-result-count": "tile.cast(%s) {dtype = f16}",
    "text-result-type": "f32",
    "text-op-types": "%y = tile.map([%s, %i]) {fn = add}",
    "ir-invalid": "tile.grid([%n]) {blocks = [auto]}",
    "ir-layouts": "%c = tile.map([%a, %b]) {fn = add} : tile<f32, [64], register, local(2) * spatial(32)>",
}
"""What is underlined."""

FIXES = {
    "text-op-unknown": "did you mean `tile.cast`?",
    "text-operand-count": "write `tile.store(%tensor, [indices], %value)`",
    "text-attribute-unknown": "did you mean `dtype`?",
    "text-attribute-missing": "add `{dtype = ...}` after the operands, a dtype such as `f32`",
    "text-attribute-kind": "did you mean `maximum`?",
    "text-body-unknown": "did you mean `body`?",
    "text-body-missing": "add `body(...) { ... }` after the result types",
    "text-type-unknown": "did you mean `tensor`?",
    "text-layout": "give every factor one size per axis of the tile, as `local(2, 1) * spatial(8, 4)`",
    "text-result-type": "write `f16`",
    "text-op-types": "correct the operands, which are: %s: f32, %i: i64",
    "ir-invalid": "grids are not nested",
    "ir-layouts": "convert one of them by `gpu.convert`, or through a buffer",
}


def test_every_message_has_a_case() -> None:
    assert set(CASES) == set(ENTRIES) == set(MESSAGES) == set(CARETS)


def underlined(text: str) -> str:
    """The part of the source line above the carets."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if "^" in line and set(line) <= set(" |^\t"))
    return lines[at - 1][lines[at].index("^") : lines[at].rindex("^") + 1]


@pytest.mark.parametrize("code", CASES)
def test_message(code: str) -> None:
    with pytest.raises(TileError) as caught:
        CASES[code]()
    error = caught.value
    assert error.code == code
    assert type(error) is ENTRIES[code].kind
    assert error.message == MESSAGES[code]
    assert error.location is not None
    assert error.location.file == "case.tir"
    assert underlined(str(error)) == CARETS[code]
    assert error.fix == FIXES.get(code, error.fix) != ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tile.return([])", "expected `func` or the end of the text, found `tile.return`"),
        ("func @f(", "expected `)` or a value such as %x, found the end of the text"),
        ("func f() {}", "expected a function name such as @f, found `f`"),
        ("func @f() { ~ }", "expected `}`, a value such as %x or an op such as tile.load, found `~`"),
        ("func @f() { tile.print([%x]) {text = hello world} }", "expected `(`, `,`, `}` or an operator, found `world`"),
    ],
)
def test_what_was_expected_is_said_in_words(text: str, expected: str) -> None:
    with pytest.raises(TileError) as caught:
        parse_module(text)
    assert caught.value.message == expected


def test_an_error_at_the_end_points_behind_the_last_word() -> None:
    with pytest.raises(TileError) as caught:
        parse_module("func @f() {\n  tile.print([])\n\n\n", "end.tir")
    assert str(caught.value.location) == "end.tir:2:17"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%y = tile.load(%x, [:, :], none, none)", "`tile.load` takes 2 to 3 operands, but 4 are given"),
        ("tile.store(none, [:, :], %s)", "operand `tensor` of `tile.store` must be a value, not `none`"),
        ("tile.store([%x], [:, :], %s)", "operand `tensor` of `tile.store` must be a value, not a list"),
        ("tile.print([:])", "operand `values` of `tile.print` must be a list of values such as `[%x, %y]`, not a list"),
        ("%y = tile.constant() {value = f32, dtype = f32}", "attribute `value` of `tile.constant` must be a number"),
        ("%y = tile.constant() {value = -true, dtype = f32}", "attribute `value` of `tile.constant` must be a number"),
        (
            "%y = tile.cast(%s) {dtype = []}",
            "attribute `dtype` of `tile.cast` must be a dtype such as `f32`, not a list",
        ),
        ("%y = tile.arange() {extent = [M]}", "attribute `extent` of `tile.arange` must be a size"),
        ("%y = tile.arange() {extent = 1.5}", "a size is an integer expression over symbols, not `1.5`"),
        ("%y = tile.arange() {extent = mni(M, 8)}", "a size is an integer expression over symbols, not `mni(...)`"),
        ("tile.grid([%i]) {blocks = [upto(0, 1)]} body(%m: axis<m>) { }", "attribute `blocks` of `tile.grid` must be"),
        ("tile.grid([%i]) {blocks = [0]} body(%m: axis<m>) { }", "attribute `blocks` of `tile.grid` must be a list"),
        ("tile.grid([%i]) {blocks = auto} body(%m: axis<m>) { }", "attribute `blocks` of `tile.grid` must be a list"),
        ("%y = tile.cast(%s) {dtype = f16} : f16, f16", "`tile.cast` gives 1 result, but 2 types are written"),
        ("%y = tile.cast(%s) {dtype = f16} : blob<3>", "there is no type `blob`"),
        ("%y = tile.cast(%s) {dtype = f16} : f15", "there is no type `f15`"),
        ("gpu.read(%x, []) {places = [], layout = 3, shape = []}", "attribute `layout` of `gpu.read` must be a layout"),
        (
            "gpu.read(%x, []) {places = [], layout = spatail(8, 4), shape = []}",
            "attribute `layout` of `gpu.read` must be",
        ),
        ("gpu.read(%x, []) {places = [], layout = a - b, shape = []}", "attribute `layout` of `gpu.read` must be"),
        ("gpu.read(%x, []) {places = [], method = matrix-x}", "attribute `method` of `gpu.read` must be one of its"),
        ("%y = tile.size() {value = local(3)}", "a size is an integer expression over symbols, not `local(3)`"),
        ("%y = tile.cast(%s) {dtype = f16} : tile<f16, [1], register, foo>", "expected a layout such as `local(2, 1)"),
        ("%y = tile.cast(%s) {dtype = f16} : tensor<f16, [1], unit, local(1)>", "a tensor of rank 1 has no `unit, loc"),
        (f"%y = tile.size() {{value = {'9' * 5000}}}", "expected `,`, `}` or an operator, found `999"),
        ("%y = graph.call([%x]) {callee = g}", "`graph.call`: the result types of a call must be written"),
    ],
)
def test_other_mistakes(line: str, message: str) -> None:
    with pytest.raises(TileError) as caught:
        body(line)()
    assert caught.value.message.startswith(message)
    assert caught.value.location is not None
    assert caught.value.location.line == 2


def test_layouts_that_do_not_fit_are_drawn() -> None:
    with pytest.raises(TileError) as caught:
        two_layouts()
    assert "%a, thread:slot of [64] in spatial(32) * local(2)" in str(caught.value)
    assert "0:0  0:1  1:0  1:1  ..." in str(caught.value)
    assert "0:0  1:0  2:0  3:0  ..." in str(caught.value)
