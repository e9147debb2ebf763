"""Which function a formula is, by what it gives: spellings of one function are many, and rewrites make more."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, f32
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.library.library_product import NoLibraryCallError


def _fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _sigmoid2(x: Any) -> Any:
    return 1 / (1 + np.exp2(-x))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.abs,
    "maximum": np.maximum, "minimum": np.minimum, "fma": _fma, "exp": np.exp, "exp2": np.exp2, "tanh": np.tanh,
    "sigmoid": _sigmoid, "sigmoid2": _sigmoid2, "pow": np.power, "where": np.where, "gt": np.greater,
    "ge": np.greater_equal, "lt": np.less, "le": np.less_equal,
}  # fmt: skip
_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
}
NEAR = 2e-6
"""By how much, of a value or of 1, a spelling may differ: the exact gelu is 4.7e-4 away from that by tanh."""


def samples(result: Value) -> tuple[Any, Any]:
    """Sums and biases to try a formula on: every pair of some numbers of all magnitudes, among them those around the
    constants of the formula, where it may begin to be another function."""
    large = np.concatenate([np.geomspace(1e-6, 1e30, 37), np.abs(_constants(result)) + 1e-30])
    near = np.concatenate([large * (1 - 1e-3), large, large * (1 + 1e-3)])
    sums = np.concatenate([np.linspace(-6, 6, 193), [-300.0, -20.0, 20.0, 300.0], near, -near])
    biases = np.array([-2.5, -0.375, 0.0, 0.75, 3.0])
    return np.repeat(sums, len(biases)), np.tile(biases, len(sums))


def activation_of(result: Value, known: Mapping[Value, Any], total: Any) -> str:
    """Which activation of `total` a value is. `known`: what values come to on the samples. Raises
    NoLibraryCallError."""
    with np.errstate(all="ignore"):
        found = _evaluated(result, dict(known), tensor_type(result).dtype)
        for name, function in _ACTIVATIONS.items():
            wanted = function(total)
            if np.all(np.abs(found - wanted) <= NEAR * np.maximum(1, np.abs(wanted))):
                return name
    raise NoLibraryCallError("what it does to sums is no activation that a library has")


def _evaluated(value: Value, known: dict[Value, Any], dtype: DType) -> Any:
    """`dtype`: of the result. Conversions to it, and to f32, are left out: what a library does not round in between is
    nearer. Others round on purpose."""
    if value not in known:
        op = value.op
        if isinstance(op, ops.Constant) and not isinstance(op.value, str):
            known[value] = np.float64(op.value)
        elif isinstance(op, (ops.Cast, ops.Broadcast, ops.Reshape)) and _is_float(op.source) and _is_float(value):
            if isinstance(op, ops.Reshape) and sizes_of(op.source)[-1:] != sizes_of(value)[-1:]:
                raise NoLibraryCallError("something is laid out anew")
            if isinstance(op, ops.Cast) and tensor_type(value).dtype not in (dtype, f32):
                raise NoLibraryCallError(f"it rounds to {tensor_type(value).dtype}")
            known[value] = _evaluated(op.source, known, dtype)
        elif isinstance(op, ops.Map) and op.fn in _FUNCTIONS:
            known[value] = _FUNCTIONS[op.fn](*(_evaluated(one, known, dtype) for one in op.inputs))
        else:
            what = "a parameter" if op is None else f"`{op.name}`"
            raise NoLibraryCallError(f"beside its product it has {what}")
    return known[value]


def _constants(result: Value) -> list[float]:
    """The numbers that a formula has."""
    found: list[float] = []
    seen: set[Value] = set()
    waiting = [result]
    while waiting:
        value = waiting.pop()
        if value in seen or value.op is None:
            continue
        seen.add(value)
        if isinstance(value.op, ops.Constant) and not isinstance(value.op.value, str):
            found.append(float(value.op.value))
        waiting += value.op.operands
    return [number for number in found if math.isfinite(number)]


def _is_float(value: Value) -> bool:
    return tensor_type(value).dtype.is_float
