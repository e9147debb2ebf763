"""Writes a module as the text that `parser.parse_module` reads back; docs/ir.md shows what it looks like."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from typing_extensions import assert_never

from tiledsl.ir.core import Block, FieldValue, Function, Module, Number, Op, Value
from tiledsl.ir.op_fields import AttributeField
from tiledsl.ir.types import format_shape
from tiledsl.support.location import Location

IDENTIFIER = re.compile(r"[^\W\d]\w*")
"""What values, symbols and functions may be called in text."""
INDENT = "  "
WIDTH = 120
"""A header longer than this continues on the next line, at its bodies."""


def print_module(module: Module, *, locations: bool = False) -> str:
    """The text of `module`, ending in a newline (an empty module is the empty text).

    With `locations`, every op and function carries `loc(...)` with its whole chain of calls.
    """
    return "\n".join(_FunctionPrinter(locations).function(f) for f in module.functions)


def print_op(op: Op) -> str:
    """The text of one op with its bodies, outside of any module: for messages, notes and debugging."""
    printer = _FunctionPrinter(locations=False)
    printer.op(op, "")
    return "\n".join(printer.lines)


class _FunctionPrinter:
    """Collects the lines of one function. Values are named as they are met, uniquely within the function."""

    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.next_number: dict[str, int] = {}

    def function(self, function: Function) -> str:
        facts = f" facts [{', '.join(map(str, function.facts))}]" if function.facts else ""
        parameters = self.arguments(function.parameters)
        self.lines.append(f"func @{function.name}({parameters}){facts}{self.loc(function.location)} {{")
        self.block(function.body, INDENT)
        self.lines.append("}\n")
        return "\n".join(self.lines)

    def block(self, block: Block, indent: str) -> None:
        for op in block.ops:
            self.op(op, indent)

    def op(self, op: Op, indent: str) -> None:
        header = f"{op.name}({self.operands(op)}){format_attributes(op)}"
        if op.results:
            header += " : " + ", ".join(str(v.type) for v in op.results)
        header += self.loc(op.location)
        # operands are named before results: in text too, a name is defined after what it is made of
        if op.results:
            header = ", ".join(self.name(v) for v in op.results) + " = " + header
        line = indent + header
        for name, body in op.bodies.items():
            opening = f"{name}({self.arguments(body.arguments)}) {{"
            if len(line) + 1 + len(opening) > WIDTH and not line.endswith("}"):
                self.lines.append(line)
                line = indent + INDENT * 2 + opening
            else:
                line += " " + opening
            self.lines.append(line)
            self.block(body, indent + INDENT)
            line = indent + "}"
        self.lines.append(line)

    def operands(self, op: Op) -> str:
        parts = [self.operand(field) for field in op.fields.values()]
        while parts and parts[-1] == "none":
            parts.pop()
        return ", ".join(parts)

    def operand(self, field: FieldValue) -> str:
        if field is None:
            return "none"
        if isinstance(field, tuple):
            return "[" + ", ".join(self.name(v) if isinstance(v, Value) else str(v) for v in field) + "]"
        return self.name(field)

    def arguments(self, values: Sequence[Value]) -> str:
        return ", ".join(f"{self.name(v)}: {v.type}" for v in values)

    def name(self, value: Value) -> str:
        """The value's name in the text: its hint, numbered where that is taken; a bare number where there is none."""
        if value not in self.names:
            hint = value.name if IDENTIFIER.fullmatch(value.name) else ""
            self.names[value] = name = self.unique(hint)
            self.taken.add(name)
        return "%" + self.names[value]

    def unique(self, hint: str) -> str:
        if hint and hint not in self.taken:
            return hint
        while True:
            number = self.next_number.get(hint, 1 if hint else 0)
            self.next_number[hint] = number + 1
            name = f"{hint}_{number}" if hint else str(number)
            if name not in self.taken:
                return name

    def loc(self, location: Location) -> str:
        if not self.locations:
            return ""
        return f" loc({' called from '.join(map(format_span, location.chain()))})"


def format_span(location: Location) -> str:
    """`"gemm.py":7:19-44`, or `"gemm.py":7:19-9:4` over several lines; call sites left out."""
    end = "" if location.end_line == location.line else f"{location.end_line}:"
    return f"{json.dumps(location.file)}:{location.line}:{location.column}-{end}{location.end_column}"


def format_attributes(op: Op) -> str:
    """` {axes = [1], fn = add}`: what is not at its default, or nothing."""
    parts: list[str] = []
    for name, field in op.attribute_fields.items():
        value = op.attributes[name]
        if not (field.optional and value == field.default):
            parts.append(f"{name} = {format_attribute(field, value)}")
    return f" {{{', '.join(parts)}}}" if parts else ""


def format_attribute(field: AttributeField[Any], value: Any) -> str:
    """One attribute's value as text, by the kind that it is declared with."""
    match field.kind:
        case "int" | "name" | "dtype" | "dim" | "layout":
            return str(value)
        case "number":
            return format_number(value)
        case "flag":
            return "true" if value else "false"
        case "text":
            return json.dumps(value)
        case "shape":
            return format_shape(value)
        case "ints" | "blocks":
            return "[" + ", ".join(map(str, value)) + "]"
        case _:
            assert_never(field.kind)


def format_number(value: Number) -> str:
    """`true`, `-3`, `0.5`, `1e-30`, `-inf`, `nan`: text from which the same number of the same kind is read back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return int.__repr__(value) if isinstance(value, int) else float.__repr__(value)
