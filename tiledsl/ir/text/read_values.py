"""The compile-time parts of IR text: sizes, types, attributes and locations, from syntax to what they stand for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from typing_extensions import assert_never

from tiledsl.ir.core import Fact, Number
from tiledsl.ir.dtypes import BY_NAME, DType
from tiledsl.ir.op_fields import AttributeField, AttributeKind
from tiledsl.ir.symbolic import Dim, floordiv, maximum, minimum, mod, symbol
from tiledsl.ir.text.syntax import (
    AttributeText,
    AttributeValue,
    Binary,
    Call,
    Expression,
    FactText,
    Negative,
    SpanText,
    TypeText,
    token_location,
)
from tiledsl.ir.types import AxisType, BlockSize, Level, Shape, TensorType, TileType, Type
from tiledsl.support.errors import fail
from tiledsl.support.location import Location
from tiledsl.support.suggest import suggest

if TYPE_CHECKING:
    from lark import Token

    from tiledsl.ir.layouts.buffer_layout import Layout

T = TypeVar("T")

KINDS: dict[AttributeKind, str] = {
    "int": "an integer",
    "number": "a number, `true`, `false`, `inf` or `nan`",
    "flag": "`true` or `false`",
    "name": "a bare word",
    "text": 'a text in "quotes"',
    "dtype": "a dtype such as `f32`",
    "dim": "a size such as `2 * M + 1`",
    "shape": "a list of sizes such as `[M, 16]`",
    "ints": "a list of integers such as `[0, 1]`",
    "blocks": "a list of block sizes such as `[auto, 128, upto(256, 8)]`",
    "layout": "a layout such as `local(2, 1) * spatial(8, 4)` or `rows(0, 1)`",
}
"""What each kind of attribute is, in words."""


class _WrongKindError(Exception):
    """The value is not of the kind that the attribute is declared with."""


class ValueReader:
    """Reads values of one file, whose name goes into the locations of errors."""

    def __init__(self, file: str) -> None:
        self.file = file

    def at(self, first: Token, last: Token | None = None) -> Location:
        """Where in the text a token, or a run of them, stands."""
        return token_location(first, self.file, last)

    # Sizes

    def size(self, text: AttributeValue) -> Dim:
        """The size that an expression stands for. Raises TileSyntaxError for what is none."""
        if isinstance(text, list):
            raise _WrongKindError
        if isinstance(text, Negative):
            return -self.size(text.operand)
        if isinstance(text, Binary):
            return self.binary(text)
        if isinstance(text, Call):
            left, right = self.size(text.left), self.size(text.right)
            if text.name == "min":
                return minimum(left, right)
            if text.name == "max":
                return maximum(left, right)
            self.fail_size(text, f"`{text.name}(...)`")
        if text.type == "INT":
            return int(text)
        if text.type == "NAME":
            return symbol(str(text))
        self.fail_size(text, f"`{text}`")

    def binary(self, text: Binary) -> Dim:
        left, right = self.size(text.left), self.size(text.right)
        match text.operator:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "//" | "%":
                if right == 0:
                    self.fail_size(text.right, "a division by zero")
                return floordiv(left, right) if text.operator == "//" else mod(left, right)
            case _:
                assert_never(text.operator)

    def shape(self, text: Sequence[Expression]) -> Shape:
        return tuple(map(self.size, text))

    def fail_size(self, text: Expression, found: str) -> NoReturn:
        fail("text-size", self.at(*ends(text)), found=found)

    def fact(self, text: FactText) -> Fact:
        """`K % 16 == 0`, as a promise about `K`."""
        match text.condition:
            case Binary("%", dim, divisor) if not isinstance(divisor, (Negative, Binary, Call)):
                if divisor.type == "INT" and int(divisor) > 0 and text.value == "0":
                    return Fact(self.size(dim), int(divisor))
            case _:
                pass
        fail("text-fact", self.at(ends(text.condition)[0], text.value))

    # Types

    def dtype(self, text: Token) -> DType:
        """The dtype of that name. Raises TileTypeError if there is none."""
        if text not in BY_NAME:
            fail("text-type-unknown", self.at(text), name=text, hint=suggest(text, BY_NAME, _known(BY_NAME)))
        return BY_NAME[text]

    def type(self, text: TypeText) -> Type:
        """The type that the text writes out. Raises TileTypeError if there is no such type."""
        if text.extent is not None:
            if text.word != "axis":
                self.fail_type(text)
            return AxisType(self.size(text.extent))
        if text.shape is None or text.dtype is None:
            return TileType(self.dtype(text.word), ())
        shape = self.shape(text.shape)
        if text.word == "tile":
            layout = None if text.layout is None else self.layout(text.layout, len(shape))
            return TileType(self.dtype(text.dtype), shape, self.level(text), layout)
        if text.word == "tensor":
            return TensorType(self.dtype(text.dtype), shape, self.unit(text, len(shape)))
        self.fail_type(text)

    def fail_type(self, text: TypeText) -> NoReturn:
        forms = "write `tensor<f32, [M, K]>`, `tile<f32, [m, k], register>`, `axis<m>` or a dtype"
        hint = suggest(text.word, ("tensor", "tile", "axis"), forms)
        fail("text-type-unknown", self.at(text.word), name=text.word, hint=hint)

    def level(self, text: TypeText) -> Level | None:
        if text.suffix is None:
            return None
        if text.number is None and text.suffix == "register":
            return "register"
        if text.number is None and text.suffix == "shared":
            return "shared"
        fail("text-level-unknown", self.at(text.suffix, text.number), name=text.suffix)

    def unit(self, text: TypeText, rank: int) -> int | None:
        if text.suffix is None:
            return None
        if text.suffix == "unit" and text.number is not None and int(text.number) < rank:
            return int(text.number)
        if text.layout is not None:
            fail("text-unit", self.at(text.suffix, text.layout), rank=rank, text=f"{text.suffix}, {text.layout}")
        written = text.suffix if text.number is None else f"{text.suffix}={text.number}"
        fail("text-unit", self.at(text.suffix, text.number), rank=rank, text=written)

    def layout(self, text: Token, rank: int | None = None) -> Layout:
        """The layout of a tile of that rank. Raises TileTypeError for what is none."""
        from tiledsl.ir.layouts.text import LayoutTextError, parse_layout  # costs start-up time

        try:
            return parse_layout(str(text), rank)
        except LayoutTextError as error:
            problem, fix = error.problem, error.fix
        fail("text-layout", self.at(text), problem=problem, fix=fix)

    # Attributes

    def attribute(self, op: str, field: AttributeField[Any], text: AttributeText) -> Any:
        """The value of an attribute, of the kind that `field` declares. Raises TileSyntaxError for another kind."""
        try:
            value = self.value(field, text.value)
        except _WrongKindError:
            first, last = ends(text.value, text.name)
            expected, hint = KINDS[field.kind], "docs/ir.md lists how attributes are written"
            if field.kind == "dtype":
                hint = suggest(str(first), BY_NAME, _known(BY_NAME))
            if field.choices:
                expected = "one of its choices"
                hint = suggest(str(first), field.choices, _known(field.choices))
            found = "a list" if isinstance(text.value, list) else f"`{first}`" if first is last else "an expression"
            location = self.at(first, last)
            fail("text-attribute-kind", location, op=op, name=text.name, expected=expected, found=found, hint=hint)
        return value

    def value(self, field: AttributeField[Any], text: AttributeValue) -> Any:
        match field.kind:
            case "int":
                return _integer(text)
            case "number":
                return _number(text)
            case "flag":
                return _word(text, {"true": True, "false": False})
            case "name":
                name = _name(text)
                if field.choices and name not in field.choices:
                    raise _WrongKindError
                return name
            case "text":
                return self.text(_token(text, "STRING"))
            case "dtype":
                return _word(text, BY_NAME)
            case "dim":
                return self.size(text)
            case "shape":
                return _each(text, self.size)
            case "ints":
                return _each(text, _integer)
            case "blocks":
                return _each(text, _block_size)
            case "layout":
                return self.layout(_token(text, "LAYOUT"))
            case _:
                assert_never(field.kind)

    def text(self, token: Token) -> str:
        """The text that a token in quotes stands for."""
        try:
            return cast(str, json.loads(token))
        except json.JSONDecodeError as error:
            fail("text-quotes", self.at(token), text=token, reason=error.msg.lower())

    # Locations

    def location(self, spans: Sequence[SpanText]) -> Location:
        """The location whose chain of calls is `spans`, innermost first."""
        location: Location | None = None
        for span in reversed(spans):
            line, column, *end = map(int, span.numbers)
            end_line, end_column = end if len(end) == 2 else (line, end[0])
            location = Location(self.text(span.file), line, column, end_line, end_column, location)
        assert location is not None
        return location


def ends(text: AttributeValue, otherwise: Token | None = None) -> tuple[Token, Token]:
    """The first and the last word of an expression or list; `otherwise` stands for an empty list."""
    if isinstance(text, list):
        if not text:
            assert otherwise is not None
            return otherwise, otherwise
        return ends(text[0], otherwise)[0], ends(text[-1], otherwise)[1]
    if isinstance(text, Negative):
        return ends(text.operand)
    if isinstance(text, Binary):
        return ends(text.left)[0], ends(text.right)[1]
    if isinstance(text, Call):
        return text.name, ends(text.right)[1]
    return text, text


def _known(names: Iterable[str]) -> str:
    return "known are: " + ", ".join(names)


def _token(text: AttributeValue, kind: str) -> Token:
    if isinstance(text, (list, Negative, Binary, Call)) or text.type != kind:
        raise _WrongKindError
    return text


def _name(text: AttributeValue) -> str:
    """`matrix`, or `matrix-transposed`, which the grammar takes for a difference."""
    if isinstance(text, Binary) and text.operator == "-":
        return f"{_name(text.left)}-{_name(text.right)}"
    return str(_token(text, "NAME"))


def _word(text: AttributeValue, meanings: dict[str, T]) -> T:
    word = _token(text, "NAME")
    if word not in meanings:
        raise _WrongKindError
    return meanings[word]


def _integer(text: AttributeValue) -> int:
    return -_integer(text.operand) if isinstance(text, Negative) else int(_token(text, "INT"))


def _number(text: AttributeValue) -> Number:
    if isinstance(text, Negative):
        number = _number(text.operand)
        if isinstance(number, bool):
            raise _WrongKindError
        return -number
    if isinstance(text, (list, Binary, Call)):
        raise _WrongKindError
    if text.type == "INT":
        return int(text)
    if text.type == "FLOAT":
        return float(text)
    return _word(text, {"true": True, "false": False, "inf": math.inf, "nan": math.nan})


def _block_size(text: AttributeValue) -> BlockSize:
    """`auto`, `128` or `upto(256, 8)`; sizes are at least 1."""
    if isinstance(text, Call):
        size, unit = _integer(text.left), _integer(text.right)
        if text.name != "upto" or min(size, unit) < 1:
            raise _WrongKindError
        return BlockSize.upto(size, unit)
    if isinstance(text, (list, Negative, Binary)):
        raise _WrongKindError
    if text.type == "INT" and int(text) > 0:
        return BlockSize.fixed(int(text))
    return _word(text, {"auto": BlockSize.auto()})


def _each(text: AttributeValue, read: Callable[[AttributeValue], T]) -> tuple[T, ...]:
    if not isinstance(text, list):
        raise _WrongKindError
    return tuple(map(read, text))
