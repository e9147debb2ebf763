"""Elementwise ops of a graph in front of a tensor, or behind one, and what they read besides.

%p = map(mul, cast(%q), broadcast(%row))        `maps` is the mul; `leaves` are %q, which is widened as it is
                                                read, and %row, whose only axis is the last one of %p
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Op, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.graph.analysis.outline import MapOp, is_soft
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.kernels.treatments import depends


@dataclass(frozen=True)
class Leaf:
    """What elementwise ops read: `base`, whose dimensions are those of `axes` of their shape and others of one element.

    It is read as `dtype`, which is at least as wide as its own. One of rank 0 that is a constant is written again.
    """

    base: Value
    axes: tuple[int, ...]
    dtype: DType

    @property
    def constant(self) -> ops.Constant | ops.Size | None:
        """The op of a number that is known."""
        op = self.base.op
        return op if isinstance(op, (ops.Constant, ops.Size)) else None


@dataclass
class Chain:
    """Elementwise ops, each after what it reads, that compute `outputs`."""

    maps: list[MapOp] = field(default_factory=list["MapOp"])
    leaves: dict[Value, Leaf] = field(default_factory=dict[Value, Leaf])
    outputs: list[Value] = field(default_factory=list[Value])

    @property
    def cost(self) -> int:
        """Simple operations for each element."""
        return sum(SCALAR_FUNCTIONS[op.fn].cost if isinstance(op, ops.Map) else 1 for op in self.maps)

    @property
    def tensors(self) -> list[Leaf]:
        """The leaves that have to be loaded, each once."""
        return list(dict.fromkeys(leaf for leaf in self.leaves.values() if leaf.constant is None))


def leaf_of(value: Value) -> Leaf:
    """What a value repeats, transposes, widens or is."""
    dtype = tensor_type(value).dtype
    axes: list[int | None] = list(range(len(sizes_of(value))))
    while True:
        op = value.op
        if isinstance(op, ops.Cast) and _widens(op):
            value = op.source
            continue
        if not is_soft(op):
            break
        assert isinstance(op, (ops.Transpose, ops.Broadcast, ops.Reshape))
        axes, value = _axes_before(op, axes), op.source
    kept = [axis for axis, n in zip(axes, sizes_of(value)) if n != 1]
    assert None not in kept
    return Leaf(value, tuple(axis for axis in kept if axis is not None), dtype)


def _widens(op: ops.Cast) -> bool:
    source = tensor_type(op.source).dtype
    return source.is_float and op.dtype.is_float and source.bits < op.dtype.bits


def _axes_before(op: ops.Transpose | ops.Broadcast | ops.Reshape, axes: list[int | None]) -> list[int | None]:
    """The axis of each dimension of a reindexing's source, from those of its result."""
    sizes, after = sizes_of(op.source), sizes_of(op.result)
    if isinstance(op, ops.Transpose):
        return [axes[op.permutation.index(i)] for i in range(len(sizes))]
    if isinstance(op, ops.Broadcast):
        ends = len(axes) - len(sizes)
        return [None if n == 1 != m else axis for axis, n, m in zip(axes[ends:], sizes, after[ends:])]
    following = iter([axis for axis, n in zip(axes, after) if n != 1])
    return [None if n == 1 else next(following) for n in sizes]


def producers_of(value: Value, call: ops.Call, function: Function) -> Chain | None:
    """The elementwise ops that nothing but an operand of a call needs; none, if it only repeats what it reads."""
    chain = _with_producers([], value, call, function)
    chain.outputs = [value]
    if chain.maps:
        return chain
    leaf = leaf_of(value)
    if _is_made_in_place(value) or not any(n != 1 and i not in leaf.axes for i, n in enumerate(sizes_of(value))):
        return None
    chain.leaves[value] = leaf
    return chain


def consumers_of(value: Value, call: ops.Call, function: Function) -> Chain | None:
    """The elementwise ops that read a result of a call, and those that nothing else needs."""
    shape = sizes_of(value)
    maps: list[MapOp] = []
    inside = {value}
    for op in function.body.ops:
        if _is_map(op, shape) and any(operand in inside for operand in op.operands):
            assert isinstance(op, (ops.Map, ops.Cast))
            if all(operand in inside or _is_apart(operand, call) for operand in op.operands):
                maps.append(op)
                inside.add(op.result)
    maps = _without_wider(maps, value)
    if not maps:
        return None
    outputs = _read_outside(maps, value)
    chain = _with_producers(maps, value, call, function)
    chain.outputs = outputs
    return chain


def _with_producers(maps: list[MapOp], value: Value, call: ops.Call, function: Function) -> Chain:
    """A chain of `maps` and of all that nothing else but they and the call reads; `value` is what the call has."""
    shape = sizes_of(value)
    inside: set[Op] = {call, *maps}
    for op in reversed(function.body.ops):
        if op not in inside and _is_map(op, shape) and op.result.users and inside.issuperset(op.result.users):
            reads_call = call in op.result.users and op.result is not value
            if not reads_call and not any(_is_made_in_place(operand) for operand in op.operands):
                inside.add(op)
    chain = Chain([op for op in function.body.ops if op in inside and isinstance(op, (ops.Map, ops.Cast))])
    made = {op.result for op in chain.maps} | set(call.results)
    for op in chain.maps:
        chain.leaves.update({operand: leaf_of(operand) for operand in op.operands if operand not in made})
    return chain


def _is_made_in_place(value: Value) -> bool:
    """Whether a value is not in memory unless somebody puts it there: coordinates, random numbers."""
    return isinstance(leaf_of(value).base.op, (ops.Iota, ops.Random))


def _is_apart(value: Value, call: ops.Call) -> bool:
    """Whether a value can be read by the call itself: it is in memory (or a number), and not computed from a result."""
    return not _is_made_in_place(value) and not any(depends(value, result) for result in call.results)


def _is_map(op: Op | None, shape: Sequence[int]) -> bool:
    return isinstance(op, (ops.Map, ops.Cast)) and sizes_of(op.result) == shape and bool(shape)


def _read_outside(maps: Sequence[MapOp], value: Value) -> list[Value]:
    every = [value, *(op.result for op in maps)]
    return [v for v in every if any(user not in maps for user in v.users)]


def _without_wider(maps: list[MapOp], value: Value) -> list[MapOp]:
    """Leaves out ops at the end whose results would take more memory than the value itself."""
    bits = tensor_type(value).dtype.bits
    while True:
        wider = [v.op for v in _read_outside(maps, value) if v is not value and tensor_type(v).dtype.bits > bits]
        if not wider:
            return maps
        maps = [op for op in maps if op not in wider]
