"""Tables of programs in shared memory, for atomics whose tensors are small: filled with what changes nothing, combined
into block by block, and combined into the tensors at the end of a program.

    %table = gpu.buffer(); gpu.write(%table, 0)
    for each block of the program:    gpu.combine(%table, %place, 1) {fn = add}
    %count = gpu.read(%table)
    gpu.atomic(%y, [where(%count != 0, i, -1)], cast(%count) * 1.0) {fn = add}
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, bool_, i64
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.passes.gpu.layouts.access_layouts import access_layout
from tiledsl.passes.gpu.lower.lower_memory import tile_subscripts
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.plans.facts.private_tables import PrivateTable, private_tables
from tiledsl.support.powers_of_two import power_of_two_from


@dataclass(frozen=True)
class HeldTable:
    """A table, its buffer, and how threads go through that."""

    table: PrivateTable
    buffer: Value
    layout: RegisterLayout


def begin_tables(state: Lowering, grid: ops.Grid) -> list[HeldTable]:
    """Makes and fills the tables of a grid; its atomics go there from now on."""
    held: list[HeldTable] = []
    for table in private_tables(grid, {}):
        room = max(state.threads, power_of_two_from(table.elements))
        layout = access_layout([room], [0], state.threads, min(4, room // state.threads), table.dtype.bytes)
        buffer = state.buffer((room,), table.dtype, SharedLayout((0,)), f"{table.op.tensor.name}_table")
        state.write(buffer, state.filled(state.constant(table.start, table.dtype), layout))
        state.remark(table.op, "updated in shared memory first, by each program")
        one = HeldTable(table, buffer, layout)
        state.private[table.op] = lambda op, one=one: _combine(state, op, one)
        held.append(one)
    return held


def _combine(state: Lowering, op: ops.Atomic, held: HeldTable) -> None:
    """An atomic, in its table; what lies beyond the end of a block has no place there."""
    layout = state.layout(op.value)
    subscripts = tile_subscripts(state, op, op.value.shape, layout)
    (place,) = subscripts.indices
    if subscripts.masked:
        place = state.emit(
            gpu.Pad, name=place.name, source=place, extents=subscripts.extents,
            fill=state.constant(-1, place.dtype), axes=subscripts.masked,
        ).result  # fmt: skip
    table = held.table
    if table.counted is None:
        value = state.tile(op.value, layout)
    else:
        value = state.filled(state.constant(1, table.dtype), layout)
    state.emit(gpu.Combine, buffer=held.buffer, index=place, value=value, fn=op.fn)


def end_tables(state: Lowering, held: list[HeldTable]) -> None:
    """Combines the tables into their tensors: what no block of the program has changed is left alone."""
    for one in held:
        table, dtype = one.table, one.table.op.value.dtype
        found = state.read(one.buffer, one.layout, name="found")
        at = state.emit(gpu.Arange, layout=one.layout).result
        changed = _each(state, "ne", bool_, found, state.constant(table.start, table.dtype))
        place = _each(state, "where", i64, changed, at, state.constant(-1, i64))
        value = found
        if table.counted is not None:
            type_ = replace(found.tile, dtype=dtype)
            value = state.emit(ops.Cast, types=[type_], source=found, dtype=dtype).result
            value = _each(state, "mul", dtype, value, state.constant(table.counted, dtype))
        state.emit(
            gpu.Atomic, tensor=state.tensors[table.op.tensor], indices=[place], value=value, extents=[],
            fn=table.op.fn, axes=(-1,), checked=(0,),
        )  # fmt: skip
        del state.private[table.op]


def _each(state: Lowering, fn: str, dtype: DType, first: Value, *others: Value) -> Value:
    """A function of each element of tiles in one layout, and of scalars."""
    type_ = replace(first.tile, dtype=dtype)
    return state.emit(ops.Map, types=[type_], fn=fn, inputs=(first, *others)).result
