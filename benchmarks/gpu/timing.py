"""Device time of calls: by CUDA events, in turns, with the L2 cache flushed before each call.

What is timed is what the device does: before the start event it gets a buffer to fill that takes it longer (over
100 us) than the host takes to launch the call, so that the device never waits for the host between the two events.

The L2 cache is in one of two states before a call. `written`: the flush has written more than twice its size, and what
is still in it must be written back while the call runs, just as the call leaves its own output there for others: the
steady state of a stream. `clean`: other memory was read after that, so that the call pays for its own bytes only.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

ROUNDS = 10
MOST_CALLS = 200
FEWEST_CALLS = 20
SHARE = 0.04
"""Seconds of device time that one contender gets, within the bounds on calls."""
FLUSH_BYTES = 512 << 20


class Clock(Protocol):
    """Times calls on a device. A test has one of its own."""

    def time(self, call: Callable[[], object], calls: int, *, clean: bool = False) -> list[float]:
        """Seconds of each of some calls, each with the cache flushed before it."""
        ...


class CudaClock:
    """Times calls by CUDA events of PyTorch, on its current stream."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        cache = int(torch.cuda.get_device_properties(0).L2_cache_size)
        self._written = torch.empty(max(FLUSH_BYTES, 2 * cache), dtype=torch.int8, device="cuda")
        self._read = torch.zeros(max(FLUSH_BYTES, 2 * cache) // 4, dtype=torch.float32, device="cuda")
        self._total = torch.empty((), dtype=torch.float32, device="cuda")

    def time(self, call: Callable[[], object], calls: int, *, clean: bool = False) -> list[float]:
        torch = self._torch
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(calls)]
        for start, end in events:
            self._written.zero_()
            if clean:
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
    clock: Clock, contenders: Mapping[str, Callable[[], object]], *, clean: bool = False, rounds: int = ROUNDS
) -> dict[str, Spread]:
    """Times all contenders in turns, so that a change of clocks or heat meets all of them. Each is called before."""
    counts: dict[str, int] = {}
    for name, call in contenders.items():
        clock.time(call, 3, clean=clean)  # warm: modules are loaded, handles made
        one = statistics.median(clock.time(call, 3, clean=clean))
        calls = min(max(round(SHARE / max(one, 1e-7)), FEWEST_CALLS), MOST_CALLS)
        counts[name] = -(-calls // rounds)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            seconds[name] += clock.time(call, counts[name], clean=clean)
    return {name: spread(taken) for name, taken in seconds.items()}
