"""Reductions of whole tensors, and what is made of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from tiledsl.frontend.language import composites
from tiledsl.frontend.language import math as language
from tiledsl.frontend.language import program as language_program
from tiledsl.frontend.language.composites import FOLD_WORDS, INDEX_WORDS
from tiledsl.frontend.trace.trace import Trace, describe, records
from tiledsl.frontend.trace.trace_elementwise import TensorSteps, tensor
from tiledsl.frontend.trace.trace_shapes import to_axes, to_axis
from tiledsl.frontend.trace.traced import TracedTensor
from tiledsl.ir.graph_ops import Random, Scan
from tiledsl.ir.types import format_shape


def _folding(stub: Callable[..., Any], trace: Trace, x: Any, axis: Any = None, keepdims: bool = False) -> TracedTensor:
    source = tensor(trace, x)
    axes = to_axes(trace, f"tile.{stub.__name__}", axis, source.ndim)
    return FOLD_WORDS[stub](TensorSteps(trace), source, axes, keepdims)


def _index(stub: Callable[..., Any], trace: Trace, x: Any, axis: Any = None, keepdims: bool = False) -> TracedTensor:
    source = tensor(trace, x)
    at = None if axis is None else to_axis(trace, f"tile.{stub.__name__}", axis, source.ndim)
    return INDEX_WORDS[stub](TensorSteps(trace), source, at, keepdims)


for _stub in FOLD_WORDS:
    records(_stub)(partial(_folding, _stub))
for _stub in INDEX_WORDS:
    records(_stub)(partial(_index, _stub))


@records(language.softmax)
def softmax(trace: Trace, x: Any, axis: Any = -1) -> TracedTensor:
    source = tensor(trace, x)
    return composites.softmax(TensorSteps(trace), source, to_axis(trace, "tile.softmax", axis, source.ndim))


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
    axes = (to_axis(trace, "tile.reduce", axis, source.ndim),)
    return composites.fold(TensorSteps(trace), known, source, axes, keepdims)


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
    wide = composites.summed(TensorSteps(trace), source)
    return trace.tensor(trace.emit(Scan, source=wide.value, axis=at, fn="add", reverse=bool(reverse)))


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
