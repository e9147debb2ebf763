"""What the rules of the verifier say of an op that breaks them."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir.core import Value


class IllegalError(Exception):
    """What is wrong, and what would be right; `verify` adds where. `pictures`: the layouts that do not fit, drawn."""

    def __init__(self, problem: str, fix: str, pictures: Sequence[str] = ()) -> None:
        super().__init__(problem, fix)
        self.problem = problem
        self.fix = fix
        self.pictures = tuple(pictures)


def demand(condition: bool, problem: str, fix: str) -> None:
    """Raises IllegalError unless the condition holds."""
    if not condition:
        raise IllegalError(problem, fix)


def named(value: Value) -> str:
    """The value, as messages call it."""
    return f"%{value.name}" if value.name else f"a value without a name ({value.type})"
