"""Reductions, scans and matrix products in the GPU executor: on whole tiles, put together from the registers."""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import numpy as np

from tiledsl.backend_ref.folding import fold_tiles, scan_tiles
from tiledsl.backend_ref.gpu_execution import GpuExecution, GpuExecutionError, static
from tiledsl.backend_ref.gpu_registers import check_same_layout, gather, spread
from tiledsl.backend_ref.gpu_shared import shared_layout
from tiledsl.backend_ref.scalar_functions import Array, cast
from tiledsl.backend_ref.shared_memory import RaceError
from tiledsl.ir.core import Op, Value
from tiledsl.ir.fold_plans import plan_fold
from tiledsl.ir.gpu_ops import Mma, Reduce, Scan
from tiledsl.ir.layouts import Integers, RegisterLayout
from tiledsl.ir.matrix_instructions import INSTRUCTIONS, MatrixInstruction, fits, tiled_layouts

WARP = 32


def reduce(execution: GpuExecution, op: Reduce) -> tuple[Array, ...]:
    _use_scratch(execution, op, op.buffer)
    for source in op.sources:
        check_same_layout(op, [source], op.sources[0])
    folded = fold_tiles(execution, op, [gather(execution, op, source) for source in op.sources])
    return tuple(spread(value, tile) for value, tile in zip(op.results, folded))


def scan(execution: GpuExecution, op: Scan) -> tuple[Array, ...]:
    _use_scratch(execution, op, op.buffer)
    for source in op.sources:
        check_same_layout(op, [source], op.sources[0])
    running = scan_tiles(execution, op, [gather(execution, op, source) for source in op.sources])
    return tuple(spread(value, tile) for value, tile in zip(op.results, running))


def _use_scratch(execution: GpuExecution, op: Op, buffer: Value | None) -> None:
    if buffer is None:
        return
    size = shared_layout(buffer).bytes(static(buffer.shape), buffer.dtype)
    start = execution.integer(buffer)
    plan = plan_fold(op.sources[0].layout, op.axes, execution.threads_per_block) if isinstance(op, Reduce) else None
    try:
        if plan is not None and plan.blocks:
            execution.shared.exchange_in_turns(op, start, size, meets=bool(plan.warps))
        else:
            execution.shared.exchange(op, start, size)
    except RaceError as error:
        raise GpuExecutionError(op, str(error)) from None


def mma(execution: GpuExecution, op: Mma) -> tuple[Array, ...]:
    """Products and sums in f32 (f64 for f64), rounded once to narrower accumulators; integers wrap."""
    instruction = INSTRUCTIONS[op.instruction]
    _check_operands(execution, op, instruction)
    a, b, acc = (gather(execution, op, value) for value in (op.a, op.b, op.acc))
    dtype = op.acc.dtype
    if dtype.is_integer:
        # products of 8 bits add up exactly in f64, which has a fast product of matrices
        wide = np.float64 if a.itemsize == 1 else np.int64
        total = np.matmul(a.astype(wide), b.astype(wide)).astype(np.int64) + acc.astype(np.int64)
    else:
        wide = np.float64 if dtype.bits == 64 else np.float32
        left, right = a.astype(wide), b.astype(wide)
        if "tf32" in instruction.name:
            left, right = _as_tf32(left), _as_tf32(right)
        total = np.matmul(left, right) + acc.astype(wide)
    return (spread(op.result, cast(np.asarray(total), dtype)),)


def _as_tf32(array: Array) -> Array:
    """Rounded to 10 bits of fraction, ties away from zero."""
    bits: Any = array
    rounded = (bits.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFF_E000)
    return np.where(np.isfinite(array), rounded.view(np.float32), array)


def _check_operands(execution: GpuExecution, op: Mma, instruction: MatrixInstruction) -> None:
    if not instruction.takes(op.a.dtype, op.b.dtype, op.acc.dtype):
        raise GpuExecutionError(op, f"{instruction} does not take {op.a.dtype}, {op.b.dtype}, {op.acc.dtype}")
    check_same_layout(op, [op.acc], op.result)
    legal = _elements_meet if instruction.is_fma else _is_tiled
    if not legal(op.instruction, op.a.layout, op.b.layout, op.acc.layout):
        text = f"a as {op.a.layout}, b as {op.b.layout}, acc as {op.acc.layout}"
        raise GpuExecutionError(op, f"{instruction} does not take {text}")


@lru_cache(maxsize=256)
def _is_tiled(name: str, a: RegisterLayout, b: RegisterLayout, acc: RegisterLayout) -> bool:
    """Whether the operands lie as some arrangement of warps has them."""
    instruction, warps = INSTRUCTIONS[name], acc.threads // WARP
    (m, n), k = acc.shape, a.shape[1]
    for rows, columns in itertools.product(range(1, warps + 1), repeat=2):
        if warps % (rows * columns) == 0 and fits(instruction, (rows, columns), (m, n, k)):
            layouts = tiled_layouts(instruction, (rows, columns), (m, n, k), acc.threads)
            if layouts == (a, b, acc):
                return True
    return False


@lru_cache(maxsize=256)
def _elements_meet(name: str, a: RegisterLayout, b: RegisterLayout, acc: RegisterLayout) -> bool:
    """Whether each thread has the rows of `a` and the columns of `b` for what it has of `acc`."""
    del name
    k = np.arange(a.shape[1])
    threads = np.arange(acc.threads)[:, None, None]
    row, column = (axis[:, :, None] for axis in acc.table)
    return _holds(a, threads, (row + 0 * k, k + 0 * row)) and _holds(b, threads, (k + 0 * column, column + 0 * k))


def _holds(layout: RegisterLayout, threads: Integers, wanted: tuple[Integers, ...]) -> bool:
    held = layout.coordinates(threads, layout.place(wanted)[1])
    return all(bool((h == w).all()) for h, w in zip(held, wanted))
