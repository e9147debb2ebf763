"""Elements that are read or written by computed coordinates."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl import ops, tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.register import operator
from tiledsl.ops.masks import beside


@operator("Gather", since=1)
def gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    return ops.take(x, indices, axis)


@operator("GatherElements", since=11)
def gather_elements(x: Any, indices: Any, *, axis: int = 0) -> Any:
    return ops.gather(x, indices, axis)


@operator("GatherND", since=11)
def gather_rows(x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    return ops.gather_nd(x, indices, batch_dims)


@operator("OneHot", since=9, known=("depth",))
def one_hot(indices: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    count = int(np.ravel(depth)[0])
    return ops.one_hot(indices.to(tile.i64), count, axis, on=values[1], off=values[0], dtype=values.dtype)


@operator("ReverseSequence", since=10)
def reverse_sequence(x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    time = beside(x, time_axis)
    length = lengths.to(tile.i64).reshape(tuple(-1 if i == batch_axis else 1 for i in range(x.ndim)))
    place = tile.where(time < length, length - 1 - time, time)
    return ops.gather(x, tile.broadcast_to(place, x.shape), time_axis)


@operator("TopK", since=10, known=("k",))
def top_k(x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    return ops.top_k(x, int(np.ravel(k)[0]), axis=axis, largest=bool(largest))


@operator("CumSum", since=11, known=("axis",))
def cumsum(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    return ops.cumsum(x, int(np.ravel(axis)[0]), bool(reverse), exclusive=bool(exclusive)).to(x.dtype)


@operator("CumProd", since=26, known=("axis",))
def cumprod(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    return ops.cumprod(x, int(np.ravel(axis)[0]), bool(reverse), exclusive=bool(exclusive)).to(x.dtype)


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
            x = ops.diagonal(x, 0, first, second)
            axes = axes[:first] + axes[first + 1 : second] + axes[second + 1 :] + a
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
