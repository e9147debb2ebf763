"""Compiles what an emitter of `backend_cpu` writes, and applies it to arrays."""

# llvmlite says nothing of its types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt

from tiledsl.backend_cpu.functions.convert import from_memory, memory_type, to_memory
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, ModuleWriter, VectorType
from tiledsl.ir.dtypes import DType, to_numpy

Array: TypeAlias = npt.NDArray[Any]
Emit: TypeAlias = Callable[[FunctionWriter, list[str]], str]
"""Writes a computation on one vector per input and gives its result."""


def elementwise(emit: Emit, inputs: Sequence[DType], result: DType, lanes: int) -> Callable[..., Array]:
    """A function of as many arrays of one length, which applies the emitter to `lanes` elements at a time."""
    address, engine = _compile(_loop(emit, inputs, result, lanes))
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (len(inputs) + 1))(address)

    def apply(*arrays: Array) -> Array:
        assert engine is not None  # keeps the code in memory
        size = len(arrays[0])
        padded = [_padded(array, dtype, lanes) for array, dtype in zip(arrays, inputs, strict=True)]
        out = np.zeros(len(padded[0]), to_numpy(result))
        function(len(out), *(array.ctypes.data for array in (*padded, out)))
        return out[:size]

    return apply


def _padded(array: Array, dtype: DType, lanes: int) -> Array:
    """A contiguous copy with a whole number of vectors; the last element is repeated."""
    assert array.dtype == to_numpy(dtype)
    return np.ascontiguousarray(np.concatenate([array, np.repeat(array[-1:], -len(array) % lanes)]))


def _loop(emit: Emit, inputs: Sequence[DType], result: DType, lanes: int) -> str:
    """The module text of `void apply(i64 size, ptr input ..., ptr out)`."""
    module = ModuleWriter()
    parameters = [f"ptr %in{i}" for i in range(len(inputs))]
    writer = FunctionWriter(module, f"void @apply(i64 %size, {', '.join([*parameters, 'ptr %out'])})")
    with writer.loop("0", "%size", str(lanes)) as index:
        values: list[str] = []
        for i, dtype in enumerate(inputs):
            type_ = VectorType(dtype, lanes)
            pointer = writer.emit(f"getelementptr {memory_type(type_).element}, ptr %in{i}, i64 {index}")
            loaded = writer.emit(f"load {memory_type(type_)}, ptr {pointer}, align {dtype.bytes}")
            values.append(from_memory(writer, loaded, type_))
        type_ = VectorType(result, lanes)
        stored = to_memory(writer, emit(writer, values), type_)
        pointer = writer.emit(f"getelementptr {memory_type(type_).element}, ptr %out, i64 {index}")
        writer.line(f"store {memory_type(type_)} {stored}, ptr {pointer}, align {result.bytes}")
    writer.line("ret void")
    writer.finish()
    return module.text()


def _target_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, jit=True
    )


def _compile(text: str) -> tuple[int, llvm.ExecutionEngine]:
    """The address of `apply`, and the engine, which must be kept while it is called. The engine owns its machine."""
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _target_machine()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine.get_function_address("apply"), engine
