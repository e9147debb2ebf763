"""What commands call things with: specifications of arguments, sizes, compile-time arguments; and the option `--json`.

Each command declares these by one function from here, and reads them by another, so that they are the same everywhere.
"""

from __future__ import annotations

import argparse
import ast
import re
from typing import cast

from tiledsl.frontend.language.values import TensorSpec
from tiledsl.ir.dtypes import ALL, BY_NAME
from tiledsl.support.errors import fail

_SPEC = re.compile(r"\s*(\w+)\s*\[([^\]]*)\]\s*")
_NUMBER_TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool}
DRAWN = "one argument, in order, drawn at random: f32[M,64], int, float or bool; or a number, which is passed"


def add_specs(parser: argparse.ArgumentParser, help: str = DRAWN, metavar: str = "SPEC") -> None:
    """`--spec`, once for each argument; the texts are `options.spec`."""
    parser.add_argument("--spec", action="append", default=[], metavar=metavar, help=help)


def add_sizes(parser: argparse.ArgumentParser, help: str = "what a size is") -> None:
    """`--size`, once for each; `sizes_of` reads them."""
    parser.add_argument("--size", action="append", default=[], metavar="NAME=NUMBER", help=help)


def add_constants(parser: argparse.ArgumentParser) -> None:
    """`--constexpr`, once for each; `constants_of` reads them."""
    help = "a compile-time argument"
    parser.add_argument("--constexpr", action="append", default=[], metavar="NAME=VALUE", help=help)


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`; `as_json.show` heeds it."""
    parser.add_argument("--json", action="store_true", help="as JSON, for scripts")


def sizes_of(options: argparse.Namespace) -> dict[str, int]:
    """By name. Raises TileSyntaxError."""
    return dict(parse_size(text) for text in cast("list[str]", options.size))


def constants_of(options: argparse.Namespace) -> dict[str, object]:
    """By name. Raises TileSyntaxError."""
    return dict(parse_constant(text) for text in cast("list[str]", options.constexpr))


def parse_size(text: str) -> tuple[str, int]:
    """`M=128`. Raises TileSyntaxError for anything else."""
    name, _, value = (part.strip() for part in text.partition("="))
    if not name.isidentifier() or not value.isdecimal():
        fail("command-size", None, text=text)
    return name, int(value)


def parse_argument(text: str) -> TensorSpec | int | float | bool | type:
    """One argument: `f32[M,64]`, `int`, or a number that stands for itself. Raises TileSyntaxError for what is none."""
    try:
        number: object = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        number = None
    if isinstance(number, (int, float)):
        return number
    spec = parse_spec(text)
    if isinstance(spec, TensorSpec) and spec.dtype.bits < 8:
        known = ", ".join(dtype.name for dtype in ALL if dtype.bits >= 8)
        fail("command-spec", None, text=text, known=known)
    assert isinstance(spec, (TensorSpec, type))
    return spec


def parse_spec(text: str) -> object:
    """`f32[M,64,?]` as a tensor spec, `int` as a number type. Raises TileSyntaxError for anything else."""
    if text in _NUMBER_TYPES:
        return _NUMBER_TYPES[text]
    found = _SPEC.fullmatch(text)
    dtype = BY_NAME.get(found[1]) if found else None
    words = [word.strip() for word in found[2].split(",")] if found and found[2].strip() else []
    fits = all(word == "?" or word.isdecimal() or word.isidentifier() for word in words)
    if dtype is None or not fits:
        fail("command-spec", None, text=text, known=", ".join(BY_NAME))
    sizes = [None if word == "?" else int(word) if word.isdecimal() else word for word in words]
    return TensorSpec(tuple(sizes), dtype)


def parse_constant(text: str) -> tuple[str, object]:
    """`NAME=VALUE`: a Python literal, the name of a dtype, or else a string. Raises TileSyntaxError without the `=`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        fail("command-constant", None, text=text)
    value = value.strip()
    if value in BY_NAME:
        return name.strip(), BY_NAME[value]
    try:
        return name.strip(), ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name.strip(), value
