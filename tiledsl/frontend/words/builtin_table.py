"""How the words of the language are called: arguments bound by the stub's own signature, one handler for each word."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from tiledsl.frontend.language.word_advice import argument_advice
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.operands import read
from tiledsl.frontend.words.values import (
    AxisBlock,
    Coordinate,
    FrontValue,
    Operand,
    Static,
    Tile,
    Tuple,
    size_of,
    static_integer,
    static_number,
)
from tiledsl.ir.dtypes import DType, from_numpy
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import AxisType, Shape


@dataclass(frozen=True)
class Arguments:
    """The operands of one call by parameter name, with typed readers that raise located errors."""

    low: Lowering
    name: str
    operands: Mapping[str, Operand]
    rest: tuple[Operand, ...] = ()
    """What went to a `*values` parameter."""

    def __getitem__(self, parameter: str) -> Operand:
        return self.operands[parameter]

    def given(self, parameter: str) -> bool:
        """Whether the argument is there and not None."""
        return self.operands[parameter].value != Static(None)

    def read(self, parameter: str) -> Operand:
        """The operand, loaded if it is a subscripted tensor."""
        return read(self.low, self.operands[parameter])

    def static(self, parameter: str, kind: type, expected: str) -> Any:
        """A compile-time Python value of a type; `expected` says in words which."""
        operand = self.operands[parameter]
        value = static_number(operand.value) if kind in (int, bool) else None
        if value is None and isinstance(operand.value, Static):
            value = operand.value.value
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.low.fail_at(operand, "argument-kind", name=self.name, parameter=parameter, expected=expected)
        return value

    def flag(self, parameter: str) -> bool:
        return self.static(parameter, bool, "True or False, known at compile time")

    def text(self, parameter: str) -> str:
        return self.static(parameter, str, "a string")

    def dtype(self, parameter: str) -> DType:
        """A dtype of ours, or NumPy's for it."""
        operand = self.operands[parameter]
        dtype = dtype_of(operand.value)
        if dtype is None:
            self.low.fail_at(
                operand, "argument-kind", name=self.name, parameter=parameter, expected="a dtype, as tile.f32"
            )
        self.low.require_supported(dtype)
        return dtype

    def shape(self, parameter: str) -> Shape:
        return shape_from(self.low, self.operands[parameter])

    def axis(self, parameter: str, rank: int) -> int:
        """One axis of a tile of that rank, counted from the front."""
        axis = self.static(parameter, int, "an int, known at compile time")
        return normal_axis(self.low, self.operands[parameter], axis, rank)

    def axes(self, parameter: str, rank: int) -> tuple[int, ...]:
        """Some axes of a tile of that rank; None means all."""
        operand = self.operands[parameter]
        if not self.given(parameter):
            return tuple(range(rank))
        items = operand.value.items if isinstance(operand.value, Tuple) else (operand.value,)
        axes = [static_integer(item) for item in items]
        if any(axis is None for axis in axes):
            expected = "an int, a tuple of ints or None"
            self.low.fail_at(operand, "argument-kind", name=self.name, parameter=parameter, expected=expected)
        normal = tuple(normal_axis(self.low, operand, axis, rank) for axis in axes if axis is not None)
        if len(set(normal)) != len(normal):
            self.low.fail_at(operand, "axis-repeated", name=self.name)
        return tuple(sorted(normal))


def normal_axis(low: Lowering, operand: Operand, axis: int, rank: int) -> int:
    """`axis` counted from the front. Raises TileShapeError if a tile of that rank has no such axis."""
    if not -rank <= axis < rank:
        choices = f"use an axis from {-rank} to {rank - 1}" if rank else "leave it out: a scalar has no axes"
        low.fail_at(operand, "axis-range", axis=axis, rank=rank, choices=choices)
    return axis % rank


def dtype_of(value: FrontValue) -> DType | None:
    """The dtype that a value names: ours, or a NumPy dtype or scalar type."""
    if not isinstance(value, Static):
        return None
    named = value.value
    if isinstance(named, DType):
        return named
    if isinstance(named, np.dtype) or (isinstance(named, type) and issubclass(named, np.generic)):
        return from_numpy(np.dtype(named))  # pyright: ignore[reportUnknownArgumentType] - the dtype of anything
    return None


def shape_from(low: Lowering, operand: Operand) -> Shape:
    """A shape as users write it: sizes, blocks of axes, a tuple of them. Coordinates (blocks of 1) leave no axis."""
    items = operand.value.items if isinstance(operand.value, Tuple) else (operand.value,)
    shape: list[Dim] = []
    for item in items:
        dim = dim_from(low, item)
        if dim is None and not isinstance(item, Coordinate):
            is_scalar = isinstance(item, Tile) and not item.value.shape
            code = "shape-run-time" if is_scalar else "shape-entry"
            low.fail_at(Operand(item, operand.text, operand.location), code)
        if dim is not None:
            if isinstance(dim, int) and dim < 0:
                low.fail_at(operand, "shape-negative", dim=dim)
            shape.append(dim)
    return tuple(shape)


def dim_from(low: Lowering, value: FrontValue) -> Dim | None:
    """The size that an entry of a shape stands for, if it can be one."""
    if isinstance(value, AxisBlock):
        assert isinstance(value.value.type, AxisType)
        return value.value.type.extent
    size = size_of(value)
    return None if size is None else low.sizes.resolve(size)


Handler: TypeAlias = Callable[[Lowering, Arguments], FrontValue]

BUILTINS: dict[Callable[..., Any], Handler] = {}
"""The handler of each stub of the language (`frontend/language/`). Filled by the modules `builtin_*`."""


def lowers(*stubs: Callable[..., Any]) -> Callable[[Handler], Handler]:
    """Marks the handler of some stubs."""

    def register(handler: Handler) -> Handler:
        for stub in stubs:
            assert stub not in BUILTINS, f"tile.{stub.__name__} has two handlers"
            BUILTINS[stub] = handler
        return handler

    return register


def call_builtin(
    low: Lowering, stub: Callable[..., Any], positional: Sequence[Operand], keywords: Mapping[str, Operand]
) -> FrontValue:
    """Calls a word of the language. Raises TileTypeError for arguments that its signature does not have."""
    arguments = bind(low, f"tile.{stub.__name__}", _signature(stub), positional, keywords)
    return BUILTINS[stub](low, arguments)


@cache
def _signature(stub: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(stub)


def bind(
    low: Lowering,
    name: str,
    signature: inspect.Signature,
    positional: Sequence[Operand],
    keywords: Mapping[str, Operand],
) -> Arguments:
    """Operands by parameter name, defaults filled in. Raises TileTypeError if they do not fit the signature."""
    try:
        bound = signature.bind(*positional, **keywords)
    except TypeError as error:
        problem, hint = argument_advice(error, signature.parameters, keywords)
        low.fail("call-arguments", name=name, error=problem, hint=hint)
    operands: dict[str, Operand] = {}
    rest: tuple[Operand, ...] = ()
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            rest = bound.arguments.get(parameter.name, ())
        elif parameter.name in bound.arguments:
            operands[parameter.name] = bound.arguments[parameter.name]
        else:
            operands[parameter.name] = Operand(Static(parameter.default), parameter.name, low.location)
    return Arguments(low, name, operands, rest)
