"""What a search has come to, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tiledsl.autotune.records.record import Ratio, Times, Trial

BUSY = 1.5
"""How many times as long as short calls the long ones take, where a machine is said to be busy."""


@dataclass(frozen=True)
class Outcome:
    """`winner` is what calls run from now on: the model's `pick`, unless another plan certainly takes less time.

    `trials`: what was tried now. `known`: whether the database had the answer, so that nothing was. `finished`: whether
    all candidates were measured; where not, `notes` say why, and the next search goes on with the rest.
    """

    kernel: str
    sizes: str
    device: str
    pick: str
    winner: str
    ratio: Ratio | None = None
    trials: tuple[Trial, ...] = ()
    times: Times | None = None
    """Of the pick."""
    seconds: float = 0.0
    known: bool = False
    finished: bool = True
    notes: tuple[str, ...] = ()
    phases: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds that went to each phase."""

    @property
    def gain(self) -> float:
        """How many times as fast as the model's pick the winner is."""
        return 1.0 if self.ratio is None or not self.ratio.median else 1 / self.ratio.median

    @property
    def measured(self) -> int:
        """Plans that were measured now, beside the pick."""
        return sum(trial.times is not None and trial.plan != self.pick for trial in self.trials)

    def __str__(self) -> str:
        lines = [f"{self.kernel} with {self.sizes or 'no sizes'} on {self.device}"]
        if self.winner == self.pick:
            lines.append(f"  the model's pick stays: {self.pick}")
        else:
            assert self.ratio is not None
            low, high = 1 / self.ratio.high, 1 / self.ratio.low if self.ratio.low else float("inf")
            lines.append(f"  {self.gain:.3f} times as fast ({low:.3f} to {high:.3f}): {self.winner}")
            lines.append(f"  the model's pick: {self.pick}")
        if self.known:
            lines.append("  known from the database; nothing was measured")
        else:
            failed = sum(trial.state != "ok" for trial in self.trials)
            lines.append(f"  {self.measured} plans measured, {failed} failed, in {self.seconds:.1f} s{self._parts()}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _parts(self) -> str:
        """`: start 0.9, builds 0.2, ...`"""
        parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.phases.items())
        return f": {parts}" if parts else ""


def busy_note(times: Times | None) -> list[str]:
    """What to say of a machine that others keep busy."""
    if times is None or times.spread < BUSY:
        return []
    return [
        f"calls of one plan take from {times.low * 1e6:.4g} to {times.high * 1e6:.4g} us (20 to 80%): something else "
        "keeps the machine busy, and small gains cannot be seen"
    ]
