"""Weights of which each column stands for several positions, and what belongs to columns beside them: programs write
these, each tensor once.

Position j has the weights of position 0 at other places: windows of the weights, among zeros, whose places are the
positions.

    w[s - 2 * j] = window(pad(w)) {strides = [1], dilations = [-2]}     neighbours, for every other pixel
    w[2 * s + j] = window(pad(w)) {strides = [2], dilations = [1]}      residues that take turns
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Op, Value, free_names
from tiledsl.ir.dtypes import DType
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import TensorType
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.rewrites.windows.windows_product import WindowsProduct, insert

NAMES = ("wider_columns", "wider")
"""Of programs, and of what they write."""


def cut_of(product: WindowsProduct) -> ops.Slice | None:
    """The slice along windows that weights are of a tensor; None where they are something else."""
    cut = product.weights.op
    if not isinstance(cut, ops.Slice):
        return None
    sizes = zip(product.of_weights, sizes_of(product.weights), sizes_of(cut.source))
    return cut if all(size == whole or name in product.within for name, size, whole in sizes) else None


def repeat_operands(value: Value, together: int, programs: WiderWeights) -> None:
    """Repeats what maps of a product add to its columns, or multiply them with, for each position."""
    assert isinstance(value.op, ops.Reshape)
    wide, shape, columns = sizes_of(value.op.source), sizes_of(value), sizes_of(value)[-1]
    while len(value.users) == 1 and isinstance(user := next(iter(value.users)), (ops.Map, ops.Cast)):
        for operand in dict.fromkeys(user.operands):
            source = operand.op.source if isinstance(operand.op, ops.Broadcast) else None
            if source is None or math.prod(sizes_of(source)) != columns or sizes_of(source)[-1] != columns:
                continue
            each = programs.repeated(user, source, together)
            each = insert(user, ops.Broadcast(user.location, source=each, shape=wide))
            user.replace_operand(operand, insert(user, ops.Reshape(user.location, source=each, shape=shape)))
        value = user.result


class WritingPrograms:
    """Programs that write tensors, and what is known of these. `taken`: names of other functions."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.functions: list[Function] = []
        self.known: dict[tuple[Value | DType | int, ...], Value] = {}

    def called(self, before: Op, body: Block, source: Value, result: Value, names: tuple[str, str]) -> Value:
        """The result of a call of a program with that body, which gives `result`. `names`: of the program, and of what
        it writes."""
        body.append(ops.Return(before.location, values=[result]))
        function = Function(free_names(self.taken, names[0]), body, (), before.location)
        self.taken.add(function.name)
        self.functions.append(function)
        types = [TensorType(tensor_type(result).dtype, sizes_of(result))]
        return insert(before, ops.Call(before.location, inputs=[source], callee=function.name, types=types,
                                       result_names=[names[1]]))  # fmt: skip


def sliced(
    product: WindowsProduct, cut: ops.Slice, wide: Value, order: Sequence[str],
    of_place: Mapping[str, tuple[int, int, int]] | None = None,
) -> Value:  # fmt: skip
    """What is wider, whose axes are the last ones of `order`, cut along windows as the weights of a product are; of
    some places otherwise: `of_place`."""
    bounds = dict(zip(product.of_weights, zip(numbers(cut.starts), numbers(cut.stops), cut.steps)))
    bounds.update(of_place or {})
    sizes = sizes_of(wide)
    names = order[len(order) - len(sizes) :]
    kept = [bounds[name] if name in product.within else (0, size, 1) for name, size in zip(names, sizes)]
    starts, stops, steps = zip(*kept)
    return insert(product.op, ops.Slice(product.op.location, source=wide, starts=starts, stops=stops, steps=steps))


class WiderWeights(WritingPrograms):
    """Programs that write weights, and what belongs to columns, for several positions: each tensor once."""

    @staticmethod
    def order(product: WindowsProduct) -> list[str]:
        """The axes of wider weights: with columns last where these are, else with channels last."""
        if product.of_weights[-1] in product.columns:
            return [*product.within, product.channels, *product.columns]
        return [*product.columns, *product.within, product.channels]

    def shifted(self, product: WindowsProduct, place: str, stride: int, together: int) -> Value:
        """The weights for `together` positions, `stride` pixels apart. Slices of one tensor along windows are slices of
        what is wider."""
        names, weights, cut = product.of_weights, product.weights, cut_of(product)
        at = names.index(place)
        source, apart = (weights, stride) if cut is None else (cut.source, stride * cut.steps[at])
        reach = (together - 1) * apart
        wide = self._made(product, source, at, (1, -apart, together), (reach, reach))
        if cut is None:
            return wide
        first, stop = numbers(cut.starts)[at], numbers(cut.stops)[at]
        return sliced(product, cut, wide, self.order(product), {place: (first, stop + reach, cut.steps[at])})

    def in_turns(
        self, product: WindowsProduct, cut: ops.Slice, place: str, step: int, first: int, apart: int, together: int,
        size: int,
    ) -> Value:  # fmt: skip
        """Place s of residue j has element `step * s + first + apart * j` of the tensor that `cut` is of, or 0 beyond
        its ends."""
        at = product.of_weights.index(place)
        least = min(first, first + (together - 1) * apart)
        needed = (size - 1) * step + 1 + (together - 1) * abs(apart)
        low, high = -least, needed + least - sizes_of(cut.source)[at]
        wide = self._made(product, cut.source, at, (step, apart, together), (low, high))
        return sliced(product, cut, wide, self.order(product), {place: (0, size, 1)})

    def _made(
        self, product: WindowsProduct, source: Value, at: int, windows: tuple[int, int, int], widths: tuple[int, int]
    ) -> Value:  # fmt: skip
        """The weights with columns that stand for several places of windows along axis `at`: strides, dilations and
        sizes of these; `widths` of zeros before and behind, or of what is cut off."""
        key = (source, at, *windows, *widths)
        if key not in self.known:
            self.known[key] = self._written(product, source, at, windows, widths)
        return self.known[key]

    def _written(
        self, product: WindowsProduct, source: Value, at: int, windows: tuple[int, int, int], widths: tuple[int, int]
    ) -> Value:  # fmt: skip
        names, order, op = list(product.of_weights), self.order(product), product.op
        (column,), (stride, apart, together) = product.columns, windows
        sizes = sizes_of(source)
        if min(widths) < 0:
            starts = [max(-widths[0], 0) if axis == at else 0 for axis in range(len(sizes))]
            stops = [size - max(-widths[1], 0) if axis == at else size for axis, size in enumerate(sizes)]
            source = insert(op, ops.Slice(op.location, source=source, starts=tuple(starts), stops=tuple(stops),
                                          steps=(1,) * len(sizes)))  # fmt: skip
        low, high = (tuple(max(n, 0) if axis == at else 0 for axis in range(len(sizes))) for n in widths)
        body = Block()
        build = Builder(body, op.location)
        value = body.add_argument(source.type, "weight")
        value = build.emit(ops.Pad, source=value, low=low, high=high, value=0.0).result
        value = build.emit(
            ops.Window, source=value, axes=(at,), sizes=(together,), strides=(stride,), dilations=(apart,)
        ).result
        value = build.emit(ops.Cast, source=value, dtype=tensor_type(source).dtype).result
        wanted = [part for name in order for part in (("", name) if name == column else (name,))]
        permutation = tuple([*names, ""].index(part) for part in wanted)
        value = build.emit(ops.Transpose, source=value, permutation=permutation).result
        made = self.called(op, body, source, value, NAMES)
        of_made = dict(zip(wanted, sizes_of(made)))
        shape = tuple(of_made[name] * (together if name == column else 1) for name in order)
        return insert(op, ops.Reshape(op.location, source=made, shape=shape))

    def repeated(self, before: Op, source: Value, together: int) -> Value:
        """What belongs to columns, once for each position behind each other."""
        dtype, columns = tensor_type(source).dtype, sizes_of(source)[-1]
        if isinstance(source.op, ops.Cast):
            source = source.op.source  # by the same program
        key = (source, dtype, together)
        if key not in self.known:
            flat = insert(before, ops.Reshape(before.location, source=source, shape=(columns,)))
            body = Block()
            build = Builder(body, before.location)
            value = body.add_argument(flat.type, "column")
            value = build.emit(ops.Broadcast, source=value, shape=(together, columns)).result
            value = build.emit(ops.Cast, source=value, dtype=dtype).result
            self.known[key] = self.called(before, body, flat, value, NAMES)
        return insert(before, ops.Reshape(before.location, source=self.known[key], shape=(together * columns,)))
