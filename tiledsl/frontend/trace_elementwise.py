"""Elementwise operations of formulas: promotion, broadcasting, then one `graph.map`."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, cast

import numpy as np

from tiledsl.frontend import language_math as language
from tiledsl.frontend.array_types import as_dtype, is_array
from tiledsl.frontend.promotion import (
    OPERATOR_NAMES,
    Strength,
    constant_in,
    float_for,
    promote_all,
    weak_strength,
    working_dtype,
)
from tiledsl.frontend.trace import OPERATIONS, Trace, describe, performs, records, type_of
from tiledsl.frontend.traced import SIZE_FUNCTIONS, TracedSize, TracedTensor, dim_of, size_value
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, bool_, compute_dtype, f64, i64
from tiledsl.ir.graph_ops import Broadcast, Map
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tile_ops import broadcast_shapes
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


def apply(trace: Trace, fn: str, *operands: Any) -> Any:
    """A scalar function of operands; of sizes alone it may be a size."""
    given = [operand(trace, value) for value in operands]
    sizes = [dim_of(value) for value in given]
    if fn in SIZE_FUNCTIONS and len(sizes) == 2 and sizes[0] is not None and sizes[1] is not None:
        return size_value(SIZE_FUNCTIONS[fn](sizes[0], sizes[1]), trace)
    of_sizes = not any(isinstance(value, TracedTensor) for value in given)
    if of_sizes and fn in ("lt", "le", "gt", "ge") and any(isinstance(value, TracedSize) for value in given):
        trace.fail("graph-size-unknown", text=f"{given[0]!r}, {given[1]!r}", operation=OPERATOR_NAMES[fn])
    if fn == "neg" and sizes[0] is not None:
        return size_value(-sizes[0], trace)
    if fn == "abs" and isinstance(given[0], TracedTensor) and given[0].dtype == bool_:
        return given[0]
    return elementwise(trace, fn, given)


def elementwise(trace: Trace, fn: str, operands: Sequence[Any]) -> TracedTensor:
    """A scalar function of operands, recorded."""
    if fn == "pow":
        special = _power_by_number(trace, operands[0], operands[1])
        if special is not None:
            return special
    strength = promote_all([strength_of(o) for o in operands])
    works_in = working_dtype(fn, strength)
    if works_in is None:
        names = ", ".join(f"`{trace.text_of(o)}` is {describe(o)}" for o in operands)
        trace.fail(
            "dtype-not-taken", *operands,
            operation=OPERATOR_NAMES.get(fn, f"tile.{fn}"), names=names, dtype=strength.dtype,
        )  # fmt: skip
    fn, strength = works_in
    shape = common_shape(trace, operands)
    values = [broadcast(trace, coerce(trace, o, strength.dtype), shape) for o in operands]
    weak = strength.weak and not SCALAR_FUNCTIONS[fn].gives_bool
    return trace.tensor(trace.emit(Map, fn=fn, inputs=values), weak)


def _power_by_number(trace: Trace, base: Any, exponent: Any) -> TracedTensor | None:
    """`x ** 2` is x * x, `x ** 0.5` is sqrt(x), as NumPy has it; None for other powers."""
    if isinstance(exponent, TracedTensor):
        return None
    strength = promote_all([strength_of(base), strength_of(exponent)])
    if not isinstance(exponent, TracedSize):
        if exponent == 2 and strength.dtype != bool_:
            same = trace.tensor(coerce(trace, base, strength.dtype), strength.weak)
            return elementwise(trace, "mul", [same, same])
        if exponent == 0.5:
            return elementwise(trace, "sqrt", [trace.tensor(coerce(trace, base, strength.dtype), strength.weak)])
        if isinstance(exponent, int) and exponent < 0 and not strength.dtype.is_float:
            if not strength.weak:
                text = trace.text_of(base)
                trace.fail("negative-power", base, text=text, dtype=strength.dtype, power=exponent)
            return elementwise(trace, "pow", [trace.tensor(coerce(trace, base, f64), weak=True), exponent])
    return None


def _applied(fn: str, trace: Trace, *operands: Any) -> Any:
    return apply(trace, fn, *operands)


for _fn in SCALAR_FUNCTIONS:
    if _fn != "where":
        OPERATIONS[_fn] = partial(_applied, _fn)

FUNCTIONS: dict[Callable[..., Any], str] = {
    language.exp: "exp", language.exp2: "exp2", language.log: "log", language.log2: "log2", language.sqrt: "sqrt",
    language.rsqrt: "rsqrt", language.tanh: "tanh", language.sigmoid: "sigmoid", language.erf: "erf",
    language.sin: "sin", language.cos: "cos", language.pow: "pow", language.minimum: "minimum",
    language.maximum: "maximum", language.fma: "fma", language.abs: "abs",
}  # fmt: skip
"""Words that are one scalar function."""
for _stub, _fn in FUNCTIONS.items():
    records(_stub)(OPERATIONS[_fn])


def _rounding(fn: str, trace: Trace, x: Any) -> TracedTensor:
    given = tensor(trace, x)
    return elementwise(trace, fn, [given]) if given.dtype.is_float else given


for _stub in (language.floor, language.ceil, language.round):
    records(_stub)(partial(_rounding, _stub.__name__))


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


def truth(trace: Trace, x: Any) -> TracedTensor:
    """An operand as bool: itself if it is that, else whether it differs from 0."""
    given = tensor(trace, x)
    return given if given.dtype == bool_ else elementwise(trace, "ne", [given, 0])


@records(language.where)
def where(trace: Trace, condition: Any, x: Any, y: Any) -> TracedTensor:
    operands = [truth(trace, condition), operand(trace, x), operand(trace, y)]
    strength = promote_all([strength_of(o) for o in operands[1:]])
    shape = common_shape(trace, operands)
    values = [coerce(trace, o, d) for o, d in zip(operands, (bool_, strength.dtype, strength.dtype))]
    return trace.tensor(trace.emit(Map, fn="where", inputs=[broadcast(trace, v, shape) for v in values]), strength.weak)


def in_compute_dtype(trace: Trace, x: Any, formula: Callable[[TracedTensor], Any]) -> TracedTensor:
    """A formula of several steps, rounded once: narrow floats go through it in f32."""
    given = operand(trace, x)
    strength = strength_of(given)
    dtype = float_for(strength.dtype)
    result = formula(trace.tensor(coerce(trace, given, compute_dtype(dtype)), strength.weak))
    return trace.tensor(trace.cast(result.value, dtype), strength.weak)


@records(language.gelu)
def gelu(trace: Trace, x: Any) -> TracedTensor:
    """# x * (1 + erf(x / sqrt(2))) / 2"""

    def formula(x: TracedTensor) -> Any:
        error = apply(trace, "erf", apply(trace, "mul", x, math.sqrt(0.5)))
        return apply(trace, "mul", x, apply(trace, "mul", apply(trace, "add", error, 1.0), 0.5))

    return in_compute_dtype(trace, x, formula)


@records(language.silu)
def silu(trace: Trace, x: Any) -> TracedTensor:
    return in_compute_dtype(trace, x, lambda x: apply(trace, "mul", x, apply(trace, "sigmoid", x)))


@records(language.relu)
def relu(trace: Trace, x: Any) -> TracedTensor:
    return tensor(trace, apply(trace, "maximum", x, 0))


@records(language.clip)
def clip(trace: Trace, x: Any, low: Any, high: Any) -> TracedTensor:
    return tensor(trace, apply(trace, "minimum", apply(trace, "maximum", x, low), high))


@performs("truth")
def truth_of(trace: Trace, x: Any) -> TracedTensor:
    return truth(trace, x)
