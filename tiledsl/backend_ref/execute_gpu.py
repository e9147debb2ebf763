"""Runs GPU functions with NumPy: the oracle for the lowering to GPU IR and for the CUDA that is made of it.

Every thread and slot is there: tiles are computed register by register, shared memory is bytes at the addresses that
layouts give. What the machine leaves undefined is filled with NaN, -1 or all bits set, so that a program that relies on
it shows. What the machine would get wrong raises `GpuExecutionError`: threads that hold different copies of an element,
accesses that are not aligned, out of bounds or, for want of a barrier, in no order. Such an error is a fault of a pass
and not of the user's program; it has no place in the catalogue of errors.

Threads run in step, one op after the other, and programs one after the other.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tiledsl.backend_ref import control, gpu_folding, gpu_memory, gpu_registers, gpu_shared, memory, philox
from tiledsl.backend_ref.arguments import Argument, bind_arguments
from tiledsl.backend_ref.execute_tile import EXECUTORS as TILE_EXECUTORS
from tiledsl.backend_ref.execute_tile import fail_assertion
from tiledsl.backend_ref.execution import Executor, small_blocks
from tiledsl.backend_ref.gpu_execution import GpuExecution, GpuExecutionError
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir import gpu_ops, tile_ops
from tiledsl.ir.core import Block, Function, Op, Value
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.types import TensorType


def execute_gpu(
    function: Function,
    arguments: Sequence[Argument],
    *,
    output: Callable[[str], None] = print,
    order: random.Random | None = None,
    addresses: Mapping[str, int] | None = None,
) -> tuple[Array, ...]:
    """Runs a function in GPU form and gives the tensors that it returns; called as `execute_tile.execute` is.

    `addresses`: for tensors, by name, the address of the first element modulo 16 (0, unless told), of which vectors
    must be aligned.

    Raises GpuExecutionError where the IR is wrong, and the errors of `execute` for the arguments and `tile.assert`.
    """
    sizes, values = bind_arguments(function, arguments)
    execution = GpuExecution(EXECUTORS, sizes, small_blocks, output, order, symbols=dict(sizes))
    for value in _tensors(function):
        execution.addresses[value] = (addresses or {}).get(value.name, 0)
    with np.errstate(all="ignore"):
        return execution.run(function.body, values)


def _tensors(function: Function) -> list[Value]:
    made = [op.result for op in function.body.ops if isinstance(op, tile_ops.Empty)]
    return [*(value for value in function.parameters if isinstance(value.type, TensorType)), *made]


def _launch(execution: GpuExecution, op: gpu_ops.Launch) -> tuple[Array, ...]:
    """One program after the other, in row-major order or shuffled."""
    _check_carried(op)
    stops = [execution.integer(stop) for stop in op.stops]
    programs = list(itertools.product(*(range(0, stop, block) for stop, block in zip(stops, op.blocks))))
    if execution.order is not None:
        execution.order.shuffle(programs)
    execution.transfers.clear()
    execution.buffers, size = gpu_shared.place_buffers(op)
    execution.threads_per_block, execution.threads = op.threads, op.threads * op.cluster
    kinds = [to_numpy(argument.dtype) for argument in op.body.arguments]
    for program in programs:
        execution.shared = gpu_shared.new_memory(op, size)
        execution.program = [
            f"{argument.name} = {start}" if block == 1 else f"{argument.name} = {start}:{min(start + block, stop)}"
            for argument, start, block, stop in zip(op.body.arguments, program, op.blocks, stops)
        ]
        execution.run(op.body, [np.asarray(start, kind) for start, kind in zip(program, kinds)])
    execution.program = []
    return ()


def _check_carried(launch: gpu_ops.Launch) -> None:
    """What goes round a loop or out of a branch keeps its layout."""
    for op in launch.body.walk():
        match op:
            case tile_ops.For():
                groups: list[Sequence[Value]] = [op.body.arguments[1:], op.initial, _yielded(op.body)]
            case tile_ops.While():
                groups = [op.body.arguments, op.condition.arguments, op.initial, _yielded(op.body)]
            case tile_ops.If():
                groups = [_yielded(op.then), _yielded(op.otherwise)]
            case _:
                continue
        for group in groups:
            for value, result in zip(group, op.results):
                if value.type != result.type:
                    raise GpuExecutionError(op, f"%{value.name} is {value.type}, the result {result.type}")


def _yielded(body: Block) -> Sequence[Value]:
    last = body.terminator
    return last.operands if last is not None else ()


def _random(execution: GpuExecution, op: tile_ops.Random) -> tuple[Array, ...]:
    gpu_registers.check_same_layout(op, [op.offsets], op.result)
    draw = {"uniform": philox.uniform, "normal": philox.normal, "bits": philox.bits}[op.fn]
    return (draw(execution.array(op.seed), execution.array(op.offsets)),)


def _print(execution: GpuExecution, op: tile_ops.Print) -> tuple[Array, ...]:
    parts = [str(gpu_registers.gather(execution, op, value)) for value in op.values]
    execution.output(" ".join([op.text, *parts] if op.text else parts))
    return ()


def _assert(execution: GpuExecution, op: tile_ops.Assert) -> tuple[Array, ...]:
    condition = gpu_registers.gather(execution, op, op.condition)
    if not condition.all():
        fail_assertion(execution, op, condition)
    return ()


EXECUTORS: dict[type[Op], Executor] = {
    gpu_ops.Launch: _launch,
    tile_ops.For: control.for_,
    tile_ops.While: control.while_,
    tile_ops.If: control.if_,
    tile_ops.Constant: TILE_EXECUTORS[tile_ops.Constant],
    tile_ops.Size: TILE_EXECUTORS[tile_ops.Size],
    tile_ops.Empty: memory.empty,
    gpu_ops.Load: gpu_memory.load,
    gpu_ops.Store: gpu_memory.store,
    gpu_ops.Atomic: gpu_memory.atomic,
    gpu_ops.Buffer: gpu_shared.buffer,
    gpu_ops.View: gpu_shared.view,
    gpu_ops.Copy: gpu_shared.copy,
    gpu_ops.Commit: gpu_shared.commit,
    gpu_ops.Wait: gpu_shared.wait,
    gpu_ops.Barrier: gpu_shared.barrier,
    gpu_ops.Read: gpu_shared.read,
    gpu_ops.Write: gpu_shared.write,
    gpu_ops.Arange: gpu_registers.arange,
    gpu_ops.Pad: gpu_registers.pad,
    gpu_ops.Convert: gpu_registers.convert,
    gpu_ops.Slice: gpu_registers.slice_,
    gpu_ops.Reduce: gpu_folding.reduce,
    gpu_ops.Scan: gpu_folding.scan,
    gpu_ops.Mma: gpu_folding.mma,
    tile_ops.Map: gpu_registers.map_,
    tile_ops.Cast: gpu_registers.cast_,
    tile_ops.Broadcast: gpu_registers.broadcast,
    tile_ops.Reshape: gpu_registers.reshape,
    tile_ops.Transpose: gpu_registers.transpose,
    tile_ops.Random: _random,
    tile_ops.Print: _print,
    tile_ops.Assert: _assert,
}
"""How each op of GPU form runs. Terminators are not here."""
