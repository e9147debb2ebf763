"""Turns operands of products before the grid that reads them: rows along the axis that is added up.

    %bt = tile.load(%b, [%k, %n])                              %b: tensor<f32, [K, N], unit=1>
    %next = tile.dot(%at, %bt, %partial) {precision = tf32}
 =>                                                            turn-operands{tensors=1}
    %b_turned = tile.empty() {shape = [N, K], dtype = f32, scratch = true}
    tile.grid([%K, %N]) body(%k_turned: axis<k_turned>, %n_turned: axis<n_turned>) {
      %part = tile.load(%b, [%k_turned, %n_turned])
      %turned = tile.transpose(%part) {permutation = [1, 0]}
      tile.store(%b_turned, [%n_turned, %k_turned], %turned)
    }
    ...
    %rows = tile.load(%b_turned, [%n, %k])
    %bt = tile.transpose(%rows) {permutation = [1, 0]}

Warpgroups multiply elements of 16 bits from rows along either axis, all others only from rows along the one that is
added up. Before: any TILE form. After: the same form. Operands stay as they are that are computed, and those whose rows
would not start at multiples of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Index, Module, Value, free_names
from tiledsl.ir.dtypes import i64
from tiledsl.ir.facts import facts_of
from tiledsl.ir.symbolic import symbol, symbols_of
from tiledsl.ir.types import AxisType, BlockSize, TensorType, TileType, scalar
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.effects import tensors_in_order, tensors_written
from tiledsl.passes.analysis.sizes import symbols_in
from tiledsl.passes.manager import PassContext, form_of
from tiledsl.passes.tile.loops.split_sums import ROW_BYTES, place_new

EITHER_WAY_BITS = 16
"""Of elements that are multiplied from rows along either axis."""


@dataclass(frozen=True)
class TurnOperands:
    """`tensors`: which, by their numbers among those of the function (`tensors_in_order`)."""

    name: ClassVar[str] = "turn-operands"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE
    tensors: tuple[int, ...] = ()

    def run(self, module: Module, context: PassContext) -> Module:
        function = module.entry
        placed = form_of(module) is not Form.TILE
        wanted = {tensor for number, tensor in enumerate(tensors_in_order(function.body)) if number in self.tensors}
        copies: dict[tuple[Value, tuple[int, ...]], Value] = {}
        for found in operands_to_turn(function):
            load = found.load
            if load.tensor not in wanted:
                continue
            key = (load.tensor, found.order)
            if key not in copies:
                copies[key] = _copy(function, found)
                context.remark(self.name, load.location, f"`{load.tensor.name}` is turned before, by another grid")
            _read(found, copies[key])
        if placed:
            place_new(function)
        return module


class TurnedOperand(NamedTuple):
    """An operand whose rows lie across the axis that is added up. `order`: the axes of its tensor, that one last."""

    load: ops.Load
    order: tuple[int, ...]

    @property
    def swaps(self) -> bool:
        """Whether the two axes of a tile change places: the one that is added up stood before the one whose elements
        lie side by side. Else only the strides of the tensor are otherwise."""
        type_ = self.load.tensor.type
        assert isinstance(type_, TensorType)
        assert type_.unit is not None
        return self.order[-1] < type_.unit


def operands_to_turn(function: Function) -> Iterator[TurnedOperand]:
    """Those of all grids; each load once."""
    facts, seen = facts_of(function), set[ops.Load]()
    for grid in [op for op in function.body.ops if isinstance(op, ops.Grid)]:
        written = tensors_written([grid])
        for dot in [op for op in grid.walk() if isinstance(op, ops.Dot)]:
            for value, axis in ((dot.a, -1), (dot.b, -2)):
                found = _load_of(value, axis)
                if found is None or found[0] in seen:
                    continue
                load, along = found
                type_ = load.tensor.type
                if not isinstance(type_, TensorType) or type_.unit is None or load.tensor in written:
                    continue
                axes = [n for n, index in enumerate(load.indices) if not _is_scalar(index)]
                if len(axes) != 2 or load.other is not None or type_.dtype.bits in (4, EITHER_WAY_BITS):
                    continue
                depth = axes[along]
                if depth == type_.unit or type_.unit not in axes:
                    continue
                if facts.divisible(type_.shape[depth], ROW_BYTES // type_.dtype.bytes):
                    seen.add(load)
                    order = (*(n for n in range(len(type_.shape)) if n != depth), depth)
                    yield TurnedOperand(load, order)


def _is_scalar(index: Index) -> bool:
    return isinstance(index, Value) and isinstance(index.type, TileType) and not index.type.shape


def _load_of(value: Value, axis: int) -> tuple[ops.Load, int] | None:
    """The load that an operand is, perhaps transposed, and which axis of its tile runs along one of the operand."""
    axis += len(value.shape)
    while isinstance(value.op, ops.Transpose):
        axis = value.op.permutation[axis]
        value = value.op.source
    return (value.op, axis) if isinstance(value.op, ops.Load) and len(value.shape) == 2 else None


def _copy(function: Function, found: TurnedOperand) -> Value:
    """A new tensor, and in front of all grids one that fills it."""
    tensor = found.load.tensor
    type_ = tensor.type
    assert isinstance(type_, TensorType)
    first = next(op for op in function.body.ops if isinstance(op, ops.Grid))
    builder = Builder(Block(), found.load.location)
    made = builder.emit(
        ops.Empty, result_names=[f"{tensor.name}_turned"], shape=tuple(type_.shape[axis] for axis in found.order),
        dtype=type_.dtype, scratch=True,
    ).result  # fmt: skip
    stops = [builder.size(dim) for dim in type_.shape]
    arguments = _arguments(function, found, type_)
    body = Block(arguments)
    inside = Builder(body, found.load.location)
    part = inside.emit(ops.Load, tensor=tensor, indices=tuple(body.arguments)).result
    if found.swaps:
        part = inside.emit(ops.Transpose, source=part, permutation=(1, 0)).result
    inside.emit(ops.Store, tensor=made, indices=tuple(body.arguments[axis] for axis in found.order), value=part)
    inside.emit(ops.Yield)
    blocks = [BlockSize.auto() if isinstance(kind, AxisType) else BlockSize.fixed(1) for kind, _ in arguments]
    builder.emit(ops.Grid, stops=stops, blocks=tuple(blocks), body=body)
    for op in builder.block.ops:
        function.body.insert_before(first, op)
    return made


def _arguments(
    function: Function, found: TurnedOperand, type_: TensorType
) -> Sequence[tuple[AxisType | TileType, str]]:
    """Of the grid that turns a tensor: blocks of its rows and columns, single matrices of others."""
    taken = {name for op in function.walk() for name in symbols_in(op)}
    taken |= {name for value in function.parameters for name in _symbols_of(value)}
    matrix = {found.order[-1], type_.unit}
    arguments: list[tuple[AxisType | TileType, str]] = []
    for axis in range(len(type_.shape)):
        if axis not in matrix:
            arguments.append((scalar(i64), "matrix"))
            continue
        name = free_names(taken, "k_turned" if axis == found.order[-1] else "n_turned")
        taken.add(name)
        arguments.append((AxisType(symbol(name)), name))
    return arguments


def _symbols_of(value: Value) -> set[str]:
    return set() if isinstance(value.type, AxisType) else {n for dim in value.type.shape for n in symbols_of(dim)}


def _read(found: TurnedOperand, copy: Value) -> None:
    """Lets what reads the operand read the copy."""
    load = found.load
    assert load.parent is not None
    builder = Builder(Block(), load.location)
    type_ = load.result.tile
    rows = TileType(type_.dtype, type_.shape[::-1], type_.level) if found.swaps else type_
    read = builder.emit(
        ops.Load, tensor=copy, indices=tuple(load.indices[axis] for axis in found.order), types=[rows],
        result_names=[f"{load.result.name}_rows"],
    ).result  # fmt: skip
    if found.swaps:
        read = builder.emit(
            ops.Transpose, source=read, permutation=(1, 0), types=[type_], result_names=[load.result.name]
        ).result  # fmt: skip
    for op in builder.block.ops:
        load.parent.insert_before(load, op)
    load.result.replace_with(read)
    load.erase()
