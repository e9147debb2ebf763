"""Convolutions in narrow groups as ones in fewer, wider groups, whose weights have zeros for the channels of others.

    %x: [n, h, w, 4 groups, 8 channels], %v: [4 groups, 8 columns, r, s, 8 channels]
 =>
    %x: [n, h, w, 32 channels]
    %v: [32 columns, r, s, 32 channels]       %v[g, k, r, s, c] where both are of group g, else 0

Tensor cores and TMA take rows of 32 bytes at least: for narrow groups most of what they multiply and copy would be
nobody's in any case. So a product of zeros costs less than one group at a time, as long as rows are narrow. An inf or
NaN in a channel makes NaN of results of the groups that are together with its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu_machine import GpuMachine, machine_with_warpgroups
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.move_reindexing import is_free_under, map_under
from tiledsl.passes.graph.rewrites.windows.lay_images import ROW_BYTES, clocks_of_rows, is_taken
from tiledsl.passes.graph.rewrites.windows.wider_weights import WritingPrograms, cut_of, sliced
from tiledsl.passes.graph.rewrites.windows.windows_product import LEAST_USES, WindowsProduct, insert, windows_product
from tiledsl.passes.manager import PassContext

LEAST = 4
"""Channels and columns of a group: of fewer than that, others are no products by tensor cores at all."""


@dataclass(frozen=True)
class WidenGroups:
    """Of the entry, where `arch` has TMA and products by warpgroups. `least`: microseconds that are to be gained, for a
    launch, which writes the weights, and more."""

    name: ClassVar[str] = "widen-groups"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"
    least: int = 6

    def run(self, module: Module, context: PassContext) -> Module:
        machine = machine_with_warpgroups(self.arch)
        if machine is None:
            return module
        weights = _Weights({function.name for function in module.functions})
        for op in list(module.entry.body.ops):
            if not isinstance(op, ops.Contract):
                continue
            product = windows_product(op, is_taken, in_groups=True, least=LEAST)
            together = 1 if product is None or not _is_in_order(product) else _together(product, machine, self.least)
            if product is not None and together > 1:
                _widen(product, together, weights)
                context.remark(self.name, op.location, f"{together} groups are one, with zeros among the weights")
        if weights.functions:
            tidy(module.entry)
        return Module([*module.functions, *weights.functions])


def _is_in_order(product: WindowsProduct) -> bool:
    """Whether there are groups, and the channels and the columns of each lie behind the other's."""
    if not product.groups:
        return False
    ((group,), (column,)), image, result = (product.groups, product.columns), product.of_image, product.result
    behind = image.index(product.channels) == image.index(group) + 1
    return behind and result.index(column) == result.index(group) + 1


def _together(product: WindowsProduct, machine: GpuMachine, least: int) -> int:
    """How many groups had better be one: of which a position takes the least time in all; 1 if they stay."""
    (group,), (column,) = product.groups, product.columns
    count, channels, columns = (product.size(name) for name in (group, product.channels, column))
    places = math.prod(size for size in product.windows.sizes if isinstance(size, int))
    width = tensor_type(product.image).dtype.bytes
    if channels < LEAST or columns < LEAST:
        return 1

    def clocks(together: int) -> float:
        each = together * channels * width
        return count // together * clocks_of_rows(machine, places, each, together * columns, width)

    ways = [n for n in range(2, count + 1) if count % n == 0 and (n == count or n * channels * width % ROW_BYTES == 0)]
    best = min((n for n in ways if n * columns >= LEAST_USES), key=clocks, default=1)
    positions = math.prod(sizes_of(product.op.result)) // (count * columns)
    gained = (clocks(1) - clocks(best)) * positions / machine.multiprocessors / machine.speeds.clock
    return best if gained > least * 1e-6 else 1


def _widen(product: WindowsProduct, together: int, weights: _Weights) -> None:
    """Puts a product in fewer groups in the place of one, and maps of it in front of the reshape to what it was."""
    op, windows, pad = product.op, product.windows, product.windows.source.op
    (group,) = product.groups
    left = product.size(group) // together
    alone = left == 1
    at = product.of_image.index(group)
    image = _with_wider(op, product.image, at, left, together)

    def fewer(entries: Sequence[int]) -> tuple[int, ...]:
        return tuple(entry for axis, entry in enumerate(entries) if axis != at or not alone)

    if isinstance(pad, ops.Pad):
        image = insert(op, ops.Pad(pad.location, source=image, low=fewer(product.low), high=fewer(product.high),
                                   value=0.0))  # fmt: skip
    axes = tuple(axis - (alone and axis > at) for axis in windows.axes)
    windows_ = insert(op, ops.Window(windows.location, source=image, axes=axes, sizes=windows.sizes,
                                     strides=windows.strides, dilations=windows.dilations))  # fmt: skip
    wide = weights.wider(product, together)

    def text(names: Sequence[str]) -> str:
        return " ".join(name for name in names if name != group or not alone)

    a, b = text([*product.of_image, *product.within]), text(weights.order(product))
    made = insert(op, ops.Contract(op.location, a=windows_, b=wide, axes=f"{a}, {b} -> {text(product.result)}",
                                   dtype=op.dtype, precision=op.precision, result_names=[op.result.name]))  # fmt: skip
    behind = insert(op, ops.Reshape(op.location, source=made, shape=sizes_of(op.result)))
    op.result.replace_with(behind)
    op.erase()
    behind_maps(behind)


def _with_wider(before: Op, value: Value, group: int, left: int, together: int) -> Value:
    """A value with so many groups left, each as wide as several; one alone has no axis."""
    shape = sizes_of(value)
    groups = () if left == 1 else (left,)
    merged = (*shape[:group], *groups, together * shape[group + 1], *shape[group + 2 :])
    return insert(before, ops.Reshape(before.location, source=value, shape=merged))


def behind_maps(value: Value) -> None:
    """Moves the reshape that a value is behind the elementwise ops of it alone: they are of one kernel with what is
    reshaped."""
    while len(value.users) == 1 and isinstance(value.op, ops.Reshape):
        (user,), shape = value.users, sizes_of(value.op.source)
        if not isinstance(user, (ops.Map, ops.Cast)) or sizes_of(user.result) != sizes_of(value):
            return
        if not all(is_free_under(operand, shape, user) for operand in user.operands):
            return
        rewriter = Rewriter(user)
        made = map_under(user, shape, rewriter)
        after = rewriter.emit(ops.Reshape, source=made, shape=sizes_of(user.result)).result
        rewriter.replace(user, after)
        value = after


class _Weights(WritingPrograms):
    """Programs that write weights with zeros, each tensor once."""

    @staticmethod
    def order(product: WindowsProduct) -> list[str]:
        """The axes of wider weights: as they are where channels or columns are the last, else with channels last."""
        names = list(product.of_weights)
        if names[-1] in (product.channels, *product.columns):
            return [*product.groups, *(name for name in names if name not in product.groups)]
        return [*product.groups, *product.columns, *product.within, product.channels]

    def wider(self, product: WindowsProduct, together: int) -> Value:
        """The weights of `together` groups each, in that order. Slices along windows are slices of what is wider."""
        cut = cut_of(product)
        source = product.weights if cut is None else cut.source
        if (source, together) not in self.known:
            self.known[source, together] = self._made(product, source, together)
        wide = self.known[source, together]
        return wide if cut is None else sliced(product, cut, wide, self.order(product))  # one group has no axis

    def _made(self, product: WindowsProduct, source: Value, together: int) -> Value:
        names, order = product.of_weights, self.order(product)
        (group,), (column,) = product.groups, product.columns
        sizes = dict(zip(names, sizes_of(source)))
        left = sizes[group] // together
        body, op = Block(), product.op
        # the groups of one wider one stand before the channels, and 1 before the columns
        at = names.index(group)
        split = (*names[:at], group, "", *names[at + 1 :])
        shape = tuple(size for name in names for size in ((left, together) if name == group else (sizes[name],)))
        source = insert(op, ops.Reshape(op.location, source=source, shape=shape))
        value = body.add_argument(source.type, "weight")
        build = Builder(body, op.location)
        apart = [part for name in order for part in (("", name) if name == product.channels else (name,))]
        value = build.emit(ops.Transpose, source=value, permutation=tuple(split.index(name) for name in apart)).result
        full = tuple(
            size
            for name in order
            for size in (
                (left,) if name == group else (together, sizes[name]) if name in (product.channels, column)
                else (sizes[name],)
            )
        )  # fmt: skip
        mine = sum(2 if name in (product.channels, column) else 1 for name in order[: order.index(column)])
        theirs = sum(2 if name in (product.channels, column) else 1 for name in order[: order.index(product.channels)])
        one = tuple(1 if axis == mine else size for axis, size in enumerate(full))
        value = build.emit(ops.Reshape, source=value, shape=one).result
        value = build.emit(ops.Broadcast, source=value, shape=full).result
        both = [_coordinates(build, full, axis) for axis in (mine, theirs)]
        same = build.emit(ops.Map, fn="eq", inputs=both).result
        zero = build.emit(ops.Constant, value=0.0, dtype=tensor_type(source).dtype).result
        value = build.emit(ops.Map, fn="where", inputs=[same, value, zero]).result
        made = self.called(op, body, source, value, ("wider", "weight"))
        merged = [sizes[name] * (together if name in (product.channels, column) else 1) for name in order[1:]]
        return insert(op, ops.Reshape(op.location, source=made, shape=(*((left,) if left > 1 else ()), *merged)))


def _coordinates(build: Builder, shape: tuple[int, ...], axis: int) -> Value:
    """The coordinate along an axis of each element."""
    alone = tuple(size if number == axis else 1 for number, size in enumerate(shape))
    return build.emit(ops.Broadcast, source=build.emit(ops.Iota, shape=alone, axis=axis).result, shape=shape).result
