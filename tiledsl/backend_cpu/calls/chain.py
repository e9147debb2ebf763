"""Launches one after the other by one call of native code: their frames and states lie ready in memory.

What may differ between calls is written there first: a whole frame by Python (`Chain.frames`), or addresses by native
code (`Patch`), which finds them in the arrays of a call (`Chain.read`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.backend_cpu.calls.argument_reader import reading_table
from tiledsl.backend_cpu.calls.launcher import launcher
from tiledsl.backend_cpu.calls.threads import give_back, own_scratch, take_workers
from tiledsl.runtime.programs.program import ExpectedArray, KeptMemory

_WORD = 8


@dataclass(frozen=True)
class Patch:
    """Address number `source` of a call, plus `added` bytes, is pointer number `pointer` of launch number `launch`."""

    source: int
    added: int
    launch: int
    pointer: int


@dataclass(frozen=True)
class PhaseCode:
    """What a launch calls: the address of the function, scratch for each thread, threads."""

    function: int
    scratch_bytes: int
    threads: int


class Launched:
    """What a chain is told of one launch. `state`: the words of the state at the start; `cleared`, how many of them,
    from the first on, have to be 0 again before each run."""

    def __init__(self, frame: bytes, state: Sequence[int], cleared: int, phases: Sequence[PhaseCode]) -> None:
        self.frame = frame
        self.state = state
        self.cleared = cleared
        self.phases = phases


class Chain:
    """Launches that are ready to go. One call at a time may run it."""

    def __init__(
        self,
        launches: Sequence[Launched],
        patches: Sequence[Patch] = (),
        expected: Sequence[ExpectedArray] = (),
        written: Sequence[int] = (),
        kept: Sequence[KeptMemory] = (),
    ) -> None:
        """`expected`: the arrays whose addresses the patches take; `written`: the numbers of those that change. `kept`:
        memory that these must not share."""
        self.frames = [ctypes.create_string_buffer(one.frame, max(1, len(one.frame))) for one in launches]
        self._states = [(ctypes.c_int64 * len(one.state))(*one.state) for one in launches]
        tape: list[int] = []
        for one, frame, state in zip(launches, self.frames, self._states):
            tape += [ctypes.addressof(frame), ctypes.addressof(state), one.cleared, len(one.phases)]
            for phase in one.phases:
                tape += [phase.function, phase.threads - 1]
        phases = [phase for one in launches for phase in one.phases]
        self._scratch_bytes = max((phase.scratch_bytes for phase in phases), default=0)
        self._helping = max((phase.threads for phase in phases), default=1) - 1
        self._helpers = _words([0] * (2 * self._helping))
        self.addresses = _words([*[0] * len(expected), *(address for address, _ in kept)])
        """What the next run takes; behind it, what is kept."""
        self._into = ctypes.addressof(self.addresses)
        self._table = reading_table(expected, written, kept) if expected else None
        self._tape = _words(tape)
        places = [ctypes.addressof(self.frames[patch.launch]) + _WORD * patch.pointer for patch in patches]
        self._patches = _words([w for p, place in zip(patches, places) for w in (p.source, p.added, place)])
        # the third word is scratch: code without scratch must not be given none, for then it says how much it wants
        self._call = _words([
            len(launches), ctypes.addressof(self._tape), self._into, ctypes.addressof(self._helpers),
            len(patches), ctypes.addressof(self._patches), self._into, 0,
        ])  # fmt: skip
        self._run, self._read = launcher().run, launcher().read
        self._at = ctypes.addressof(self._call)
        self._table_at = 0 if self._table is None else self._table.address

    def run_on(self, arrays: tuple[object, ...]) -> int:
        """Runs the launches on these arrays; -1, and nothing done, unless all are as they were expected, and those that
        are written can be and lie apart from all others."""
        if not self._table_at or not self._read(arrays, self._table_at, self._into):
            return -1
        return self.run() if self._helping or self._scratch_bytes else self._run(self._at)

    def run(self) -> int:
        """Runs the launches. 0, or the number of the first whose status is not 0, from 1 on: none ran after it."""
        call = self._call
        if self._scratch_bytes:
            call[2] = own_scratch().at_least(self._scratch_bytes)
        if not self._helping:
            return self._run(self._at)
        workers = take_workers(self._helping)
        try:
            self._helpers[: 2 * len(workers)] = [
                word for worker in workers for word in (worker.slot, worker.scratch.at_least(self._scratch_bytes))
            ]
            call[7] = len(workers)
            return self._run(self._at)
        finally:
            give_back(workers)

    def status(self, launch: int) -> int:
        """The status that a launch left."""
        return self._states[launch][0]


def _words(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * max(1, len(values)))(*values)
