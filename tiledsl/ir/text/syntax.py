"""IR text as a tree: what grammar.lark alone can tell, before names, kinds and types are looked at.

The nodes keep lark's tokens (strings that know their place), so that `parser` can point at the very word it rejects.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, Union, cast

from tiledsl.support.errors import fail
from tiledsl.support.location import Location

if TYPE_CHECKING:
    from lark import Lark, Token
    from lark.exceptions import UnexpectedInput


@dataclass(slots=True)
class Negative:
    operand: Expression


@dataclass(slots=True)
class Binary:
    operator: Literal["+", "-", "*", "//", "%"]
    left: Expression
    right: Expression


@dataclass(slots=True)
class Call:
    """`min(a, b)`, `upto(1008, 14)`"""

    name: Token
    left: Expression
    right: Expression


Expression: TypeAlias = "Union[Token, Negative, Binary, Call]"
"""A size, or a bare word or number of any other kind of attribute."""
AttributeValue: TypeAlias = "Union[Expression, list[AttributeValue]]"


@dataclass(slots=True)
class SliceText:
    """`start:stop`, or `:` where both are None."""

    start: Expression | None
    stop: Expression | None


OperandText: TypeAlias = "Union[Token, list[Union[Token, SliceText]]]"
"""`%x`, `none` (told apart by the token's type), or a list in brackets."""


@dataclass(slots=True)
class TypeText:
    """`f32` (shape and extent None), `tile<f32, [m], register>`, `tensor<f32, [M], unit=0>` or `axis<m>`.

    `layout`: the word behind a tile's level.
    """

    word: Token
    last: Token
    dtype: Token | None = None
    shape: list[Expression] | None = None
    suffix: Token | None = None
    number: Token | None = None
    extent: Expression | None = None
    layout: Token | None = None


@dataclass(slots=True)
class ArgumentText:
    name: Token
    type: TypeText


@dataclass(slots=True)
class AttributeText:
    name: Token
    value: AttributeValue


@dataclass(slots=True)
class SpanText:
    file: Token
    numbers: list[Token]


@dataclass(slots=True)
class BodyText:
    name: Token
    arguments: list[ArgumentText]
    ops: list[OpText]


@dataclass(slots=True)
class OpText:
    results: list[Token]
    name: Token
    operands: list[OperandText]
    attributes: list[AttributeText]
    types: list[TypeText]
    last: Token
    """The last word before location and bodies."""
    location: list[SpanText]
    bodies: list[BodyText]


@dataclass(slots=True)
class FactText:
    condition: Expression
    value: Token


@dataclass(slots=True)
class FunctionText:
    name: Token
    parameters: list[ArgumentText]
    last: Token
    facts: list[FactText]
    location: list[SpanText]
    ops: list[OpText]


class _TreeBuilder:
    """One method for each rule of the grammar, called by lark with the rule's parts: each gives the rule's node."""

    def module(self, parts: list[FunctionText]) -> list[FunctionText]:
        return parts

    def function(self, parts: list[Any]) -> FunctionText:
        name, parameters, last, facts, location, ops, _ = parts
        return FunctionText(name, parameters, last, facts, location, ops)

    def facts(self, parts: list[FactText]) -> list[FactText]:
        return parts

    def fact(self, parts: list[Any]) -> FactText:
        return FactText(*parts)

    def block(self, parts: list[OpText]) -> list[OpText]:
        return parts

    def arguments(self, parts: list[ArgumentText]) -> list[ArgumentText]:
        return parts

    def argument(self, parts: list[Any]) -> ArgumentText:
        return ArgumentText(*parts)

    def op(self, parts: list[Any]) -> OpText:
        results, name, operands, close, (attributes, closing_brace), types, location, *bodies = parts
        last = types[-1].last if types else closing_brace or close
        return OpText(results, name, operands, attributes, types, last, location, bodies)

    def results(self, parts: list[Token]) -> list[Token]:
        return parts

    def body(self, parts: list[Any]) -> BodyText:
        name, arguments, _, ops, _ = parts
        return BodyText(name, arguments, ops)

    def operands(self, parts: list[OperandText]) -> list[OperandText]:
        return parts

    def index_list(self, parts: list[Any]) -> list[Any]:
        return parts

    def whole(self, parts: list[Any]) -> SliceText:
        return SliceText(None, None)

    def slice(self, parts: list[Any]) -> SliceText:
        return SliceText(*parts)

    def attributes(self, parts: list[Any]) -> tuple[list[AttributeText], Token | None]:
        return (parts[:-1], parts[-1]) if parts else ([], None)

    def attribute(self, parts: list[Any]) -> AttributeText:
        return AttributeText(*parts)

    def value_list(self, parts: list[AttributeValue]) -> list[AttributeValue]:
        return parts

    def types(self, parts: list[TypeText]) -> list[TypeText]:
        return parts

    def scalar_type(self, parts: list[Token]) -> TypeText:
        return TypeText(parts[0], parts[0])

    def shaped_type(self, parts: list[Any]) -> TypeText:
        word, dtype, shape, *suffix, last = parts
        return TypeText(word, last, dtype, shape, *suffix)

    def laid_out_type(self, parts: list[Any]) -> TypeText:
        word, dtype, shape, level, layout, last = parts
        return TypeText(word, last, dtype, shape, level, layout=layout)

    def axis_type(self, parts: list[Any]) -> TypeText:
        word, extent, last = parts
        return TypeText(word, last, extent=extent)

    def shape(self, parts: list[Expression]) -> list[Expression]:
        return parts

    def add(self, parts: list[Expression]) -> Binary:
        return Binary("+", *parts)

    def sub(self, parts: list[Expression]) -> Binary:
        return Binary("-", *parts)

    def mul(self, parts: list[Expression]) -> Binary:
        return Binary("*", *parts)

    def floordiv(self, parts: list[Expression]) -> Binary:
        return Binary("//", *parts)

    def mod(self, parts: list[Expression]) -> Binary:
        return Binary("%", *parts)

    def negative(self, parts: list[Expression]) -> Negative:
        return Negative(*parts)

    def call(self, parts: list[Any]) -> Call:
        return Call(*parts[:3])

    def parentheses(self, parts: list[Any]) -> Expression:
        return parts[0]

    def location(self, parts: list[Any]) -> list[SpanText]:
        return parts[:-1]

    def span(self, parts: list[Token]) -> SpanText:
        return SpanText(parts[0], parts[1:])


@cache
def _lark() -> Lark:
    from lark import Lark  # here, not above: it costs 40 ms, and most programs read no IR text

    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    builder = cast(Any, _TreeBuilder())  # lark asks for no more than methods named like the rules
    return Lark(grammar, start="module", parser="lalr", transformer=builder, maybe_placeholders=False)


def parse_syntax(text: str, file: str) -> list[FunctionText]:
    """The tree of `text`. Raises TileSyntaxError where the text does not follow the grammar.

    The text is made known to `linecache` as `file`, so that this and later errors can show its lines.
    """
    from lark.exceptions import UnexpectedInput  # as in _lark

    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        return cast("list[FunctionText]", _lark().parse(text))  # pyright: ignore[reportUnknownMemberType] -- lark's
    except UnexpectedInput as error:
        unexpected = error
    _fail_unexpected(unexpected, file)


def token_location(first: Token, file: str, last: Token | None = None) -> Location:
    """The span from one token to another (or of one alone)."""
    last = first if last is None else last
    # lark leaves no place out, though the types of its tokens allow for that
    assert isinstance(first.line, int)
    assert isinstance(first.column, int)
    assert isinstance(last.end_line, int)
    assert isinstance(last.end_column, int)
    return Location(file, first.line, first.column, last.end_line, last.end_column)


def _fail_unexpected(error: UnexpectedInput, file: str) -> NoReturn:
    token: Token | None = getattr(error, "token", None)
    if token is None:
        character: str = getattr(error, "char")  # noqa: B009 -- typed: lark has one class for each of the two cases
        location, found = Location(file, error.line, error.column), f"`{character}`"
    elif token.type == "$END":
        location, found = _end_of_text(file), "the end of the text"
    else:
        location, found = token_location(token, file), f"`{token}`"
    expected = cast("set[str]", error.interactive_parser.accepts())
    fail("text-unexpected", location, expected=_expected(expected), found=found)


def _end_of_text(file: str) -> Location:
    lines = linecache.getlines(file)
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return Location(file, max(1, len(lines)), len(lines[-1].rstrip()) + 1 if lines else 1)


_WORDS = {
    "VALUE": "a value such as %x",
    "NAME": "a name",
    "OP": "an op such as tile.load",
    "INT": "a number",
    "FLOAT": "a number",
    "STRING": 'a text in "quotes"',
    "LAYOUT": "a layout such as `local(2, 1) * spatial(8, 4)`",
    "FUNCTION": "a function name such as @f",
    "$END": "the end of the text",
}


def _expected(terminals: set[str]) -> str:
    """`` `,` or a name ``: what may come next, in words."""
    words: set[str] = set()
    for terminal in terminals:
        if terminal in _WORDS:
            words.add(_WORDS[terminal])
        else:
            words.add(f"`{_lark().get_terminal(terminal).pattern.value}`")
    operators = {"`+`", "`*`", "`//`", "`%`"}
    if operators <= words:
        words = words - operators - {"`-`"} | {"an operator"}
    first, *others = sorted(words, key=lambda word: (not word.startswith("`"), word))
    return first if not others else ", ".join([first, *others[:-1]]) + f" or {others[-1]}"
