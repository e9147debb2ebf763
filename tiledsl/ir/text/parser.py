"""Reads the text that `printer.print_module` writes, and what people write by hand, into a module.

Result types may be left out where the op implies them; they are needed to give tiles a level.
An op without `loc(...)` is located in the text itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import assert_never

from tiledsl.ir import graph_ops, tile_ops
from tiledsl.ir.core import OPS, Block, FieldValue, Function, Index, InvalidIRError, Module, Op, Value
from tiledsl.ir.gpu import async_ops, gpu_ops
from tiledsl.ir.op_fields import AnyOperandField, IndicesField, OperandField, OptionalField, VariadicField
from tiledsl.ir.text.printer import IDENTIFIER
from tiledsl.ir.text.read_values import KINDS, ValueReader
from tiledsl.ir.text.syntax import ArgumentText, BodyText, FunctionText, OperandText, OpText, SliceText, parse_syntax
from tiledsl.ir.types import WHOLE, Slice, Type, same_but_level
from tiledsl.support.errors import fail
from tiledsl.support.location import Location
from tiledsl.support.suggest import suggest

if TYPE_CHECKING:
    from lark import Token

VOCABULARIES = (graph_ops, tile_ops, gpu_ops, async_ops)
"""Imported so that their ops are known here, whoever else has imported them."""


def parse_module(text: str, file: str = "<text>") -> Module:
    """The module that `text` writes out.

    `file` names the text in locations and errors. Raises TileSyntaxError for text that is not in the grammar or uses
    unknown or repeated names, and TileTypeError for types that the ops do not accept or give.
    """
    try:
        functions = [_FunctionReader(file).function(f) for f in parse_syntax(text, file)]
    except RecursionError:
        pass  # raised anew below, without a thousand frames of context
    else:
        _require_distinct(functions)
        return Module(functions)
    fail("text-too-deep", Location(file, 1))


def _require_distinct(functions: Sequence[Function]) -> None:
    seen: set[str] = set()
    for function in functions:
        if function.name in seen:
            fail("text-function-twice", function.location, name=function.name)
        seen.add(function.name)


class _FunctionReader:
    """Builds one function. `scope` holds the values that can be read at the current point."""

    def __init__(self, file: str) -> None:
        self.values = ValueReader(file)
        self.scope: dict[str, Value] = {}

    def function(self, text: FunctionText) -> Function:
        location = self.values.location(text.location) if text.location else self.values.at(text.name, text.last)
        body = Block()
        self.arguments(body, text.parameters)
        self.ops(body, text.ops)
        facts = [self.values.fact(fact) for fact in text.facts]
        return Function(text.name[1:], body, facts, location)

    def arguments(self, block: Block, text: Sequence[ArgumentText]) -> None:
        for argument in text:
            name = argument.name[1:]
            value = block.add_argument(self.values.type(argument.type), _hint(name))
            self.define(argument.name, value)

    def ops(self, block: Block, text: Sequence[OpText]) -> None:
        for op in text:
            block.append(self.op(op))

    def define(self, token: Token, value: Value) -> None:
        name = token[1:]
        if name in self.scope:
            fail("text-value-twice", self.values.at(token), name=name)
        self.scope[name] = value

    def value(self, token: Token) -> Value:
        name = token[1:]
        if name not in self.scope:
            hint = suggest(name, self.scope, "define it above, in this body or around it")
            fail("text-value-undefined", self.values.at(token), name=name, hint=hint)
        return self.scope[name]

    def op(self, text: OpText) -> Op:
        kind = OPS.get(text.name)
        if kind is None:
            hint = suggest(text.name, OPS, "docs/ir.md names the ops of every level")
            fail("text-op-unknown", self.values.at(text.name), name=text.name, hint=hint)
        fields: dict[str, Any] = self.operands(kind, text)
        fields.update(self.attributes(kind, text))
        fields.update(self.bodies(kind, text))
        first = text.results[0] if text.results else text.name
        here = self.values.at(first, text.last)
        location = self.values.location(text.location) if text.location else here
        declared = [self.values.type(t) for t in text.types] if text.types else None
        names = [_hint(token[1:]) for token in text.results]
        try:
            op = kind(location, types=declared, result_names=names, **fields)
            inferred = [v.type for v in op.results] if declared is None else op.infer_types()
        except InvalidIRError as error:
            operands = ", ".join(self.operand_types(text)) or "none"
            problem = str(error)
        else:
            self.check_results(text, inferred, declared)
            for token, value in zip(text.results, op.results):
                self.define(token, value)
            return op
        fail("text-op-types", here, op=text.name, problem=problem, operands=operands)

    def check_results(self, text: OpText, inferred: Sequence[Type], declared: Sequence[Type] | None) -> None:
        results = f"{len(inferred)} result{'' if len(inferred) == 1 else 's'}"
        counted = [(len(text.results), "names are")] + ([] if declared is None else [(len(declared), "types are")])
        for count, what in counted:
            if count != len(inferred):
                here = self.values.at(text.name, text.last)
                fail("text-result-count", here, op=text.name, results=results, count=count, what=what)
        for token, type_text, mine, theirs in zip(text.results, text.types, declared or (), inferred):
            if not same_but_level(mine, theirs):
                here = self.values.at(type_text.word, type_text.last)
                fail("text-result-type", here, op=text.name, name=token[1:], declared=mine, inferred=theirs)

    # Operands

    def operands(self, kind: type[Op], text: OpText) -> dict[str, FieldValue]:
        declared = kind.operand_fields
        needed = len(declared)
        for field in reversed(declared.values()):
            if not isinstance(field, OptionalField):
                break
            needed -= 1
        count = len(text.operands)
        if not needed <= count <= len(declared):
            expected = f"{needed}" if needed == len(declared) else f"{needed} to {len(declared)}"
            fail(
                "text-operand-count",
                self.values.at(text.name),
                op=kind.name,
                expected=f"{expected} operand{'' if expected == '1' else 's'}",
                count=f"{count} {'is' if count == 1 else 'are'}",
                signature=_signature(kind),
            )
        given = dict(zip(declared, text.operands))
        return {name: self.operand(kind, declared[name], given[name], text) for name in given}

    def operand(self, kind: type[Op], field: AnyOperandField, text: OperandText, op: OpText) -> FieldValue:
        if isinstance(text, list):
            if isinstance(field, IndicesField):
                return tuple(map(self.index, text))
            if isinstance(field, VariadicField):
                slices = [item for item in text if isinstance(item, SliceText)]
                if not slices:
                    return tuple(self.value(item) for item in text if not isinstance(item, SliceText))
            found = "a list" if not isinstance(field, VariadicField) else "a list with a slice"
            tokens = [item for item in text if not isinstance(item, SliceText)] or [op.name]
            location = self.values.at(tokens[0], tokens[-1])
        elif text.type == "NONE":
            if isinstance(field, OptionalField):
                return None
            found, location = "`none`", self.values.at(text)
        else:
            if isinstance(field, (OperandField, OptionalField)):
                return self.value(text)
            found, location = f"`{text}`", self.values.at(text)
        fail(
            "text-operand-kind",
            location,
            field=field.name,
            op=kind.name,
            expected=_describe(field),
            found=found,
            signature=_signature(kind),
        )

    def operand_types(self, text: OpText) -> list[str]:
        """`%x: f32` for each value that the op reads."""
        lists = [operand if isinstance(operand, list) else [operand] for operand in text.operands]
        tokens = [item for items in lists for item in items if not isinstance(item, SliceText) and item.type == "VALUE"]
        return [f"{token}: {self.scope[token[1:]].type}" for token in tokens]

    def index(self, text: Token | SliceText) -> Index:
        if not isinstance(text, SliceText):
            return self.value(text)
        if text.start is None or text.stop is None:
            return WHOLE
        return Slice(self.values.size(text.start), self.values.size(text.stop))

    # Attributes and bodies

    def attributes(self, kind: type[Op], text: OpText) -> dict[str, Any]:
        declared = kind.attribute_fields
        read: dict[str, Any] = {}
        for attribute in text.attributes:
            name = attribute.name
            if name not in declared:
                known = "it has: " + ", ".join(declared) if declared else "it has no attributes"
                hint = suggest(name, declared, known)
                fail("text-attribute-unknown", self.values.at(name), op=kind.name, name=name, hint=hint)
            if name in read:
                fail("text-attribute-twice", self.values.at(name), op=kind.name, name=name)
            read[str(name)] = self.values.attribute(kind.name, declared[name], attribute)
        for name, field in declared.items():
            if name not in read and not field.optional:
                location = self.values.at(text.name, text.last)
                fail("text-attribute-missing", location, op=kind.name, name=name, expected=KINDS[field.kind])
        return read

    def bodies(self, kind: type[Op], text: OpText) -> dict[str, Block]:
        declared = kind.body_fields
        read: dict[str, Block] = {}
        for body in text.bodies:
            name = body.name
            if name not in declared:
                known = "it has: " + ", ".join(declared) if declared else "it has no bodies"
                hint = suggest(name, declared, known)
                fail("text-body-unknown", self.values.at(name), op=kind.name, name=name, hint=hint)
            if name in read:
                fail("text-body-twice", self.values.at(name), op=kind.name, name=name)
            read[str(name)] = self.body(body)
        for name, field in declared.items():
            if name not in read and not field.optional:
                fail("text-body-missing", self.values.at(text.name, text.last), op=kind.name, name=name)
        return read

    def body(self, text: BodyText) -> Block:
        outer = self.scope
        self.scope = dict(outer)
        block = Block()
        self.arguments(block, text.arguments)
        self.ops(block, text.ops)
        self.scope = outer
        return block


def _hint(name: str) -> str:
    """A number is not kept as a name: the printer gives one anyway."""
    return name if IDENTIFIER.fullmatch(name) else ""


def _describe(field: AnyOperandField) -> str:
    match field:
        case OperandField():
            return "a value"
        case OptionalField():
            return "a value or `none`"
        case VariadicField():
            return "a list of values such as `[%x, %y]`"
        case IndicesField():
            return "a list of subscripts such as `[%m, 0:16, :]`"
        case _:
            assert_never(field)


def _signature(kind: type[Op]) -> str:
    """`tile.store(%tensor, [indices], %value)`"""
    parts = [
        f"%{name}" if isinstance(field, (OperandField, OptionalField)) else f"[{name}]"
        for name, field in kind.operand_fields.items()
    ]
    return f"{kind.name}({', '.join(parts)})"
