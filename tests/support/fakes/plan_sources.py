"""Sources of plans for tests: what they answer is given, and what they are asked and told is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tiledsl.runtime.programs.plan_source import Answer, PlanQuestion


@dataclass
class Fixed:
    """Answers every question alike."""

    answer: Answer | None = None
    asked: list[PlanQuestion] = field(default_factory=list[PlanQuestion])
    refusals: list[str] = field(default_factory=list[str])

    def plan_for(self, question: PlanQuestion) -> Answer | None:
        self.asked.append(question)
        return self.answer

    def refused(self, question: PlanQuestion, answer: Answer, reason: str, *, expected: bool = False) -> None:
        del question, answer, expected
        self.refusals.append(reason)

    def mark(self) -> str:
        return ""

    def devices(self, target: str) -> Sequence[str]:
        del target
        return ()

    def groupings(self, target: str, device: str) -> Mapping[str, bool]:
        del target, device
        return {}
