"""Kernel sources: where things stand in the user's file, and what free names stand for."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.kernels.lowered_kernels import kernel_from_text
from tiledsl import TileSyntaxError, tile
from tiledsl.frontend.source.kernel_source import KernelFunction, KernelSource

FACTOR = 3


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def position(source: KernelSource, text: str) -> tuple[int, int, int]:
    """The line and the columns of the first node that reads `text`."""
    node = next(node for node in ast.walk(source.tree) if isinstance(node, ast.expr) and source.segment(node) == text)
    place = source.location(node)
    return place.line, place.column, place.end_column


def test_positions_in_a_file() -> None:
    source = KernelSource(kernel_from_text("x = 1\n\ndef f(a):\n    return a + 1\n"))
    assert position(source, "a + 1") == (4, 12, 17)
    assert source.location(source.tree).line == 3
    assert source.definition.line == 3


def test_positions_of_an_indented_decorated_function() -> None:
    def outer() -> Callable[..., Any]:
        @decorated
        @decorated
        def inner(a: Any) -> Any:
            """Less indented text
            in a docstring."""
            return a + 22

        return inner

    source = KernelSource(outer())
    line, column, end = position(source, "a + 22")
    text = Path(source.file).read_text().splitlines()[line - 1]
    assert text[column - 1 : end - 1] == "a + 22"


def test_columns_count_characters_and_not_bytes() -> None:
    source = KernelSource(kernel_from_text("def f(größe):\n    return (größe, größe + 1)\n"))
    assert position(source, "größe + 1") == (2, 20, 29)


def test_nodes_over_several_lines() -> None:
    source = KernelSource(kernel_from_text("def f(a):\n    return (a +\n        1)\n"))
    (node,) = (n for n in ast.walk(source.tree) if isinstance(n, ast.BinOp))
    place = source.location(node)
    assert (place.line, place.column, place.end_line, place.end_column) == (2, 13, 3, 10)
    assert source.segment(node) == "a + 1"


def test_two_functions_of_one_name() -> None:
    first = kernel_from_text("def f(a):\n    return 1\ng = f\ndef f(a):\n    return 2\n")
    source = KernelSource(first)  # g: the first f
    assert source.segment(source.tree.body[0]) == "return 1"


def test_free_names() -> None:
    inside, unset = 7, 8

    def kernel() -> Any:
        return inside, FACTOR, len, unset, missing  # pyright: ignore[reportUndefinedVariable] # noqa: F821

    del unset
    source = KernelSource(kernel)
    assert source.lookup("inside") == (True, 7)
    assert source.lookup("FACTOR") == (True, 3)
    assert source.lookup("len") == (True, len)
    assert source.lookup("unset") == (False, None)
    assert source.lookup("missing") == (False, None)
    assert {"inside", "FACTOR"} <= set(source.visible_names())


def test_the_source_is_not_read_before_it_is_needed() -> None:
    scope: dict[str, Any] = {}
    exec(compile("def lost(x): pass", "<nowhere>", "exec"), scope)
    source = KernelSource(scope["lost"])
    assert list(source.signature.parameters) == ["x"]
    with pytest.raises(TileSyntaxError, match="cannot be read"):
        _ = source.tree


def test_helpers_keep_their_names_and_refuse_calls() -> None:
    @tile.func
    def half(x: Any) -> Any:
        """x / 2"""
        return x / 2

    assert isinstance(half, KernelFunction)
    assert (half.__name__, half.__doc__, repr(half)) == ("half", "x / 2", "<tile.func half>")
    with pytest.raises(TileSyntaxError, match=r"tile.half works inside of a @tile.kernel"):
        half(1)
