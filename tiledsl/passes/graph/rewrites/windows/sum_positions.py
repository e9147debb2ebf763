"""Products that sum over all positions of windows, gradients of a convolution's weights, as products of matrices with
all positions as one axis: that of the padded image, in which a window's places are so many rows further on.

    %y = contract(window(pad(%x)), %d)             "n c p q r s, n k p q -> k c r s"
 =>
    %l = reshape(transpose(pad(%x)))               [n h w, c]: a copy with channels last
    %v = transpose(window(window(%l)))             [r, s, i, c]: a view; place (r, s) of position i is row i + r w + s
    %e = reshape(transpose(pad(%d)))               [n h w, k]: zeros where the image has no position
    %y = contract(%v, %e)                          "r s i c, i k -> k c r s"

Windows that overlap are read where they are; no copy of them is made, which would be as many times larger than the
image. An inf or NaN in a pixel at the edge makes NaN of places that do not see it, since it meets zeros there. Windows
that go by steps are copied (`copy_windows.py`), from a padded image with channels last, where it has many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Value
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu_machine import GpuMachine, gpu_machine
from tiledsl.passes.graph.analysis.shapes import sizes_of, volume
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.split_floats import by_multiply_adds, up
from tiledsl.passes.graph.rewrites.windows.copy_windows import has_tensor_cores, sums_positions
from tiledsl.passes.graph.rewrites.windows.windows_product import in_order, insert, windows_of
from tiledsl.passes.manager import PassContext
from tiledsl.support.location import BUILTIN

LEAST_CHANNELS = 16
"""Of the image and of what it is multiplied with: a tile has those of one place."""
LEAST_ROWS = 64
"""Of a tile, as it is multiplied."""


@dataclass(frozen=True)
class SumPositions:
    """Of the entry, on GPUs."""

    name: ClassVar[str] = "sum-positions"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        if not self.arch.startswith("sm_"):
            return module
        machine = gpu_machine(self.arch, BUILTIN)
        for op in list(module.entry.body.ops):
            number = _windows_of(op) if isinstance(op, ops.Contract) else None
            found = None if number is None or not isinstance(op, ops.Contract) else _gradient_of(op, number)
            if number is None or found is None or not found.has_channels:
                continue
            if any(s.stride > 1 for s in found.slid):
                if found.with_channels_last(number):
                    context.remark(self.name, op.location, "windows are of an image with its channels last")
            elif pays(found, machine):
                op.result.replace_with(found.product())
                op.erase()
                context.remark(self.name, op.location, "positions are one axis; places of windows are rows of a view")
        tidy(module.entry)
        return module


@dataclass(frozen=True)
class Slid:
    """One axis that windows slide over: its name and that of the places within, and how many rows the padded image has,
    of which windows see `length`."""

    name: str
    within: str
    low: int
    high: int
    positions: int
    places: int
    stride: int
    dilation: int

    @property
    def length(self) -> int:
        return (self.positions - 1) * self.stride + (self.places - 1) * self.dilation + 1


@dataclass(frozen=True)
class Gradient:
    """The product: names of the image's axes and of the other operand's. `images` are summed beside the positions,
    `groups` are in all three, `channels` in the image and the result, `columns` in the other operand and the result."""

    op: ops.Contract
    image: Value
    other: Value
    of_image: tuple[str, ...]
    of_other: tuple[str, ...]
    result: tuple[str, ...]
    slid: tuple[Slid, ...]
    images: tuple[str, ...]
    groups: tuple[str, ...]
    channels: tuple[str, ...]
    columns: tuple[str, ...]

    def volume(self, names: tuple[str, ...]) -> int:
        sizes = dict(zip((*self.of_image, *self.of_other), (*sizes_of(self.image), *sizes_of(self.other))))
        return math.prod(sizes[name] for name in names)

    @property
    def has_channels(self) -> bool:
        """Whether those of one place fill a tile."""
        return min(self.volume(self.channels), self.volume(self.columns)) >= LEAST_CHANNELS

    @property
    def order(self) -> tuple[str, ...]:
        """The image with its channels last."""
        return (*self.images, *(s.name for s in self.slid), *self.groups, *self.channels)

    def product(self) -> Value:
        """The product of matrices, as the op has its result."""
        slid, op, lead = self.slid, self.op, len(self.slid)
        low, high = zip(*((s.low, s.high) for s in slid))
        image = self._rows(self.image, self.of_image, self.channels, low, high)
        behind = 1
        for each in reversed(slid):
            image = insert(op, ops.Window(op.location, source=image, axes=(0,), sizes=(each.places,), strides=(1,),
                                          dilations=(each.dilation * behind,)))  # fmt: skip
            behind *= each.length
        rank = len(sizes_of(image))
        order = (*range(rank - 1, rank - 1 - lead, -1), *range(rank - lead))  # the last axis of positions came first
        image = insert(op, ops.Transpose(op.location, source=image, permutation=order))
        seen = tuple(s.length - s.positions for s in slid)
        other = self._rows(self.other, self.of_other, self.columns, (0,) * lead, seen)
        rows = sizes_of(image)[lead]
        stops = (rows, *sizes_of(other)[1:])
        other = insert(op, ops.Slice(op.location, source=other, starts=(0,) * len(stops), stops=stops,
                                     steps=(1,) * len(stops)))  # fmt: skip
        names = [*(s.within for s in slid), slid[0].name, *self.groups, *self.channels]
        axes = f"{' '.join(names)}, {slid[0].name} {' '.join((*self.groups, *self.columns))} -> {' '.join(self.result)}"
        return insert(op, ops.Contract(op.location, a=image, b=other, axes=axes, dtype=op.dtype,
                                       precision=op.precision, result_names=[op.result.name]))  # fmt: skip

    def _rows(
        self, value: Value, names: tuple[str, ...], last: tuple[str, ...], low: tuple[int, ...], high: tuple[int, ...]
    ) -> Value:  # fmt: skip
        """An operand, padded, with all positions as one axis: [rows, groups, last]."""
        op, slid = self.op, [s.name for s in self.slid]
        value = in_order(op, value, names, (*self.images, *slid, *self.groups, *last))
        first, behind = (0,) * len(self.images), (0,) * (len(self.groups) + len(last))
        if any((*low, *high)):
            value = insert(op, ops.Pad(op.location, source=value, low=(*first, *low, *behind),
                                       high=(*first, *high, *behind), value=0.0))  # fmt: skip
        rest = sizes_of(value)[len(first) + len(slid) :]
        shape = (volume(value) // math.prod(rest), *rest)
        return insert(op, ops.Reshape(op.location, source=value, shape=shape))

    def with_channels_last(self, number: int) -> bool:
        """Lets the product read windows, operand `number`, of an image with its channels last; False if it has no
        padding, so that no copy of the image is made in any case."""
        op, order = self.op, self.order
        if not any((s.low, s.high) != (0, 0) for s in self.slid) or order == self.of_image:
            return False
        low, high = {s.name: s.low for s in self.slid}, {s.name: s.high for s in self.slid}
        turned = in_order(op, self.image, self.of_image, order)
        windows = windows_of(
            op, turned, order, low, high, tuple(order.index(s.name) for s in self.slid),
            [s.places for s in self.slid], [s.stride for s in self.slid], [s.dilation for s in self.slid],
        )  # fmt: skip
        names = [" ".join(each) for each in op.axis_names()]
        names[number] = " ".join((*order, *(s.within for s in self.slid)))
        op.set_field("b" if number else "a", windows)
        op.attributes["axes"] = f"{names[0]}, {names[1]} -> {names[2]}"
        return True


def pays(gradient: Gradient, machine: GpuMachine) -> bool:
    """Whether that takes less than a product of a copy of all windows."""
    channels, columns, groups = (
        gradient.volume(gradient.channels),
        gradient.volume(gradient.columns),
        gradient.volume(gradient.groups),
    )
    places, images = math.prod(s.places for s in gradient.slid), gradient.volume(gradient.images)
    positions, rows = (images * math.prod(sizes) for sizes in zip(*((s.positions, s.length) for s in gradient.slid)))
    width = tensor_type(gradient.image).dtype.bytes

    def seconds(depth: int, matrices: int, tall: int, elements: int) -> float:
        count = groups * matrices * depth * up(tall, LEAST_ROWS) * up(columns, LEAST_ROWS)
        if has_tensor_cores(gradient.op):
            rate = machine.multiprocessors * machine.speeds.clock * machine.speeds.mma_of(width)
            multiplied = count / rate
        else:
            multiplied = by_multiply_adds(machine, count)
        return multiplied + groups * elements * width / machine.copied_bytes_per_second

    flat = seconds(rows, places, channels, rows * columns)
    return flat < seconds(positions, 1, places * channels, 2 * positions * places * channels)


def _windows_of(op: ops.Contract) -> int | None:
    """Which operand is windows of which all positions are summed."""
    number = next((n for n, v in enumerate((op.a, op.b)) if isinstance(v.op, ops.Window)), None)
    return number if number is not None and sums_positions(op, number) else None


def _gradient_of(op: ops.Contract, number: int) -> Gradient | None:
    """What such a product is of; None where its axes are others, or windows see what they have not."""
    windows, other = (op.a, op.b)[number].op, (op.a, op.b)[1 - number]
    assert isinstance(windows, ops.Window)
    pad = windows.source.op
    image = windows.source
    rank = len(sizes_of(image))
    low = high = (0,) * rank
    if isinstance(pad, ops.Pad) and not pad.value:
        beside = [n for axis in range(rank) if axis not in windows.axes for n in (pad.low[axis], pad.high[axis])]
        if not any(beside) and min(numbers((*pad.low, *pad.high))) >= 0:
            image, low, high = pad.source, numbers(pad.low), numbers(pad.high)
    operands, result = op.axis_names()[:2], op.axis_names()[2]
    mine, theirs = operands[number], operands[1 - number]
    sizes = sizes_of(windows.result)
    slid = tuple(
        Slid(mine[axis], mine[rank + n], low[axis], high[axis], sizes[axis], sizes[rank + n], stride, dilation)
        for n, (axis, stride, dilation) in enumerate(zip(windows.axes, windows.strides, windows.dilations))
    )
    names = [s.name for s in slid]
    beside_slid = [name for name in mine[:rank] if name not in names]
    images = tuple(name for name in beside_slid if name in theirs and name not in result)
    groups = tuple(name for name in beside_slid if name in theirs and name in result)
    channels = tuple(name for name in beside_slid if name not in theirs and name in result)
    columns = tuple(name for name in theirs if name not in mine and name in result)
    alike = {*names, *images, *groups, *columns} == set(theirs) and {*images, *groups, *channels} == set(beside_slid)
    in_result = {*groups, *channels, *columns, *(s.within for s in slid)} == set(result)
    if not alike or not in_result or any(s.dilation < 1 or s.positions < 1 for s in slid):
        return None
    return Gradient(op, image, other, tuple(mine[:rank]), tuple(theirs), tuple(result), slid, images, groups,
                     channels, columns)  # fmt: skip
