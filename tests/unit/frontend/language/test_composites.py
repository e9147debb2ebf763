"""Functions that are made of others are the same in tile form and in tensor form: op by op, in every dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tiledsl
from tests.support.kernels.lowered_kernels import kernel_from_text, lower, tensor
from tiledsl import tile
from tiledsl.frontend.language import composites, special
from tiledsl.frontend.trace.trace_words import WORDS
from tiledsl.frontend.words.builtin_table import BUILTINS
from tiledsl.ir import graph_ops, tile_ops
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import DType, bf16, bool_, f16, f32, f64, i8, i64, u32

DTYPES = (f64, f32, f16, bf16, i64, i8, u32, bool_)
OF_TWO = (
    tile.atan2, tile.logaddexp, tile.fmod, tile.copysign, tile.logical_and, tile.logical_or, tile.logical_xor,
)  # fmt: skip
CALLS = {
    **{f"tile.{word.__name__}": "x" for word in composites.SCALAR_WORDS if word not in (tile.pow, tile.fma)},
    "tile.minimum": "x, y", "tile.maximum": "x, 2", "tile.fma": "x, y, 2.0",
    "tile.gelu": "x", "tile.silu": "x", "tile.relu": "x", "tile.clip": "x, 0, y", "tile.where": "x, y, 1.5",
    "tile.floor": "x", "tile.ceil": "x", "tile.round": "x",
    **{f"tile.{word.__name__}": "x, axis=0" for word in (*composites.FOLD_WORDS, *composites.INDEX_WORDS)},
    **{f"tile.{word.__name__}": "x, y" if word in OF_TWO else "x" for word in special.SPECIAL_WORDS},
    "tile.softmax": "x, axis=0", "tile.cumsum": "x",
}  # fmt: skip
POWERS = ("x ** 2", "x ** 0.5", "x ** y", "2 ** x", "x ** 3")


def in_tile_form(call: str, dtype: DType) -> Module:
    text = f"""
    def kernel(first: tile.Tensor, second: tile.Tensor):
        out = tile.empty(1, tile.f32)
        for i in tile.grid(1):
            x, y = first[:], second[:]
            tile.print({call})
        return out
    """
    return lower(kernel_from_text(text), first=tensor(1, dtype, (8,)), second=tensor(1, dtype, (8,)))


def in_tensor_form(call: str, dtype: DType) -> Module:
    formula: Callable[..., Any] = eval(f"lambda x, y: {call}", {"tile": tile})
    return tiledsl.trace(formula, tile.spec((8,), dtype), tile.spec((8,), dtype)).module


def steps_of(module: Module) -> list[tuple[object, ...]]:
    """What is computed, in order, in words that both levels have."""
    steps: list[tuple[object, ...]] = []
    for op in module.functions[0].body.walk():
        match op:
            case tile_ops.Map() | graph_ops.Map():
                steps.append((op.fn,))
            case tile_ops.Cast() | graph_ops.Cast():
                steps.append(("cast", op.dtype))
            case tile_ops.Reduce() | graph_ops.Reduce():
                steps.append((op.fn, tuple(op.axes), op.keepdims))
            case tile_ops.Scan() | graph_ops.Scan():
                steps.append((op.fn, op.axis, op.reverse))
            case _:
                pass
    return steps


def outcome(form: Callable[[str, DType], Module], call: str, dtype: DType) -> object:
    """The steps, or the code of the error."""
    try:
        return steps_of(form(call, dtype))
    except tiledsl.TileError as error:
        return error.code


@pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")
@pytest.mark.parametrize("call", [*(f"{word}({args})" for word, args in CALLS.items()), *POWERS])
def test_both_forms_compute_the_same(call: str) -> None:
    for dtype in DTYPES:
        assert outcome(in_tile_form, call, dtype) == outcome(in_tensor_form, call, dtype), dtype


def test_every_composite_is_a_word_of_both_forms() -> None:
    tables = (
        composites.SCALAR_WORDS,
        composites.ELEMENTWISE_WORDS,
        composites.FOLD_WORDS,
        composites.INDEX_WORDS,
        special.SPECIAL_WORDS,
    )
    for word in (word for table in tables for word in table):
        assert word in BUILTINS
        assert word in WORDS


@pytest.mark.parametrize("dtype", [f16, i8])
def test_a_formula_of_several_steps_is_rounded_once(dtype: DType) -> None:
    steps = steps_of(in_tile_form("tile.gelu(x)", dtype))
    assert steps == [("cast", f32), ("mul",), ("erf",), ("add",), ("mul",), ("mul",), ("cast", f16)]


@pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")
def test_bools_are_their_own_absolute_value() -> None:
    for call in ("abs(x)", "tile.abs(x)"):
        assert steps_of(in_tile_form(call, bool_)) == steps_of(in_tensor_form(call, bool_)) == []
