"""Random arguments for a kernel or a function, and whether what came of them is what should have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np

from tiledsl.cli.arguments import parse_argument
from tiledsl.frontend.language.values import TensorSpec
from tiledsl.ir.core import Function
from tiledsl.ir.dtypes import DType, f64, i64, to_numpy
from tiledsl.ir.symbolic import Dim, evaluate, symbols_of
from tiledsl.ir.types import TensorType, TileType
from tiledsl.runtime.arrays.arrays import Array
from tiledsl.runtime.arrays.compare_arrays import compare
from tiledsl.support.errors import fail

Drawn: TypeAlias = "Array | int | float | bool"

MOST = 8
"""Integers are drawn from 0 up to this, or up to the shortest axis: they may be meant as indices."""


@dataclass(frozen=True)
class Draw:
    """Where arguments come from. Integers are below `below`."""

    random: np.random.Generator
    below: int

    def array(self, shape: Sequence[int], dtype: DType, unit: int | None = None) -> Array:
        """Normal numbers, small integers or bools; the axis `unit` counts fastest in memory (default: the last)."""
        kind = to_numpy(dtype)
        match dtype.kind:
            case "float":
                made = self.random.standard_normal(shape).astype(kind)
            case "bool":
                made = self.random.integers(0, 2, shape).astype(kind)
            case "int" | "uint":
                made = self.random.integers(0, self.below, shape).astype(kind)
        if unit is None or unit == len(shape) - 1:
            return made
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(made, unit, -1)), -1, unit)

    def number(self, dtype: DType) -> int | float | bool:
        """One number, from 0 to 1 for floats."""
        match dtype.kind:
            case "float":
                return float(self.random.uniform())
            case "bool":
                return bool(self.random.integers(0, 2))
            case "int" | "uint":
                return int(self.random.integers(0, self.below))


def draw_for_specs(texts: Sequence[str], sizes: Mapping[str, int], random: np.random.Generator) -> list[Drawn]:
    """An argument for each specification: `f32[M,64]`, `int`, or a number that stands for itself.

    Raises TileSyntaxError for what is none, TileShapeError for sizes that nobody tells.
    """
    specs = [parse_argument(text) for text in texts]
    shapes = {i: _shape(texts[i], spec, sizes) for i, spec in enumerate(specs) if isinstance(spec, TensorSpec)}
    draw = Draw(random, below(shapes.values()))
    return [
        draw.array(shapes[i], spec.dtype) if isinstance(spec, TensorSpec) else _number(draw, spec)
        for i, spec in enumerate(specs)
    ]


def _number(draw: Draw, spec: int | float | bool | type) -> int | float | bool:
    if isinstance(spec, type):
        return bool(draw.random.integers(0, 2)) if spec is bool else draw.number(i64 if spec is int else f64)
    return spec


def draw_for_function(function: Function, sizes: Mapping[str, int], random: np.random.Generator) -> list[Drawn]:
    """An argument for each parameter; a number that `sizes` names is that. Raises TileShapeError for unknown sizes."""
    shapes = {
        value: shape_of(str(value.type), value.type.shape, sizes)
        for value in function.parameters
        if isinstance(value.type, TensorType)
    }
    draw = Draw(random, below(shapes.values()))
    arguments: list[Drawn] = []
    for value in function.parameters:
        match value.type:
            case TensorType(dtype, _, unit):
                arguments.append(draw.array(shapes[value], dtype, unit))
            case TileType(dtype):
                arguments.append(sizes[value.name] if value.name in sizes else draw.number(dtype))
            case _:
                raise AssertionError(f"parameter %{value.name} is {value.type}")
    return arguments


def below(shapes: Iterable[tuple[int, ...]]) -> int:
    """What integers are drawn below, where they may be subscripts of arrays of these shapes."""
    return max(1, min([MOST, *(size for shape in shapes for size in shape)]))


def _shape(text: str, spec: TensorSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    shape: list[int] = []
    for size in spec.shape:
        if size is None or (isinstance(size, str) and size not in sizes):
            _fail_open(text, size)
        shape.append(sizes[size] if isinstance(size, str) else size)
    return tuple(shape)


def shape_of(text: str, dims: Sequence[Dim], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape, with these sizes, of what `text` describes. Raises TileShapeError for sizes that nobody tells."""
    return tuple(_size(text, dim, sizes) for dim in dims)


def _size(text: str, dim: Dim, sizes: Mapping[str, int]) -> int:
    for name in sorted(symbols_of(dim)):
        if name not in sizes:
            _fail_open(text, name)
    return evaluate(dim, sizes)


def _fail_open(text: str, name: str | None) -> NoReturn:
    advice = "write a number instead" if name is None else f"add `--size {name}=128`, or another number"
    fail("command-size-open", None, text=text, size=name or "?", advice=advice)


def difference(what: str, actual: Array, expected: Array) -> str | None:
    """What tells an array from the reference's; None if they are the same as far as rounding allows."""
    figures = compare(actual, expected)
    return f"{what} differs from the reference {figures}" if figures.wrong else None
