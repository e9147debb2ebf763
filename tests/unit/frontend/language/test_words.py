"""The words of the language: each one has a stub with documentation, and a handler."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tiledsl import TileSyntaxError, tile
from tiledsl.frontend.kernel.calls import HANDLERS
from tiledsl.frontend.language import functions as language_functions
from tiledsl.frontend.language import math as language_math
from tiledsl.frontend.language import program as language_program
from tiledsl.frontend.language import tensors as language_tensors
from tiledsl.frontend.language.values import MemoryLevel, Tensor, TensorSpec, Tile
from tiledsl.frontend.language.word_advice import language_words
from tiledsl.frontend.words.attributes import METHODS
from tiledsl.frontend.words.builtin_table import BUILTINS
from tiledsl.ir.dtypes import BY_NAME

STUBS: dict[str, Callable[..., Any]] = {
    name: value
    for module in (language_math, language_functions, language_program, language_tensors)
    for name, value in vars(module).items()
    if inspect.isfunction(value) and value.__module__ == module.__name__
}


def test_every_word_is_public_and_has_a_handler() -> None:
    assert len(HANDLERS) == 6
    assert set(BUILTINS) == set(STUBS.values())
    assert set(STUBS) <= set(tile.__all__)
    assert all(getattr(tile, name) is stub for name, stub in STUBS.items())
    assert set(language_words()) <= set(tile.__all__)


def test_every_dtype_is_public() -> None:
    for name, dtype in BY_NAME.items():
        assert getattr(tile, name) is dtype
        assert name in tile.__all__


@pytest.mark.parametrize("name", STUBS)
def test_stubs_are_documented_and_refuse_to_run(name: str) -> None:
    stub = STUBS[name]
    assert stub.__doc__
    needed = [p for p in inspect.signature(stub).parameters.values() if p.default is p.empty]
    count = sum(p.kind is not p.VAR_POSITIONAL for p in needed)
    with pytest.raises(TileSyntaxError, match=rf"tile.{name} works inside of a @tile.kernel") as caught:
        stub(*range(count))
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


@pytest.mark.parametrize("kind", [Tile, Tensor])
def test_the_classes_of_values_refuse_to_run(kind: Any) -> None:
    value = kind.__new__(kind)
    with pytest.raises(TileSyntaxError):
        value[0]
    for name in METHODS:
        if kind is Tile and name not in ("transpose",):
            assert callable(getattr(value, name))


def test_operators_of_tiles_refuse_to_run() -> None:
    value = Tile.__new__(Tile)
    for use in (lambda: value + 1, lambda: 2 * value, lambda: -value, lambda: value < 1, lambda: bool(value)):
        with pytest.raises(TileSyntaxError):
            use()


def test_values_of_the_language_print_as_they_are_written() -> None:
    assert repr(tile.auto) == "tile.auto"
    assert (repr(tile.shared), repr(tile.register)) == ("tile.shared", "tile.register")
    assert isinstance(tile.shared, MemoryLevel)
    assert tile.spec(["M", 4, None], tile.f16) == TensorSpec(("M", 4, None), tile.f16)
