"""Folds of folds become one fold after the loop, where that is the same and registers are enough."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_code.gpu_lowering import Array, run_as_launched
from tests.support.pass_runs import run_passes
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.ir.gpu.gpu_ops import Reduce
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.tile_ops import For
from tiledsl.passes.gpu.transforms.delay_folds import MOST_SLOTS

FIRST = {"add": 0, "maximum": -1000, "minimum": 1000, "or": 0, "and": -1}
LOOP = """func @fold(%x: tensor<{dtype}, [M, N], unit=1>) {{
  %y = tile.empty() {{shape = [N], dtype = {dtype}}}
  %N = tile.size() {{value = N}}
  tile.grid([%N]) {{blocks = [auto]}} body(%n: axis<n>) {{
    %first = tile.constant() {{value = {first}, dtype = {dtype}}}
    %none = tile.broadcast(%first) {{shape = [n]}}
    %start = tile.constant() {{value = 0, dtype = i64}}
    %M = tile.size() {{value = M}}
    %total = tile.range(%start, %M, [%none]) {{blocks = [auto]}} body(%m: axis<m>, %partial: tile<{dtype}, [n]>) {{
      %block = tile.load(%x, [%m, %n])
      %part = tile.reduce([%block]) {{axes = [0], fn = {fold}, keepdims = false}}
      {between}
      %next = tile.map([{operands}]) {{fn = {combine}}}
      tile.yield([%next])
    }}
    tile.store(%y, [%n], %total)
  }}
  tile.return([%y])
}}
"""
FOLDS = {"add": "add", "maximum": "max", "minimum": "min"}


def fold(
    combine: str = "add", dtype: str = "f32", fold: str = "", between: str = "", operands: str = "%partial, %part"
) -> str:
    """A loop that joins folds of blocks; `between` stands after the fold of a turn."""
    first = FIRST[combine] if dtype[0] == "i" else float(FIRST[combine])
    return LOOP.format(
        dtype=dtype, first=first, fold=fold or FOLDS[combine], between=between, operands=operands, combine=combine
    )


PLAN = "n=32, m=16, 128 threads, aligned to 16/16"


def planned(text: str, plan: str = PLAN) -> Module:
    """In TILE form, with blocks as the plan says."""
    return run_passes(f'infer-shapes,canonicalise,cse,licm,dce,place-levels,apply-plan{{plan="{plan}"}}', text)


def lowered(text: str, plan: str = PLAN) -> Module:
    passes = f'lower-to-gpu{{plan="{plan}",arch=sm_90}},delay-folds,tidy,allocate-shared{{arch=sm_90}},insert-barriers'
    return run_passes(passes, print_module(planned(text, plan)))


def folds_after_the_loop(module: Module) -> bool:
    """Whether the only fold of the program stands behind its loop, not in it."""
    (op,) = [op for op in module.walk() if isinstance(op, Reduce)]
    (loop,) = [op for op in module.walk() if isinstance(op, For)]
    return op.parent is loop.parent


def same_as_before(text: str, module: Module, dtype: str, plan: str = PLAN) -> None:
    x: Array = np.random.default_rng(0).integers(-9, 10, (41, 48)).astype(to_numpy(BY_NAME[dtype]))
    (wanted,) = execute(planned(text, plan).entry, [x])
    (got,) = run_as_launched(module.entry, [x])
    np.testing.assert_array_equal(got, wanted)  # whole numbers: sums are exact in any order


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
@pytest.mark.parametrize("combine", FOLDS)
def test_tiles_are_carried_and_folded_once(combine: str, dtype: str) -> None:
    text = fold(combine, dtype)
    module = lowered(text)
    assert folds_after_the_loop(module)
    (loop,) = [op for op in module.walk() if isinstance(op, For)]
    assert loop.results[0].shape == (16, 32)
    same_as_before(text, module, dtype)


@pytest.mark.parametrize("combine", ["or", "and"])
def test_bits_are_carried_too(combine: str) -> None:
    text = fold(combine, "i16", combine)
    module = lowered(text)
    assert folds_after_the_loop(module)
    same_as_before(text, module, "i16")


def test_the_order_of_operands_is_nothing_to_it() -> None:
    text = fold(operands="%part, %partial")
    module = lowered(text)
    assert folds_after_the_loop(module)
    same_as_before(text, module, "f32")


@pytest.mark.parametrize("combine", FOLDS)
def test_of_large_tiles_slices_are_carried(combine: str) -> None:
    """A thread has 128 elements of the tile, and registers for fewer."""
    text, plan = fold(combine), "n=128, m=32, 32 threads, aligned to 16/16"
    module = lowered(text, plan)
    assert folds_after_the_loop(module)
    (loop,) = [op for op in module.walk() if isinstance(op, For)]
    assert loop.results[0].layout.slots <= MOST_SLOTS
    same_as_before(text, module, "f32", plan)


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        # of another kind than what joins them
        (fold("add", fold="max"), PLAN),
        # each partial sum is rounded
        (fold(dtype="f16"), PLAN),
        # something else wants the fold of a turn, and what is carried
        (fold(between="tile.print([%part])"), PLAN),
        (fold(between="tile.print([%partial])"), PLAN),
        # a sum of a sum and something else
        (fold(between="%twice = tile.map([%part, %part]) {fn = add}", operands="%partial, %twice"), PLAN),
    ],
    ids=["another", "narrow", "read", "carried", "between"],
)
def test_else_each_turn_folds(text: str, plan: str) -> None:
    module = lowered(text, plan)
    assert not folds_after_the_loop(module)
    if "print" not in text:
        same_as_before(text, module, "f16" if "f16" in text else "f32", plan)
