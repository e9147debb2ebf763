"""A compiled program: machine code with what it takes to call it. It survives a trip through the disk cache."""

from __future__ import annotations

import ctypes
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tiledsl.backend_cpu.calls.chain import Chain, Launched, Patch, PhaseCode
from tiledsl.backend_cpu.calls.frame import PROGRAM_UNIT, FrameLayout
from tiledsl.backend_cpu.calls.prints import PrintFormat, printer
from tiledsl.backend_cpu.calls.stored_work import work_from_json, work_to_json
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.passes.cpu.cpu_plan import parse_cpu_plan, why_no_plan
from tiledsl.passes.cpu.grid_work import GridWork, total_traffic
from tiledsl.passes.cpu.plan_launch import CpuLaunch, launch_by, plan_launch
from tiledsl.passes.machine import CpuMachine, CpuSpeeds, describe_cpu
from tiledsl.runtime.programs.cache import digest
from tiledsl.runtime.programs.plan_source import PlanQuestion, PlanSource, sizes_in_order
from tiledsl.runtime.programs.program import ChainedRun, ExpectedArray, KeptMemory
from tiledsl.support.errors import TileError, make_error
from tiledsl.support.location import Location

if TYPE_CHECKING:
    from tiledsl.backend_cpu.llvm.native import LinkedCode

_HEADER = struct.Struct("<8sQ")
_MAGIC = b"tiledsl1"
_SCALAR_CODES = {"f64": "d", "f32": "f4x", "f16": "e6x", "u64": "Q"}
"""How a scalar fills its 8-byte word; integers and bool as a signed word."""
GRAINS = 8
"""Into how many runs of programs the share of a thread is cut: neighbouring programs touch neighbouring memory, whose
pages are better first touched by one thread; what is left when the first thread is done should be little."""
NARROW = frozenset({"bf16", "f8e4m3", "f8e5m2"})
"""Scalars that the struct module does not know: passed as their bits."""
_PHASE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True)
class Assertion:
    """A `tile.assert_` of the program, for the message when it fails."""

    text: str
    location: Location


@dataclass(frozen=True)
class TileNote:
    """What became of one tile, for `explain()`: the source line and text that made it, its type, level and place."""

    line: int
    source: str
    type: str
    level: str
    where: str


@dataclass(frozen=True)
class CpuProgram:
    """Compiled, not loaded. `works` has, phase by phase, what the launch plans with (None: one single program)."""

    code: bytes
    llvm_ir: str
    layout: FrameLayout
    phases: tuple[str, ...]
    works: tuple[GridWork | None, ...]
    assertions: tuple[Assertion, ...]
    prints: tuple[PrintFormat, ...]
    tiles: tuple[TileNote, ...]
    machine: CpuMachine

    @property
    def assembly(self) -> str:
        """The machine code as assembler text (compiled anew from the LLVM IR)."""
        from tiledsl.backend_cpu.llvm import native  # imports llvmlite, which costs start-up time

        return native.assembly(self.llvm_ir)

    def to_bytes(self) -> bytes:
        """Everything in one piece, for the disk."""
        described = {
            "llvm_ir": self.llvm_ir,
            "layout": [self.layout.ranks, self.layout.scalars, self.layout.symbols, self.layout.blocks],
            "phases": self.phases,
            "works": [None if work is None else work_to_json(work) for work in self.works],
            "assertions": [[a.text, a.location.file, a.location.line, a.location.column] for a in self.assertions],
            "prints": [[p.text, p.values] for p in self.prints],
            "tiles": [[t.line, t.source, t.type, t.level, t.where] for t in self.tiles],
            "machine": [*_machine_numbers(self.machine), sorted(self.machine.features), astuple(self.machine.speeds)],
        }
        text = json.dumps(described).encode()
        return _HEADER.pack(_MAGIC, len(text)) + text + self.code

    @staticmethod
    def from_bytes(data: bytes) -> CpuProgram:
        """The inverse of `to_bytes`. ValueError if the data is something else."""
        magic, length = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError("not a compiled program")
        described: dict[str, Any] = json.loads(data[_HEADER.size : _HEADER.size + length])
        return CpuProgram(
            data[_HEADER.size + length :],
            described["llvm_ir"],
            FrameLayout(*(tuple(part) for part in described["layout"])),
            tuple(described["phases"]),
            tuple(None if work is None else work_from_json(work) for work in described["works"]),
            tuple(Assertion(text, Location(*place)) for text, *place in described["assertions"]),
            tuple(PrintFormat(text, tuple((n, r) for n, r in values)) for text, values in described["prints"]),
            tuple(TileNote(*note) for note in described["tiles"]),
            _machine(described["machine"]),
        )

    @cached_property
    def identity(self) -> str:
        """A digest of the code: all plans of a program run on one piece of it."""
        return digest([self.llvm_ir])

    def load(self) -> LoadedProgram:
        """Links the code into this process."""
        from tiledsl.backend_cpu.llvm import native  # imports llvmlite, which costs start-up time

        return LoadedProgram(self, native.LinkedCode(self.code, self.phases))

    def load_with(self, plans: PlanSource) -> LoadedProgram:
        """The same; blocks and threads are those that `plans` has for a call, if it has any."""
        loaded = self.load()
        loaded.plans = plans
        return loaded


def _machine(stored: list[Any]) -> CpuMachine:
    name, vector_bytes, vector_registers, l1_bytes, l2_bytes, l3_bytes, cores, features, speeds = stored
    *numbers, across, cache_bytes = speeds
    return CpuMachine(
        name, vector_bytes, vector_registers, l1_bytes, l2_bytes, l3_bytes, cores, frozenset(features),
        CpuSpeeds(*numbers, across=tuple(across), cache_bytes=tuple(cache_bytes)),
    )  # fmt: skip


def _machine_numbers(machine: CpuMachine) -> tuple[str | int, ...]:
    return (
        machine.name,
        machine.vector_bytes,
        machine.vector_registers,
        machine.l1_bytes,
        machine.l2_bytes,
        machine.l3_bytes,
        machine.cores,
    )


@dataclass(frozen=True)
class BoundDescription:
    """What was chosen for one set of sizes."""

    blocks: Mapping[str, int]
    programs: tuple[int, ...]
    """Of each phase."""
    threads: tuple[int, ...]
    scratch_bytes: tuple[int, ...]
    """Per thread, of each phase."""
    read_bytes: int
    written_bytes: int
    """What all programs together load from and store to tensors, caches left aside."""
    operations: int
    """Multiply-adds of dots, counted as two, and elementwise functions."""
    predicted: float
    """Seconds, by the cost model; the clock is a guess."""
    shares: Mapping[str, float]
    """Of that, by what cores do, the longest first (`CpuTimes`)."""
    measured: bool = False
    """Whether the plan came from a source of plans, and not from the model."""


class LoadedProgram:
    """A program in this process: `bind` it to sizes, then call it."""

    def __init__(self, program: CpuProgram, code: LinkedCode) -> None:
        self.program = program
        self.addresses = [code.addresses[name] for name in program.phases]
        self.functions = [_PHASE(address) for address in self.addresses]
        self._code = code
        self.plans: PlanSource | None = None
        self.printer = printer(program.prints) if program.prints else None

    def bind(self, symbols: Mapping[str, int], strides: Sequence[tuple[int, ...]], threads: int) -> BoundProgram:
        """Chooses blocks for those sizes and fixes all of the frame but pointers and scalars.

        `strides` are in elements, a tuple for each tensor: parameters in order, then new tensors in order.
        """
        program = self.program
        launch = measured = self._planned(symbols, strides, threads)
        if launch is None:
            launch = plan_launch(program.works, program.machine, symbols, threads)
        words = [stride for tensor in strides for stride in tensor]
        words += [symbols[name] for name in program.layout.symbols]
        words += [launch.blocks[name] for name in program.layout.blocks]
        tail = struct.pack(f"<{len(words)}q", *words)
        return BoundProgram(self, tail, launch, symbols, measured is not None)

    def _planned(
        self, symbols: Mapping[str, int], strides: Sequence[tuple[int, ...]], threads: int
    ) -> CpuLaunch | None:
        """The launch by what the source of plans answers; None where it has no answer, or one that is no plan here."""
        if self.plans is None:
            return None
        program = self.program
        question = question_of(program, symbols, strides, threads)
        answer = self.plans.plan_for(question)
        if answer is None:
            return None
        try:
            plan = parse_cpu_plan(answer.plan)
        except ValueError as error:
            self.plans.refused(question, answer, str(error))
            return None
        reason = why_no_plan(plan, program.works, threads)
        if reason is not None:
            self.plans.refused(question, answer, reason)
            return None
        return launch_by(plan, program.works, program.machine, symbols)


def question_of(
    program: CpuProgram, symbols: Mapping[str, int], strides: Sequence[tuple[int, ...]], threads: int
) -> PlanQuestion:
    """What a source of plans is asked for a call."""
    return PlanQuestion(
        program.identity, "cpu", describe_cpu(program.machine), sizes_in_order(symbols), tuple(map(tuple, strides)),
        threads=threads,
    )  # fmt: skip


class BoundProgram:
    """A program for one set of sizes and strides."""

    def __init__(
        self, loaded: LoadedProgram, tail: bytes, launch: CpuLaunch, symbols: Mapping[str, int], measured: bool
    ) -> None:
        program = loaded.program
        self._tail = tail
        codes = "".join(_SCALAR_CODES.get(name, "q") for name in program.layout.scalars)
        numbers = struct.Struct("<" + "Q" * len(program.layout.ranks) + codes)
        self._pack, self._pack_into = numbers.pack, numbers.pack_into
        names = program.layout.scalars
        self._narrow = names if NARROW.intersection(names) else ()
        phases = len(program.phases)
        self._assertions = program.assertions
        callback = ctypes.cast(loaded.printer, ctypes.c_void_p).value if loaded.printer is not None else None
        self._loaded = loaded
        empty = self._frame([0] * len(program.layout.ranks), [0] * len(program.layout.scalars))
        state = (ctypes.c_int64 * (2 + 3 * phases))()
        scratch = tuple(function(empty, None, state) for function in loaded.functions)
        totals = [total_traffic(w, symbols, launch.blocks) for w in program.works if w is not None]
        read, written, operations = (sum(part) for part in zip(*totals)) if totals else (0, 0, 0)
        self.description = BoundDescription(
            launch.blocks, launch.programs, launch.threads, scratch, read, written, operations, launch.seconds,
            launch.times.shares, measured,
        )  # fmt: skip
        grains = [max(1, number // (GRAINS * count)) for number, count in zip(launch.programs, launch.threads)]
        self._state = (*[0] * (1 + phases), callback or 0, *grains, *launch.threads)
        self._phases = tuple(map(PhaseCode, loaded.addresses, scratch, launch.threads))
        self._alone = Launched(empty, self._state, 1 + phases, self._phases)
        self._rooms: list[Chain] = []
        """Of no call: each takes one, so that several threads may call at once."""

    def _frame(self, pointers: Sequence[int], scalars: Sequence[int | float]) -> bytes:
        return self._pack(*pointers, *self._packed(scalars)) + self._tail

    def _packed(self, scalars: Sequence[int | float]) -> Sequence[int | float]:
        """The scalars as `struct` takes them."""
        if not self._narrow:
            return scalars
        return [_bits(value, name) if name in NARROW else value for value, name in zip(scalars, self._narrow)]

    def launched(self, pointers: Sequence[int], scalars: Sequence[int | float]) -> Launched:
        """A run with these arguments, as a part of a chain."""
        return Launched(self._frame(pointers, scalars), self._state, 1 + len(self._phases), self._phases)

    def __call__(self, pointers: Sequence[int], scalars: Sequence[int | float]) -> None:
        """Runs the program: data pointers in the order of the strides, scalars in the order of the parameters.

        Raises TileRuntimeError where a `tile.assert_` failed.
        """
        try:
            room = self._rooms.pop()
        except IndexError:
            room = Chain([self._alone])
        self._pack_into(room.frames[0], 0, *pointers, *self._packed(scalars))
        failed = room.run()
        status = room.status(0) if failed else 0
        self._rooms.append(room)
        if failed:
            raise self.failure(status)

    def chained(
        self,
        runs: Sequence[ChainedRun],
        patches: Sequence[tuple[int, int, int, int]],
        expected: Sequence[ExpectedArray],
        written: Sequence[int],
        kept: Sequence[KeptMemory] = (),
    ) -> ChainedPrograms | None:
        """These runs by one call: see `runtime.program.Chains`."""
        own = [(program, pointers, numbers) for program, pointers, numbers in runs if isinstance(program, BoundProgram)]
        if len(own) < len(runs):
            return None
        launches = [program.launched(pointers, numbers) for program, pointers, numbers in own]
        chain = Chain(launches, [Patch(*patch) for patch in patches], expected, written, kept)
        return ChainedPrograms(chain, [program for program, _, _ in own])

    def failure(self, status: int) -> TileError:
        """The error for a status that is not 0."""
        program, number = divmod(status, PROGRAM_UNIT)
        failed = self._assertions[number - 1]
        text = failed.text or "the condition is false"
        return make_error("assertion-failed", failed.location, text=text, program=f"in program {program} of the grid")


class ChainedPrograms:
    """Runs of several programs. One call at a time may make them."""

    def __init__(self, chain: Chain, programs: Sequence[BoundProgram]) -> None:
        self._chain = chain
        self._programs = programs

    def run(self, addresses: Sequence[int]) -> None:
        """Makes the runs, with arrays at these addresses. Raises TileRuntimeError where a `tile.assert_` failed."""
        self._chain.addresses[: len(addresses)] = addresses
        failed = self._chain.run()
        if failed:
            self._fail(failed - 1)

    def run_on(self, arrays: tuple[object, ...]) -> bool:
        """Makes the runs on these arrays; False, and nothing done, unless all are as they were expected, and those that
        are written can be and lie apart from all others."""
        failed = self._chain.run_on(arrays)
        if failed > 0:
            self._fail(failed - 1)
        return not failed

    def _fail(self, launch: int) -> None:
        raise self._programs[launch].failure(self._chain.status(launch))


def _bits(value: int | float, name: str) -> int:
    number = np.asarray(value, to_numpy(BY_NAME[name]))
    return int.from_bytes(number.tobytes(), "little")
