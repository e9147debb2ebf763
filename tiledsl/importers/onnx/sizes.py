"""Arithmetic of shapes in which sizes are left open: arrays of objects, ints and sizes, which NumPy computes with."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tiledsl.importers.onnx.model import Array


def shape_array(shape: tuple[Any, ...]) -> Array:
    """A shape as an array: of i64, or of objects if a size of it is left open."""
    if all(isinstance(size, int) for size in shape):
        return np.array(shape, np.int64)
    array = np.empty(len(shape), object)
    array[:] = shape
    return array


def settled(array: Array) -> Array:
    """An array without open sizes as one of i64."""
    if array.dtype == object and all(isinstance(size, (int, np.integer)) for size in array.ravel().tolist()):
        return array.astype(np.int64)
    return array


def _gather(data: Array, indices: Array, *, axis: int = 0) -> Array:
    return np.take(data, indices, axis=axis)


def _concat(*parts: Array, axis: int) -> Array:
    return np.concatenate([part.astype(object) for part in parts], axis=axis)


def _unsqueeze(x: Array, axes: Any) -> Array:
    return np.expand_dims(x, tuple(int(a) for a in np.ravel(axes)))


def _squeeze(x: Array, axes: Any = None) -> Array:
    return np.squeeze(x, None if axes is None else tuple(int(a) for a in np.ravel(axes)))


def _slice(x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None) -> Array:
    step = 1 if steps is None else int(steps[0])
    return x[int(starts[0]) : int(ends[0]) : step]


def _prod(x: Array, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Array:
    result = np.empty((1,) if keepdims else (), object)
    total: Any = 1
    for size in x.ravel().tolist():
        total = total * size
    result[...] = total
    return result


def _same(x: Array, *, to: int = 7, saturate: int = 1, round_mode: str = "up") -> Array:
    return x


_OF_SIZES: dict[str, Callable[..., Array]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a // b,
    "Mod": lambda a, b, *, fmod=0: a % b,
    "Neg": lambda a: -a,
    "Gather": _gather,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "ReduceProd": _prod,
    "Cast": _same,
    "Identity": lambda x: x,
    "Reshape": lambda x, shape, *, allowzero=0: np.reshape(x, tuple(int(n) for n in shape)),
}


def of_sizes(name: str) -> Callable[..., Array] | None:
    """What an operator does with sizes; None where it does not take them."""
    known = _OF_SIZES.get(name)
    return None if known is None else lambda *args, **options: settled(np.asarray(known(*args, **options)))
