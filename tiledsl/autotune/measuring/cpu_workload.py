"""Programs on the CPU, measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from tiledsl.autotune.measuring.cases import Case, Number, drawn_cases, given_case
from tiledsl.autotune.measuring.given import Given
from tiledsl.autotune.measuring.runner import Checked
from tiledsl.autotune.measuring.verify import Oracle, adds_in_any_order, arrays_of, complete, is_run, verify
from tiledsl.autotune.measuring.wide_reference import run_by_reference
from tiledsl.autotune.sources import PinnedPlan
from tiledsl.backend_cpu.calls.program import BoundProgram, CpuProgram, LoadedProgram
from tiledsl.ir.core import Function
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.machine import describe_cpu, host
from tiledsl.runtime.arrays.arrays import Array, pointer
from tiledsl.runtime.programs.interface import Interface
from tiledsl.runtime.programs.plan_source import PlanQuestion
from tiledsl.runtime.programs.stored_interface import Json, interface_from_json, interface_to_json

LONG_ENOUGH = 100e-6
"""Seconds of a sample: shorter calls are made several times for one."""
MOST_CALLS = 100


@dataclass(frozen=True)
class CpuWorkload:
    """A program in bytes, its TILE text, and the arguments of one call."""

    program: bytes
    interface: Json
    text: str
    question: PlanQuestion
    given: Given
    numbers: tuple[Number, ...]
    pick: str
    """What the model chooses: it is compared with the reference first."""

    @staticmethod
    def of(
        program: CpuProgram,
        interface: Interface,
        text: str,
        question: PlanQuestion,
        given: Given,
        numbers: tuple[Number, ...],
        pick: str,
    ) -> CpuWorkload:
        """For a call with these arrays and numbers. `text`: the TILE module as the front end gave it."""
        stored = interface_to_json(interface)
        return CpuWorkload(program.to_bytes(), stored, text, question, given, numbers, pick)

    def open(self) -> CpuBench:
        return CpuBench(self)


@dataclass
class _Ready:
    """A plan that is ready to be timed."""

    run: Callable[[], None]
    restore: Callable[[], None] | None
    calls: int


@dataclass
class CpuBench:
    """The program in this process."""

    workload: CpuWorkload
    clock: Callable[[], float] = time.perf_counter
    _ready: dict[str, _Ready] = field(default_factory=dict[str, _Ready])

    def __post_init__(self) -> None:
        given = self.workload
        self._program = CpuProgram.from_bytes(given.program)
        here = describe_cpu(host())
        if here != given.question.device:
            raise ValueError(f"this machine is another one: {here}, and not {given.question.device}")
        self._loaded = self._program.load()
        self._function: Function = parse_module(given.text).entry
        self._interface = interface_from_json(given.interface)
        sizes, strides = dict(given.question.sizes), given.question.strides
        self._given = given_case(self._interface, sizes, strides, given.given.arrays(), given.numbers)
        self._oracle = Oracle(lambda case, arrays: run_by_reference(self._function, case, arrays))
        self._timed: list[Array] | None = None

    def prepare(self, *, others: bool = False) -> None:
        for case in self._drawn if others else [self._given]:
            self._oracle.expected(case)

    def check(self, plan: str) -> Checked:
        refusals: list[str] = []
        self._bound(plan, self._given, refusals)
        if refusals:
            return Checked("refused", refusals[0], code=self._program.identity)
        return self._verified(plan, [self._given])

    def confirm(self, plan: str) -> Checked:
        return self._verified(plan, self._drawn)

    @cached_property
    def _drawn(self) -> list[Case]:
        """The cases beside the given one that the reference runs."""
        given = self.workload
        sizes, strides = dict(given.question.sizes), given.question.strides
        drawn = drawn_cases(self._interface, sizes, strides, self._given.contents, given.numbers)
        return [case for case in drawn if is_run(case, self._oracle)]

    def _verified(self, plan: str, cases: Sequence[Case]) -> Checked:
        faults = complete(cases, partial(self._execute, self.workload.pick), self._oracle)
        if faults is not None:
            return faults
        repeats = not adds_in_any_order(self.workload.text)
        return verify(cases, partial(self._execute, plan), self._oracle, self._program.identity, repeats=repeats)

    def _execute(self, plan: str, case: Case, arrays: list[Array]) -> None:
        bound = self._bound(plan, case, [])
        bound([pointer(array) for array in arrays], case.numbers)

    def ready(self, plans: Sequence[str]) -> None:
        """Nothing: plans share their code, and what is done before one is timed may favour it."""

    def seconds(self, plan: str) -> float:
        ready = self._ready.get(plan)
        if ready is None:
            ready = self._ready[plan] = self._made_ready(plan)
        ready.run()  # so that caches are as this plan leaves them, and not the one before
        if ready.restore is not None:
            ready.restore()
        started = self.clock()
        for _ in range(ready.calls):
            ready.run()
        return (self.clock() - started) / ready.calls

    def _made_ready(self, plan: str) -> _Ready:
        """A plan on arrays that all plans share; what they write is as it was at the start of each sample."""
        case = self._given
        if self._timed is None:
            self._timed = arrays_of(case)
        arrays = self._timed
        written: list[tuple[Array, Array]] = [
            (array, np.array(array)) for tensor, array in zip(case.tensors, arrays) if tensor.use == "written"
        ]
        bound = self._bound(plan, case, [])
        pointers = [pointer(array) for array in arrays]

        def run() -> None:
            bound(pointers, case.numbers)

        def restore() -> None:
            for array, content in written:
                array[...] = content

        started = self.clock()
        run()
        once = self.clock() - started
        calls = 1 if written else max(1, min(MOST_CALLS, int(LONG_ENOUGH / max(once, 1e-9))))
        return _Ready(run, restore if written else None, calls)

    def _bound(self, plan: str, case: Case, refusals: list[str]) -> BoundProgram:
        loaded: LoadedProgram = self._loaded
        loaded.plans = PinnedPlan(plan, refusals.append)
        strides: Any = [tensor.strides for tensor in case.tensors]
        return loaded.bind(case.sizes, strides, self.workload.question.threads)
