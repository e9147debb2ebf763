"""Questions about the lazy expression behind a tile: what it reads and costs, along which axis it is contiguous."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.evaluate import EMITTERS, is_unit_reshape
from tiledsl.backend_cpu.values.storage import Buffer
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.types import AxisType, Slice, TensorType, Whole

RANDOM_COST = 60
STRIDED_COST = 4


@dataclass(frozen=True)
class Leaf:
    """A value that an expression reads; `aligned`: the element at a point is read at that very point and no other."""

    value: Value
    aligned: bool


def is_lazy(op: Op) -> bool:
    """Whether the op can be evaluated where its result is read."""
    return type(op) in EMITTERS and not (isinstance(op, ops.Reshape) and not is_unit_reshape(op))


def leaves(context: Context, value: Value, pending: Container[Value] = ()) -> Iterator[Leaf]:
    """The stored tiles, the `pending` values and the scalars behind a value (itself, if it is one of them)."""
    stack, seen = [Leaf(value, True)], set[Leaf]()
    while stack:
        leaf = stack.pop()
        if leaf in seen:
            continue
        seen.add(leaf)
        here, op = leaf.value, leaf.value.op
        if here in pending or here in context.storage or here in context.scalars or op is None or not is_lazy(op):
            yield leaf
            continue
        keeps_place = isinstance(op, (ops.Map, ops.Cast))
        stack += [Leaf(v, leaf.aligned and keeps_place) for v in op.operands if not isinstance(v.type, TensorType)]


def expression_ops(context: Context, *values: Value, stop: Container[Value] = ()) -> Iterator[Op]:
    """Every lazy op that evaluating the values runs through, each once; not those behind values of `stop`."""
    stack, seen = list(values), set[Value]()
    while stack:
        here = stack.pop()
        if here in seen or here in stop:
            continue
        seen.add(here)
        if here in context.storage or here in context.scalars or here.op is None or not is_lazy(here.op):
            continue
        yield here.op
        stack += [v for v in here.op.operands if not isinstance(v.type, (TensorType, AxisType))]


def gathers(op: Op) -> bool:
    """Whether the op reads where a tile of integers says."""
    if not isinstance(op, ops.Load):
        return False
    return any(isinstance(i, Value) and not isinstance(i.type, AxisType) and i.shape for i in op.indices)


def op_cost(op: Op) -> int:
    """The cost of one element, in simple vector operations."""
    match op:
        case ops.Map():
            return SCALAR_FUNCTIONS[op.fn].cost
        case ops.Random():
            return RANDOM_COST
        case ops.Load():
            return STRIDED_COST if gathers(op) else 1
        case ops.Cast():
            return 1
        case _:
            return 0


def contiguity(context: Context, values: Iterable[Value], axis: int) -> int:
    """How many reads behind values of one shape are contiguous along their axis, less those that are strided.

    A nest reads each once, however often its expressions use it.
    """
    total = 0
    stack, seen = [(value, axis) for value in values], set[tuple[Value, int]]()
    while stack:
        here = value, along = stack.pop()
        if here in seen:
            continue
        seen.add(here)
        op, stored = value.op, context.storage.get(value)
        if isinstance(stored, Buffer):
            total += 0 if along >= len(value.shape) else 1 if stored.strides[along] == "1" else -1
            continue
        if stored is not None or op is None or not is_lazy(op):
            total += 0 if along >= len(value.shape) else 1 if along == len(value.shape) - 1 else -1
            continue
        match op:
            case ops.Map():
                stack += [(v, along) for v in op.inputs if v.shape]
            case ops.Cast():
                stack.append((op.source, along))
            case ops.Transpose():
                stack.append((op.source, op.permutation[along]))
            case ops.Broadcast():
                inner = along - (len(op.shape) - len(op.source.shape))
                if inner >= 0 and op.source.shape[inner] == op.shape[along]:
                    stack.append((op.source, inner))
            case ops.Load():
                total += _load_contiguity(op, along)
            case _:
                pass
    return total


def _load_contiguity(op: ops.Load | ops.Store, axis: int) -> int:
    assert isinstance(op.tensor.type, TensorType)
    gathered = max((len(i.shape) for i in op.indices if isinstance(i, Value) and _is_tile(i)), default=0)
    selected, seen = 0, False
    for tensor_axis, subscript in enumerate(op.indices):
        if isinstance(subscript, (Whole, Slice)) or isinstance(subscript.type, AxisType):
            if selected == axis:
                return 1 if op.tensor.type.unit == tensor_axis else -1
            selected += 1
        elif _is_tile(subscript) and not seen:  # all axes of a gather stand where its first subscript does
            if selected <= axis < selected + gathered:
                return -1
            selected, seen = selected + gathered, True
    return 0


def _is_tile(value: Value) -> bool:
    return not isinstance(value.type, AxisType) and bool(value.shape)


def store_contiguity(op: ops.Store, axis: int) -> int:
    """1 if a store is contiguous along an axis of its value, else -1."""
    return _load_contiguity(op, axis)
