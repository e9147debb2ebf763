"""Size expressions and what is proved of them, against plain integer arithmetic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.generators.random_dims import NAMES, Tree, build, meaning, sizes, trees
from tiledsl.ir.core import Fact
from tiledsl.ir.facts import Facts
from tiledsl.ir.symbolic import Expr, evaluate, substitute, symbol, symbols_of
from tiledsl.ir.symbolic_solver import simplify


@given(trees(), sizes())
def test_the_canonical_form_keeps_the_value(tree: Tree | str | int, values: dict[str, int]) -> None:
    assert evaluate(build(tree), values) == meaning(tree, values)


@given(trees(), sizes(least=0))
def test_sizes_of_zero_never_raise(tree: Tree | str | int, values: dict[str, int]) -> None:
    assert isinstance(evaluate(build(tree), values), int)


@given(trees(), trees(), sizes())
def test_substitution_commutes_with_evaluation(
    tree: Tree | str | int, inner: Tree | str | int, values: dict[str, int]
) -> None:
    outside = {**values, "M": max(1, meaning(inner, values))}  # what is divided by stays positive
    replaced = substitute(build(tree), {"M": outside["M"]})
    assert "M" not in symbols_of(replaced)
    assert evaluate(replaced, values) == meaning(tree, outside)


@given(trees())
def test_a_canonical_form_is_rebuilt_as_itself(tree: Tree | str | int) -> None:
    dim = build(tree)
    away = substitute(dim, {name: symbol(name + "_new") for name in NAMES})
    assert substitute(away, {name + "_new": symbol(name) for name in NAMES}) == dim


@given(trees(), trees())
def test_sums_and_products_commute(a: Tree | str | int, b: Tree | str | int) -> None:
    left, right = build(a), build(b)
    assert left + right == right + left
    assert left * right == right * left
    assert (left - right) + right == left
    assert hash(left + right) == hash(right + left)
    assert str(left + right) == str(right + left)


@given(trees(largest=4), sizes(least=2, most=30))
def test_bounds_hold(tree: Tree | str | int, values: dict[str, int]) -> None:
    low, high = Facts(ranges={"M": (2, 30), "N": (2, None)}).bounds(build(tree))
    value = meaning(tree, values)
    assert low is None or low <= value
    assert high is None or value <= high


@given(trees(), st.sampled_from((2, 3, 4, 8, 16, 48)), sizes(most=8))
def test_divisibility_holds(tree: Tree | str | int, n: int, values: dict[str, int]) -> None:
    values = {**values, "M": 16 * values["M"], "K": 6 * values["K"]}
    facts = Facts([Fact(symbol("M"), 16), Fact(symbol("K"), 6), Fact(symbol("M") + symbol("K"), 2)])
    if facts.divisible(build(tree), n):
        assert meaning(tree, values) % n == 0


@given(trees(largest=4), trees(largest=4), sizes(most=12))
def test_what_is_proved_of_two_sizes_holds(a: Tree | str | int, b: Tree | str | int, values: dict[str, int]) -> None:
    values = {**values, "M": 4 * values["M"]}
    facts = Facts([Fact(symbol("M"), 4)], {"N": (1, None)})
    if facts.equal(build(a), build(b)):
        assert meaning(a, values) == meaning(b, values)
    if facts.less_equal(build(a), build(b)):
        assert meaning(a, values) <= meaning(b, values)


@given(trees(largest=4), sizes())
def test_the_solver_keeps_the_value(tree: Tree | str | int, values: dict[str, int]) -> None:
    assert evaluate(simplify(build(tree)), values) == meaning(tree, values)


@given(trees())
def test_an_expression_is_never_a_bare_constant(tree: Tree | str | int) -> None:
    dim = build(tree)
    if isinstance(dim, Expr):
        assert any(monomial for monomial, _ in dim.terms)
        assert all(coefficient != 0 for _, coefficient in dim.terms)
