"""What a call must know of a compiled kernel: its parameters, the tensors that it makes, what it returns.

Read off the entry function once, and kept beside the machine code in the artifact cache, so that a call that finds
its kernel there needs neither the front end nor the IR.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, Union

from tiledsl.ir import tile_ops
from tiledsl.ir.core import Block, Fact, Function, Op, SizeOrigin, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.symbolic import Dim, symbols_of
from tiledsl.ir.symbolic_order import known_at_most
from tiledsl.ir.types import Shape, Slice, TensorType, TileType, format_shape
from tiledsl.support.location import Location


@dataclass(frozen=True)
class TensorParameter:
    """A tensor that the caller passes. `written` says whether the kernel stores to it."""

    name: str
    dtype: DType
    shape: Shape
    unit: int | None
    written: bool

    def __str__(self) -> str:
        return f"{self.dtype}{format_shape(self.shape)}"


@dataclass(frozen=True)
class ScalarParameter:
    """A run-time number that the caller passes."""

    name: str
    dtype: DType

    def __str__(self) -> str:
        return str(self.dtype)


@dataclass(frozen=True)
class NewTensor:
    """A tensor that the kernel makes by `tile.empty`; the runtime allocates it.

    `unit` is the axis whose stride the code takes to be one element: an array of `out` must have it so.
    """

    name: str
    dtype: DType
    shape: Shape
    unit: int | None
    location: Location


@dataclass(frozen=True)
class PartSize:
    """A size that a tile has wherever the kernel runs, and that some arrays would make negative: of `x[1:-1]`, say."""

    axis: int
    size: Dim
    location: Location


Parameter: TypeAlias = Union[TensorParameter, ScalarParameter]


@dataclass(frozen=True)
class Result:
    """One thing that the kernel returns: a tensor parameter, or a new tensor, by its number among these."""

    kind: Literal["parameter", "new"]
    index: int


@dataclass(frozen=True)
class Interface:
    """The calling convention of a compiled kernel."""

    name: str
    location: Location
    parameters: tuple[Parameter, ...]
    new_tensors: tuple[NewTensor, ...]
    results: tuple[Result, ...]
    facts: tuple[Fact, ...]
    origins: tuple[SizeOrigin, ...]
    part_sizes: tuple[PartSize, ...]

    @property
    def tensors(self) -> tuple[TensorParameter, ...]:
        """The tensor parameters, in order."""
        return tuple(p for p in self.parameters if isinstance(p, TensorParameter))

    @property
    def outputs(self) -> tuple[int, ...]:
        """The new tensors that are returned, each once: what `out` stands for."""
        return tuple(dict.fromkeys(r.index for r in self.results if r.kind == "new"))

    def origin(self, parameter: str, axis: int) -> SizeOrigin | None:
        """Where the kernel says how long an axis is, if it does."""
        return next((o for o in self.origins if o.parameter == parameter and o.axis == axis), None)


def interface_of(function: Function) -> Interface:
    """The calling convention of a function of the TILE vocabulary, in any form."""
    written = _written(function)
    parameters: list[Parameter] = []
    for value in function.parameters:
        match value.type:
            case TensorType(dtype, shape, unit):
                parameters.append(TensorParameter(value.name, dtype, shape, unit, value in written))
            case TileType(dtype, ()):
                parameters.append(ScalarParameter(value.name, dtype))
            case other:
                raise AssertionError(f"parameter %{value.name} is {other}")
    tensors = [v for v in function.parameters if isinstance(v.type, TensorType)]
    made = [op.result for op in function.body.ops if isinstance(op, tile_ops.Empty)]
    returned = function.body.terminator
    return Interface(
        name=function.name,
        location=function.location,
        parameters=tuple(parameters),
        new_tensors=tuple(_new_tensor(value) for value in made),
        results=tuple(_result(v, tensors, made) for v in (returned.operands if returned else ())),
        facts=function.facts,
        origins=function.size_origins,
        part_sizes=tuple(_part_sizes(function)),
    )


def _written(function: Function) -> set[Value]:
    return {op.tensor for op in function.walk() if isinstance(op, (tile_ops.Store, tile_ops.Atomic))}


def _part_sizes(function: Function) -> Iterator[PartSize]:
    """Each size once that is known at a call and may be negative. What a branch has may never be made."""
    types = [value.type for value in function.parameters]
    given = {name for t in types if isinstance(t, TensorType) for dim in t.shape for name in symbols_of(dim)}
    made = [op.result.type for op in function.body.ops if isinstance(op, tile_ops.Empty)]
    seen = {dim for t in made if isinstance(t, TensorType) for dim in t.shape}  # looked at when they are made
    for op in _unconditional(function.body):
        for shape in _shapes_of_parts(op):
            for axis, dim in enumerate(shape):
                if dim not in seen and symbols_of(dim) <= given and not known_at_most(0, dim):
                    yield PartSize(axis, dim, op.location)
                seen.add(dim)


def _unconditional(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        if not isinstance(op, (tile_ops.If, tile_ops.While)):
            for body in op.bodies.values():
                yield from _unconditional(body)


def _shapes_of_parts(op: Op) -> list[Shape]:
    shapes = [result.shape for result in op.results if isinstance(result.type, TileType)]
    if isinstance(op, (tile_ops.Store, tile_ops.Atomic)):
        shapes.append(tuple(index.stop - index.start for index in op.indices if isinstance(index, Slice)))
    return shapes


def _new_tensor(value: Value) -> NewTensor:
    assert isinstance(value.type, TensorType)
    assert value.op is not None
    return NewTensor(value.name, value.type.dtype, value.type.shape, value.type.unit, value.op.location)


def _result(value: Value, tensors: Sequence[Value], made: Sequence[Value]) -> Result:
    if value in tensors:
        return Result("parameter", tensors.index(value))
    assert value in made, f"%{value.name} is returned but is neither a parameter nor an output"
    return Result("new", made.index(value))
