"""Errors of the CUDA driver in our words, and which kernels a fault may have happened in.

A launch does not wait: a kernel that reads an illegal address is found out by a later call, which may be of anybody.
So the last launches are remembered, and the error names those that may have been running.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from tiledsl.support.caller import caller_location
from tiledsl.support.errors import Label, TileError, make_error
from tiledsl.support.location import Location

OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3
NO_DEVICE = 100
INVALID_CONTEXT = 201
INVALID_HANDLE = 400
OUT_OF_RESOURCES = 701
FAULTS = frozenset({700, 702, 709, 710, 714, 715, 716, 717, 718, 719})
"""Statuses that say that an earlier kernel failed. They stay: nothing works in the process from then on."""
CAPTURE = frozenset(range(900, 909))
"""Statuses of calls that must not be made while a graph is captured."""
NOT_LOADABLE = frozenset({200, 209, 222, 223, 224, 300, 301, 803, 804})
"""Statuses of code that the driver does not take."""
MOST_NAMED = 5


class Launched(Protocol):
    """Something that was launched, as messages speak of it."""

    @property
    def name(self) -> str: ...
    @property
    def location(self) -> Location: ...


class LaunchHistory:
    """The last launches, oldest first; those since the last time that all was known to be well."""

    def __init__(self) -> None:
        self.launched: deque[Launched] = deque(maxlen=64)
        self.add = self.launched.append
        """Appending to a deque is atomic: threads need no lock."""

    def forget(self) -> None:
        """All that was launched has ended well."""
        self.launched.clear()

    def suspects(self) -> list[Launched]:
        """The kernels that may have been running, the latest first, each once."""
        return list({entry.name: entry for entry in reversed(tuple(self.launched))}.values())


def status_error(status: int, name: str, text: str, call: str, history: LaunchHistory) -> TileError:
    """The error for a status of the driver that is none of the ones a caller knows more about."""
    place = caller_location()
    if status == NOT_INITIALIZED:  # after a successful start that is so in a fork alone
        return make_error("cuda-forked", place)
    if status == NO_DEVICE:
        return make_error("cuda-no-device", place)
    if status in FAULTS:
        return fault_error(name, text, history)
    return make_error("cuda-call", place, call=call, status=name, text=text)


def fault_error(name: str, text: str, history: LaunchHistory, sure: Launched | None = None) -> TileError:
    """The error for a fault on the device. `sure` is the kernel in which it happened, where that is known."""
    place = caller_location()
    if sure is not None:
        label = Label(sure.location, f"`{sure.name}` is defined here")
        return make_error("cuda-fault-kernel", place, labels=[label], status=name, text=text, kernel=sure.name)
    suspects = history.suspects()
    labels = [Label(s.location, f"`{s.name}` is defined here") for s in suspects[:MOST_NAMED]]
    names = [f"`{suspect.name}`" for suspect in suspects[:MOST_NAMED]]
    if len(suspects) > MOST_NAMED:
        names.append(f"{len(suspects) - MOST_NAMED} more")
    kernels = ", ".join(names) or "none of tiledsl's, which has launched nothing since the last check"
    return make_error("cuda-fault", place, labels=labels, status=name, text=text, kernels=kernels)
