"""How the blocks of a cluster exchange partial results, as a machine with few states: all its runs can be tried.

It follows `tiledsl/backend_cuda/emit/exchange_partials.py` step by step, in any order of threads and messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

T = TypeVar("T")

STEPS = ("expect", "write", "meet", "look", "send", "wait", "read")


class State(NamedTuple):
    """`threads`: the number of each one's next step, counted through all runs. `warps` and `told`: the run in which
    each place was written last, by a thread and by a block. `barriers`: how many arrivals and values the phase of each
    still lacks, and its parity. `sent`: (from, to, run) not yet arrived."""

    threads: tuple[int, ...]
    warps: tuple[int, ...]
    told: tuple[int, ...]
    barriers: tuple[tuple[int, int, int], ...]
    sent: frozenset[tuple[int, int, int]] = frozenset()


@dataclass(frozen=True)
class Protocol:
    """`places`, `barriers`: how many of these take turns. `meets`: whether a block's threads wait for each other."""

    blocks: int
    threads: int
    runs: int
    places: int = 2
    barriers: int = 2
    meets: bool = True

    def failures(self) -> Iterator[str]:
        """What goes wrong in any order of steps."""
        places = self.blocks * self.places
        first = State(
            (0,) * (self.blocks * self.threads), (-1,) * (places * self.threads), (-1,) * (places * self.blocks),
            ((1, 0, 0),) * (self.blocks * self.barriers),
        )  # fmt: skip
        seen, left = {first}, [first]
        while left:
            state = left.pop()
            following = list(self._following(state))
            if not following and any(step < self.runs * len(STEPS) for step in state.threads):
                yield "all wait forever"
            for entry in following:
                if isinstance(entry, str):
                    yield entry
                elif entry not in seen:
                    seen.add(entry)
                    left.append(entry)

    def _following(self, state: State) -> Iterator[State | str]:
        for message in state.sent:
            yield self._arrived(state, message)
        for thread, step in enumerate(state.threads):
            if step < self.runs * len(STEPS):
                yield from self._step(state, thread, *divmod(step, len(STEPS)))

    def _arrived(self, state: State, message: tuple[int, int, int]) -> State | str:
        origin, block, run = message
        if all(step == self.runs * len(STEPS) for step in self._of_block(state, block)):
            return "a value comes to a block that has ended"
        at = block * self.places + run % self.places
        told = _with(state.told, at * self.blocks + origin, run)
        barrier = block * self.barriers + run % self.barriers
        lacking, values, parity = state.barriers[barrier]
        barriers = _with(state.barriers, barrier, _settled(lacking, values - 1, parity))
        return state._replace(told=told, barriers=barriers, sent=state.sent - {message})

    def _step(self, state: State, thread: int, run: int, step: int) -> Iterator[State | str]:
        block, local = divmod(thread, self.threads)
        at = block * self.places + run % self.places
        barrier = block * self.barriers + run % self.barriers
        lacking, values, parity = state.barriers[barrier]
        done = state._replace(threads=_with(state.threads, thread, state.threads[thread] + 1))
        match STEPS[step]:
            case "expect" if local == 0:
                if not lacking:
                    yield "a phase is told twice what to expect"
                settled = _settled(lacking - 1, values + self.blocks, parity)
                yield done._replace(barriers=_with(state.barriers, barrier, settled))
            case "write":
                yield done._replace(warps=_with(state.warps, at * self.threads + local, run))
            case "meet" if self.meets:
                if all(other >= state.threads[thread] for other in self._of_block(state, block)):
                    yield done
            case "look" if self.meets:
                if any(state.warps[at * self.threads + other] != run for other in range(self.threads)):
                    yield "a thread sees what a warp wrote in another run"
                yield done
            case "send":
                peers = range(local, self.blocks, self.threads)
                yield done._replace(sent=state.sent | {(block, peer, run) for peer in peers})
            case "wait":
                if parity != run // self.barriers % 2:
                    yield done
            case "read":
                if any(state.told[at * self.blocks + other] != run for other in range(self.blocks)):
                    yield "a thread reads what a block told in another run"
                yield done
            case _:
                yield done

    def _of_block(self, state: State, block: int) -> tuple[int, ...]:
        return state.threads[block * self.threads : (block + 1) * self.threads]


def _with(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _settled(lacking: int, values: int, parity: int) -> tuple[int, int, int]:
    return (lacking, values, parity) if lacking or values else (1, 0, 1 - parity)
