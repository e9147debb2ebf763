"""What a search tells the process that measures, and what it answers beside values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tiledsl.autotune.measuring.workload import Workload

PLACES = 8
"""Bytes of the file that says which plan is being run: its number among those of the request, plus one."""


Prepares: TypeAlias = Literal["check", "confirm", "time", "nothing"]
"""What a process makes ready when it opens a workload: what plans are compared with on the given arguments, or on the
others; or the arguments that plans are timed on, which takes no reference."""


@dataclass(frozen=True)
class Open:
    """Opens a workload, in the place of the one before."""

    workload: Workload
    prepares: Prepares = "check"


@dataclass(frozen=True)
class Check:
    """Asks for `Bench.check`, or for `Bench.confirm`."""

    plan: str
    confirms: bool = False


@dataclass(frozen=True)
class Time:
    """Asks for rounds of samples."""

    plans: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class Ready:
    """Asks for `Bench.ready`."""

    plans: tuple[str, ...]


@dataclass(frozen=True)
class Refusal:
    """The text of an error that was raised."""

    text: str
