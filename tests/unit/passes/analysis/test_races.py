from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.kernels.kernels_racy import INTEGERS, RACY, RANKS, SOUND
from tests.support.kernels.lowered_kernels import kernel_from_text, lower, tensor
from tiledsl import Kernel, TileRaceError, tile, trace
from tiledsl.frontend.kernel.arguments import Argument, ScalarArgument
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import f32, i64
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.analysis.races import refuse_races
from tiledsl.support.errors import CATALOGUE


def lowered(function: Callable[..., Any], ranks: dict[str, int]) -> Module:
    given: dict[str, Argument | int] = {
        name: tensor(rank, i64 if name in INTEGERS else f32) if rank else ScalarArgument("int")
        for name, rank in ranks.items()
    }
    return lower(function, **given)


@pytest.mark.parametrize("function", RACY, ids=lambda f: f.__name__)
def test_race_is_refused(function: Callable[..., Any]) -> None:
    code, message, fix = RACY[function]
    with pytest.raises(TileRaceError) as caught:
        refuse_races(lowered(function, RANKS[function]).entry)
    assert caught.value.code == code
    assert message in caught.value.message
    assert fix in caught.value.fix
    assert caught.value.location is not None
    assert caught.value.location.file == __file__.replace(
        "unit/passes/analysis/test_races", "support/kernels/kernels_racy"
    )


@pytest.mark.parametrize("function", SOUND, ids=lambda f: f.__name__)
def test_sound_kernel_is_not(function: Callable[..., Any]) -> None:
    refuse_races(lowered(function, SOUND[function]).entry)


def test_both_sides_are_shown() -> None:
    with pytest.raises(TileRaceError) as caught:
        refuse_races(lowered(next(f for f in RACY if f.__name__ == "store_of_each"), {"x": 2}).entry)
    lines = str(caught.value).splitlines()
    carets = [lines[i - 1][line.index("^") : line.rindex("^") + 1] for i, line in enumerate(lines) if "^" in line]
    assert carets == ["y[m]", "x[m, n]", "for m, n in tile.grid(M, N):"]


@pytest.mark.parametrize("arch", ["cpu", "reference", "sm_90"])
def test_every_target_refuses(arch: str) -> None:
    function = kernel_from_text("""
        def f(x):
            M, N = x.shape
            y = tile.empty(M, x.dtype)
            for m, n in tile.grid(M, N):
                y[m] = tile.max(x[m, n], axis=1)
            return y
    """)
    with pytest.raises(TileRaceError):
        Kernel(function).compile(tile.spec(("M", "N"), tile.f32), arch=arch)


def test_calls_in_formulas_are_looked_at() -> None:
    kernel = Kernel(next(f for f in RACY if f.__name__ == "store_of_each"))

    def formula(x: Any) -> Any:
        return kernel(x) + 1

    with pytest.raises(TileRaceError, match="called from"):
        trace(formula, tile.spec((8, 8), tile.f32))


TWO_AXES = """
func @f(%a: tensor<f32, [M, N], unit=1>) {
  %M = tile.size() {value = M} : i64
  %N = tile.size() {value = N} : i64
  %one = tile.constant() {value = OFFSET, dtype = i64} : i64
  tile.grid([%M, %N]) {blocks = [auto, BLOCK]} body(%m: axis<m>, %n: axis<n>) {
    %there = tile.shift(%n, %one)
    %x = tile.load(%a, [%m, %there])
    tile.store(%a, [%m, %n], %x)
  }
  tile.return([%a])
}
"""


@pytest.mark.parametrize("offset", [1, -1, 1000, 0])
@pytest.mark.parametrize("block", ["auto", "64", "upto(64, 8)"])
def test_of_shifts_all_but_none_are_races(offset: int, block: str) -> None:
    text = TWO_AXES.replace("OFFSET", str(offset)).replace("BLOCK", block)
    module = parse_module(text)
    if offset == 0 or (offset == 1000 and block == "64"):  # not among the programs that are looked at
        refuse_races(module.entry)
    else:
        with pytest.raises(TileRaceError):
            refuse_races(module.entry)


def test_sizes_that_are_known_leave_one_program() -> None:
    text = TWO_AXES.replace("OFFSET", "1").replace("BLOCK", "64").replace("[M, N]", "[M, 64]").replace("= N}", "= 64}")
    refuse_races(parse_module(text).entry)


def test_long_unrolled_code_is_looked_at_in_bounded_time() -> None:
    rows = "\n".join(f"        y[{i}, n] = y[{i - 1}, n] + x[n]" for i in range(1, 500))
    function = kernel_from_text(f"""
def f(x, y):
    N = x.shape[0]
    for n in tile.grid(N):
{rows}
""")
    refuse_races(lower(function, x=1, y=2).entry)


def test_grids_of_many_axes_are_looked_at_in_bounded_time() -> None:
    axes = ", ".join(f"i{n}" for n in range(6))
    stores = "\n".join(f"        y[{axes}, {n}] = y[{axes}, {n + 1}] + 1" for n in range(0, 40, 2))
    function = kernel_from_text(f"def f(y):\n    for {axes} in tile.grid(4, 4, 4, 4, 4, 4):\n{stores}\n")
    refuse_races(lower(function, y=7).entry)


def test_a_bound_that_is_computed_is_left_out_of_the_fix() -> None:
    function = kernel_from_text("""
        def f(x, y, count):
            for n in tile.grid(count):
                y[0] = tile.sum(x[n])
    """)
    with pytest.raises(TileRaceError) as caught:
        refuse_races(lower(function, x=1, y=1, count=ScalarArgument("int")).entry)
    assert caught.value.fix.endswith("`for n in tile.range(...):`")


def test_codes_are_in_the_catalogue() -> None:
    assert {code for code, _, _ in RACY.values()} <= set(CATALOGUE)
