"""Elements that are read or written by computed coordinates."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiledsl import ops, tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.register import operator


def wrapped(indices: Any, size: Any) -> Any:
    """Coordinates that count from the end where they are negative."""
    wide = indices.to(tile.i64)
    return tile.where(wide < 0, wide + size, wide)


def coordinate(axis: int, shape: Any) -> Any:
    """The coordinate along an axis, to broadcast to a shape."""
    return tile.arange(shape[axis]).reshape(tuple(-1 if i == axis else 1 for i in range(len(shape))))


def element_places(axis: int, indices: Any, shape: Any) -> Any:
    """Where in the flat tensor of `shape` the elements are that `indices` names along an axis."""
    place: Any = 0
    for i, size in enumerate(shape):
        at = wrapped(indices, size) if i == axis else coordinate(i, indices.shape)
        place = place * size + at
    return tile.broadcast_to(place, indices.shape)


def row_places(indices: Any, sizes: Any) -> Any:
    """Where the rows are that the last axis of `indices` names by a coordinate for each of the sizes."""
    place: Any = 0
    for i, size in enumerate(sizes):
        place = place * size + wrapped(indices[..., i], size)
    return place


@operator("Gather", since=1)
def gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    return tile.take(x, wrapped(indices, x.shape[axis]), axis=axis)


@operator("GatherElements", since=11)
def gather_elements(x: Any, indices: Any, *, axis: int = 0) -> Any:
    return tile.take(x.reshape((-1,)), element_places(axis % x.ndim, indices, x.shape), axis=0)


@operator("GatherND", since=11)
def gather_rows(x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    depth = indices.shape[-1]
    batch, named = x.shape[:batch_dims], x.shape[batch_dims : batch_dims + depth]
    rest = x.shape[batch_dims + depth :]
    place = row_places(indices, named)
    outer: Any = 0
    for i, size in enumerate(batch):
        outer = outer * size + coordinate(i, place.shape)
    if batch_dims:
        place = outer * math.prod(named) + place
    return tile.take(x.reshape((math.prod(batch) * math.prod(named), *rest)), place, axis=0)


@operator("OneHot", since=9, known=("depth",))
def one_hot(indices: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    count = int(np.ravel(depth)[0])
    at = axis % (indices.ndim + 1)
    wide = indices.to(tile.i64)
    place = tile.where(wide < 0, wide + count, wide)
    place = place.reshape((*indices.shape[:at], 1, *indices.shape[at:]))
    return tile.where(place == coordinate(at, (*indices.shape[:at], count, *indices.shape[at:])), values[1], values[0])


@operator("ReverseSequence", since=10)
def reverse_sequence(x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    time = coordinate(time_axis, x.shape)
    length = lengths.to(tile.i64).reshape(tuple(-1 if i == batch_axis else 1 for i in range(x.ndim)))
    place = tile.broadcast_to(tile.where(time < length, length - 1 - time, time), x.shape)
    return tile.take(x.reshape((-1,)), element_places(time_axis, place, x.shape), axis=0)


@operator("TopK", since=10, known=("k",))
def top_k(x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    return ops.top_k(x, int(np.ravel(k)[0]), axis=axis, largest=bool(largest))


@operator("CumSum", since=11, known=("axis",))
def cumsum(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    return _running(x, int(np.ravel(axis)[0]), exclusive, reverse, tile.sum, 0)


@operator("CumProd", since=26, known=("axis",))
def cumprod(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    return _running(x, int(np.ravel(axis)[0]), exclusive, reverse, tile.prod, 1)


def _running(x: Any, axis: int, exclusive: int, reverse: int, fold: Any, start: int) -> Any:
    """A running fold; without the element itself if it is `exclusive`."""
    at = axis % x.ndim
    result = tile.scan(x, at, fold, reverse=bool(reverse))
    if not exclusive:
        return result
    widths = [(0, 0)] * x.ndim
    widths[at] = (0, 1) if reverse else (1, 0)
    size = x.shape[at]
    kept = slice(1, None) if reverse else slice(0, size)
    return tile.pad(result, tuple(widths), start)[(slice(None),) * at + (kept,)]


@operator("Einsum", since=12)
def einsum(*operands: Any, equation: str, node: Call) -> Any:
    """One product after the other, summed at once over what nothing later needs."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    names = inputs.split(",")
    if "..." in equation:
        names, output = _without_dots(names, output, [x.ndim for x in operands], bool(arrow))
    if not arrow:
        letters = "".join(names)
        output += "".join(sorted(a for a in set(letters) if letters.count(a) == 1 and a.islower() | a.isupper()))
    parts = [_diagonals(x, axes) for x, axes in zip(operands, names)]
    x, axes = parts[0]
    if len(parts) == 1:
        x, axes = _summed(x, axes, output)
    for i, (other, more) in enumerate(parts[1:], start=2):
        later = output + "".join(more_axes for _, more_axes in parts[i:])
        kept = [a for a in dict.fromkeys(axes + more) if a in later]
        x, axes = _product(_summed(x, axes, later + more), _summed(other, more, later + axes), "".join(kept))
    if sorted(axes) != sorted(output):
        node.refuse("equation", equation, "one whose result has axes of its operands")
    return x.transpose(tuple(axes.index(a) for a in output)) if axes != output else x


def _without_dots(names: list[str], output: str, ranks: list[int], arrow: bool) -> tuple[list[str], str]:
    """Axes that `...` stands for by capital letters that nothing else uses, aligned at the end."""
    used = set("".join(names) + output)
    free = [chr(c) for c in range(ord("A"), ord("Z") + 1) if chr(c) not in used]
    counts = [rank - len(axes.replace("...", "")) if "..." in axes else 0 for axes, rank in zip(names, ranks)]
    most = max(counts)
    letters = "".join(free[:most])
    spelled = [axes.replace("...", letters[most - count :]) for axes, count in zip(names, counts)]
    return spelled, output.replace("...", letters) if arrow else letters


def _diagonals(x: Any, axes: str) -> tuple[Any, str]:
    """An operand without repeated axes: what lies on their diagonal."""
    for a in dict.fromkeys(axes):
        while axes.count(a) > 1:
            first, second = axes.index(a), axes.rindex(a)
            same = coordinate(first, x.shape) == coordinate(second, x.shape)
            x = tile.sum(tile.where(same, x, tile.zeros((), x.dtype)), axis=second).to(x.dtype)
            axes = axes[:second] + axes[second + 1 :]
    return x, axes


def _summed(x: Any, axes: str, needed: str) -> tuple[Any, str]:
    gone = tuple(i for i, a in enumerate(axes) if a not in needed)
    return (tile.sum(x, axis=gone).to(x.dtype) if gone else x), "".join(a for a in axes if a in needed)


def _product(left: tuple[Any, str], right: tuple[Any, str], kept: str) -> tuple[Any, str]:
    (a, first), (b, second) = left, right
    sizes = {**dict(zip(first, a.shape)), **{n: s for n, s in zip(second, b.shape) if s != 1}}
    a, b = (
        tile.broadcast_to(x, tuple(sizes[n] for n in names)) if tuple(x.shape) != tuple(sizes[n] for n in names) else x
        for x, names in ((a, first), (b, second))
    )
    if first and second:
        return tile.einsum(f"{' '.join(first)} , {' '.join(second)} -> {' '.join(kept)}", a, b).to(a.dtype), kept
    return a * b, first + second
