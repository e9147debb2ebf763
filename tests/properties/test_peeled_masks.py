"""A loop whose turns without masks are apart computes what it did before, on random comparisons."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.gpu_code.gpu_lowering import Array, run_as_launched
from tests.support.kernels.masked_products import ALIKE, KEY, PLAN, QUERY, lowered_for_all, module_of, operands_of
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.tile_ops import For
from tiledsl.passes.gpu.plan import Plan

SCALARS = ("Q", "K", "s[0]", "Q - K", "K // 2", "7", "-3")


@st.composite
def sides(draw: st.DrawFn) -> str:
    """A side of a comparison, that keys, queries and scalars are added up to."""
    terms = [f"{draw(st.integers(-3, 3))} * {KEY}", f"{draw(st.integers(-2, 2))} * {QUERY}"]
    terms += draw(st.lists(st.sampled_from(SCALARS), max_size=2))
    text = " + ".join(f"({term})" for term in draw(st.permutations(terms))[: draw(st.integers(1, 3))])
    bound = draw(st.sampled_from(["", "minimum", "maximum"]))
    return f"tile.{bound}({text}, {draw(st.sampled_from(SCALARS))})" if bound else text


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """One comparison or two: those of masks, and any others."""
    plain = st.builds("{} {} {} + {}".format, st.just(KEY), st.sampled_from(["<", "<="]), st.just(QUERY),
                      st.integers(-40, 70))  # fmt: skip
    others = st.builds("({}) {} ({})".format, sides(), st.sampled_from(["<", "<=", ">", ">="]), sides())
    windows = st.builds("tile.abs({} - {}) < {}".format, st.just(KEY), st.just(QUERY), st.integers(0, 90))
    found = draw(st.lists(plain | others | windows, min_size=1, max_size=2))
    return draw(st.sampled_from([" & ", " | "])).join(f"({one})" for one in found)


def check(condition: str, plan: Plan, arch: str, operands: list[Array], seed: int) -> None:
    """Holds what is lowered with the pass against what is lowered without it, bit by bit."""
    placed = module_of(f"tile.broadcast_to({condition}, scores.shape)")
    made = [lowered_for_all(placed, plan, arch, peeled=peeled) for peeled in (False, True)]
    loops = [sum(isinstance(op, For) for op in module.walk()) for module in made]
    assert loops[0] <= loops[1] <= 3 * loops[0]
    (wanted,), (got,) = (run_as_launched(module.entry, operands, seed=seed) for module in made)
    assert got.tobytes() == wanted.tobytes(), print_module(made[1])


@given(conditions(), st.integers(1, 40), st.integers(1, 70), st.integers(-5, 80), st.integers(0, 9))
@settings(max_examples=12, deadline=None)
def test_random_comparisons(condition: str, queries: int, keys: int, limit: int, seed: int) -> None:
    check(condition, ALIKE, "sm_80", operands_of(queries, keys, limit), seed)


@given(conditions(), st.integers(1, 150), st.integers(1, 200), st.integers(-5, 210), st.integers(0, 9))
@settings(max_examples=4, deadline=None)
def test_random_comparisons_of_rotated_loops(condition: str, queries: int, keys: int, limit: int, seed: int) -> None:
    check(condition, PLAN, "sm_90", operands_of(queries, keys, limit), seed)
