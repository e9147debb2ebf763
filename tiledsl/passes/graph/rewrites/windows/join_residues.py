"""Products of which elements take turns, along the last axis of positions, as one product that has columns for each.

    %a = contract(window(%x) {sizes = [2]}, slice(%w) {0::2})         y[2 q]     = x[q] w[0] + x[q + 1] w[2]
    %b = contract(window(%x) {sizes = [1]}, slice(%w) {1::2})         y[2 q + 1] = x[q] w[1]
    %y = interleave([%a, %b])
 =>
    %v = window(pad(%w, 0, 1)) {sizes = [2], strides = [2], dilations = [1]}       [2, c, 2, k]: w[2 s + j]
    %y = reshape(contract(window(%x) {sizes = [2]}, reshape(%v)))     y[q, (j, k)] lies as y[2 q + j, k]

So windows are brought once for all residues along an axis, and rows of results are whole. Where a residue has fewer
weights the others' places are multiplied by zeros. Residues along other axes stay products of their own; an inf or NaN
in a pixel makes NaN of the elements that are made with those that see it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu_machine import GpuMachine, machine_with_warpgroups
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.windows.lay_images import LEAST_GAIN, ROW_BYTES, clocks_of_rows, is_taken
from tiledsl.passes.graph.rewrites.windows.widen_groups import behind_maps
from tiledsl.passes.graph.rewrites.windows.wider_weights import WiderWeights, cut_of, repeat_operands
from tiledsl.passes.graph.rewrites.windows.windows_product import WindowsProduct, insert, windows_product
from tiledsl.passes.manager import PassContext

LEAST_COLUMNS = 4
"""Products to fewer channels are folds."""
LAUNCH_SECONDS = 2e-6
"""Of each further product, where residues have unlike numbers of weights: others are one launch in any case."""


@dataclass(frozen=True)
class JoinResidues:
    """Of the entry, where `arch` has TMA and products by warpgroups. `least`: microseconds that are to be gained, for a
    launch, which writes the weights of all residues."""

    name: ClassVar[str] = "join-residues"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"
    least: int = 2

    def run(self, module: Module, context: PassContext) -> Module:
        machine = machine_with_warpgroups(self.arch)
        if machine is None:
            return module
        weights = WiderWeights({function.name for function in module.functions})
        for op in list(module.entry.body.ops):
            parts = _parts_of(op) if isinstance(op, ops.Interleave) else None
            union = None if parts is None else _union_of(parts)
            if isinstance(op, ops.Interleave) and parts and union and _gain(parts, union, machine) > self.least * 1e-6:
                _join(op, parts, union, weights)
                context.remark(self.name, op.location, f"{len(parts)} residues are columns of one product")
        if weights.functions:
            tidy(module.entry)
        return Module([*module.functions, *weights.functions])


class _Part(NamedTuple):
    """One residue: its product, and what is made of it."""

    product: WindowsProduct
    chain: tuple[Op, ...]


class _Union(NamedTuple):
    """Windows that see what all parts see: of `size` places along the last axis, from `low` pixels before the image to
    `high` behind. Place s of part j has element `step * s + first + apart * j` of the weights."""

    size: int
    low: int
    high: int
    step: int
    first: int
    apart: int


def _parts_of(join: ops.Interleave) -> tuple[_Part, ...] | None:
    """The products that take turns along the last axis of positions, alike but for windows and weights along it."""
    parts = [_part_of(source) for source in join.sources]
    found = tuple(part for part in parts if part is not None)
    if len(found) < len(parts):
        return None
    first = found[0].product
    is_last = first.result[join.axis : -1] == (first.slid[-1],) and first.result[-1] in first.columns
    alike = all(_is_alike(first, part.product) and _same_chain(found[0].chain, part.chain) for part in found)
    can_move = all(_repeats(op, join.axis) for op in found[0].chain)
    return found if is_last and alike and can_move else None


def _part_of(source: Value) -> _Part | None:
    """What is made of a product by ops that nobody else reads, the first one first."""
    chain: list[Op] = []
    value = source
    while not isinstance(value.op, ops.Contract):
        op = value.op
        if not isinstance(op, (ops.Map, ops.Cast, ops.Reshape)) or len(value.users) != 1:
            return None
        chain.append(op)
        made = [operand for operand in op.operands if not _is_beside(operand)]
        if len(made) != 1:
            return None
        value = made[0]
    if len(value.users) != 1:
        return None
    _with_windows(value.op)
    product = windows_product(value.op, is_taken, least=LEAST_COLUMNS)
    return None if product is None else _Part(product, tuple(reversed(chain)))


def _is_beside(value: Value) -> bool:
    """Whether a value is one number, or repeated: what maps read beside the product."""
    return not sizes_of(value) or isinstance(value.op, (ops.Broadcast, ops.Constant))


def _with_windows(op: ops.Contract) -> None:
    """Windows of one pixel, which canonical text has as a reshape of the image, as such."""
    for name, other in (("a", op.b), ("b", op.a)):
        value: Value = getattr(op, name)
        if not isinstance(value.op, ops.Reshape) or isinstance(other.op, ops.Window):
            continue
        shape, before = sizes_of(value), sizes_of(value.op.source)
        more = len(shape) - len(before)
        if more < 1 or shape != (*before, *(1,) * more) or more > len(before) - 2:
            continue
        names, result = op.axis_names()[0 if name == "a" else 1], op.axis_names()[2]
        slid = tuple(axis for axis, label in enumerate(names[: len(before)]) if label in result)[-more:]
        ones = (1,) * more
        op.set_field(name, insert(op, ops.Window(op.location, source=value.op.source, axes=slid, sizes=ones,
                                                 strides=ones, dilations=ones)))  # fmt: skip
        return


def _is_alike(one: WindowsProduct, other: WindowsProduct) -> bool:
    """Whether two products differ in windows and weights along the last axis alone."""
    a, b = one.windows, other.windows
    cuts = cut_of(one), cut_of(other)
    if one.image is not other.image or cuts[0] is None or cuts[1] is None or cuts[0].source is not cuts[1].source:
        return False
    axis, at = a.axes[-1], one.of_weights.index(one.within[-1])
    names = (one.of_image, one.within, one.of_weights, one.result, one.slid, a.axes)
    if names != (other.of_image, other.within, other.of_weights, other.result, other.slid, b.axes):
        return False
    bounds = [[each for n, each in enumerate(zip(cut.starts, cut.stops, cut.steps)) if n != at] for cut in cuts if cut]
    pads = [[each for n, each in enumerate(zip(product.low, product.high)) if n != axis] for product in (one, other)]
    kinds = [(windows.sizes[:-1], windows.strides, windows.dilations[:-1]) for windows in (a, b)]
    same = all(pair[0] == pair[1] for pair in (bounds, pads, kinds))
    dense = all(n == 1 or size == 1 for w in (a, b) for n, size in zip(w.dilations[-1:], w.sizes[-1:]))
    precise = (one.op.dtype, one.op.precision) == (other.op.dtype, other.op.precision)
    return same and dense and precise and sizes_of(one.op.result) == sizes_of(other.op.result)


def _same_chain(one: Sequence[Op], other: Sequence[Op]) -> bool:
    if len(one) != len(other):
        return False
    for a, b in zip(one, other):
        beside = [[v if _is_beside(v) else None for v in op.operands] for op in (a, b)]
        if a.name != b.name or a.attributes != b.attributes or beside[0] != beside[1]:
            return False
    return True


def _repeats(op: Op, axis: int) -> bool:
    """Whether an op of a part means the same of all parts together: what it reads is the same along the axis."""
    if isinstance(op, ops.Reshape):
        return sizes_of(op.source)[: axis + 1] == sizes_of(op.result)[: axis + 1]
    for operand in op.operands:
        if isinstance(operand.op, ops.Broadcast):
            small, whole = sizes_of(operand.op.source), sizes_of(operand)
            at = axis - (len(whole) - len(small))
            if at >= 0 and small[at] != 1:
                return False
    return True


def _union_of(parts: Sequence[_Part]) -> _Union | None:
    """None where the weights of parts are not equally far apart, or a place has other weights in what they are of."""
    first = parts[0].product
    axis, at = first.windows.axes[-1], first.of_weights.index(first.within[-1])
    lows = [part.product.low[axis] for part in parts]
    sizes = [numbers(part.product.windows.sizes)[-1] for part in parts]
    low = max(lows)
    size = max(size - before for size, before in zip(sizes, lows)) + low
    cuts = [cut for part in parts if (cut := cut_of(part.product)) is not None]
    whole, steps = sizes_of(cuts[0].source)[at], {cut.steps[at] for cut in cuts}
    if len(steps) != 1:
        return None
    step = steps.pop()
    firsts: list[int] = []
    for cut, before, count in zip(cuts, lows, sizes):
        start = numbers(cut.starts)[at]
        firsts.append(start - step * (low - before))
        last = start + (count - 1) * step
        if (before < low and start >= step) or (count + low - before < size and last + step < whole):
            return None
    apart = {b - a for a, b in pairwise(firsts)}
    if len(apart) != 1 or 0 in apart:
        return None
    positions = sizes_of(first.windows.result)[axis]
    high = (positions - 1) * first.windows.strides[-1] + size - sizes_of(first.image)[axis] - low
    return None if high < 0 else _Union(size, low, high, step, firsts[0], apart.pop())


def _gain(parts: Sequence[_Part], union: _Union, machine: GpuMachine) -> float:
    """Seconds that one product is estimated to take less."""
    product = parts[0].product
    each, width = product.pixel_bytes, tensor_type(product.image).dtype.bytes
    if each % ROW_BYTES:
        return 0.0
    columns, others = product.size(product.columns[0]), math.prod(numbers(product.windows.sizes[:-1]))
    sizes = [numbers(part.product.windows.sizes)[-1] for part in parts]
    positions = math.prod(sizes_of(product.op.result)) // columns

    def seconds(size: int, together: int, share: float = 1.0) -> float:
        clocks = share * clocks_of_rows(machine, others * size, each, together * columns, width) * positions
        moved = bytes_of(product.image) + positions * together * columns * width
        return max(clocks / machine.multiprocessors / machine.speeds.clock, moved / machine.copied_bytes_per_second)

    apart = sum(seconds(size, 1) for size in sizes) + LAUNCH_SECONDS * (len(parts) - 1) * (len(set(sizes)) > 1)
    return apart - seconds(union.size, len(parts), LEAST_GAIN)


def _join(join: ops.Interleave, parts: Sequence[_Part], union: _Union, weights: WiderWeights) -> None:
    product, cut = parts[-1].product, cut_of(parts[-1].product)
    op, windows, count = product.op, product.windows, len(parts)
    assert cut is not None
    axis = windows.axes[-1]
    low, high = (
        tuple(width if n == axis else each for n, each in enumerate(sides))
        for width, sides in ((union.low, product.low), (union.high, product.high))
    )
    image = product.image
    if any((*low, *high)):
        image = insert(op, ops.Pad(op.location, source=image, low=low, high=high, value=0.0))
    seen = insert(op, ops.Window(
        windows.location, source=image, axes=windows.axes, sizes=(*windows.sizes[:-1], union.size),
        strides=windows.strides, dilations=(*windows.dilations[:-1], 1), result_names=["windows"],
    ))  # fmt: skip
    wide = weights.in_turns(product, cut, product.within[-1], union.step, union.first, union.apart, count, union.size)
    a, b = [*product.of_image, *product.within], weights.order(product)
    text = f"{' '.join(a)}, {' '.join(b)} -> {' '.join(product.result)}"
    made = insert(op, ops.Contract(op.location, a=seen, b=wide, axes=text, dtype=op.dtype, precision=op.precision,
                                   result_names=[op.result.name]))  # fmt: skip
    behind = value = insert(op, ops.Reshape(op.location, source=made, shape=_longer(op.result, join.axis, count)))
    for one in parts[-1].chain:
        value = _again(one, value, join.axis, count)
    join.result.replace_with(value)
    join.erase()
    repeat_operands(behind, count, weights)
    behind_maps(behind)


def _longer(value: Value, axis: int, count: int) -> tuple[int, ...]:
    return tuple(size * count if n == axis else size for n, size in enumerate(sizes_of(value)))


def _again(op: Op, value: Value, axis: int, count: int) -> Value:
    """What an op of a part makes of all of them."""
    shape = _longer(op.results[0], axis, count)
    match op:
        case ops.Cast():
            return insert(op, ops.Cast(op.location, source=value, dtype=op.dtype))
        case ops.Reshape():
            return insert(op, ops.Reshape(op.location, source=value, shape=shape))
        case ops.Map():
            inputs: list[Value] = []
            for operand in op.inputs:
                if not _is_beside(operand):
                    inputs.append(value)
                elif isinstance(operand.op, ops.Broadcast):
                    inputs.append(insert(op, ops.Broadcast(op.location, source=operand.op.source, shape=shape)))
                else:
                    inputs.append(operand)
            return insert(op, ops.Map(op.location, inputs=inputs, fn=op.fn))
        case _:
            raise AssertionError(f"{op.name} behind a product")
