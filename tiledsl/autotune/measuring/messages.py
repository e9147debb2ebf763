"""What a search tells the process that measures, and what it answers beside values."""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.autotune.measuring.workload import Workload

PLACES = 8
"""Bytes of the file that says which plan is being run: its number among those of the request, plus one."""


@dataclass(frozen=True)
class Open:
    """Opens a workload, in the place of the one before; `prepares`: with what `Bench.prepare` makes, which timing does
    without."""

    workload: Workload
    prepares: bool = True


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
class Refusal:
    """The text of an error that was raised."""

    text: str
