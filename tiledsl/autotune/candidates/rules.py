"""Rules of users: plans to try that nobody here has thought of.

    @rule(target="cpu")
    def three_units(plan, facts):
        for name, axis in facts.axes.items():
            yield plan.with_block(name, 3 * axis.unit)

A rule is given the model's pick and what is known of the call, and yields plans. They are checked as all others are,
and since a plan says all, records of it are used without the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from tiledsl.passes.cpu.grid_work import Axis

Target = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class Facts:
    """What is known of a call. `axes`: on a CPU, those whose blocks are chosen, by symbol, with unit and limit;
    `threads`: there; `alignment`: on a GPU, what rows of each tensor start at multiples of, in bytes."""

    sizes: Mapping[str, int]
    axes: Mapping[str, Axis] = field(default_factory=dict[str, "Axis"])
    threads: int = 0
    alignment: tuple[int, ...] = ()


Rule: TypeAlias = "Callable[[Any, Facts], Iterable[Any]]"
"""From a plan (`passes.cpu.cpu_plan.CpuPlan`, or `passes.gpu.plan.Plan`) to others."""
AnyRule = TypeVar("AnyRule", bound="Callable[..., Any]")

_RULES: dict[Target, dict[str, Rule]] = {"cpu": {}, "cuda": {}}


def rule(*, target: Target) -> Callable[[AnyRule], AnyRule]:
    """Has searches for a target ask a function for plans, from now on. One of the same name takes its place."""

    def register(function: AnyRule) -> AnyRule:
        _RULES[target][function.__name__] = function
        return function

    return register


def forget_rule(name: str) -> None:
    """Has searches no longer ask the rule of that name."""
    for rules in _RULES.values():
        rules.pop(name, None)


def plans_by_rules(target: Target, plan: Any, facts: Facts) -> list[tuple[str, Any]]:
    """What the rules for a target make of a plan, each with the name of its rule."""
    return [(name, other) for name, function in _RULES[target].items() for other in function(plan, facts)]
