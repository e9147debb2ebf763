"""Device time of calls: by CUDA events, in turns, with the L2 cache flushed before each call.

What is timed is what the device does: before the start event it gets a buffer to fill that takes it longer (over
100 us) than the host takes to launch the call, so that the device never waits for the host between the two events.

The L2 cache is in one of three states before a call. `clean`: other memory was read, so that the call finds none of its
data there and pays for its own bytes only; this is what shares of the copy rate are taken of. `written`: the flush has
written more than twice the cache's size, and what is left of that, up to the size of the cache, must be written back
while the call runs. `held`: nothing is flushed, and the call finds what the one before it left.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

ROUNDS = 10
MOST_CALLS = 200
FEWEST_CALLS = 20
SHARE = 0.04
"""Seconds of device time that one contender gets, within the bounds on calls."""
FLUSH_BYTES = 512 << 20


State = Literal["clean", "written", "held"]
QUEUED_CYCLES = 400_000
"""How long the device is kept busy before a call whose data the cache holds: about 200 us."""


class Clock(Protocol):
    """Times calls on a device. A test has one of its own."""

    def time(self, call: Callable[[], object], calls: int, *, state: State = "clean") -> list[float]:
        """Seconds of each of some calls, each with the cache in that state before it."""
        ...


class CudaClock:
    """Times calls by CUDA events of PyTorch, on its current stream."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        cache = int(torch.cuda.get_device_properties(0).L2_cache_size)
        self._written = torch.empty(max(FLUSH_BYTES, 2 * cache), dtype=torch.int8, device="cuda")
        self._read = torch.zeros(max(FLUSH_BYTES, 2 * cache) // 4, dtype=torch.float32, device="cuda")
        self._total = torch.empty((), dtype=torch.float32, device="cuda")

    def time(self, call: Callable[[], object], calls: int, *, state: State = "clean") -> list[float]:
        torch = self._torch
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(calls)]
        for start, end in events:
            if state == "held":
                torch.cuda._sleep(QUEUED_CYCLES)
            else:
                self._written.zero_()
            if state == "clean":
                torch.sum(self._read, 0, out=self._total)
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return [1e-3 * float(start.elapsed_time(end)) for start, end in events]


@dataclass(frozen=True)
class Spread:
    """Seconds of many calls: the median, and the 20th and 80th of a hundred."""

    median: float
    p20: float
    p80: float
    calls: int


def spread(seconds: list[float]) -> Spread:
    if len(seconds) < 2:
        return Spread(seconds[0], seconds[0], seconds[0], 1)
    fifths = statistics.quantiles(seconds, n=5, method="inclusive")
    return Spread(statistics.median(seconds), fifths[0], fifths[3], len(seconds))


def in_turns(
    clock: Clock,
    contenders: Mapping[str, Callable[[], object]],
    *,
    state: State = "clean",
    rounds: int = ROUNDS,
    fewest: int = FEWEST_CALLS,
) -> dict[str, Spread]:
    """Times all contenders in turns, so that a change of clocks or heat meets all of them. Each is called before."""
    counts: dict[str, int] = {}
    for name, call in contenders.items():
        clock.time(call, 3, state=state)  # warm: modules are loaded, handles made
        one = statistics.median(clock.time(call, 3, state=state))
        calls = min(max(round(SHARE / max(one, 1e-7)), fewest), MOST_CALLS)
        counts[name] = -(-calls // rounds)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            seconds[name] += clock.time(call, counts[name], state=state)
    return {name: spread(taken) for name, taken in seconds.items()}
