"""What ops of this library check before they compute, and the messages for what does not fit."""

from __future__ import annotations

from typing import Any, NoReturn, cast

from tiledsl.frontend.language.active_trace import ACTIVE
from tiledsl.frontend.language.promotion import float_for
from tiledsl.frontend.trace.trace import Trace
from tiledsl.frontend.trace.trace_elementwise import tensor
from tiledsl.frontend.trace.traced import TracedTensor
from tiledsl.ir.dtypes import DType, compute_dtype
from tiledsl.ir.types import format_shape


def active() -> Trace:
    """The trace that an op writes to: its body only ever runs in one."""
    return cast("Trace", ACTIVE.get())


def as_tensor(x: Any) -> Any:
    """An argument as a tensor of the graph. Raises TileTypeError for what is none."""
    return tensor(active(), x)


def float_dtype(x: TracedTensor) -> DType:
    """The dtype of a float result for `x`: its own, or what NumPy's float functions give for integers."""
    return float_for(x.dtype)


def widened(x: TracedTensor) -> Any:
    """`x` as ops compute with it: narrow floats as f32."""
    return x.to(compute_dtype(float_for(x.dtype)))


def axis_of(name: str, x: TracedTensor, axis: Any) -> int:
    """One axis of `x`, counted from the front. Raises TileTypeError or TileShapeError if there is none."""
    if not isinstance(axis, int) or isinstance(axis, bool):
        refuse_option(name, "axis", axis, "an int", "count axes from 0, or from the end with negative numbers")
    if not -x.ndim <= axis < x.ndim:
        expected = f"a tensor with an axis {axis}"
        refuse_rank(name, x, expected, f"use an axis from {-x.ndim} to {x.ndim - 1}")
    return axis % x.ndim


def pair(name: str, parameter: str, value: Any, least: int) -> tuple[int, int]:
    """One int for both axes of an image, or one for each; none below `least`. Raises TileTypeError."""
    values = cast("Any", (value, value) if isinstance(value, int) else value)
    fits = isinstance(values, (tuple, list)) and len(cast("Any", values)) == 2
    if not fits or not all(isinstance(v, int) and v >= least for v in cast("Any", values)):
        refuse_option(
            name, parameter, value, f"an int from {least} on, or two of them", "give one for height and one for width"
        )
    first, second = cast("tuple[int, int]", values)
    return first, second


def require_float(name: str, x: TracedTensor) -> None:
    """Raises TileTypeError unless `x` holds floats."""
    if not x.dtype.is_float:
        refuse("ops-dtype", x, name=name, text=text_of(x), dtype=x.dtype, expected="floats", fix="convert it: `.to`")


def require_integers(name: str, x: TracedTensor) -> None:
    """Raises TileTypeError unless `x` holds integers."""
    if not x.dtype.is_integer:
        fix = "convert it: `.to(tile.i64)`"
        refuse("ops-dtype", x, name=name, text=text_of(x), dtype=x.dtype, expected="integers", fix=fix)


def text_of(x: TracedTensor) -> str:
    """What the user calls a tensor."""
    return active().text_of(x)


def refuse_shapes(name: str, a: TracedTensor, b: TracedTensor, reason: str, fix: str) -> NoReturn:
    """Raises TileShapeError: the two tensors do not go together."""
    refuse(
        "ops-shapes", a, b,
        name=name, a=text_of(a), b=text_of(b), first=shape_of(a), second=shape_of(b), reason=reason, fix=fix,
    )  # fmt: skip


def refuse_rank(name: str, x: TracedTensor, expected: str, fix: str) -> NoReturn:
    """Raises TileShapeError: the tensor has not the axes that the op asks for."""
    refuse("ops-rank", x, name=name, text=text_of(x), shape=shape_of(x), expected=expected, fix=fix)


def refuse_option(name: str, parameter: str, value: object, expected: str, fix: str) -> NoReturn:
    """Raises TileTypeError: an argument that is no tensor is not what it can be."""
    refuse("ops-option", name=name, parameter=parameter, value=repr(value), expected=expected, fix=fix)


def refuse(code: str, *operands: Any, **names: object) -> NoReturn:
    """Raises an error of the catalogue at the line that calls the op, and shows where its operands come from."""
    trace = active()
    trace.builder.location = trace.places.called() or trace.start
    trace.fail(code, *operands, **names)


def shape_of(x: TracedTensor) -> str:
    """A shape as messages write it."""
    return format_shape(x.type.shape)
