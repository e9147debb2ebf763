"""`gpu.mma`: matrix instructions, or plain multiplications and additions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiledsl.backend_cuda.emit.emit_control import can_take_over
from tiledsl.backend_cuda.emit.emit_elementwise import as_registers, copied
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import of_program
from tiledsl.backend_cuda.functions import matrix_functions
from tiledsl.backend_cuda.functions.casts import cast, pack
from tiledsl.backend_cuda.functions.index_text import sum_text, table_text
from tiledsl.backend_cuda.functions.matrix_functions import product_function, words_of
from tiledsl.backend_cuda.functions.scalar_math import scalar_function
from tiledsl.backend_cuda.functions.scalars import register_dtype
from tiledsl.backend_cuda.functions.storage import Registers, Slot, element_text
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu.gpu_ops import Mma
from tiledsl.ir.gpu.matrix_instructions import INSTRUCTIONS, MatrixInstruction
from tiledsl.ir.layouts.layout import Integers, RegisterLayout

assert matrix_functions  # it defines device functions


def emit_mma(frame: KernelFrame, op: Mma) -> None:
    instruction = INSTRUCTIONS[op.instruction]
    stored = frame.storage(op.acc)
    taken = isinstance(stored, Registers) and can_take_over(op.acc)
    acc = (
        stored if taken and isinstance(stored, Registers) else copied(frame, op.acc, stored, of_program(op.result.name))
    )
    frame.values[op.result] = acc
    if instruction.is_fma:
        _multiply_elements(frame, op, acc)
    else:
        _multiply_fragments(frame, op, instruction, acc)


def _multiply_fragments(frame: KernelFrame, op: Mma, instruction: MatrixInstruction, acc: Registers) -> None:
    a, b = as_registers(frame, op.a), as_registers(frame, op.b)
    rows, columns, steps = _tiles(op, instruction)
    a_tiles = op.a.layout.divided(instruction.a_fragment)
    b_tiles = op.b.layout.divided(instruction.b_fragment)
    acc_tiles = op.acc.layout.divided(instruction.accumulator_fragment)
    assert a_tiles is not None
    assert b_tiles is not None
    assert acc_tiles is not None
    name = frame.use(product_function(instruction))
    with frame.unrolled("k", steps) as k, frame.unrolled("i", rows) as i, frame.unrolled("j", columns) as j:
        frame.line(
            f"{name}({_fragment(acc, acc_tiles, (i, j), instruction.accumulator_fragment.slots)}, "
            f"{_fragment(a, a_tiles, (i, k), instruction.a_fragment.slots)}, "
            f"{_fragment(b, b_tiles, (k, j), instruction.b_fragment.slots)});"
        )


def _tiles(op: Mma, instruction: MatrixInstruction) -> tuple[int, int, int]:
    """How many instructions a warp needs along rows, columns and depth."""

    def count(layout: RegisterLayout, axis: int, size: int) -> int:
        along = 1
        for digit in layout.thread_digits:
            along *= digit.size if digit.axis == axis and digit.stride >= size else 1
        return layout.shape[axis] // (size * along)

    acc = op.acc.layout
    depth = op.a.layout.shape[1] // (instruction.k * op.groups)
    return count(acc, 0, instruction.m), count(acc, 1, instruction.n), depth


def _fragment(registers: Registers, tiles: RegisterLayout, at: Sequence[str], slots: int) -> str:
    """The address of the first register of a fragment: `tiles` says in which slot of the outer layout it is."""
    words = words_of(registers.dtype, slots)
    numbers = slot_numbers(tiles)
    rows = [int(n) * words for n in numbers[:, 0]]
    columns = [int(n) * words for n in numbers[0, :]]
    index = sum_text(table_text(rows, at[0]), table_text(columns, at[1]))
    return registers.name if index == "0" else f"&{registers.name}[{index}]"


def slot_numbers(tiles: RegisterLayout) -> Integers:
    """The slots of a layout of rank 2 as [rows, columns] of one thread."""
    slots = np.arange(tiles.slots)
    row, column = (np.broadcast_to(part, slots.shape) for part in tiles.slot_coordinates(slots))
    all_rows, all_columns = np.unique(row), np.unique(column)
    numbers = np.zeros((len(all_rows), len(all_columns)), np.int64)
    numbers[np.searchsorted(all_rows, row), np.searchsorted(all_columns, column)] = slots
    return numbers


# Without matrix instructions


def _multiply_elements(frame: KernelFrame, op: Mma, acc: Registers) -> None:
    """Each thread has the rows of `a` and the columns of `b` that it needs, and all of the depth."""
    dtype = register_dtype(acc.dtype)
    a_numbers, b_numbers, acc_numbers = (slot_numbers(v.layout) for v in (op.a, op.b, op.acc))
    rows, columns = acc_numbers.shape
    depth = a_numbers.shape[1]
    with frame.unrolled("i", rows) as i, frame.unrolled("j", columns) as j:
        at = _sum_of(acc_numbers, i, j)
        total = frame.names.fresh("total")
        start = element_text(acc, Slot(at), frame.preamble)
        frame.line(f"{frame.c_type(dtype)} {total} = {start};")
        with frame.unrolled("k", depth) as k:
            left = _operand(frame, op.a, Slot(_sum_of(a_numbers, i, k)), dtype)
            right = _operand(frame, op.b, Slot(_sum_of(b_numbers, k, j)), dtype)
            frame.line(f"{total} = {_multiply_add(frame, left, right, total, dtype)};")
        _put(frame, acc, at, total)


def _sum_of(numbers: Integers, row: str, column: str) -> str:
    rows, columns = [int(n) for n in numbers[:, 0]], [int(n) for n in numbers[0, :]]
    return sum_text(table_text(rows, row), table_text(columns, column))


def _operand(frame: KernelFrame, value: Value, slot: Slot, dtype: DType) -> str:
    text = element_text(frame.storage(value), slot, frame.preamble)
    return cast(text, value.dtype, dtype, frame.preamble)


def _multiply_add(frame: KernelFrame, left: str, right: str, total: str, dtype: DType) -> str:
    if dtype.is_float:
        return scalar_function("fma", dtype, [left, right, total], frame.preamble)
    product = scalar_function("mul", dtype, [left, right], frame.preamble)
    return scalar_function("add", dtype, [total, product], frame.preamble)


def _put(frame: KernelFrame, acc: Registers, slot: str, text: str) -> None:
    if acc.per_word == 1:
        frame.line(f"{acc.name}[{slot}] = {text};")
        return
    per = acc.per_word
    word = pack([text] * per, acc.dtype, frame.preamble)
    width = acc.dtype.bits
    mask = f"({(1 << width) - 1:#x}u << ({slot}) % {per} * {width})"
    frame.line(f"{acc.name}[({slot}) / {per}] = ({acc.name}[({slot}) / {per}] & ~{mask}) | ({word} & {mask});")
