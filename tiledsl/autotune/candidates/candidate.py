"""Plans that a search tries, and where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NEAR = 1.15
"""Times the predicted time of the model's pick, within which plans are as good as it for all that the model knows."""


@dataclass(frozen=True)
class Candidate:
    """A plan as text. `predicted`: seconds by the model, None where it only ranks; `why`: where the plan comes from."""

    plan: str
    predicted: float | None
    why: str


def different(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Each plan once, as it came first."""
    found: dict[str, Candidate] = {}
    for candidate in candidates:
        found.setdefault(candidate.plan, candidate)
    return list(found.values())


def in_turns(groups: Sequence[Sequence[Candidate]], most: int) -> list[Candidate]:
    """The first ones of each group in turn, each plan once, so that no group takes all places."""
    longest = max(map(len, groups), default=0)
    return different(group[rank] for rank in range(longest) for group in groups if rank < len(group))[:most]
