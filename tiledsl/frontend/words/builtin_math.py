"""Elementwise words of the language, in tile form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiledsl.frontend.language import math as language
from tiledsl.frontend.language.composites import ELEMENTWISE_WORDS, SCALAR_WORDS
from tiledsl.frontend.language.special import SPECIAL_WORDS
from tiledsl.frontend.words.builtin_table import Arguments, Handler, lowers
from tiledsl.frontend.words.elementwise import TileSteps, apply, cast
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.values import FrontValue


def _scalar_function(fn: str) -> Handler:
    def handler(low: Lowering, arguments: Arguments) -> FrontValue:
        return apply(low, fn, *arguments.operands.values())

    return handler


def _composite(composite: Callable[..., Any]) -> Handler:
    def handler(low: Lowering, arguments: Arguments) -> FrontValue:
        return composite(TileSteps(low), *map(arguments.read, arguments.operands)).value

    return handler


for _stub, _fn in SCALAR_WORDS.items():
    lowers(_stub)(_scalar_function(_fn))
for _stub, _composed in {**ELEMENTWISE_WORDS, **SPECIAL_WORDS}.items():
    lowers(_stub)(_composite(_composed))


@lowers(language.cast)
def cast_to(low: Lowering, arguments: Arguments) -> FrontValue:
    return cast(low, arguments["x"], arguments.dtype("dtype"))
