"""Elementwise ops of a graph written into a tile program, where it loads a tensor or stores one.

%t = tile.load(%p, [%m, :])        =>     %x = tile.load(%q, [%m, :])          q and row are new parameters
                                          %y = tile.load(%row, [:])
                                          %t = tile.map([%x, broadcast(%y)]) {fn = mul}
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir import graph_ops
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Function, Index, Value, free_names
from tiledsl.ir.dtypes import DType, f32, i64
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import Shape, TensorType, TileType
from tiledsl.passes.graph.groups.map_chains import Chain, Leaf


class MapsInProgram:
    """A tile program that elementwise ops go into. `inputs` are what it is called with, in order."""

    def __init__(self, function: Function, inputs: Sequence[Value]) -> None:
        self.function = function
        self.inputs = list(inputs)
        self.parameters: dict[tuple[Leaf, Shape], Value] = {}

    def parameter(self, leaf: Leaf, shape: Shape, unit: int | None) -> Value:
        """The parameter for a leaf; `shape` is that of the tensor at which the ops go in."""
        key = (leaf, shape)
        if key not in self.parameters:
            dims = tuple(shape[axis] for axis in leaf.axes)
            type_ = TensorType(tensor_type(leaf.base).dtype, dims, unit)
            name = free_names({p.name for p in self.function.parameters}, leaf.base.name or "x")
            self.parameters[key] = self.function.body.add_argument(type_, name)
            self.inputs.append(leaf.base)
        return self.parameters[key]

    def emit(
        self, chain: Chain, rewriter: Rewriter, known: dict[Value, Value], tile: TileType, indices: Sequence[Index],
        parameters: dict[Leaf, Value],
    ) -> dict[Value, Value]:  # fmt: skip
        """Writes the ops of a chain at the rewriter's place, for the elements that `indices` select.

        `known` has the tiles of the values that the chain starts from, if any; gives those of its outputs, like `tile`.
        """
        for value, leaf in chain.leaves.items():
            if leaf.constant is not None:
                known[value] = rewriter.cast(_number(leaf.constant, rewriter), leaf.dtype)
            else:
                known[value] = _loaded(rewriter, parameters[leaf], leaf, indices, tile.shape)
        for op in chain.maps:
            with rewriter.at(op.location):
                if isinstance(op, graph_ops.Map):
                    made = rewriter.map(op.fn, *(known[v] for v in op.inputs))
                else:
                    made = _cast(rewriter, known[op.source], op.dtype)
            made.name = made.name or op.result.name
            known[op.result] = made
        return {value: rewriter.broadcast(made, tile.shape) for value, made in known.items() if value in chain.outputs}


def _number(op: graph_ops.Constant | graph_ops.Size, rewriter: Rewriter) -> Value:
    if isinstance(op, graph_ops.Size):
        assert isinstance(op.value, int)
        return rewriter.constant(op.value, i64)
    return rewriter.constant(op.value, op.dtype)


def _cast(rewriter: Rewriter, value: Value, dtype: DType) -> Value:
    """A conversion. What was rounded from f32 and is widened to it again is used as it was."""
    op = value.op
    narrow = value.dtype.is_float and value.dtype.bits < 32
    if narrow and dtype == f32 and isinstance(op, ops.Cast) and op.source.dtype == f32:
        return op.source
    return rewriter.cast(value, dtype)


def _loaded(rewriter: Rewriter, tensor: Value, leaf: Leaf, indices: Sequence[Index], shape: Shape) -> Value:
    """The elements of a leaf for those that `indices` select of the whole, as a tile of `shape`, or a scalar."""
    selected = [indices[axis] for axis in leaf.axes]
    tile = rewriter.cast(rewriter.emit(ops.Load, tensor=tensor, indices=selected).result, leaf.dtype)
    places = [axis for axis, index in enumerate(indices) if not is_scalar(index)]
    mine = [axis for axis in leaf.axes if axis in places]
    if not mine:
        return tile
    order = sorted(mine)
    if order != mine:
        permutation = tuple(mine.index(axis) for axis in order)
        tile = rewriter.emit(ops.Transpose, source=tile, permutation=permutation).result
    if order != places:
        spread = tuple(dim if axis in mine else 1 for axis, dim in zip(places, shape))
        tile = rewriter.emit(ops.Reshape, source=tile, shape=spread).result
    return rewriter.broadcast(tile, shape)


def is_scalar(index: Index) -> bool:
    """Whether a subscript is one coordinate."""
    return isinstance(index, Value) and isinstance(index.type, TileType) and not index.type.shape


def is_scattered(indices: Sequence[Index]) -> bool:
    """Whether subscripts have tiles of coordinates along more than one axis, or of more than one axis. Those of one run
    select for each tensor with that axis what they select of the whole."""
    computed = [index for index in indices if isinstance(index, Value) and isinstance(index.type, TileType)]
    ranks = [len(index.shape) for index in computed if index.shape]
    return len(ranks) > 1 or any(rank > 1 for rank in ranks)
