"""Reductions of whole tensors, and what is made of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from tiledsl.frontend import language_math as language
from tiledsl.frontend import language_program
from tiledsl.frontend.promotion import sum_dtype
from tiledsl.frontend.sizes import element_count
from tiledsl.frontend.trace import Trace, describe, records
from tiledsl.frontend.trace_elementwise import apply, in_compute_dtype, tensor, truth
from tiledsl.frontend.trace_shapes import reshaped, to_axes, to_axis
from tiledsl.frontend.traced import TracedTensor, size_value
from tiledsl.ir.dtypes import bool_, f64
from tiledsl.ir.graph_ops import Random, Reduce, Scan
from tiledsl.ir.types import format_shape

FOLDS: dict[Callable[..., Any], str] = {
    language.sum: "add", language.prod: "mul", language.max: "max", language.min: "min", language.any: "or",
    language.all: "and",
}  # fmt: skip


def _folding(stub: Callable[..., Any], trace: Trace, x: Any, axis: Any = None, keepdims: bool = False) -> TracedTensor:
    fn = FOLDS[stub]
    source = truth(trace, x) if fn in ("or", "and") else tensor(trace, x)
    if fn in ("add", "mul"):
        source = trace.tensor(trace.cast(source.value, sum_dtype(source.dtype)), source.weak)
    axes = to_axes(trace, f"tile.{stub.__name__}", axis, source.ndim)
    return fold(trace, fn, source, axes, keepdims)


for _stub in FOLDS:
    records(_stub)(partial(_folding, _stub))


def fold(trace: Trace, fn: str, source: TracedTensor, axes: tuple[int, ...], keepdims: bool) -> TracedTensor:
    """Folds some axes; without any axes it is the tensor itself."""
    if not axes:
        return source
    if source.dtype == bool_:
        fn = {"max": "or", "min": "and"}.get(fn, fn)
    value = trace.emit(Reduce, source=source.value, axes=axes, fn=fn, keepdims=bool(keepdims))
    return trace.tensor(value, source.weak)


def _extremum_index(fn: str, trace: Trace, x: Any, axis: Any = None, keepdims: bool = False) -> TracedTensor:
    source = tensor(trace, x)
    if axis is not None:
        at = to_axis(trace, f"tile.{fn}", axis, source.ndim)
        return trace.tensor(trace.emit(Reduce, source=source.value, axes=(at,), fn=fn, keepdims=bool(keepdims)))
    flat = reshaped(trace, source.value, (element_count(source.type.shape),))
    index = trace.emit(Reduce, source=flat, axes=(0,), fn=fn)
    return trace.tensor(reshaped(trace, index, (1,) * source.ndim) if keepdims else index)


for _stub in (language.argmax, language.argmin):
    records(_stub)(partial(_extremum_index, _stub.__name__))


COMBINERS: dict[object, str] = {
    language.maximum: "max", language.minimum: "min", language.sum: "add", language.prod: "mul", operator.add: "add",
    operator.mul: "mul", max: "max", min: "min",
}  # fmt: skip
"""Functions that `tile.reduce` and `tile.scan` know of whole tensors."""


def _combiner(trace: Trace, name: str, x: Any, fn: Any) -> tuple[TracedTensor, str]:
    known = COMBINERS.get(fn) if isinstance(fn, Hashable) else None
    if known is None or isinstance(x, (tuple, list)):
        trace.fail("graph-combiner", name=name)
    return tensor(trace, x), known


@records(language.reduce)
def reduce(trace: Trace, x: Any, axis: Any, fn: Any, keepdims: bool = False) -> TracedTensor:
    source, known = _combiner(trace, "tile.reduce", x, fn)
    return fold(trace, known, source, (to_axis(trace, "tile.reduce", axis, source.ndim),), keepdims)


@records(language.scan)
def scan(trace: Trace, x: Any, axis: Any, fn: Any, reverse: bool = False) -> TracedTensor:
    source, known = _combiner(trace, "tile.scan", x, fn)
    at = to_axis(trace, "tile.scan", axis, source.ndim)
    return trace.tensor(trace.emit(Scan, source=source.value, axis=at, fn=known, reverse=bool(reverse)))


@records(language.cumsum)
def cumsum(trace: Trace, x: Any, axis: Any = None, reverse: bool = False) -> TracedTensor:
    source = tensor(trace, x)
    if axis is None and source.ndim != 1:
        trace.fail("axis-needed", source, name="tile.cumsum", shape=format_shape(source.type.shape))
    at = 0 if axis is None else to_axis(trace, "tile.cumsum", axis, source.ndim)
    value = trace.cast(source.value, sum_dtype(source.dtype))
    return trace.tensor(trace.emit(Scan, source=value, axis=at, fn="add", reverse=bool(reverse)))


def _random(fn: str, trace: Trace, seed: Any, offsets: Any) -> TracedTensor:
    values = [tensor(trace, value) for value in (seed, offsets)]
    for value, parameter in zip(values, ("seed", "offsets")):
        if not value.dtype.is_integer or (parameter == "seed" and value.ndim):
            expected = "an integer scalar" if parameter == "seed" else "integers"
            trace.fail(
                "argument-kind", value, name="tile.rand", parameter=parameter, expected=expected,
                text=trace.text_of(value), what=describe(value),
            )  # fmt: skip
    return trace.tensor(trace.emit(Random, seed=values[0].value, offsets=values[1].value, fn=fn))


records(language_program.rand)(partial(_random, "uniform"))
records(language_program.randn)(partial(_random, "normal"))


@records(language.mean)
def mean(trace: Trace, x: Any, axis: Any = None, keepdims: bool = False) -> TracedTensor:
    source = tensor(trace, x)
    if not source.dtype.is_float:
        source = trace.tensor(trace.cast(source.value, f64))
    axes = to_axes(trace, "tile.mean", axis, source.ndim)
    count = size_value(element_count(tuple(source.type.shape[i] for i in axes)), trace)

    def formula(x: TracedTensor) -> Any:
        return apply(trace, "div", fold(trace, "add", x, axes, keepdims), count)

    return in_compute_dtype(trace, source, formula)


@records(language.softmax)
def softmax(trace: Trace, x: Any, axis: Any = -1) -> TracedTensor:
    source = tensor(trace, x)
    axes = (to_axis(trace, "tile.softmax", axis, source.ndim),)

    def formula(x: TracedTensor) -> Any:
        largest = fold(trace, "max", x, axes, keepdims=True)
        exponential = apply(trace, "exp", apply(trace, "sub", x, largest))
        return apply(trace, "div", exponential, fold(trace, "add", exponential, axes, keepdims=True))

    return in_compute_dtype(trace, source, formula)
