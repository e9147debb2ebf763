"""Running TILE text on the CPU back end, with nothing of the runtime in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support import guard_pages
from tiledsl.backend_cpu.calls.frame import tensors_of
from tiledsl.backend_cpu.calls.program import CpuProgram, LoadedProgram
from tiledsl.backend_cpu.compile import compile_module
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Function, Module
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.symbolic import evaluate, symbol_name
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.types import BlockSize, TensorType
from tiledsl.passes.machine import CpuMachine, host

Array = npt.NDArray[Any]


def run_on_cpu(
    text: str, *arguments: Any, block: int = 8, threads: int = 1, machine: CpuMachine | None = None
) -> list[Array]:
    """Compiles the first function of `text` and runs it once; `block` is the size of every block that is `auto`."""
    module = parse_module(text)
    return run_module_on_cpu(module, *arguments, block=block, threads=threads, machine=machine)


def run_module_on_cpu(
    module: Module, *arguments: Any, block: int = 8, threads: int = 1, machine: CpuMachine | None = None
) -> list[Array]:
    """As `run_on_cpu`, for a module. Arrays that the function writes are written in place."""
    return compiled_for_cpu(module, block, machine).run(*arguments, threads=threads)


@dataclass(frozen=True)
class CompiledForCpu:
    """A function, and its machine code."""

    function: Function
    program: LoadedProgram

    def run(self, *arguments: Any, threads: int = 1) -> list[Array]:
        """One run. Arrays that the function writes are written in place."""
        function = self.function
        kinds = [isinstance(p.type, TensorType) for p in function.parameters]
        passed: list[Array] = [a for a, is_tensor in zip(arguments, kinds) if is_tensor]
        given: list[Array] = guard_pages.placed(passed)
        scalars = [_number(a) for a, is_tensor in zip(arguments, kinds) if not is_tensor]
        sizes = _sizes(function, arguments)
        tensors = tensors_of(function)
        arrays = [*given, *(_new(t.type, sizes) for t in tensors[len(given) :])]
        strides = [tuple(s // a.itemsize for s in a.strides) for a in arrays]
        bound = self.program.bind(sizes, strides, threads)
        bound([a.ctypes.data for a in arrays], scalars)
        guard_pages.take_back(passed, given)
        returned = function.body.terminator
        assert returned is not None
        return [arrays[tensors.index(value)] for value in returned.operands]


def compiled_for_cpu(module: Module, block: int = 8, machine: CpuMachine | None = None) -> CompiledForCpu:
    """The entry of a module, which is changed; `block` as for `run_on_cpu`."""
    set_blocks(module, block)
    # through its stored form, so that every test checks that nothing is lost on the way to the disk
    machine = machine or host()
    program = CpuProgram.from_bytes(compile_module(module, machine).to_bytes())
    assert program.machine == machine
    return CompiledForCpu(module.entry, program.load())


def _number(argument: Any) -> int | float:
    number: int | float = argument.item() if hasattr(argument, "item") else argument
    return number


def set_blocks(module: Module, block: int) -> None:
    """Fixes every block that is `auto`."""
    for op in module.walk():
        if isinstance(op, (ops.Grid, ops.Range)):
            op.attributes["blocks"] = tuple(BlockSize.fixed(block) if b.kind == "auto" else b for b in op.blocks)


def _sizes(function: Function, arguments: tuple[Any, ...]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for parameter, argument in zip(function.parameters, arguments):
        if isinstance(parameter.type, TensorType):
            for dim, size in zip(parameter.type.shape, argument.shape):
                if name := symbol_name(dim):
                    sizes[name] = size
    return sizes


def _new(type_: object, sizes: dict[str, int]) -> Array:
    assert isinstance(type_, TensorType)
    shape, dtype = [evaluate(dim, sizes) for dim in type_.shape], to_numpy(type_.dtype)
    array: Array = np.empty(shape, dtype)
    (array,) = guard_pages.placed([array])
    if array.size:
        memory: Array = np.frombuffer(array, np.uint8)
        memory[...] = 0x5A  # so that what is never written shows
    return array
