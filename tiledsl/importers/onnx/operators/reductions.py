"""Folds of axes, and where extrema are."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.onnx.operators.floats import in_floats, narrowed
from tiledsl.importers.onnx.operators.shapes import ints
from tiledsl.importers.onnx.register import operator
from tiledsl.ops.masks import beside


def _sum(x: Any, axes: Any) -> Any:
    return tile.sum(x, axis=axes, keepdims=True)


def _floats(fold: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, axes: in_floats(lambda x: fold(x, axes), x.to(tile.f64) if x.dtype.is_integer else x).to(x.dtype)


def _narrow(fold: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, axes: narrowed(lambda x: fold(x, axes), x).to(x.dtype)


_FOLDS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "ReduceSum": (_narrow(_sum), 13),
    "ReduceMean": (_narrow(lambda x, axes: tile.mean(x, axis=axes, keepdims=True)), 18),
    "ReduceProd": (_narrow(lambda x, axes: tile.prod(x, axis=axes, keepdims=True)), 18),
    "ReduceMax": (lambda x, axes: tile.max(x, axis=axes, keepdims=True), 18),
    "ReduceMin": (lambda x, axes: tile.min(x, axis=axes, keepdims=True), 18),
    "ReduceL1": (_narrow(lambda x, axes: _sum(tile.abs(x), axes)), 18),
    "ReduceL2": (_floats(lambda x, axes: tile.sqrt(_sum(x * x, axes))), 18),
    "ReduceSumSquare": (_narrow(lambda x, axes: _sum(x * x, axes)), 18),
    "ReduceLogSum": (_floats(lambda x, axes: tile.log(_sum(x, axes))), 18),
    "ReduceLogSumExp": (_floats(lambda x, axes: ops.logsumexp(x, axes, True)), 18),
}
"""What folds some axes and keeps them, and the opset from which axes are an input."""


def _folded(name: str, x: Any, axes: list[int] | None, keepdims: int, noop: int) -> Any:
    if not axes:
        if noop:
            axes = []
        else:
            axes = list(range(x.ndim))
    if not axes and x.ndim:
        fold, _ = _FOLDS[name]
        return fold(x[..., None], (x.ndim,))[..., 0]  # each element alone, as its root, square or logarithm
    if not x.ndim:
        fold, _ = _FOLDS[name]
        return fold(x.reshape((1,)), (0,)).reshape(())
    fold, _ = _FOLDS[name]
    dropped = {axis % x.ndim for axis in axes}
    result = fold(x, tuple(sorted(dropped)))
    if keepdims:
        return result
    return result.reshape(tuple(n for i, n in enumerate(result.shape) if i not in dropped))


def _register(name: str, since_input: int) -> None:
    @operator(name, since=1)
    def by_attribute(x: Any, *, axes: Any = None, keepdims: int = 1) -> Any:
        return _folded(name, x, None if axes is None else list(axes), keepdims, 0)

    @operator(name, since=since_input, known=("axes",))
    def by_input(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        return _folded(name, x, None if axes is None else ints(axes), keepdims, noop_with_empty_axes)

    del by_attribute, by_input


for _name, (_, _since) in _FOLDS.items():
    _register(_name, _since)


@operator("ArgMax", since=1)
def argmax(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    return ops.argmax(x, axis, bool(keepdims), last=bool(select_last_index))


@operator("ArgMin", since=1)
def argmin(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    return ops.argmin(x, axis, bool(keepdims), last=bool(select_last_index))


@operator("Softmax", since=13)
def softmax(x: Any, *, axis: int = -1) -> Any:
    return ops.softmax(x, axis=axis)


@operator("LogSoftmax", since=13)
def log_softmax(x: Any, *, axis: int = -1) -> Any:
    return ops.log_softmax(x, axis=axis)


@operator("Hardmax", since=13)
def hardmax(x: Any, *, axis: int = -1) -> Any:
    return (beside(x, axis) == tile.argmax(x, axis=axis, keepdims=True)).to(x.dtype)


def _as_matrix(name: str, fold: Callable[..., Any]) -> None:
    """Before opset 13 all axes from `axis` on are one."""

    @operator(name, since=1)
    def flattened(x: Any, *, axis: int = 1) -> Any:
        at = axis % x.ndim
        rows = 1
        for size in x.shape[:at]:
            rows = rows * size
        return fold(x.reshape((rows, -1)), axis=-1).reshape(x.shape)

    del flattened


for _name, _fold in (("Softmax", softmax), ("LogSoftmax", log_softmax), ("Hardmax", hardmax)):
    _as_matrix(_name, _fold)
