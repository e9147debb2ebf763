"""Calls in the emulator: the code of the plan that a launch would take, run with no GPU.

A call is checked, and its outputs are made, as for any program on the CPU; only the program is another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

import numpy as np

from tiledsl.api.calls.targets import target_of
from tiledsl.api.programs.specialisations import Specialisations
from tiledsl.backend_cuda.program import CudaProgram
from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.emulator.emulate import EmulatorWarning, emulate
from tiledsl.backend_ref.program import LoadedReference, View
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Function, Module, Value
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.gpu import gpu_ops
from tiledsl.ir.lying import lying
from tiledsl.ir.symbolic import evaluate
from tiledsl.ir.types import TensorType
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_pipeline
from tiledsl.runtime.arrays.arrays import row_major
from tiledsl.runtime.arrays.cuda_arrays import is_on_cuda
from tiledsl.runtime.calls.dispatch import Dispatcher, Variant
from tiledsl.runtime.calls.outputs import as_tuple
from tiledsl.runtime.calls.parameters import Parameters
from tiledsl.runtime.calls.specialise import ArgumentKey
from tiledsl.runtime.programs.alignment import lowest_bit, stride_bits
from tiledsl.runtime.programs.program import WIDEST
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, TileResourceError, add_note, fail


@dataclass(frozen=True)
class Code:
    """What is run: a plan, the GPU IR made for it, and how many programs its grids have (None: not known before)."""

    plan: Plan
    function: Function
    programs: int | None


@dataclass(frozen=True)
class Request:
    """How a call is to be emulated.

    `plan`: which of the plans for the call, from 0 on. `seed`: of the order in which things happen; None: in step.
    `watch` is told what is going to run.
    """

    arch: str = "sm_90"
    plan: int = 0
    seed: int | None = 0
    watch: Callable[[Code], None] = lambda code: None


@dataclass(frozen=True)
class Emulated:
    """What a call gave, and what the emulator had to say of it."""

    result: object
    warnings: tuple[EmulatorWarning, ...]


def emulate_call(
    code: Specialisations, parameters: Parameters, args: Sequence[object], out: object, request: Request
) -> Emulated:
    """Runs a kernel in the emulator. `args` are in the order of `parameters`. Raises TileError."""
    check_emulated_arch(request.arch, parameters.kernel)
    target = target_of(request.arch)
    check_in_cpu_memory([*zip(parameters.names, args), *(("out", value) for value in as_tuple(out))])
    found: list[EmulatorWarning] = []

    def choose(keys: tuple[ArgumentKey, ...], device: int | None) -> Variant:
        del device
        compiled = code.get(target, keys)
        program = compiled.program
        assert isinstance(program, CudaProgram)
        return Variant(compiled.variant.interface, EmulatedProgram(program.module, target.name, request, found))

    result = Dispatcher(parameters, choose, lambda: 1).call(tuple(args), {}, out)
    return Emulated(result, tuple(found))


def check_emulated_arch(arch: str, kernel: str) -> None:
    """Raises TileUnsupportedError for what is no GPU."""
    if not arch.startswith("sm_"):
        fail("emulate-arch", caller_location(), arch=arch, kernel=kernel)


def check_in_cpu_memory(arrays: Sequence[tuple[str, object]]) -> None:
    """Raises TileTypeError for an array on a device. `arrays`: by the name of the parameter."""
    for name, value in arrays:
        if is_on_cuda(value):
            fail("emulate-device", caller_location(), parameter=name, kind=type(value).__name__)


@dataclass(frozen=True)
class EmulatedProgram:
    """A TILE module (form `tile-placed`) that runs as GPU IR. Warnings are added to `found`.

    `clamped`: whether the last plan is meant where there are fewer than asked for, as of one kernel of several.
    """

    module: Module
    arch: str
    request: Request
    found: list[EmulatorWarning]
    clamped: bool = False

    def bind(self, symbols: Mapping[str, int], strides: Sequence[tuple[int, ...]], threads: int) -> BoundEmulation:
        """For those sizes; `strides` are in elements: of the tensor parameters, then of the new tensors."""
        views = LoadedReference(self.module.entry).bind(symbols, strides, threads).views
        return BoundEmulation(self, dict(symbols), views)


@dataclass(frozen=True)
class BoundEmulation:
    """A program with the views of its tensors: parameters in order, then those that `tile.empty` makes."""

    program: EmulatedProgram
    symbols: Mapping[str, int]
    views: tuple[View, ...]

    @property
    def description(self) -> str:
        return "run in the emulator"

    def __call__(self, pointers: Sequence[int], scalars: Sequence[int | float]) -> None:
        """Runs on tensors at these addresses. Raises TileError for what is wrong with the code, or fails in it."""
        program, request = self.program, self.program.request
        alignment = tuple(lowest_bit(start | bits) for start, bits in zip(pointers, self._stride_bits))
        code = self._code(alignment, tuple(map(_lying, pointers, self.views)))
        request.watch(code)
        function = code.function
        arrays = [view.at(address) for view, address in zip(self.views, pointers)]
        tensors, numbers = iter(arrays), iter(scalars)
        arguments: list[Argument] = [
            next(tensors) if isinstance(value.type, TensorType) else next(numbers) for value in function.parameters
        ]
        addresses = tuple(address % WIDEST for address in pointers)
        try:
            done = emulate(function, arguments, seed=request.seed, addresses=addresses)
        except TileError as error:
            if error.code.startswith("emulator-"):
                add_note(error, f"so it is in the code for {program.arch} with plan ({code.plan})")
            raise
        program.found.extend(done.warnings)
        made = dict(zip(_made(function), tensors))
        returned = function.body.terminator
        for value, result in zip(returned.operands if returned else (), done.results):
            if value in made:
                np.copyto(made[value], result)

    @property
    def _stride_bits(self) -> list[int]:
        """As at a launch; but new tensors lie row by row in the emulator, wherever their results go then."""
        bits: list[int] = []
        for view, value in zip(self.views, _tensors(self.program.module.entry)):
            item = to_numpy(view.dtype).itemsize
            assert isinstance(value.type, TensorType)
            unit = value.type.unit
            bits.append(stride_bits(view.shape, tuple(stride // item for stride in view.strides), item, unit))
            if value.op is not None:
                bits[-1] |= stride_bits(view.shape, row_major(view.shape), item, unit)
        return bits

    def _code(self, alignment: tuple[int, ...], laid: tuple[int, ...]) -> Code:
        program, wanted = self.program, self.program.request.plan
        module, arch = program.module, program.arch
        plans = choose_plans(module.entry, gpu_machine(arch), self.symbols, alignment, laid)
        past_the_end = program.clamped and 0 < wanted >= len(plans)
        # the last plan that has room is found from the end: those in front of it need not be lowered
        if past_the_end:
            plans, wanted = plans[::-1], 0
        count, last = 0, None
        for plan, function in fitting_plans(plans, module, arch):
            last = Code(plan, function, programs_of(function, self.symbols))
            if count == wanted:
                return last
            count += 1
        if last is not None and program.clamped and wanted >= 0:
            return last
        _fail_plan(wanted, count, program.module.entry.name)


def _lying(start: int, view: View) -> int:
    item = to_numpy(view.dtype).itemsize
    return lying(view.shape, tuple(stride // item for stride in view.strides), start, item)


def _fail_plan(wanted: object, count: int, kernel: str) -> NoReturn:
    known = "0" if count == 1 else f"a number from 0 to {count - 1}"
    counted = "there is one" if count == 1 else f"there are {count}"
    fail("emulate-plan", caller_location(), plan=wanted, count=counted, known=known, kernel=kernel)


def fitting_plans(plans: Iterable[Plan], module: Module, arch: str) -> Iterator[tuple[Plan, Function]]:
    """Those of the plans that have room on the machine, in their order, each with its GPU IR.

    Raises TileResourceError if there is none.
    """
    failure: TileResourceError | None = None
    some = False
    for plan in plans:
        code = _lowered(module, plan, arch)
        if isinstance(code, Function):
            some = True
            yield plan, code
        else:
            failure = failure or code
    if not some:
        assert failure is not None, "there was no plan"
        raise failure


@lru_cache(maxsize=64)
def _lowered(module: Module, plan: Plan, arch: str) -> Function | TileResourceError:
    """The GPU IR for a plan, or why it has no room. Kept: a call is often emulated with many seeds."""
    try:
        return PassManager(gpu_pipeline(plan, arch), between=False).run(module, PassContext()).entry
    except TileResourceError as error:
        return error


def programs_of(function: Function, sizes: Mapping[str, int]) -> int | None:
    """How many programs the launches of a function have, all together; None where that is computed."""
    total = 0
    for op in function.walk():
        if isinstance(op, gpu_ops.Launch):
            stops = [_number(stop, sizes) for stop in op.stops]
            programs = [-(-stop // block) for stop, block in zip(stops, op.blocks) if stop is not None]
            if len(programs) != len(stops):
                return None
            total += math.prod(programs)
    return total


def _number(value: Value, sizes: Mapping[str, int]) -> int | None:
    match value.op:
        case tile_ops.Size() as op:
            return evaluate(op.value, sizes)
        case tile_ops.Constant() as op:
            return int(op.value)
        case _:
            return None


def _tensors(function: Function) -> list[Value]:
    return [*(value for value in function.parameters if isinstance(value.type, TensorType)), *_made(function)]


def _made(function: Function) -> list[Value]:
    return [op.result for op in function.body.ops if isinstance(op, tile_ops.Empty)]
