"""Words of other libraries: each row of the table says what to write, in tile form and in formulas."""

from __future__ import annotations

import re
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.kernels.lowered_kernels import kernel_from_text, lower
from tiledsl import TileError, ops, tile
from tiledsl.frontend.language.foreign_words import ARGUMENTS, FUNCTIONS, KEYWORDS, METHODS, NAMES
from tiledsl.frontend.language.word_advice import language_words, name_advice
from tiledsl.frontend.trace.traced import TracedTensor
from tiledsl.frontend.words.attributes import METHODS as OWN_METHODS

X = np.ones((3, 4), np.float32)
PLAIN = [name for name in FUNCTIONS if "." not in name]


def in_tile_form(expression: str, **names: object) -> TileError:
    """What a kernel that computes the expression of a tile `t` is told."""
    text = f"""
        def kernel(x):
            M, N = x.shape
            for m, n in tile.grid(M, N):
                t = x[m, n]
                x[m, n] = {expression}
    """
    with pytest.raises(TileError) as caught:
        lower(kernel_from_text(text, **names), x=2)
    return caught.value


def in_a_formula(expression: str, **names: object) -> TileError:
    """What a formula of a tensor `t` is told."""
    formula = kernel_from_text(f"def formula(t):\n    return {expression}", **names)
    with pytest.raises(TileError) as caught:
        tiledsl.trace(formula, X)
    return caught.value


def foreign(name: str) -> ModuleType:
    """A library with one function, which takes whatever implements NumPy's protocol."""
    library = ModuleType("library")

    def function(*values: Any) -> Any:
        return values[0].__array_function__(function, (), values, {})

    function.__name__ = name
    setattr(library, name, function)
    return library


@pytest.mark.parametrize("name", PLAIN)
def test_functions(name: str) -> None:
    library = foreign(name)
    assert isinstance(getattr(library, name), FunctionType)
    advice = FUNCTIONS[name].format(x="x")
    assert in_tile_form(f"library.{name}(t)", library=library).fix == advice
    assert in_a_formula(f"library.{name}(t)", library=library).fix == advice
    assert in_tile_form(f"tile.{name}(t)").fix == advice
    assert in_a_formula(f"tile.{name}(t)").fix == advice


def test_every_op_of_the_library_is_told_to_who_looks_for_it_in_the_language() -> None:
    words = language_words()
    assert [name for name in ops.__all__ if name not in words and name not in FUNCTIONS] == []
    meant = [word for word, advice in FUNCTIONS.items() if advice == f"write `ops.{word}` in a formula"]
    assert set(meant) <= set(ops.__all__)


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    advice = METHODS[name].format(x="t")
    assert in_tile_form(f"t.{name}(1)").fix == advice
    if not hasattr(TracedTensor, name):  # formulas have some of NumPy's and PyTorch's methods
        assert in_a_formula(f"t.{name}(1)").fix == advice


@pytest.mark.parametrize("name", [name for name in NAMES if name != "np"])  # which the kernels of these tests know
def test_modules_that_are_not_imported(name: str) -> None:
    assert in_tile_form(f"{name}.exp(t)").fix == "write `tile.exp`"
    assert in_tile_form(f"{name}.concatenate(t, t)").fix == FUNCTIONS["concatenate"]
    assert in_tile_form(f"{name}.nothing_known(t)").fix == NAMES[name]
    assert name_advice(name, None) == NAMES[name]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "." in name])
def test_members_of_modules_that_mean_something_else_here(name: str) -> None:
    assert in_tile_form(f"{name}(t)").fix == FUNCTIONS[name]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name: str) -> None:
    assert in_tile_form(f"t.sum({name}=1)").fix == ARGUMENTS[name]
    assert in_a_formula(f"tile.sum(t, {name}=1)").fix == ARGUMENTS[name]
    assert in_a_formula(f"t.sum({name}=1)").fix == ARGUMENTS[name]


CALLS = {
    "axis": "tile.sum(t, {})", "axes": "tile.transpose(t, {})", "keepdims": "t.sum(1, {})",
    "dtype": "tile.zeros(3, {})",
    "low": "tile.clip(t, high=2, {})", "high": "tile.clip(t, low=2, {})", "acc": "tile.dot(t, t.T, {})",
    "shape": "tile.broadcast_to(t, {})", "x": "tile.exp({})", "reverse": "tile.cumsum(t, 0, {})",
}  # fmt: skip


@pytest.mark.parametrize("name", KEYWORDS)
def test_names_of_arguments(name: str) -> None:
    meant = KEYWORDS[name]
    if meant in CALLS:
        call = CALLS[meant].format(f"{name}=1")
        assert in_tile_form(call).fix.startswith(f"write `{meant}=`")
        assert in_a_formula(call).fix.startswith(f"write `{meant}=`")
    else:
        text = (
            f"def kernel(x):\n    for m in tile.grid(3):\n        for k in tile.range(3, {name}=2):\n            pass"
        )
        with pytest.raises(TileError) as caught:
            lower(kernel_from_text(text), x=1)
        assert caught.value.fix.startswith(f"write `{meant}=`")


def test_the_advice_names_words_that_there_are() -> None:
    for table in (FUNCTIONS, METHODS, NAMES, ARGUMENTS):
        for advice in table.values():
            assert all(hasattr(tile, word) for word in re.findall(r"\btile\.(\w+)", advice)), advice
            assert all(hasattr(ops, word) for word in re.findall(r"\bops\.(\w+)", advice)), advice


def test_no_row_hides_a_word_of_the_language() -> None:
    assert not set(PLAIN) & set(language_words())
    assert not set(METHODS) & set(OWN_METHODS)


def test_an_attribute_that_is_asked_for_is_not_there() -> None:
    seen: list[bool] = []

    def formula(x: Any) -> Any:
        seen.extend([hasattr(x, "var"), hasattr(x, "__cuda_array_interface__"), hasattr(tile, "concatenate")])
        return x + 1

    tiledsl.trace(formula, X)
    assert seen == [False, False, False]


@pytest.mark.parametrize(
    ("expression", "fix"),
    [
        ("t.size(0)", "write `t.shape[axis]`, or `t.size`"),
        ("t.exp()", "write `tile.exp(t)`"),
        ("t.reshpe(3)", "did you mean `t.reshape`?"),
        ("x.sum()", "subscript it first: `x[...].sum`"),
        ("t and t", "write `&`: `(a) & (b)`, in parentheses"),
        ("t or t", "write `|`: `(a) | (b)`, in parentheses"),
        ("not t", "write `~`: `~(t)`"),
        ("tile.softmx(t)", "did you mean `tile.softmax`?"),
    ],
)
def test_other_habits(expression: str, fix: str) -> None:
    assert in_tile_form(expression).fix == fix
