"""Pipelines as text: `canonicalise,infer-tiling{arch=cpu},infer-shapes{M=1024,K=N}`.

The options in braces are the fields of the pass. A pass with a field `sizes` takes any other name as that of a size.
A value with commas is quoted: `apply-plan{plan="m=4, 128 threads"}`.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Literal, NoReturn, cast, get_args, get_origin, get_type_hints

from tiledsl.ir.symbolic import Dim, symbol
from tiledsl.ir.text.printer import IDENTIFIER
from tiledsl.passes.gpu.plan import Plan, parse_plan
from tiledsl.passes.manager import Pass
from tiledsl.passes.registry import PASSES
from tiledsl.support.errors import fail
from tiledsl.support.location import Location
from tiledsl.support.suggest import suggest

FILE = "<pipeline>"
"""What errors call the text."""

_TOKEN = re.compile(r'\s*(?:(?P<mark>[,{}=])|(?P<quoted>"[^"]*")|(?P<word>[^\s,{}="]+|"))')
_EXAMPLES = {"plan": '"m=4, 128 threads"'}


def parse_pipeline(text: str) -> list[Pass]:
    """The passes that `text` names, with their options.

    Raises TileSyntaxError for text that is no pipeline and for names that do not exist, TileTypeError for values that
    an option cannot have.
    """
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)  # for the carets of errors
    return _PipelineReader(text).pipeline()


class _PipelineReader:
    """Reads from `position` on, a word or a mark at a time."""

    def __init__(self, text: str) -> None:
        self.tokens = [(m.group(m.lastgroup or 0), m.start(m.lastgroup or 0)) for m in _TOKEN.finditer(text)]
        self.end = len(text.rstrip())
        self.position = 0

    def pipeline(self) -> list[Pass]:
        passes: list[Pass] = []
        while self.tokens:
            passes.append(self.step())
            if self.position == len(self.tokens):
                break
            self.mark(",", "`,` or `{`" if self.tokens[self.position - 1][0] != "}" else "`,`")
        return passes

    def step(self) -> Pass:
        here = self.here()
        name = self.word("the name of a pass")
        kind = PASSES.get(name)
        if kind is None:
            hint = suggest(name, PASSES, "passes: " + ", ".join(sorted(PASSES)))
            fail("pass-unknown", here, name=name, hint=hint)
        options: dict[str, Any] = {}
        sizes: dict[str, Dim] = {}
        if self.peek() == "{":
            self.position += 1
            while self.peek() != "}":
                self.option(kind, options, sizes)
                if self.peek() != "}":
                    self.mark(",", "`,` or `}`")
            self.position += 1
        if sizes:
            options["sizes"] = tuple(sizes.items())
        for missing in required_options(kind) - set(options):
            fail("pass-option-missing", here, name=name, option=missing, example=_EXAMPLES.get(missing, "..."))
        return kind(**options)

    def option(self, kind: type[Pass], options: dict[str, Any], sizes: dict[str, Dim]) -> None:
        here = self.here()
        option = self.word("the name of an option, or `}`")
        self.mark("=", "`=`")
        value_here = self.here()
        value = self.word("the value of the option").strip('"')
        if option in options or option in sizes:
            fail("pass-option-twice", here, name=kind.name, option=option)
        types = option_types(kind)
        if option in types:
            options[option] = _read_value(kind.name, option, types[option], value, value_here)
        elif "sizes" in get_type_hints(kind) and IDENTIFIER.fullmatch(option):
            sizes[option] = _read_size(kind.name, option, value, value_here)
        else:
            hint = suggest(option, types, "its options: " + (", ".join(types) or "none"))
            fail("pass-option-unknown", here, name=kind.name, option=option, hint=hint)

    def peek(self) -> str | None:
        return self.tokens[self.position][0] if self.position < len(self.tokens) else None

    def here(self) -> Location:
        if self.position == len(self.tokens):
            return Location(FILE, 1, self.end + 1)
        token, start = self.tokens[self.position]
        return Location(FILE, 1, start + 1, end_column=start + 1 + len(token))

    def word(self, expected: str) -> str:
        token = self.peek()
        if token is None or token in ",{}=":
            self.unexpected(expected)
        self.position += 1
        return token

    def mark(self, mark: str, expected: str) -> None:
        if self.peek() != mark:
            self.unexpected(expected)
        self.position += 1

    def unexpected(self, expected: str) -> NoReturn:
        token = self.peek()
        fail("pass-text", self.here(), expected=expected, found="the end" if token is None else f"`{token}`")


def option_types(kind: type[Pass]) -> Mapping[str, Any]:
    """The types of a pass's options by name; `sizes` is not an option but takes all other names."""
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(cast(Any, kind)) if f.name != "sizes"}


def required_options(kind: type[Pass]) -> set[str]:
    """The options that have no default."""
    return {f.name for f in fields(cast(Any, kind)) if f.default is MISSING and f.default_factory is MISSING}


def _read_value(name: str, option: str, type_: Any, text: str, here: Location) -> object:
    expected, example = "text", "text"
    if type_ is bool:
        if text in ("true", "false"):
            return text == "true"
        expected, example = "true or false", "true"
    elif type_ is int:
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        expected, example = "an integer", "16"
    elif type_ == tuple[int, ...]:
        if re.fullmatch(r"\d+(/\d+)*", text):
            return tuple(map(int, text.split("/")))
        expected, example = "integers with `/` between them", "4/1"
    elif get_origin(type_) is Literal:
        choices = get_args(type_)
        if text in choices:
            return text
        expected, example = "one of " + ", ".join(choices), choices[0]
    elif type_ is Plan:
        try:
            return parse_plan(text)
        except ValueError as error:
            expected, example = f"a plan ({error})", _EXAMPLES["plan"]
    else:
        assert type_ is str, f"an option of type {type_} cannot be read from text"
        return text
    fail(
        "pass-option-value",
        here,
        name=name,
        option=option,
        expected=expected,
        value=text,
        example=f"{option}={example}",
    )


def _read_size(name: str, option: str, text: str, here: Location) -> Dim:
    if text.isdecimal():
        return int(text)
    if IDENTIFIER.fullmatch(text):
        return symbol(text)
    expected = "a number or another size"
    fail("pass-option-value", here, name=name, option=option, expected=expected, value=text, example=f"{option}=128")
