"""Random size expressions, each with a plain recursive meaning to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

from tiledsl.ir.symbolic import Dim, maximum, minimum, symbol

NAMES = ("M", "N", "K")
Operator = Literal["+", "-", "*", "//", "%", "min", "max"]


@dataclass(frozen=True)
class Tree:
    """An expression that nobody has simplified: a leaf is a name or an int."""

    operator: Operator
    left: Tree | str | int
    right: Tree | str | int


def build(tree: Tree | str | int) -> Dim:
    """The canonical expression, made with the public operators."""
    match tree:
        case int():
            return tree
        case str():
            return symbol(tree)
        case Tree():
            left, right = build(tree.left), build(tree.right)
            match tree.operator:
                case "+":
                    return left + right
                case "-":
                    return left - right
                case "*":
                    return left * right
                case "//":
                    return left // right
                case "%":
                    return left % right
                case "min":
                    return minimum(left, right)
                case "max":
                    return maximum(left, right)


def meaning(tree: Tree | str | int, sizes: dict[str, int]) -> int:
    """The value by Python's own integer arithmetic. ZeroDivisionError where it divides by 0."""
    match tree:
        case int():
            return tree
        case str():
            return sizes[tree]
        case Tree():
            left, right = meaning(tree.left, sizes), meaning(tree.right, sizes)
            match tree.operator:
                case "+":
                    return left + right
                case "-":
                    return left - right
                case "*":
                    return left * right
                case "//":
                    return left // right
                case "%":
                    return left % right
                case "min":
                    return min(left, right)
                case "max":
                    return max(left, right)


def trees(largest: int = 5) -> st.SearchStrategy[Tree | str | int]:
    """Expressions of up to about `largest` operators; what is divided by is a positive number or a symbol."""
    leaves: st.SearchStrategy[Tree | str | int] = st.one_of(st.sampled_from(NAMES), st.integers(-6, 20))
    divisors: st.SearchStrategy[str | int] = st.one_of(st.sampled_from(NAMES), st.integers(1, 12))

    def extend(inner: st.SearchStrategy[Tree | str | int]) -> st.SearchStrategy[Tree]:
        sums: st.SearchStrategy[Operator] = st.sampled_from(("+", "-", "*", "min", "max"))
        quotients: st.SearchStrategy[Operator] = st.sampled_from(("//", "%"))
        return st.one_of(st.builds(Tree, sums, inner, inner), st.builds(Tree, quotients, inner, divisors))

    return st.recursive(leaves, extend, max_leaves=largest)


def sizes(least: int = 1, most: int = 60) -> st.SearchStrategy[dict[str, int]]:
    """A value for each of the names."""
    return st.fixed_dictionaries({name: st.integers(least, most) for name in NAMES})
