"""`gpu.mma`: matrix instructions of warps, on the fragments that each warp holds; or plain multiplications."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tiledsl.backend_ref.emulator.agents.agent import Agent, fault
from tiledsl.backend_ref.emulator.ops.registers import check_same_layout
from tiledsl.backend_ref.scalar_functions import Array, cast
from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu.gpu_ops import Mma
from tiledsl.ir.gpu.matrix_instructions import INSTRUCTIONS, MatrixInstruction
from tiledsl.ir.layouts.layout import WARP, Integers, RegisterLayout


def mma(agent: Agent, op: Mma) -> tuple[Array, ...]:
    """Every warp multiplies the fragments that its lanes hold, wherever the layouts claim those to be."""
    instruction = INSTRUCTIONS[op.instruction]
    if not instruction.takes(op.a.dtype, op.b.dtype, op.acc.dtype):
        fault(op, f"{instruction} does not take {op.a.dtype}, {op.b.dtype}, {op.acc.dtype}")
    check_same_layout(op, [op.acc], op.result)
    registers = [agent.array(value) for value in (op.a, op.b, op.acc)]
    if instruction.is_fma:
        return (_multiply_elements(op, *registers),)
    return (_multiply_fragments(op, instruction, *registers),)


def multiply_add(a: Array, b: Array, acc: Array, dtype: DType, *, tf32: bool = False) -> Array:
    """acc + a @ b: in f32 (f64 for f64), rounded once to narrower accumulators; integers wrap.

    An element is the same wherever it stands in a tile, as it is on a GPU: products of narrow floats add up in f64.
    """
    if dtype.is_integer:
        # products of 8 bits add up exactly in f64, which has a fast product of matrices
        wide = np.float64 if a.itemsize == 1 else np.int64
        total = np.matmul(a.astype(wide), b.astype(wide)).astype(np.int64) + acc.astype(np.int64)
    else:
        wide = np.float64 if dtype.bits == 64 else np.float32
        left, right = a.astype(wide), b.astype(wide)
        if tf32:
            left, right = _as_tf32(left), _as_tf32(right)
        with np.errstate(over="ignore", invalid="ignore"):
            product = np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(wide)
            total = product + acc.astype(wide)
    return cast(np.asarray(total), dtype)


def _as_tf32(array: Array) -> Array:
    """Rounded to 10 bits of fraction, ties away from zero."""
    bits: Any = array
    rounded = (bits.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFF_E000)
    return np.where(np.isfinite(array), rounded.view(np.float32), array)


# By instructions


def _multiply_fragments(op: Mma, instruction: MatrixInstruction, a: Array, b: Array, acc: Array) -> Array:
    try:
        a_cells = fragment_cells(op.a.layout, instruction.a_fragment)
        b_cells = fragment_cells(op.b.layout, instruction.b_fragment)
        acc_cells = fragment_cells(op.acc.layout, instruction.accumulator_fragment)
    except ValueError as error:
        text = f"a as {op.a.layout}, b as {op.b.layout}, acc as {op.acc.layout}"
        return fault(op, f"{instruction} does not take {text}: {error}")
    (m, k), (k_too, n) = a_cells.shape, b_cells.shape
    if k != k_too or acc_cells.shape != (m, n):
        text = f"a as {op.a.layout}, b as {op.b.layout}, acc as {op.acc.layout}"
        fault(op, f"{instruction} does not take {text}: a warp has {m}x{k}, {k_too}x{n} and {acc_cells.shape}")
    total = multiply_add(
        by_warps(a, a_cells), by_warps(b, b_cells), by_warps(acc, acc_cells), op.acc.dtype,
        tf32="tf32" in instruction.name,
    )  # fmt: skip
    return from_warps(total, acc_cells, acc.shape)


@lru_cache(maxsize=256)
def fragment_cells(layout: RegisterLayout, fragment: RegisterLayout) -> Integers:
    """The part of a tile that a group of threads (a warp, for most) has: for each of its elements the flat register
    (thread of the group, slot) that the instruction takes for it: [rows, columns].

    The layout is one of whole fragments, one after the other in slots: what is outside of the fragment says which.
    Raises ValueError if it is not.
    """
    tiles = layout.divided(fragment)
    if tiles is None:
        raise ValueError(f"{layout} does not end in {fragment}")
    slots = np.arange(tiles.slots)
    row, column = (np.broadcast_to(part, slots.shape) for part in tiles.slot_coordinates(slots))
    all_rows, all_columns = np.unique(row), np.unique(column)
    if len(all_rows) * len(all_columns) != tiles.slots:
        raise ValueError("a warp's fragments are no whole matrix")
    number = np.zeros((len(all_rows), len(all_columns)), np.int64)
    number[np.searchsorted(all_rows, row), np.searchsorted(all_columns, column)] = slots
    rows, columns = np.indices(fragment.shape)
    thread, slot = fragment.place((rows, columns))
    # [tile rows, rows, tile columns, columns]
    inside = thread * layout.slots + slot
    cells = inside[None, :, None, :] + (number * fragment.slots)[:, None, :, None]
    (r, c), (h, w) = number.shape, fragment.shape
    return np.reshape(np.broadcast_to(cells, (r, h, c, w)), (r * h, c * w))


def by_warps(registers: Array, cells: Integers, group: int = WARP) -> Array:
    """What each group of threads has, as matrices: [groups, rows, columns]."""
    return np.reshape(registers, (len(registers) // group, -1))[:, cells]


def from_warps(matrices: Array, cells: Integers, shape: tuple[int, ...], group: int = WARP) -> Array:
    """The inverse: registers of that shape."""
    registers = np.empty((shape[0] // group, group * shape[1]), matrices.dtype)
    registers[:, cells] = matrices
    return np.reshape(registers, shape)


# Without


def _multiply_elements(op: Mma, a: Array, b: Array, acc: Array) -> Array:
    """Each thread multiplies the rows and columns that it has."""
    found = _thread_cells(op.a.layout, op.b.layout, op.acc.layout)
    if found is None:
        return fault(op, f"fma does not take a as {op.a.layout}, b as {op.b.layout}, acc as {op.acc.layout}")
    a_cells, b_cells, acc_cells = found
    total = multiply_add(a[:, a_cells], b[:, b_cells], acc[:, acc_cells], op.acc.dtype)
    result = np.empty(acc.shape, total.dtype)
    result[:, acc_cells] = total
    return result


@lru_cache(maxsize=256)
def _thread_cells(
    a: RegisterLayout, b: RegisterLayout, acc: RegisterLayout
) -> tuple[Integers, Integers, Integers] | None:
    """The slots of a thread's [rows, depth], [depth, columns] and [rows, columns], if it has what it needs."""
    k = np.arange(a.shape[1])
    threads = np.arange(acc.threads)[:, None, None]
    row, column = (axis[:, :, None] for axis in acc.table)
    if not _holds(a, threads, (row + 0 * k, k + 0 * row)) or not _holds(b, threads, (k + 0 * column, column + 0 * k)):
        return None
    a_cells, b_cells, acc_cells = (_slot_matrix(layout) for layout in (a, b, acc))
    if a_cells is None or b_cells is None or acc_cells is None:
        return None
    return a_cells, b_cells, acc_cells


def _slot_matrix(layout: RegisterLayout) -> Integers | None:
    slots = np.arange(layout.slots)
    row, column = (np.broadcast_to(part, slots.shape) for part in layout.slot_coordinates(slots))
    all_rows, all_columns = np.unique(row), np.unique(column)
    if len(all_rows) * len(all_columns) != layout.slots:
        return None
    found = np.zeros((len(all_rows), len(all_columns)), np.int64)
    found[np.searchsorted(all_rows, row), np.searchsorted(all_columns, column)] = slots
    return found


def _holds(layout: RegisterLayout, threads: Integers, wanted: tuple[Integers, ...]) -> bool:
    held = layout.coordinates(threads, layout.place(wanted)[1])
    return all(bool((h == w).all()) for h, w in zip(held, wanted))
