"""Elementwise operations of formulas: promotion, broadcasting, then one `graph.map`."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, cast

import numpy as np

from tiledsl.frontend.language import composites
from tiledsl.frontend.language import math as language
from tiledsl.frontend.language.composites import ELEMENTWISE_WORDS, SCALAR_WORDS
from tiledsl.frontend.language.promotion import OPERATOR_NAMES, Strength, constant_in, weak_strength
from tiledsl.frontend.language.special import SPECIAL_WORDS
from tiledsl.frontend.trace.array_types import as_dtype, is_array
from tiledsl.frontend.trace.trace import OPERATIONS, Trace, describe, performs, records, type_of
from tiledsl.frontend.trace.traced import SIZE_FUNCTIONS, TracedSize, TracedTensor, dim_of, size_value
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ir.graph_ops import Broadcast, Map, Reduce, Reshape
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.type_rules import broadcast_shapes
from tiledsl.ir.types import Shape, format_shape


def operand(trace: Trace, value: Any) -> Any:
    """A tensor, a size or a Python number; arrays from outside become weights. Raises TileTypeError for others."""
    if isinstance(value, TracedTensor):
        return value
    if isinstance(value, np.generic):
        return operand(trace, value.item())  # pyright: ignore[reportUnknownMemberType] - gives way, as Python's numbers
    if isinstance(value, (bool, int, float, TracedSize)):
        return value
    if is_array(value):
        if isinstance(value, np.ndarray) and value.ndim == 0:
            scalar = cast("Any", value)
            return trace.tensor(trace.constant(scalar.item(), trace.array_type("number", value).dtype))
        return trace.weight(value)
    trace.fail("graph-operand", what=describe(value))


def tensor(trace: Trace, value: Any) -> TracedTensor:
    """An operand as a tensor of the graph; numbers and sizes become weak scalars."""
    given = operand(trace, value)
    if isinstance(given, TracedTensor):
        return given
    strength = strength_of(given)
    return trace.tensor(coerce(trace, given, strength.dtype), weak=True)


def strength_of(value: Any) -> Strength:
    """The dtype of an operand, and whether it gives way to others."""
    if isinstance(value, TracedTensor):
        return Strength(value.dtype, value.weak)
    return Strength(i64, weak=True) if isinstance(value, TracedSize) else weak_strength(value)


def coerce(trace: Trace, value: Any, dtype: DType) -> Value:
    """An operand converted to `dtype`. Raises TileTypeError for an integer that the dtype cannot hold."""
    if isinstance(value, TracedTensor):
        return trace.cast(value.value, dtype)
    if isinstance(value, TracedSize):
        return trace.cast(trace.size(value.dim), dtype)
    constant = constant_in(value, dtype)
    if constant is None:
        trace.fail("constant-range", text=reprlib.repr(value), dtype=dtype)
    return trace.constant(constant, dtype)


def shape_of(value: Any) -> Shape:
    """The shape of an operand; numbers and sizes have none."""
    return value.type.shape if isinstance(value, TracedTensor) else ()


def common_shape(trace: Trace, operands: Sequence[Any]) -> Shape:
    """The NumPy broadcast of the operands. Raises TileShapeError with the two that do not fit."""
    result: Shape = ()
    for i, value in enumerate(operands):
        shape = broadcast_shapes(result, shape_of(value))
        if shape is None:
            _fail_shapes(trace, next(o for o in operands[:i] if _clash(shape_of(o), shape_of(value))), value)
        result = shape
    return result


def _clash(a: Shape, b: Shape) -> tuple[Dim, Dim] | None:
    """The first pair of sizes, from the end, that do not broadcast."""
    pairs = zip(reversed(a), reversed(b))
    return next(((p, q) for p, q in pairs if p != q and 1 not in (p, q)), None)


def _fail_shapes(trace: Trace, a: Any, b: Any) -> NoReturn:
    first, second = shape_of(a), shape_of(b)
    clash = _clash(first, second)
    assert clash is not None
    code = "shapes-differ" if all(isinstance(size, int) for size in clash) else "graph-sizes-differ"
    trace.fail(
        code, a, b,
        a=trace.text_of(a), b=trace.text_of(b), first=format_shape(first), second=format_shape(second),
        left=clash[0], right=clash[1],
    )  # fmt: skip


def broadcast(trace: Trace, value: Value, shape: Shape) -> Value:
    """A value under a shape that it broadcasts to; scalars stay as they are, for `graph.map` takes them."""
    before = type_of(value).shape
    return value if before in ((), shape) else trace.emit(Broadcast, source=value, shape=shape)


class TensorSteps:
    """The steps of composites in tensor form: `graph.map` and `graph.reduce`, recorded by the trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def read(self, x: Any) -> Any:
        return operand(self.trace, x)

    def tensor(self, x: Any) -> Any:
        return tensor(self.trace, x)

    def number(self, like: Any, number: float) -> Any:
        return number

    def size(self, like: Any, size: Dim) -> Any:
        return size_value(size, self.trace)

    def constant(self, x: Any) -> float | None:
        given = self.read(x)
        return given if isinstance(given, (int, float)) else None

    def strength(self, x: Any) -> Strength:
        return strength_of(self.read(x))

    def shape(self, x: Any) -> Shape:
        return shape_of(x)

    def at_once(self, fn: str, operands: Sequence[Any]) -> Any:
        return _of_sizes(self.trace, fn, [self.read(x) for x in operands])

    def convert(self, x: Any, dtype: DType, weak: bool = False) -> Any:
        return self.trace.tensor(coerce(self.trace, x, dtype), weak)

    def map(self, fn: str, operands: Sequence[Any], dtypes: Sequence[DType], weak: bool) -> Any:
        shape = common_shape(self.trace, operands)
        values = [coerce(self.trace, x, dtype) for x, dtype in zip(operands, dtypes)]
        values = [broadcast(self.trace, value, shape) for value in values]
        return self.trace.tensor(
            self.trace.emit(Map, fn=fn, inputs=values), weak and SCALAR_FUNCTIONS[fn].result(dtypes[-1]) == dtypes[-1]
        )

    def reduce(self, fn: str, x: Any, axes: Sequence[int], keepdims: bool, weak: bool = False) -> Any:
        value = self.trace.emit(Reduce, source=x.value, axes=tuple(axes), fn=fn, keepdims=bool(keepdims))
        return self.trace.tensor(value, weak)

    def reshape(self, x: Any, shape: Shape) -> Any:
        same = x.type.shape == shape
        return x if same else self.trace.tensor(self.trace.emit(Reshape, source=x.value, shape=shape))

    def text(self, x: Any) -> str:
        return self.trace.text_of(x)

    def describe(self, x: Any) -> str:
        return describe(x)

    def fail(self, code: str, *operands: Any, **names: object) -> NoReturn:
        self.trace.fail(code, *operands, **names)


def apply(trace: Trace, fn: str, *operands: Any) -> Any:
    """A scalar function of operands; of sizes alone it may be a size."""
    return composites.apply(TensorSteps(trace), fn, *operands)


def _of_sizes(trace: Trace, fn: str, given: Sequence[Any]) -> Any:
    """What sizes and ints compute with each other, where that is a size; else None."""
    sizes = [dim_of(value) for value in given]
    if fn in SIZE_FUNCTIONS and len(sizes) == 2 and sizes[0] is not None and sizes[1] is not None:
        return size_value(SIZE_FUNCTIONS[fn](sizes[0], sizes[1]), trace)
    of_sizes = not any(isinstance(value, TracedTensor) for value in given)
    if of_sizes and fn in ("lt", "le", "gt", "ge") and any(isinstance(value, TracedSize) for value in given):
        trace.fail("graph-size-unknown", text=f"{given[0]!r}, {given[1]!r}", operation=OPERATOR_NAMES[fn])
    return size_value(-sizes[0], trace) if fn == "neg" and sizes[0] is not None else None


def _applied(fn: str, trace: Trace, *operands: Any) -> Any:
    return apply(trace, fn, *operands)


for _fn in SCALAR_FUNCTIONS:
    if _fn != "where":
        OPERATIONS[_fn] = partial(_applied, _fn)

for _stub, _fn in SCALAR_WORDS.items():
    records(_stub)(OPERATIONS[_fn])


def _composite(composite: Callable[..., Any], trace: Trace, *operands: Any) -> TracedTensor:
    return tensor(trace, composite(TensorSteps(trace), *(operand(trace, x) for x in operands)))


for _stub, _composed in {**ELEMENTWISE_WORDS, **SPECIAL_WORDS}.items():
    records(_stub)(partial(_composite, _composed))


@records(language.cast)
def cast_to(trace: Trace, x: Any, dtype: Any) -> TracedTensor:
    return trace.tensor(coerce(trace, operand(trace, x), dtype_of(trace, "tile.cast", dtype)))


def dtype_of(trace: Trace, name: str, dtype: Any) -> DType:
    """The dtype that an argument names: ours, NumPy's or PyTorch's. Raises TileTypeError for anything else."""
    found = as_dtype(dtype)
    if found is None:
        trace.fail(
            "argument-kind", name=name, parameter="dtype", expected="a dtype, as tile.f32", text=repr(dtype),
            what=describe(dtype),
        )  # fmt: skip
    if found.bits < 8:
        trace.fail("dtype-4-bit", dtype=found)
    return found


@performs("truth")
def truth_of(trace: Trace, x: Any) -> TracedTensor:
    return composites.truth(TensorSteps(trace), x)
