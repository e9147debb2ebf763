"""Entries of databases for tests."""

from __future__ import annotations

from tiledsl.autotune.records.record import ProgramText, Ratio, Search, State, Times, Trial
from tiledsl.runtime.programs.plan_source import PlanQuestion

QUESTION = PlanQuestion("p" * 40, "cpu", "a CPU, 2 cores", (("M", 64), ("N", 32)), ((32, 1), (1, 64)), threads=2)
DEVICE = PlanQuestion("q" * 40, "sm_90", "a GPU", (("M", 64),), alignment=(16, 8), lying=(16, 0))
TEXT = ProgramText("p" * 40, "gemm", "func @gemm() {\n}\n")


def trial(
    plan: str = "m=8, 1 threads", ratio: float = 0.9, state: State = "ok", question: PlanQuestion = QUESTION
) -> Trial:
    """A trial; one that is `ok` was measured."""
    times = Times(1e-6, 2e-6, 3e-6, 40) if state == "ok" else None
    held = Ratio(ratio, ratio - 0.01, ratio + 0.01, 40) if state == "ok" else None
    reason = "" if state == "ok" else "it is so"
    return Trial(question, plan, state, "near", reason, 2e-6, times, held, 1e-7, ("given", "odd"), "c" * 40, "s1", "t")


def search(winner: str = "m=8, 1 threads", when: str = "2026-01-01", question: PlanQuestion = QUESTION) -> Search:
    """The end of a search."""
    return Search(
        question, "s1", "gemm", "m=64, 1 threads", winner, True, 9, 1.5, Ratio(0.9, 0.89, 0.91, 200), "c" * 40,
        {"tiledsl": "0.1.0"}, when,
    )  # fmt: skip
