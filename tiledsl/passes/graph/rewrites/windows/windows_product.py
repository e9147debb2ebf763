"""Products with windows of an image: what there is of them, by the names of axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu.tensor_maps import UNIT_BYTES
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.graph.analysis.shapes import sizes_of

LEAST_USES = 16
"""Of each element of a window: so many output channels are worth a copy."""


@dataclass(frozen=True)
class WindowsProduct:
    """A product with windows of an image: the names of its axes, those of `image` with the positions for those that
    windows slide over; `within` of the places within a window, in the order of `windows.axes`."""

    op: ops.Contract
    windows: ops.Window
    image: Value
    weights: Value
    low: tuple[int, ...]
    high: tuple[int, ...]
    of_image: tuple[str, ...]
    within: tuple[str, ...]
    of_weights: tuple[str, ...]
    result: tuple[str, ...]
    channels: str
    groups: tuple[str, ...] = ()
    """The axis of groups, where each has channels and weights of its own."""

    @property
    def slid(self) -> tuple[str, ...]:
        return tuple(self.of_image[axis] for axis in self.windows.axes)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in self.of_weights if name not in (*self.of_image, *self.within))

    def size(self, name: str) -> int:
        """Of an axis of the image or of the weights."""
        return dict(zip((*self.of_weights, *self.of_image), (*sizes_of(self.weights), *sizes_of(self.image))))[name]

    @property
    def pixel_bytes(self) -> int:
        return self.size(self.channels) * tensor_type(self.image).dtype.bytes

    @property
    def has_wide_pixels(self) -> bool:
        """Whether TMA can copy the channels of one pixel."""
        return self.pixel_bytes % UNIT_BYTES == 0


def windows_product(
    op: ops.Contract, is_taken: Callable[[DType], bool], *, in_groups: bool = False, least: int = LEAST_USES
) -> WindowsProduct | None:  # fmt: skip
    """What a product of elements that are taken reads of windows, where warpgroups could multiply it and that is worth
    a copy: if there are `least` columns. `in_groups`: also one that has an axis of groups."""
    number = next((n for n, v in enumerate((op.a, op.b)) if isinstance(v.op, ops.Window)), None)
    dtype = tensor_type(op.a).dtype
    if number is None or not is_taken(dtype):
        return None
    windows, weights = (op.a, op.b)[number].op, (op.a, op.b)[1 - number]
    assert isinstance(windows, ops.Window)
    pad = windows.source.op
    if isinstance(pad, ops.Pad) and pad.value:
        return None
    image = pad.source if isinstance(pad, ops.Pad) else windows.source
    rank = len(sizes_of(image))
    low, high = (pad.low, pad.high) if isinstance(pad, ops.Pad) else ((0,) * rank, (0,) * rank)
    widths = [n for n in (*low, *high) if isinstance(n, int)]
    beside = [n for axis in range(rank) if axis not in windows.axes for n in (low[axis], high[axis])]
    names = op.axis_names()
    mine, other, result = names[number], names[1 - number], names[2]
    summed = [name for name in mine[:rank] if name in other and name not in result]
    columns = [name for name in other if name not in mine]
    groups = [name for name in mine if name in other and name in result]
    plain = len(summed) == len(columns) == 1 and len(groups) <= in_groups and set(groups) <= set(mine[:rank])
    plain = plain and set(mine[rank:]) <= set(other) and not set(mine[rank:]) & set(result)
    if (
        not plain
        or any(beside)
        or len(widths) != 2 * rank
        or {*summed, *groups} & {mine[axis] for axis in windows.axes}
    ):
        return None
    found = WindowsProduct(op, windows, image, weights, tuple(widths[:rank]), tuple(widths[rank:]), tuple(mine[:rank]),
                     tuple(mine[rank:]), tuple(other), tuple(result), summed[0], tuple(groups))  # fmt: skip
    return found if found.size(columns[0]) >= least and 2 <= rank <= 5 + len(groups) else None


def insert(before: Op, op: Op) -> Value:
    """The first result of an op, which now stands before another one."""
    assert before.parent is not None
    before.parent.insert_before(before, op)
    return op.results[0]


def in_order(before: Op, value: Value, names: Sequence[str], wanted: Sequence[str]) -> Value:
    """A value with its axes, which have names, in another order."""
    if list(names) == list(wanted):
        return value
    permutation = tuple(list(names).index(name) for name in wanted)
    return insert(before, ops.Transpose(before.location, source=value, permutation=permutation))


def windows_of(
    before: Op, image: Value, order: Sequence[str], low: Mapping[str, int], high: Mapping[str, int],
    axes: tuple[int, ...], sizes: Sequence[object], strides: Sequence[int], dilations: Sequence[int],
) -> Value:  # fmt: skip
    """Windows of an image with axes in that `order`, padded along those that they slide over."""
    slid = [order[axis] for axis in axes]
    pads = [tuple(widths[name] if name in slid else 0 for name in order) for widths in (low, high)]
    padded = insert(before, ops.Pad(before.location, source=image, low=pads[0], high=pads[1], value=0.0))
    return insert(before, ops.Window(
        before.location, source=padded, axes=axes, sizes=tuple(sizes), strides=tuple(strides),
        dilations=tuple(dilations), result_names=["windows"],
    ))  # fmt: skip
