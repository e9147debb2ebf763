"""Programs on a GPU, measured by the clock of the device."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

from tiledsl.autotune.measuring.cases import Case, Number, drawn_cases, given_case
from tiledsl.autotune.measuring.given import Given
from tiledsl.autotune.measuring.runner import Checked
from tiledsl.autotune.measuring.tensors import memory_of
from tiledsl.autotune.measuring.verify import Oracle, adds_in_any_order, arrays_of, complete, is_run, verify
from tiledsl.autotune.measuring.wide_reference import run_by_reference
from tiledsl.autotune.sources import PinnedPlan
from tiledsl.backend_cuda.program import CudaProgram
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.runtime.arrays.arrays import Array
from tiledsl.runtime.programs.interface import Interface
from tiledsl.runtime.programs.plan_source import PlanQuestion
from tiledsl.runtime.programs.program import BoundDeviceProgram
from tiledsl.runtime.programs.stored_interface import Json, interface_from_json
from tiledsl.support.errors import TileRuntimeError

SAMPLE = 200e-6
"""Seconds of a sample: of so many calls as one CUDA graph, as modules launch them. Launched one by one, the first of
them would have the host's time in it, and all of short ones: 14 us for a call of a library."""
MOST_CALLS = 200
FAULT = 3
"""The exit code of a process whose device has failed."""


class Device(Protocol):
    """The device that a bench runs on."""

    def memory(self, size: int, /) -> int:
        """The address of new memory, at a multiple of 256."""
        ...

    def write(self, address: int, data: Array, /) -> None:
        """Copies bytes there."""
        ...

    def read(self, address: int, data: Array, /) -> None:
        """Copies bytes from there, when all launches are done."""
        ...

    def bind(self, program: Any, case: Case, question: PlanQuestion, /) -> BoundDeviceProgram:
        """A loaded program for a case."""
        ...

    def run(self, bound: BoundDeviceProgram, pointers: Sequence[int], numbers: Sequence[Number], /) -> None:
        """Launches."""
        ...

    def seconds(
        self, bound: BoundDeviceProgram, pointers: Sequence[int], numbers: Sequence[Number], calls: int, graph: bool, /
    ) -> float:
        """Of one of so many launches one after the other; `graph`: as one CUDA graph."""
        ...


@dataclass(frozen=True)
class CudaWorkload:
    """A program in bytes, its TILE text, and the arguments of one call, in CPU memory. `device`: by number."""

    program: bytes
    interface: Json
    text: str
    question: PlanQuestion
    strides: tuple[tuple[int, ...], ...]
    given: Given
    numbers: tuple[Number, ...]
    pick: str
    """What the model chooses: it is compared with the reference first."""
    device: int = 0

    def open(self) -> CudaBench:
        from tiledsl.autotune.measuring.cuda_device import CudaDevice  # the driver

        return CudaBench(self, CudaDevice(self.device))


def calls_in(once: float) -> int:
    """How many calls of so many seconds are a sample."""
    return max(1, min(MOST_CALLS, int(SAMPLE / max(once, 1e-9))))


@contextmanager
def _faults_end_the_process() -> Generator[None]:
    """A device that has failed answers nothing any more in this process: the next plan needs another one."""
    try:
        yield
    except TileRuntimeError as error:
        print(error.message, file=sys.stderr)
        raise SystemExit(FAULT) from error


@dataclass
class CudaBench:
    """The program in this process."""

    workload: CudaWorkload
    device: Device
    _bound: dict[tuple[str, str], BoundDeviceProgram] = field(default_factory=dict[tuple[str, str], BoundDeviceProgram])
    _addresses: dict[int, int] = field(default_factory=dict[int, int])
    _others: dict[frozenset[str], list[Case]] = field(default_factory=dict[frozenset[str], "list[Case]"])
    _calls: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self._program = CudaProgram.from_bytes(self.workload.program)
        function = parse_module(self.workload.text).entry
        self._oracle = Oracle(lambda case, arrays: run_by_reference(function, case, arrays))
        self._pointers: list[int] = []

    def prepare(self, *, others: bool = False) -> None:
        if others:  # most plans are compared on the same ones as the pick is
            self._cases_beside(self.workload.pick)
        else:
            self._oracle.expected(self._given)

    def check(self, plan: str) -> Checked:
        told: list[str] = []
        self._bind(plan, self._given, told)
        return Checked("refused", told[0]) if told else self._verified(plan, [self._given])

    def confirm(self, plan: str) -> Checked:
        return self._verified(plan, self._cases_beside(plan))

    def _cases_beside(self, plan: str) -> list[Case]:
        """The cases beside the given one that code by a plan can run, and the reference runs."""
        parsed = parse_plan(plan)
        named = (*parsed.sizes, *parsed.divisors, *parsed.capacities)
        fixed = frozenset(name for name, _ in named) if not any(parsed.packed) else frozenset(dict(self._sizes))
        return [case for case in self._drawn(fixed) if is_run(case, self._oracle)]

    def _verified(self, plan: str, cases: Sequence[Case]) -> Checked:
        faults = complete(cases, partial(self._execute, self.workload.pick), self._oracle)
        if faults is not None:
            return faults
        repeats = not adds_in_any_order(self.workload.text)
        return verify(cases, partial(self._execute, plan), self._oracle, repeats=repeats)

    def _execute(self, plan: str, case: Case, arrays: list[Array]) -> None:
        bound = self._bind(plan, case, [])
        with _faults_end_the_process():
            pointers = self._uploaded(arrays)
            self.device.run(bound, pointers, case.numbers)
            for pointer, array in zip(pointers, arrays):
                self.device.read(pointer, memory_of(array))

    def ready(self, plans: Sequence[str]) -> None:
        self._upload_given()
        for plan in plans:
            self._bind(plan, self._given, [])

    def seconds(self, plan: str) -> float:
        case = self._given
        bound = self._bind(plan, case, [])
        self._upload_given()
        if self._restores:
            self._pointers = self._uploaded(arrays_of(case))
            return self.device.seconds(bound, self._pointers, case.numbers, 1, False)
        if plan not in self._calls:
            self._calls[plan] = self._calls_of_a_sample(bound)
        return self.device.seconds(bound, self._pointers, case.numbers, self._calls[plan], True)

    def _calls_of_a_sample(self, bound: BoundDeviceProgram) -> int:
        """First guessed from a call by itself, which is the longer the more the host has to do for it."""
        timed = partial(self.device.seconds, bound, self._pointers, self._given.numbers)
        guess = calls_in(min(timed(1, False) for _ in range(3)))
        return calls_in(timed(guess, True))

    def _upload_given(self) -> None:
        if not self._pointers:
            self._pointers = self._uploaded(arrays_of(self._given))

    @property
    def _sizes(self) -> tuple[tuple[str, int], ...]:
        return self.workload.question.sizes

    @cached_property
    def _restores(self) -> bool:
        """Whether what a call is given changes, so that it has to be as it was for the next one."""
        return any(tensor.use == "written" for tensor in self._given.tensors)

    @cached_property
    def _interface(self) -> Interface:
        return interface_from_json(self.workload.interface)

    @cached_property
    def _given(self) -> Case:
        given = self.workload
        return given_case(self._interface, dict(self._sizes), given.strides, given.given.arrays(), given.numbers)

    def _drawn(self, fixed: frozenset[str]) -> list[Case]:
        """The cases beside the given one."""
        if fixed not in self._others:
            given = self.workload
            self._others[fixed] = drawn_cases(
                self._interface, dict(self._sizes), given.strides, self._given.contents, given.numbers, fixed
            )  # fmt: skip
        return self._others[fixed]

    def _bind(self, plan: str, case: Case, told: list[str]) -> BoundDeviceProgram:
        key = plan, str(sorted(case.sizes.items()))
        if key not in self._bound:
            loaded = self._program.load_with(PinnedPlan(plan, told.append))
            question = replace(self.workload.question, sizes=tuple(sorted(case.sizes.items())))
            self._bound[key] = self.device.bind(loaded, case, question)
        return self._bound[key]

    def _uploaded(self, arrays: Sequence[Array]) -> list[int]:
        """The addresses on the device of copies of these arrays; each place is used again."""
        pointers: list[int] = []
        for number, array in enumerate(arrays):
            memory = memory_of(array)
            if number not in self._addresses:
                self._addresses[number] = self.device.memory(max(1, memory.nbytes))
            self.device.write(self._addresses[number], memory)
            pointers.append(self._addresses[number])
        return pointers
