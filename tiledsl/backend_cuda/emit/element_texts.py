"""What each elementwise op computes of one element, as an expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any

from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.functions.casts import cast
from tiledsl.backend_cuda.functions.index_text import operand_text, sum_text, table_text
from tiledsl.backend_cuda.functions.random_bits import random
from tiledsl.backend_cuda.functions.scalar_math import scalar_function
from tiledsl.backend_cuda.functions.scalars import bare, enclosed
from tiledsl.backend_cuda.functions.storage import Slot
from tiledsl.backend_cuda.values.counted_floats import counted_in_floats, counted_layout
from tiledsl.backend_cuda.values.known_divisions import is_known_division
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import f32, f64
from tiledsl.ir.gpu.gpu_ops import Arange, Pad, Slice
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.tile_ops import Broadcast, Cast, Map, Random, Reshape, Transpose
from tiledsl.support.powers_of_two import power_of_two_in


def scalar_text(frame: KernelFrame, op: Op, operands: Sequence[str]) -> str:
    """What an elementwise op gives for scalars."""
    return ELEMENTWISE[type(op)](frame, op, operands, Slot("0"), True)


def _map(frame: KernelFrame, op: Any, operands: Sequence[str], slot: Slot, rounded: bool) -> str:
    coarse = frame.coarse.get(op.result)
    if op.fn == "div" and coarse is None and is_known_division(op):
        return f"{frame.use('div_by_known')}({bare(operands[0])}, {bare(operands[1])})"
    if op.fn == "div" and coarse is None and op.result.dtype == f32 and _is_repeated(op.inputs[1], op.result):
        return f"{frame.use('div_by_repeated')}({bare(operands[0])}, {bare(operands[1])})"
    return scalar_function(op.fn, op.inputs[-1].dtype, list(operands), frame.preamble, rounded=rounded, coarse=coarse)


REPEATED = 4  # elements of a thread that are divided by one number, from which on its inverse is worth finding


def _is_repeated(divisor: Value, quotient: Value) -> bool:
    """Whether many elements of a thread are divided by the same number."""
    if not quotient.shape:
        return False
    source = divisor.op.source if isinstance(divisor.op, Broadcast) else divisor
    return quotient.layout.slots >= REPEATED * (source.layout.slots if source.shape else 1)


def _cast(frame: KernelFrame, op: Any, operands: Sequence[str], slot: Slot, rounded: bool) -> str:
    counted = counted_layout(op)
    if counted is not None:
        return counted_in_floats(frame, counted, table_text(slot_table(counted, 0), operand_text(slot.index)))
    # an f64 must not be rounded to f32 on the way
    target = op.dtype if rounded or op.source.dtype == f64 else f32
    return cast(operands[0], op.source.dtype, target, frame.preamble)


def _random(frame: KernelFrame, op: Any, operands: Sequence[str], slot: Slot, rounded: bool) -> str:
    return random(op.fn, operands[0], operands[1], frame.preamble)


def _arange(frame: KernelFrame, op: Any, operands: Sequence[str], slot: Slot, rounded: bool) -> str:
    return f"(long long){enclosed(coordinate_text(frame, op.layout, 0, slot))}"


def _pad(frame: KernelFrame, op: Any, operands: Sequence[str], slot: Slot, rounded: bool) -> str:
    inside = inside_text(frame, op, slot)
    return f"{inside} ? {operands[0]} : {operands[-1]}" if inside else operands[0]


def inside_text(frame: KernelFrame, op: Pad, slot: Slot) -> str:
    """Whether an element is not padding; empty where none is."""
    layout = op.source.layout
    tests: list[str] = []
    for axis, extent in zip(op.axes, op.extents):
        limit = frame.extent(extent, layout.shape[axis])
        if limit:
            # neighbours that are inside or outside together share one test
            run = _common_run(layout, axis, frame.program.multiples.of(extent))
            tests.append(_below(frame, layout, axis, slot, run, limit))
    return " && ".join(tests)


def are_padded_in_pairs(frame: KernelFrame, op: Pad) -> bool:
    """Whether every two elements of a word are padding together."""
    layout = op.source.layout
    for axis, extent in zip(op.axes, op.extents):
        run, places = _common_run(layout, axis, frame.program.multiples.of(extent)), slot_table(layout, axis)
        if any(first // run != second // run for first, second in zip(places[::2], places[1::2])):
            return False
    return True


def _below(frame: KernelFrame, layout: RegisterLayout, axis: int, slot: Slot, run: int, limit: str) -> str:
    """Whether the coordinate of a slot is below a limit: its part of it is compared with what the thread's leaves."""
    thread = frame.thread_coordinate(layout, axis)
    places = [place - place % run for place in slot_table(layout, axis)]  # of the first of its neighbours
    table = table_text(places, operand_text(slot.index))
    if thread == "0":
        return f"{table} < {limit}"
    left = frame.once_here("int", "left", f"{limit} - {thread}")
    return f"{table} < {left}"


def _common_run(layout: RegisterLayout, axis: int, multiple: int) -> int:
    """How many neighbours in a thread are on one side of any multiple of `multiple`: a power of two."""
    run = layout.vector(axis)
    for digit in layout.thread_digits:
        if digit.axis == axis:
            run = gcd(run, digit.stride)
    return power_of_two_in(gcd(run, multiple))


def coordinate_text(frame: KernelFrame, layout: RegisterLayout, axis: int, slot: Slot) -> str:
    """The coordinate along an axis of the element in a slot, as an int."""
    table = table_text(slot_table(layout, axis), operand_text(slot.index))
    return sum_text(frame.thread_coordinate(layout, axis), table)


def slot_table(layout: RegisterLayout, axis: int, step: int = 1) -> tuple[int, ...]:
    """The slot's part of the coordinate along an axis, for every `step`-th slot."""
    return tuple(int(layout.slot_coordinates(slot)[axis]) for slot in range(0, layout.slots, step))


ELEMENTWISE: dict[type[Op], Callable[[KernelFrame, Any, Sequence[str], Slot, bool], str]] = {
    Map: _map,
    Cast: _cast,
    Random: _random,
    Arange: _arange,
    Pad: _pad,
}
"""What each elementwise op computes of one element."""

SHAPE_OPS: tuple[type[Op], ...] = (Broadcast, Reshape, Transpose, Slice)
"""Ops that only say anew where elements are."""
