"""Runs TILE functions with a shadow of the memory: finds races between programs, reads of what nothing was stored to,
subscripts outside of tensors that come from data, and results that depend on the sizes of blocks.

The blocks that a function leaves open are small enough that each axis of a grid has several programs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tiledsl.backend_ref import control, memory
from tiledsl.backend_ref.arguments import Argument, bind_arguments
from tiledsl.backend_ref.execute_tile import EXECUTORS
from tiledsl.backend_ref.execution import AxisBlock, Execution, Executor, RuntimeValue, small_blocks
from tiledsl.backend_ref.findings import Findings
from tiledsl.backend_ref.memory import Selection
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.backend_ref.shadow import Shadow, TensorShadow, element_text
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Function, Op, Value
from tiledsl.ir.tile_ops import Atomic, Cast, Empty, Extract, Grid, Load, Map, Range, Store
from tiledsl.ir.types import AxisType, BlockSize, TensorType

_LARGEST = {1: 1 << 14, 2: 256, 3: 40}
"""The largest block of an axis, by the number of axes of its grid: tiles may have all of them and more."""
_TOLERANCES = {8: 1e-9, 4: 1e-4, 2: 2e-2, 1: 0.25}
"""Of floats by their bytes, in parts of the largest: sums in another order are not meant."""


@dataclass(frozen=True)
class Checked:
    """What a function returned, and what was found."""

    results: tuple[Array, ...]
    findings: Findings
    notes: tuple[str, ...]


def check(function: Function, arguments: Sequence[Argument], *, output: Callable[[str], None] = print) -> Checked:
    """Runs a function of the TILE vocabulary as `execute` does, and if need be again, in arrays of its own.

    What programs read of each other, or without its having been stored to, is wrong if results depend on it: they are
    compared with those of programs that see nothing of each other, where undefined elements are something else, and
    those of the reverse order. If nothing is wrong, other blocks have to give the same. Raises what `execute` raises.
    """
    given = [np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments]

    def again(how: _How) -> _CheckedExecution:
        copies = [np.copy(a) if isinstance(a, np.ndarray) else a for a in given]
        return _run(function, copies, how, lambda text: None)

    first = _run(function, arguments, _How(), output)
    findings, notes = first.shadow.findings, first.unwritten()
    others = (_How(alone=True), _How(order=_Reversed())) if findings.codes & _HARMLESS else ()
    if others and not any(any(_differing(first, again(how), exact=True)) for how in others):
        notes += [f"{error.location}: {error.message}; no result depends on it" for error in findings.drop(_HARMLESS)]
    if not findings.codes - {"check-outside"} and _leaves_blocks_open(function):
        other = _How(parts=2, order=_Reversed())
        for tensor, at, count, one, changed in _differing(first, again(other), exact=False):
            op = first.shadow.op_that_stored(tensor, at)
            element = element_text(first.array(tensor).shape, at)
            names = {"element": element, "tensor": tensor.name, "one": one, "other": changed}
            if op is not None:
                findings.add("check-blocks", op, None, "", count, names)
    return Checked(first.results, findings, tuple(notes))


_HARMLESS = frozenset({"check-race-read", "check-uninitialised"})
"""Wrong only if results depend on what was read."""


@dataclass(frozen=True)
class _How:
    """How a function is run: into how many blocks axes are cut, in which order, whether programs see of each other
    nothing until their grid is over (and undefined elements are 0)."""

    parts: int = 3
    order: random.Random | None = None
    alone: bool = False


class _Reversed(random.Random):
    """An order of programs: the last first."""

    def shuffle(self, x: list[object]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # of a list alone
        x.reverse()


@dataclass(eq=False)
class _CheckedExecution(Execution):
    """An execution with a shadow."""

    shadow: Shadow = field(default_factory=lambda: Shadow(Findings()))
    how: _How = field(default_factory=_How)
    snapshots: dict[Value, Array] = field(default_factory=dict[Value, Array])
    """What was in tensors when the grid began, for programs that see nothing of each other."""
    results: tuple[Array, ...] = ()
    function: Function | None = None
    _from_data: dict[Value, bool] = field(default_factory=dict[Value, bool])

    def begin_program(self, op: Op, coordinates: list[str], count: int) -> None:
        super().begin_program(op, coordinates, count)
        self.shadow.begin_program(coordinates)

    def begin_grid(self) -> None:
        """Nothing runs now; what programs did so far is over."""
        self.shadow.begin_grid()
        self.progress = None
        if self.how.alone:
            self.snapshots = {tensor: np.copy(self.array(tensor)) for tensor in self.shadow.tensors}

    def block_size(self, op: Op, axis: int, size: BlockSize) -> int:
        """Of a grid, so many that there are `parts` of them, if they are not too large; of loops, half of the way."""
        parts = self.how.parts
        if size.kind == "fixed":
            return size.size
        match op:
            case Grid():
                most = _LARGEST.get(len(op.stops), 16) * parts // 3
                length = self.integer(op.stops[axis])
            case Range():
                most, length, parts = 256, self.integer(op.stop) - self.integer(op.start), 2
            case _:
                raise AssertionError(op.name)
        chosen = max(1, min(most, -(-length // parts)))
        if size.kind == "auto":
            return chosen
        return max(size.unit, min(chosen, size.size) // size.unit * size.unit)

    def comes_from_data(self, value: Value) -> bool:
        """Whether a subscript is computed from elements of tensors, or from arguments; not from coordinates alone."""
        found, queue, seen = False, [value], {value}
        if value in self._from_data:
            return self._from_data[value]
        while queue and not found:
            one = queue.pop()
            op = one.op
            if op is None:
                around = one.op_around
                carried = around is not None and not isinstance(around, Grid) and one is not _first(around)
                found = around is None or carried
                continue
            found = isinstance(op, (Load, Atomic)) or bool(op.bodies)
            for operand in op.operands:
                if operand not in seen and not isinstance(operand.type, (AxisType, TensorType)):
                    seen.add(operand)
                    queue.append(operand)
        self._from_data[value] = found
        return found

    def unwritten(self) -> list[str]:
        """What is returned without having been stored to, in words."""
        notes: list[str] = []
        returned = None if self.function is None else self.function.body.terminator
        for tensor in dict.fromkeys(() if returned is None else returned.operands):
            shadow = self.shadow.tensors.get(tensor)
            if shadow is not None and shadow.stored is not None and not shadow.stored.all():
                missing = int(np.count_nonzero(~shadow.stored))
                shape = self.array(tensor).shape
                first = element_text(shape, int(np.argmin(shadow.stored)))
                notes.append(
                    f"{missing} of the {shadow.size} elements of `{tensor.name}`, which the kernel returns, are not "
                    f"stored to, the first at {first}"
                )
        return notes


def _first(op: Op) -> Value | None:
    """The index or block of a loop, which is no data."""
    body = op.bodies.get("body")
    return body.arguments[0] if isinstance(op, (Range, tile_ops.For)) and body is not None else None


def _leaves_blocks_open(function: Function) -> bool:
    """Whether programs may be others than those of the first run."""
    grids = [op for op in function.body.ops if isinstance(op, Grid)]
    return any(size.kind != "fixed" for grid in grids for size in grid.blocks)


def _run(
    function: Function, arguments: Sequence[Argument], how: _How, output: Callable[[str], None]
) -> _CheckedExecution:
    sizes, values = bind_arguments(function, arguments)
    execution = _CheckedExecution(
        CHECKED, sizes, small_blocks, output, how.order, symbols=dict(sizes), how=how, function=function,
        task=f"checking `{function.name}`",
    )  # fmt: skip
    written = {op.tensor for op in function.walk() if isinstance(op, (Store, Atomic))}
    for parameter, value in zip(function.parameters, values):
        if parameter in written:
            execution.shadow.tensors[parameter] = TensorShadow(value.size, None)
    with np.errstate(all="ignore"):
        execution.results = execution.run(function.body, values)
    return execution


def _differing(
    first: _CheckedExecution, second: _CheckedExecution, *, exact: bool
) -> Iterator[tuple[Value, int, int, str, str]]:
    """The tensors that became others: the first element that did, how many did, what it is in both."""
    for tensor, shadow in first.shadow.tensors.items():
        one, other = np.ravel(first.array(tensor)), np.ravel(second.array(tensor))
        apart = (_bits(one) != _bits(other)) if exact else _differ(one, other)
        if shadow.stored is not None:
            apart = apart & shadow.stored
        if apart.any():
            at = int(np.flatnonzero(apart)[0])
            yield tensor, at, int(np.count_nonzero(apart)), str(one[at]), str(other[at])


def _differ(one: Array, other: Array) -> Array:
    if one.dtype.kind in "biu":
        return np.asarray(one != other)
    left, right = one.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(left) & np.isfinite(right)
    scale = float(np.max(np.abs(left), where=finite, initial=0.0))
    with np.errstate(invalid="ignore"):
        close = np.abs(left - right) <= _TOLERANCES[one.dtype.itemsize] * scale
    return np.asarray(~np.where(finite, close, (left == right) | (np.isnan(left) & np.isnan(right))))


# Ops


def _grid(execution: _CheckedExecution, op: Grid) -> tuple[RuntimeValue, ...]:
    execution.begin_grid()
    results = control.grid(execution, op)
    execution.begin_grid()
    return results


def _empty(execution: _CheckedExecution, op: Empty) -> tuple[Array, ...]:
    (made,) = memory.empty(execution, op)
    if execution.how.alone and op.fill is None:
        made.fill(0)
    stored = np.zeros(made.size, np.bool_) if op.fill is None else None
    execution.shadow.tensors[op.result] = TensorShadow(made.size, stored)
    return (made,)


def _load(execution: _CheckedExecution, op: Load) -> tuple[Array, ...]:
    tensor, selection = memory.accessed(execution, op)
    if op.other is None:
        _check_outside(execution, op, op.tensor.name, tensor, selection, "reads")
    (found,) = memory.loaded(execution, op, tensor, selection)
    if op.tensor in execution.shadow.tensors:
        at = _positions(tensor, _index(selection))
        execution.shadow.load(op, op.tensor, tensor.shape, at)
        if op.tensor in execution.snapshots:
            others = execution.shadow.stored_by_others(op.tensor, at)
            seen = found[selection.inside]
            seen[others] = np.ravel(execution.snapshots[op.tensor])[at[others]]
            found[selection.inside] = seen
    return (found,)


def _store(execution: _CheckedExecution, op: Store) -> tuple[Array, ...]:
    tensor, selection = memory.accessed(execution, op)
    _check_outside(execution, op, op.tensor.name, tensor, selection, "stores to")
    index = _index(selection)
    at = _positions(tensor, index)
    value = _bits(execution.array(op.value)[selection.inside])
    execution.shadow.store(op, op.tensor, tensor.shape, at, _bits(tensor[index]) != value)
    selection.write(tensor, execution.array(op.value))
    met = np.flatnonzero(_bits(tensor[index]) != value)
    if met.size:
        element = element_text(tensor.shape, int(at[met[0]]))
        names = {"program": execution.shadow.name, "element": element, "tensor": op.tensor.name}
        execution.shadow.findings.add("check-race-within", op, None, "", met.size, names)
    return ()


def _atomic(execution: _CheckedExecution, op: Atomic) -> tuple[Array, ...]:
    tensor, selection = memory.accessed(execution, op)
    _check_outside(execution, op, op.tensor.name, tensor, selection, "updates")
    execution.shadow.atomic(op, op.tensor, tensor.shape, _positions(tensor, _index(selection)))
    return memory.combined(execution, op, tensor, selection)


def _extract(execution: _CheckedExecution, op: Extract) -> tuple[Array, ...]:
    source = execution.array(op.source)
    selection = memory.select(execution, source, op.indices)
    _check_outside(execution, op, op.source.name or "a tile", source, selection, "reads")
    return memory.extract(execution, op)


def _index(selection: Selection) -> tuple[Array, ...]:
    """What subscripts a tensor with the selected elements, in a line."""
    return tuple(c[selection.inside] for c in selection.coordinates)


def _positions(tensor: Array, index: tuple[Array, ...]) -> Array:
    """Where elements are in the tensor, row by row."""
    if not index:
        return np.zeros(1, np.int64)
    return np.ravel(np.asarray(np.ravel_multi_index(index, tensor.shape), np.int64))


def _bits(values: Array) -> Array:
    """The elements of a line as bits: NaN is itself, 0.0 is not -0.0."""
    line: Any = np.ascontiguousarray(np.ravel(values))
    bits: Array = line.view(f"u{values.dtype.itemsize}")
    return bits


_OUTSIDE = {
    "reads": "mend the subscript, or say what is read there: `tile.load(..., other=...)`",
    "stores to": "mend the subscript: such a store is dropped",
    "updates": "mend the subscript: such an update is dropped",
}


def _check_outside(
    execution: _CheckedExecution, op: Op, name: str, tensor: Array, selection: Selection, verb: str
) -> None:
    """Elements outside of a tensor are for shifted blocks; where data leads there, it may be meant or not."""
    if selection.inside.all():
        return
    assert isinstance(op, (Load, Store, Atomic, Extract))
    for axis, subscript in enumerate(op.indices):
        if not isinstance(subscript, Value) or isinstance(execution.values[subscript], AxisBlock):
            continue
        coordinates, size = selection.coordinates[axis], tensor.shape[axis]
        outside = (coordinates < 0) | (coordinates >= size)
        if verb != "reads" and _is_chosen(subscript):
            outside &= coordinates != size  # `y[tile.where(mine, at, N)]`: what is not mine is not stored
        if outside.any() and execution.comes_from_data(subscript):
            names = {
                "program": execution.shadow.name, "verb": verb, "name": name, "axis": axis, "size": size,
                "coordinate": int(coordinates[outside][0]), "fix": _OUTSIDE[verb],
            }  # fmt: skip
            execution.shadow.findings.add("check-outside", op, None, "", int(np.count_nonzero(outside)), names)


def _is_chosen(subscript: Value) -> bool:
    """Whether a `where` says which coordinates there are."""
    op = subscript.op
    while isinstance(op, Cast):
        op = op.source.op
    return isinstance(op, Map) and op.fn == "where"


CHECKED: dict[type[Op], Executor] = {
    **EXECUTORS,
    Grid: _grid,
    Empty: _empty,
    Load: _load,
    Store: _store,
    Atomic: _atomic,
    Extract: _extract,
}
"""How each op runs under a shadow."""
