"""How modules are written."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tiledsl.ir import tile_ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Fact, Function, Module, Number
from tiledsl.ir.dtypes import f32
from tiledsl.ir.symbolic import symbol
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import format_number, format_span, print_module, print_op
from tiledsl.ir.types import TensorType, scalar
from tiledsl.ir.verifier import Form, verify
from tiledsl.support.location import BUILTIN, Location

ROOT = Path(__file__).resolve().parents[4]


def function_of(*names: str) -> Function:
    """A function of scalar parameters with these name hints."""
    body = Block([(scalar(f32), name) for name in names])
    body.append(tile_ops.Return(BUILTIN))
    return Function("f", body, [], BUILTIN)


def test_the_examples_of_the_document_are_what_is_printed() -> None:
    document = (ROOT / "docs" / "ir.md").read_text(encoding="utf-8")
    examples = document.split("```\n")[1::2]
    forms = (Form.TILE_TILED, Form.GRAPH, Form.GPU)
    assert len(examples) == len(forms)
    for example, form in zip(examples, forms):
        module = parse_module(example)
        verify(module, form)
        printed = print_module(module)
        if form is Form.GPU:  # on the page its lines are broken
            assert parse_module(printed).structure(locations=False) == module.structure(locations=False)
        else:
            assert printed == example


def test_an_empty_module_is_the_empty_text() -> None:
    assert print_module(Module([])) == ""
    assert parse_module("").functions == []


def test_several_functions_are_a_line_apart() -> None:
    other = function_of()
    other.name = "g"
    assert print_module(Module([function_of(), other])).count("}\n\nfunc @g") == 1


def test_names_are_unique_and_hints_are_kept_where_free() -> None:
    text = print_module(Module([function_of("x", "x", "x_1", "", "", "not a name", "x")]))
    assert text.splitlines()[0] == ("func @f(%x: f32, %x_1: f32, %x_1_1: f32, %0: f32, %1: f32, %2: f32, %x_2: f32) {")


def test_text_is_stable_when_read_and_written_again() -> None:
    text = print_module(Module([function_of("x", "x", "", "x_1")]))
    assert print_module(parse_module(text)) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (True, "true"),
        (0, "0"),
        (-3, "-3"),
        (2**64 - 1, "18446744073709551615"),
        (0.5, "0.5"),
        (-0.0, "-0.0"),
        (1e-30, "1e-30"),
        (1e300, "1e+300"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
    ],
)
def test_numbers(number: Number, text: str) -> None:
    assert format_number(number) == text
    body = Block()
    builder = Builder(body, BUILTIN)
    builder.constant(number, f32)
    builder.emit(tile_ops.Return)
    module = Module([Function("f", body, [], BUILTIN)])
    assert parse_module(print_module(module, locations=True)) == module


@pytest.mark.parametrize("text", ["", 'a "quoted" word', "back\\slash", "line\nbreak\ttab", "é ≤ 雨", "\x00\x7f\u2028"])
def test_texts(text: str) -> None:
    body = Block()
    Builder(body, BUILTIN).emit(tile_ops.Print, text=text)
    module = Module([Function("f", body, [], BUILTIN)])
    printed = print_module(module, locations=True)
    assert len(printed.splitlines()) == 3
    assert parse_module(printed) == module


def test_facts() -> None:
    m = symbol("M")
    function = function_of()
    function.body.add_argument(TensorType(f32, (m,)), "x")
    function.facts = (Fact(m, 16), Fact(m + 1, 2), Fact(2 * m, 8))
    header = print_module(Module([function])).splitlines()[0]
    assert header == "func @f(%x: tensor<f32, [M]>) facts [M % 16 == 0, (M + 1) % 2 == 0, (2 * M) % 8 == 0] {"
    assert parse_module(header + "\n}").entry.facts == function.facts


def test_absent_operands_are_none_where_others_follow() -> None:
    body = Block()
    builder = Builder(body, BUILTIN)
    zero = builder.constant(0.0, f32)
    assert print_op(builder.emit(tile_ops.Empty, shape=(), dtype=f32)).startswith("%0 = tile.empty() {")
    assert print_op(builder.emit(tile_ops.Empty, fill=zero, shape=(), dtype=f32)).startswith("%1 = tile.empty(%0) {")
    for op in parse_module("func @f(%x: tensor<f32, [8]>) { %y = tile.load(%x, [:], none) }").walk():
        assert print_op(op) == "%y = tile.load(%x, [:]) : tile<f32, [8]>"


def test_bodies_of_a_long_op_go_to_the_next_line() -> None:
    name = "a_name_of_some_length"
    text = f"""func @f(%{name}: i64) {{
  %{name}_1 = tile.for(%{name}, %{name}, %{name}, [%{name}]) : i64
      body(%i: i64, %carried: i64) {{
    tile.yield([%carried])
  }}
  tile.return([])
}}
"""
    assert print_module(parse_module(text)) == text


def test_locations() -> None:
    caller = Location("kernel.py", 20, 3, 20, 9)
    location = Location("helper.py", 4, 5, 6, 7, caller)
    assert format_span(caller) == '"kernel.py":20:3-9'
    assert format_span(location) == '"helper.py":4:5-6:7'
    body = Block()
    Builder(body, location).emit(tile_ops.Return)
    module = Module([Function("f", body, [], caller)])
    text = print_module(module, locations=True)
    assert text == (
        'func @f() loc("kernel.py":20:3-9) {\n'
        '  tile.return([]) loc("helper.py":4:5-6:7 called from "kernel.py":20:3-9)\n'
        "}\n"
    )
    assert parse_module(text) == module
