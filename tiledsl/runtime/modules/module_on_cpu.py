"""Runs a schedule on the CPU: a loop over programs that are bound already, with lists of addresses that are filled in.

All that lies within a call (the arena, and the lists) is a *room*. Calls from several threads have a room each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tiledsl.ir.dtypes import DType, to_numpy
from tiledsl.runtime.arrays.arrays import Array, pointer, row_major
from tiledsl.runtime.programs.memory_plan import ALIGNMENT, MemoryPlan
from tiledsl.runtime.programs.program import BoundProgram, ChainedRuns, Chains, ExpectedArray, KeptMemory, LoadedProgram
from tiledsl.runtime.programs.schedule import Buffer, Operand, Schedule, Step

Run: TypeAlias = Callable[[Sequence[int], Sequence["int | float"]], None]
_Places: TypeAlias = "list[tuple[list[int], int, int]]"
"""Where the address of a buffer goes: into which list, at which place, with how many bytes added."""


class ModuleOnCpu:
    """A schedule whose programs are loaded and bound. Safe to call from several threads at once."""

    def __init__(
        self,
        schedule: Schedule,
        plan: MemoryPlan,
        programs: Sequence[LoadedProgram],
        constants: Mapping[int, Array],
        threads: int,
    ) -> None:
        """`programs` are those of the schedule, `constants` arrays by the number of their buffer, row-major."""
        self.schedule = schedule
        self.plan = plan
        self.constants = constants
        self.bound: list[BoundProgram] = []
        known: dict[object, BoundProgram] = {}
        for step in schedule.steps:
            strides = tuple(tensor.view.strides for tensor in step.tensors)
            key = step.program, tuple(step.sizes.items()), strides
            if key not in known:
                known[key] = programs[step.program].bind(step.sizes, strides, threads)
            self.bound.append(known[key])
        self.rooms: list[_Room] = []
        """Those that no call uses."""

    def run(self, addresses: Sequence[int]) -> None:
        """Runs on inputs, then outputs, at these addresses. TileRuntimeError: a failed assertion of a program."""
        try:
            room = self.rooms.pop()
        except IndexError:
            room = self.room()
        try:
            room.run(addresses)
        finally:
            self.rooms.append(room)

    def room(self) -> _Room:
        """A new room. Its `run_on` is `run` with inputs, then outputs; False, and nothing done, if one is not an array
        just as the module wants it. It may also be that the back end does not look at arrays."""
        return _Room(self)


class _Room:
    def __init__(self, module: ModuleOnCpu) -> None:
        schedule, plan = module.schedule, module.plan
        self.arena: Any = np.empty(plan.bytes + ALIGNMENT, np.uint8)
        start = -(-pointer(self.arena) // ALIGNMENT) * ALIGNMENT
        known = {buffer: start + offset for buffer, offset in plan.offsets.items()}
        known.update((buffer, pointer(array)) for buffer, array in module.constants.items())
        places: dict[int, _Places] = {buffer: [] for buffer in (*schedule.inputs, *schedule.outputs)}
        self.steps: list[tuple[Run, list[int], Sequence[int | float]]] = []
        for step, bound in zip(schedule.steps, module.bound):
            pointers: list[int] = []
            self._locate(schedule, step.tensors, known, places, pointers)
            self.steps.append(self._step(schedule, step, bound, known, places, pointers))
        self.places = [places[buffer] for buffer in (*schedule.inputs, *schedule.outputs)]
        chained = self._chained(schedule, [(pointer(a), a.nbytes) for a in module.constants.values()])
        self.run = self._one_by_one if chained is None else chained.run
        self.run_on = _never if chained is None else chained.run_on

    def _one_by_one(self, addresses: Sequence[int]) -> None:
        for address, places in zip(addresses, self.places):
            for pointers, index, offset in places:
                pointers[index] = address + offset
        for run, pointers, numbers in self.steps:
            run(pointers, numbers)

    def _chained(self, schedule: Schedule, kept: Sequence[KeptMemory]) -> ChainedRuns | None:
        """All steps by one call; None where the back end has no such thing, or where numbers are read in between."""
        runs = [(run, pointers, numbers) for run, pointers, numbers in self.steps if isinstance(run, Chains)]
        if not runs or len(runs) < len(self.steps):
            return None
        steps = {id(pointers): number for number, (_, pointers, _) in enumerate(self.steps)}
        patches = [
            (source, offset, steps[id(pointers)], index)
            for source, places in enumerate(self.places)
            for pointers, index, offset in places
        ]
        expected = [expected_array(schedule.buffers[n]) for n in (*schedule.inputs, *schedule.outputs)]
        written = range(len(schedule.inputs), len(expected))
        return runs[0][0].chained(runs, patches, expected, written, kept)

    def _locate(
        self,
        schedule: Schedule,
        operands: Sequence[Operand],
        known: Mapping[int, int],
        places: Mapping[int, _Places],
        pointers: list[int],
    ) -> None:
        for operand in operands:
            offset = operand.view.offset * schedule.buffers[operand.buffer].dtype.bytes
            if operand.buffer in places:
                places[operand.buffer].append((pointers, len(pointers), offset))
            pointers.append(known.get(operand.buffer, 0) + offset)

    def _step(
        self,
        schedule: Schedule,
        step: Step,
        bound: BoundProgram,
        known: Mapping[int, int],
        places: Mapping[int, _Places],
        pointers: list[int],
    ) -> tuple[Run, list[int], Sequence[int | float]]:
        read = [number for number in step.numbers if isinstance(number, Operand)]
        if not read:
            return bound, pointers, tuple(n for n in step.numbers if not isinstance(n, Operand))
        sources: list[int] = []
        self._locate(schedule, read, known, places, sources)
        dtypes = [schedule.buffers[number.buffer].dtype for number in read]

        def run(pointers: Sequence[int], numbers: Sequence[int | float]) -> None:
            values = iter(map(number_at, sources, dtypes))
            bound(pointers, [next(values) if isinstance(n, Operand) else n for n in step.numbers])

        return run, pointers, ()


def expected_array(buffer: Buffer) -> ExpectedArray:
    """What an argument or a result has to be to be used as it is."""
    return to_numpy(buffer.dtype), buffer.shape, row_major(buffer.shape, buffer.dtype.bytes)


def _never(arrays: tuple[object, ...]) -> bool:
    return False


def number_at(address: int, dtype: DType) -> int | float:
    """The one element at an address of CPU memory."""
    numpy_dtype = to_numpy(dtype)
    memory = ctypes.string_at(address, numpy_dtype.itemsize)
    value: Any = np.frombuffer(memory, numpy_dtype)[0]
    return float(value) if dtype.is_float else int(value)
