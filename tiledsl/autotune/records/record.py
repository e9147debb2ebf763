"""What a database keeps: trials of plans, ends of searches, and the programs that they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, Union, get_args

from tiledsl.runtime.programs.plan_source import PlanQuestion

State = Literal["ok", "refused", "wrong", "timeout", "crash"]
"""What became of a plan: `refused` by a compiler or its gate, `wrong` in its results, or it ended the process."""
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True)
class Times:
    """Seconds of a call: those within which 20, 50 and 80% of `count` samples lie."""

    low: float
    median: float
    high: float
    count: int

    @staticmethod
    def of(samples: Sequence[float]) -> Times:
        """Of at least one sample."""
        ordered = sorted(samples)
        last = len(ordered) - 1
        low, median, high = (ordered[round(part * last)] for part in (0.2, 0.5, 0.8))
        return Times(low, median, high, len(ordered))

    @property
    def spread(self) -> float:
        """How many times as long as the short calls the long ones take."""
        return self.high / self.low if self.low > 0 else 1.0


@dataclass(frozen=True)
class Ratio:
    """How many times as long as the model's pick a plan takes: the median over `pairs` of calls one after the other,
    and the bounds between which it is with 99% confidence."""

    median: float
    low: float
    high: float
    pairs: int


@dataclass(frozen=True)
class Trial:
    """One plan that was tried. `predicted`: seconds by the model; `error`: the largest difference from the reference,
    as a part of the typical size; `checked`: the inputs that it was compared on; `code`: digest of its code."""

    question: PlanQuestion
    plan: str
    state: State
    why: str = ""
    reason: str = ""
    predicted: float | None = None
    times: Times | None = None
    ratio: Ratio | None = None
    error: float | None = None
    checked: tuple[str, ...] = ()
    code: str = ""
    search: str = ""
    """The name of the search that it is of."""
    when: str = ""


@dataclass(frozen=True)
class Search:
    """The end of a search: what calls take. `pick` is the model's plan, and `winner` that too where nothing beat it.

    `finished`: whether all candidates were measured. `trials`: plans that were measured; `seconds`: that it took.
    """

    question: PlanQuestion
    name: str
    kernel: str
    pick: str
    winner: str
    finished: bool
    trials: int
    seconds: float
    ratio: Ratio | None = None
    """Of the winner; None where that is the pick."""
    code: str = ""
    """Digest of the winner's code."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    when: str = ""
    phases: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds that went to each phase."""


@dataclass(frozen=True)
class ProgramText:
    """A program that questions are about: the digest that they have, its name, and its TILE text."""

    program: str
    kernel: str
    text: str


Entry: TypeAlias = Union[Trial, Search, ProgramText]


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """Everything in an entry, of kinds that `json` writes."""
    match entry:
        case Trial():
            kind = "trial"
        case Search():
            kind = "search"
        case ProgramText():
            kind = "program"
    return {"kind": kind, **asdict(entry)}


def entry_from_json(stored: Mapping[str, Any]) -> Entry:
    """The inverse of `entry_to_json`. Raises ValueError, KeyError or TypeError for anything else."""
    kind, fields = stored["kind"], {name: value for name, value in stored.items() if name != "kind"}
    if kind == "program":
        return ProgramText(**fields)
    fields["question"] = question_from_json(fields["question"])
    if fields["ratio"] is not None:
        fields["ratio"] = Ratio(**fields["ratio"])
    if kind == "search":
        return Search(**fields)
    if kind != "trial" or fields["state"] not in STATES:
        raise ValueError(f"an entry of kind {kind!r}, in state {fields.get('state')!r}")
    if fields["times"] is not None:
        fields["times"] = Times(**fields["times"])
    fields["checked"] = tuple(fields["checked"])
    return Trial(**fields)


def question_from_json(stored: Mapping[str, Any]) -> PlanQuestion:
    """A question from what `json` reads of its fields."""
    fields = dict(stored)
    fields["sizes"] = tuple((str(name), int(size)) for name, size in fields["sizes"])
    fields["strides"] = tuple(tuple(map(int, strides)) for strides in fields["strides"])
    for name in ("alignment", "lying"):
        fields[name] = tuple(map(int, fields[name]))
    return PlanQuestion(**fields)
