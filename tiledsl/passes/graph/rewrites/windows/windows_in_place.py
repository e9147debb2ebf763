"""Products that read windows where they are, as a view of the image: of a copy of it if it is padded.

    %y = contract(window(pad(%x)), %w)             "n p q c r s, k r s c -> n p q k"
 =>
    %l = graph.call(%x)                            [n, h + 2, w + 2, c]: the padded image, channels side by side
    %v = reshape(transpose(window(%l)))            [n, p, q, r, sc]: a view in which windows overlap
    %y = contract(%v, reshape(%w))                 "n p q r s, k r s -> n p q k"

A row of a window lies side by side in the image, so it is one axis, and a product is packed from it as from the rows of
a matrix. A copy of the windows would be as many times larger than the image as they overlap.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Op, Value
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import TensorType
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import can_reshape, view_of_value
from tiledsl.passes.graph.rewrites.placed_copies import Place, placed_copies

LEAST_RUN = 3
"""Of the elements that are summed and lie side by side: with fewer of them a product is of too little depth."""
LEAST_CHANNELS = 16
"""So many are worth an image in which they lie side by side."""

Names = tuple[str, ...]


@dataclass
class InPlace:
    """Rewrites products of one entry. `taken`: the names of functions; `functions`: those that are made."""

    taken: set[str]
    functions: list[Function]

    def rewrite(self, op: ops.Contract, number: int) -> bool:
        """Lets a product read the windows that are its operand `number` in place; False if that does not pay."""
        mine, other, result = map(tuple, (op.axis_names()[number], op.axis_names()[1 - number], op.axis_names()[2]))
        windows, weights = (op.a, op.b)[number], (op.a, op.b)[1 - number]
        assert isinstance(windows.op, ops.Window)
        image = windows.op.source.op.source if isinstance(windows.op.source.op, ops.Pad) else windows.op.source
        rank = len(sizes_of(image))
        summed = [name for name in (*mine[rank:], *mine[:rank]) if name in other and name not in result]
        if not set(mine[rank:]) <= set(summed) or any(mine[axis] in summed for axis in windows.op.axes):
            return False
        order = _image_order(windows.op, image, mine[:rank], summed)
        if order is None or view_of_value(weights) is None:
            return False
        free = [name for name in order if name not in summed]
        wanted = (*(name for name in other if name not in summed), *summed)
        sizes = dict(zip((*mine, *other), (*sizes_of(windows), *sizes_of(weights))))
        if _run(windows.op, order, mine, summed, sizes) < LEAST_RUN:
            return False
        turned = self._windows(op, windows.op, image, mine[:rank], order)
        turned = _in_order(op, turned, (*order, *mine[rank:]), (*free, *summed))
        weights = self._weights(op, weights, other, wanted, summed)
        operands, names = _merged(op, [turned, weights], [(*free, *summed), wanted], summed)
        pair = (0, 1) if number == 0 else (1, 0)
        axes = ", ".join(" ".join(names[at]) for at in pair) + f" -> {' '.join(result)}"
        product = _insert(op, ops.Contract(
            op.location, a=operands[pair[0]], b=operands[pair[1]], axes=axes, dtype=op.dtype, precision=op.precision,
            result_names=[op.result.name],
        ))  # fmt: skip
        op.result.replace_with(product)
        op.erase()
        return True

    def lay_weights(self, op: ops.Contract, number: int) -> bool:
        """Lets a product that only adds up elements of windows, each times a weight, read a copy of the weights in
        which those of neighbours in the image lie side by side; False if they do, or have none."""
        mine, other, result = map(tuple, (op.axis_names()[number], op.axis_names()[1 - number], op.axis_names()[2]))
        windows, weights = (op.a, op.b)[number], (op.a, op.b)[1 - number]
        assert isinstance(windows.op, ops.Window)
        image = windows.op.source.op.source if isinstance(windows.op.source.op, ops.Pad) else windows.op.source
        order, view = _memory_order(image), view_of_value(weights)
        columns = [size for name, size in zip(other, sizes_of(weights)) if name not in mine]
        wide = [axis for axis in order or () if sizes_of(image)[axis] != 1]
        if not wide or view is None or math.prod(columns) != 1:
            return False
        near = mine[wide[-1]]
        if near not in other or near not in result or view.place.unit in (None, other.index(near)):
            return False
        wanted = (*(name for name in other if name != near), near)
        turned = _in_order(op, weights, other, wanted)
        copy = self._copy(op, turned, "weights", (0,) * len(wanted), sizes_of(turned), None)
        back = _in_order(op, copy, wanted, other)
        op.set_field("a" if number else "b", back)
        return True

    def _windows(self, op: Op, windows: ops.Window, image: Value, names: Names, order: Names) -> Value:
        """The windows of the image with its axes in that order, in which it is copied unless it lies so."""
        low, high = _padding(windows)
        sizes = sizes_of(image)
        turned = _in_order(op, image, names, order)
        places = [names.index(name) for name in order]
        if any((*low, *high)) or _memory_order(image) != places:
            padded = tuple(sizes[at] + low[at] + high[at] for at in places)
            pad = windows.source.op
            fill = pad.value if isinstance(pad, ops.Pad) and any((*low, *high)) else None
            turned = self._copy(op, turned, "image", tuple(low[at] for at in places), padded, fill)
        return _insert(op, ops.Window(
            op.location, source=turned, axes=tuple(places.index(axis) for axis in windows.axes), sizes=windows.sizes,
            strides=windows.strides, dilations=windows.dilations,
        ))  # fmt: skip

    def _weights(self, op: Op, weights: Value, names: Names, wanted: Names, summed: Sequence[str]) -> Value:
        """The weights with what is summed last: copied if nothing of it, nor of their columns, lies side by side so."""
        turned = _in_order(op, weights, names, wanted)
        view = view_of_value(turned)
        if view is None or view.place.unit is None or wanted[view.place.unit] in summed[:-1]:
            shape = sizes_of(turned)
            turned = self._copy(op, turned, "weights", (0,) * len(shape), shape, None)
        return turned

    def _copy(
        self, op: Op, value: Value, kind: str, start: tuple[int, ...], shape: tuple[int, ...], fill: float | None
    ) -> Value:
        """The result of a function that copies a value to where it starts in a tensor of that shape."""
        name = f"{kind}_{len(self.taken)}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        dtype = tensor_type(value).dtype
        sizes, starts, whole = _long_runs(value, start, shape)
        source = _reshaped(op, value, sizes)
        place = Place.of(view_of_value(source), sizes, starts)
        self.functions.append(placed_copies(name, dtype, [place], whole, fill, op.location))
        types = [TensorType(dtype, whole)]
        call = ops.Call(op.location, inputs=[source], callee=name, types=types, result_names=[kind])
        return _reshaped(op, _insert(op, call), shape)


def _long_runs(
    value: Value, start: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:  # fmt: skip
    """What is copied, to where it starts in which shape, with the last axes that lie behind each other in both as one:
    a row of pixels at once."""
    sizes, view = sizes_of(value), view_of_value(value)
    while len(sizes) > 1 and sizes[-1] == shape[-1] and view is not None:
        joined = (*sizes[:-2], sizes[-2] * sizes[-1])
        if not can_reshape(view.place, joined):
            break
        sizes, last = joined, shape[-1]
        start, shape = (*start[:-2], start[-2] * last), (*shape[:-2], shape[-2] * last)
    return sizes, start, shape


def _reshaped(op: Op, value: Value, shape: tuple[int, ...]) -> Value:
    if sizes_of(value) == shape:
        return value
    return _insert(op, ops.Reshape(op.location, source=value, shape=shape))


def _padding(windows: ops.Window) -> tuple[tuple[int, ...], tuple[int, ...]]:
    pad = windows.source.op
    if not isinstance(pad, ops.Pad):
        zeros = (0,) * len(sizes_of(windows.source))
        return zeros, zeros
    low, high = (tuple(n for n in widths if isinstance(n, int)) for widths in (pad.low, pad.high))
    return low, high


def _memory_order(image: Value) -> list[int] | None:
    """Its axes as they lie in memory, the last one side by side; None for what is no view of memory."""
    view = view_of_value(image)
    if view is None:
        return None
    return sorted(range(len(view.place.shape)), key=lambda axis: (-view.place.strides[axis], axis))


def _image_order(windows: ops.Window, image: Value, names: Names, summed: Sequence[str]) -> Names | None:
    """The axes of the image as the windows are to have them: as they lie in memory, but many channels last; None if
    that is no view of memory."""
    order = _memory_order(image)
    if order is None:
        return None
    inside = [names[axis] for axis in order]
    channels = [name for name in inside if name in summed and names.index(name) not in windows.axes]
    if math.prod(sizes_of(image)[names.index(name)] for name in channels) < LEAST_CHANNELS:
        return tuple(inside)
    return (*(name for name in inside if name not in channels), *channels)


def _run(
    windows: ops.Window, order: Names, mine: Names, summed: Sequence[str], sizes: Mapping[str, int]
) -> int:  # fmt: skip
    """How many elements that are summed lie side by side in the image, and follow each other in `summed`."""
    channels, rank = [name for name in order if name in summed], len(order)
    if not channels or tuple(order[-len(channels) :]) != tuple(channels):
        return 0
    run = math.prod(sizes[name] for name in channels)
    last = windows.axes[-1] if windows.axes else None
    follows = len(order) > len(channels) and last == mine.index(order[-len(channels) - 1])
    return run * sizes[mine[rank + len(windows.axes) - 1]] if follows and windows.dilations[-1] == 1 else run


def _merged(
    op: Op, operands: Sequence[Value], names: Sequence[Sequence[str]], summed: Sequence[str]
) -> tuple[list[Value], list[list[str]]]:
    """Both operands with axes that are summed made one wherever they lie behind each other in both."""
    values, named = list(operands), [list(some) for some in names]
    for first, second in reversed(list(itertools.pairwise(summed))):
        views = [view_of_value(value) for value in values]
        shapes = [_joined(value, some.index(first)) for value, some in zip(values, named)]
        if all(view is not None and can_reshape(view.place, shape) for view, shape in zip(views, shapes)):
            values = [_insert(op, ops.Reshape(op.location, source=v, shape=s)) for v, s in zip(values, shapes)]
            named = [[name for name in some if name != second] for some in named]
    return values, named


def _joined(value: Value, at: int) -> tuple[int, ...]:
    sizes = sizes_of(value)
    return (*sizes[:at], sizes[at] * sizes[at + 1], *sizes[at + 2 :])


def _in_order(op: Op, value: Value, names: Names, wanted: Names) -> Value:
    if names == wanted:
        return value
    permutation = tuple(names.index(name) for name in wanted)
    return _insert(op, ops.Transpose(op.location, source=value, permutation=permutation))


def _insert(before: Op, op: Op) -> Value:
    assert before.parent is not None
    before.parent.insert_before(before, op)
    return op.results[0]
