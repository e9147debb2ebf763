"""Views of a buffer: where the elements of a reindexed tensor lie, as an offset and a stride for each axis.

    whole((4, 6))                     offset 0, strides (6, 1)
    transposed(.., (1, 0))            offset 0, shape (6, 4), strides (1, 6)
    sliced(.., (2, 0), (6, 4), (1, 2))   offset 2, shape (4, 2), strides (1, 12)

All counts are in elements, and all sizes are numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tiledsl.ir import graph_ops
from tiledsl.ir.core import Op
from tiledsl.ir.types import Shape

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class StridedView:
    """Element (i, j, ..) is at offset + i * strides[0] + j * strides[1] + .. of the buffer.

    Strides of axes with at most one element are what they would be in a contiguous array, so that views that differ
    only in what nothing can tell apart are equal.
    """

    offset: int
    shape: Sizes
    strides: Sizes

    @property
    def count(self) -> int:
        """How many elements it has; those that are one place in memory count each time."""
        return _volume(self.shape)

    @property
    def distinct(self) -> int:
        """At most how many places in memory it has: repeated elements, and windows that overlap, count once."""
        if self.count == 0:
            return 0
        reach = 1 + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides))
        return min(reach, _volume(n for n, stride in zip(self.shape, self.strides) if stride != 0))

    @property
    def unit(self) -> int | None:
        """The last axis of more than one element whose elements lie side by side; None if there is none."""
        found = [axis for axis, stride in enumerate(self.strides) if stride == 1 and self.shape[axis] != 1]
        return found[-1] if found else None

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie one behind the other, row by row."""
        return self.strides == row_major(self.shape) or self.count == 0


def row_major(shape: Sizes) -> Sizes:
    """The strides of a contiguous array."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(1, shape[axis + 1])
    return tuple(strides)


def strided_view(offset: int, shape: Sequence[int], strides: Sequence[int]) -> StridedView:
    """A view with the strides of short axes settled."""
    settled = list(strides)
    contiguous = 1
    empty = 0 in shape
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] <= 1 or empty:
            settled[axis] = contiguous
        contiguous = settled[axis] * max(1, shape[axis])
    return StridedView(offset, tuple(shape), tuple(settled))


def whole(shape: Sequence[int]) -> StridedView:
    """All of a row-major buffer."""
    return StridedView(0, tuple(shape), row_major(tuple(shape)))


def transposed(view: StridedView, permutation: Sequence[int]) -> StridedView:
    """Axis i of the result is axis permutation[i]."""
    return strided_view(view.offset, [view.shape[i] for i in permutation], [view.strides[i] for i in permutation])


def sliced(view: StridedView, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int]) -> StridedView:
    """Along each axis, the elements from start up to stop by positive steps."""
    shape = [max(0, -(-(stop - start) // step)) for start, stop, step in zip(starts, stops, steps)]
    offset = view.offset + sum(start * stride for start, stride in zip(starts, view.strides))
    strides = [stride * step for stride, step in zip(view.strides, steps)]
    return strided_view(offset, shape, strides)


def broadcast(view: StridedView, shape: Sequence[int]) -> StridedView:
    """Repeats along axes of size 1 and along new leading axes."""
    new = len(shape) - len(view.shape)
    strides = [0] * new
    strides += [0 if n == 1 and wanted != 1 else s for n, wanted, s in zip(view.shape, shape[new:], view.strides)]
    return strided_view(view.offset, shape, strides)


def windowed(view: StridedView, op: graph_ops.Window) -> StridedView:
    """Every window over some axes: their positions in the places of the axes, and the windows' own axes at the end."""
    shape, strides, inner, offset = list(view.shape), list(view.strides), list[int](), view.offset
    sizes = numbers(op.sizes)
    for axis, size, step, dilation in zip(op.axes, sizes, op.strides, op.dilations):
        shape[axis] = -(-(shape[axis] - (size - 1) * abs(dilation)) // step)
        offset -= min(dilation, 0) * (size - 1) * strides[axis]
        inner.append(strides[axis] * dilation)
        strides[axis] *= step
    return strided_view(offset, (*shape, *sizes), (*strides, *inner))


def reshaped(view: StridedView, shape: Sequence[int]) -> StridedView | None:
    """The same elements in row-major order under another shape; None where strides cannot tell it.

    Runs of axes, old and new, that have equally many elements go together: a run of old axes that lie behind each other
    can be divided anew in any way.
    """
    if view.count == 0:
        return strided_view(view.offset, shape, row_major(tuple(shape)))
    old = [(n, stride) for n, stride in zip(view.shape, view.strides) if n != 1]
    strides = [0] * len(shape)
    axis = 0
    while old or axis < len(shape):
        if axis < len(shape) and shape[axis] == 1:
            axis += 1
            continue
        length, stride = old.pop(0)
        first, wanted = axis, shape[axis]
        axis += 1
        while length != wanted:
            if length < wanted:
                more, inner = old.pop(0)
                if stride != inner * more:
                    return None
                length, stride = length * more, inner
            else:
                wanted *= shape[axis]
                axis += 1
        for new in range(axis - 1, first - 1, -1):
            strides[new] = stride
            stride *= shape[new]
    return strided_view(view.offset, shape, strides)


def simplest(view: StridedView) -> StridedView:
    """The same elements in the same order with as few axes as can be: short ones left out, neighbours merged."""
    merged: list[tuple[int, int]] = []
    for n, stride in zip(view.shape, view.strides):
        if n == 1:
            continue
        if merged and merged[-1][1] == n * stride:
            merged[-1] = (merged[-1][0] * n, stride)
        else:
            merged.append((n, stride))
    merged = merged or [(1, 1)]
    return strided_view(view.offset, [n for n, _ in merged], [stride for _, stride in merged])


VIEWS = (graph_ops.Transpose, graph_ops.Reshape, graph_ops.Slice, graph_ops.Broadcast, graph_ops.Window)
"""The ops whose result is a view of its source, at least where strides can tell it."""


def view_of(op: Op, source: StridedView) -> StridedView | None:
    """The view that a reindexing op makes of another; None where strides cannot tell it, and for other ops."""
    match op:
        case graph_ops.Transpose():
            return transposed(source, op.permutation)
        case graph_ops.Reshape():
            return reshaped(source, numbers(op.shape))
        case graph_ops.Slice():
            return sliced(source, numbers(op.starts), numbers(op.stops), op.steps)
        case graph_ops.Broadcast():
            return broadcast(source, numbers(op.shape))
        case graph_ops.Window():
            return windowed(source, op)
        case _:
            return None


def numbers(shape: Shape) -> Sizes:
    """A shape whose sizes are known."""
    sizes: list[int] = []
    for dim in shape:
        assert isinstance(dim, int), f"the size {dim} is no number"
        sizes.append(dim)
    return tuple(sizes)


def _volume(lengths: Iterable[int]) -> int:
    volume = 1
    for n in lengths:
        volume *= n
    return volume
