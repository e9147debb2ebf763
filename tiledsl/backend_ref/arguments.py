"""Checks the arguments of a function and reads the sizes from their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, TypeAlias, Union

import numpy as np

from tiledsl.backend_ref.scalar_functions import Array, cast, constant
from tiledsl.ir.core import Function, Value
from tiledsl.ir.dtypes import from_numpy
from tiledsl.ir.symbolic import Dim, evaluate, symbol_name, symbols_of
from tiledsl.ir.types import TensorType, TileType
from tiledsl.support.errors import fail

Argument: TypeAlias = Union[Array, "np.generic", int, float, bool]
"""An array for a tensor; a Python or NumPy number for a scalar."""


def bind_arguments(function: Function, arguments: Sequence[Argument]) -> tuple[dict[str, int], list[Array]]:
    """The size symbols and the values of the parameters. Raises TileTypeError or TileShapeError if they do not fit.

    Tensors are the arrays themselves; scalars become arrays of rank 0 of the parameter's dtype.
    """
    parameters = function.parameters
    if len(arguments) != len(parameters):
        names = ", ".join(f"%{p.name}" for p in parameters)
        expected, actual = len(parameters), len(arguments)
        code = "reference-argument-count"
        fail(code, function.location, function=function.name, expected=expected, actual=actual, parameters=names)
    values = [_bind_value(function, p, a) for p, a in zip(parameters, arguments)]
    sizes = _bind_sizes(function, values)
    for fact in function.facts:
        actual = evaluate(fact.dim, sizes)
        if actual % fact.divisor != 0:
            fail("reference-fact", function.location, function=function.name, fact=fact, dim=fact.dim, actual=actual)
    return sizes, values


def _bind_value(function: Function, parameter: Value, argument: Argument) -> Array:
    if isinstance(parameter.type, TensorType):
        if not isinstance(argument, np.ndarray) or from_numpy(argument.dtype) != parameter.type.dtype:
            _fail_type(function, parameter, argument, f"an array of {parameter.type.dtype}")
        rank = len(parameter.type.shape)
        if argument.ndim != rank:
            _fail_rank(function, parameter, argument, rank)
        return argument
    assert isinstance(parameter.type, TileType)
    assert not parameter.type.shape, f"parameter %{parameter.name} is a tile"
    dtype = parameter.type.dtype
    if isinstance(argument, (bool, int)) or (isinstance(argument, float) and dtype.is_float):
        return constant(argument, dtype)
    array: Array = np.asarray(argument)
    given = from_numpy(array.dtype)
    if given is None or (given.is_float and not dtype.is_float):
        _fail_type(function, parameter, argument, f"a number of {dtype}")
    if array.ndim != 0:
        _fail_rank(function, parameter, array, 0)
    return cast(array, dtype)


def _fail_type(function: Function, parameter: Value, argument: Argument, wanted: str) -> NoReturn:
    actual = f"an array of {argument.dtype}" if isinstance(argument, np.ndarray) else f"a {type(argument).__name__}"
    code = "reference-argument-type"
    expected = parameter.type
    fail(
        code, function.location,
        function=function.name, parameter=parameter.name, expected=expected, actual=actual, wanted=wanted,
    )  # fmt: skip


def _fail_rank(function: Function, parameter: Value, array: Array, rank: int) -> NoReturn:
    code = "reference-argument-rank"
    expected, actual = parameter.type, array.shape
    fail(
        code, function.location,
        function=function.name, parameter=parameter.name, expected=expected, actual=actual, rank=rank,
    )  # fmt: skip


def _bind_sizes(function: Function, values: Sequence[Array]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    told_by: dict[str, str] = {}
    axes: list[tuple[Value, int, Dim, int]] = []
    for parameter, value in zip(function.parameters, values):
        if isinstance(parameter.type, TensorType):
            axes += [(parameter, i, dim, value.shape[i]) for i, dim in enumerate(parameter.type.shape)]
    for parameter, axis, dim, actual in axes:
        name = symbol_name(dim)
        if name is not None and name not in sizes:
            sizes[name] = actual
            told_by[name] = f" (axis {axis} of %{parameter.name})"
    for parameter, axis, dim, actual in axes:
        for symbol in sorted(symbols_of(dim) - set(sizes)):
            code = "reference-size-unknown"
            fail(code, function.location, parameter=parameter.name, axis=axis, dim=dim, symbol=symbol)
        expected = evaluate(dim, sizes)
        if actual != expected:
            by = told_by.get(symbol_name(dim) or "", "")
            fail(
                "reference-size", function.location,
                parameter=parameter.name, axis=axis, actual=actual, dim=dim, expected=expected, by=by,
            )  # fmt: skip
    return sizes
