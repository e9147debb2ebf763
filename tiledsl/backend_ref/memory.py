"""Tensors in the reference executor: subscripts, loads, stores, atomics; and parts of tiles, which are alike."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiledsl.backend_ref.execution import AxisBlock, Execution
from tiledsl.backend_ref.scalar_functions import Array, apply, cast, constant
from tiledsl.ir.core import Index, Op, Value
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.fold_identities import PAIRWISE
from tiledsl.ir.symbolic import evaluate
from tiledsl.ir.tile_ops import Atomic, Empty, Extract, Load, Store
from tiledsl.ir.types import Slice, Whole
from tiledsl.support.errors import fail


@dataclass(frozen=True)
class Selection:
    """The elements that a subscript selects: a coordinate for each axis of the array, over the shape of the result."""

    coordinates: tuple[Array, ...]
    """i64, one per axis of the array, each of the result's shape."""
    inside: Array
    """Where all coordinates lie in the array; bool, of the result's shape."""

    def read(self, source: Array, other: Array) -> Array:
        """The selected elements, and `other` (of rank 0) for those outside."""
        result = np.full(self.inside.shape, other, source.dtype)
        result[self.inside] = source[tuple(c[self.inside] for c in self.coordinates)]
        return result

    def write(self, target: Array, value: Array) -> None:
        """Replaces the selected elements; those outside are dropped."""
        if target.ndim == 0:
            target[()] = value
        else:
            target[tuple(c[self.inside] for c in self.coordinates)] = value[self.inside]


def select(execution: Execution, array: Array, subscripts: Sequence[Index]) -> Selection:
    """Resolves a subscript; its shape is as `type_rules.indexed_shape` has it."""
    point = _point(execution, subscripts)
    if point is not None:
        within = all(0 <= at < size for at, size in zip(point, array.shape))
        return Selection(tuple(np.asarray(at) for at in point), np.asarray(within))
    lines = [_coordinates(execution, subscript, size) for subscript, size in zip(subscripts, array.shape)]
    gathers = [_is_gather(execution, subscript) for subscript in subscripts]
    gathered = np.broadcast_shapes(*(line.shape for line, gather in zip(lines, gathers) if gather))
    first = gathers.index(True) if any(gathers) else len(gathers)
    at = sum(line.ndim for line in lines[:first])  # the first axis of the result that is gathered
    runs = sum(line.ndim for line, gather in zip(lines, gathers) if not gather)
    rank = runs + len(gathered)

    placed: list[Array] = []
    position = 0
    for line, gather in zip(lines, gathers):
        if gather:
            trailing = rank - at - len(gathered)
            placed.append(np.reshape(line, line.shape + (1,) * trailing))
        elif line.ndim:
            axis = position if position < at else position + len(gathered)
            placed.append(np.reshape(line, line.shape + (1,) * (rank - axis - 1)))
            position += 1
        else:
            placed.append(line)
    shape = np.broadcast_shapes(*(x.shape for x in placed))
    inside = np.ones(shape, np.bool_)
    for coordinates, size in zip(placed, array.shape):
        inside &= (coordinates >= 0) & (coordinates < size)
    return Selection(tuple(np.broadcast_to(x, shape) for x in placed), inside)


def _point(execution: Execution, subscripts: Sequence[Index]) -> list[int] | None:
    """The coordinates of one element, if the subscripts are scalars."""
    point: list[int] = []
    for subscript in subscripts:
        found = execution.values[subscript] if isinstance(subscript, Value) else None
        if found is None or isinstance(found, AxisBlock) or found.ndim:
            return None
        point.append(int(found.astype(np.int64)))
    return point


def _coordinates(execution: Execution, subscript: Index, size: int) -> Array:
    """The coordinates along one axis: a line for blocks and slices, rank 0 for a scalar, any shape for an int tile."""
    if isinstance(subscript, Whole):
        return np.arange(size)
    if isinstance(subscript, Slice):
        start, stop = evaluate(subscript.start, execution.symbols), evaluate(subscript.stop, execution.symbols)
        return np.arange(start, stop)
    found = execution.values[subscript]
    if isinstance(found, AxisBlock):
        return np.arange(found.start, found.start + found.extent)
    # a u64 beyond i64 becomes negative, which is outside too
    return found.astype(np.int64)


def _is_gather(execution: Execution, subscript: Index) -> bool:
    if not isinstance(subscript, Value):
        return False
    found = execution.values[subscript]
    return not isinstance(found, AxisBlock) and found.ndim > 0


def _check_in_bounds(op: Op, tensor: Value, array: Array, selection: Selection, axes: Sequence[int]) -> None:
    """A pass that says in vain that an access cannot fall outside is found out here."""
    for axis in axes:
        coordinates, size = selection.coordinates[axis], array.shape[axis]
        outside = (coordinates < 0) | (coordinates >= size)
        if outside.any():
            promise = f"axis {axis} of %{tensor.name} is in bounds"
            actual = f"coordinate {coordinates[outside][0]} is outside of its size {size}"
            fail("reference-promise", op.location, op=op.name, promise=promise, actual=actual)


def _check_writable(op: Op, tensor: Value, array: Array) -> None:
    if not array.flags.writeable:
        fail("reference-read-only", op.location, tensor=tensor.name)


def empty(execution: Execution, op: Empty) -> tuple[Array, ...]:
    """Without `fill`, elements are NaN, -1, or the largest unsigned: a program that reads them shows it."""
    shape, dtype = execution.shape(op.shape), to_numpy(op.dtype)
    if op.fill is not None:
        return (np.full(shape, cast(execution.array(op.fill), op.dtype), dtype),)
    if op.dtype.kind == "bool":
        return (np.ones(shape, dtype),)
    return (np.full(shape, np.frombuffer(b"\xff" * dtype.itemsize, dtype)[0], dtype),)


def accessed(execution: Execution, op: Load | Store | Atomic) -> tuple[Array, Selection]:
    """The tensor that is accessed, and which of its elements."""
    tensor = execution.array(op.tensor)
    if not isinstance(op, Load):
        _check_writable(op, op.tensor, tensor)
    selection = select(execution, tensor, op.indices)
    _check_in_bounds(op, op.tensor, tensor, selection, op.in_bounds)
    return tensor, selection


def load(execution: Execution, op: Load) -> tuple[Array, ...]:
    return loaded(execution, op, *accessed(execution, op))


def loaded(execution: Execution, op: Load, tensor: Array, selection: Selection) -> tuple[Array, ...]:
    """What a load of these elements gives."""
    other = constant(0, op.result.dtype) if op.other is None else execution.array(op.other)
    return (selection.read(tensor, other),)


def store(execution: Execution, op: Store) -> tuple[Array, ...]:
    tensor, selection = accessed(execution, op)
    selection.write(tensor, execution.array(op.value))
    return ()


def atomic(execution: Execution, op: Atomic) -> tuple[Array, ...]:
    """Element by element in row-major order, so that equal coordinates combine. Outside, the old value is 0."""
    return combined(execution, op, *accessed(execution, op))


def combined(execution: Execution, op: Atomic, tensor: Array, selection: Selection) -> tuple[Array, ...]:
    """Does what an atomic does to these elements, and gives what was there before."""
    value = execution.array(op.value)
    before = np.zeros(value.shape, tensor.dtype)
    function = PAIRWISE.get(op.fn, op.fn)
    for index in itertools.product(*map(range, value.shape)):
        if selection.inside[index]:
            at = tuple(int(c[index]) for c in selection.coordinates)
            old, new = np.asarray(tensor[at]), np.asarray(value[index])
            before[index] = old
            tensor[at] = new if function == "exchange" else apply(function, old, new)
    return (before,)


def extract(execution: Execution, op: Extract) -> tuple[Array, ...]:
    source = execution.array(op.source)
    return (select(execution, source, op.indices).read(source, constant(0, op.result.dtype)),)
