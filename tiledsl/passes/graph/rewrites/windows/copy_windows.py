"""Products of windows as products of matrices: windows are copied side by side where that pays. That is on CPUs where a
row of a window is short (others are read in place, `windows_in_place.py`), and on GPUs for products without tensor
cores; those with them read windows where they are, but for
sums over all positions.

    %y = contract(window(%x), %w)  "n c p q r s, k c r s -> n k p q"
 =>
    %l = graph.call(transpose(window(%x)))                          l[n, c, r, s, p, q], each element of a window once
    %y = contract(%l, %w)          "n c r s p q, k c r s -> n k p q"      c r s are one axis, and so are p q

Read in place, windows give a product for each position in them, of no more rows than an axis of positions is long and
over the channels alone; and each of these products packs its part of the weights anew. A copy is as many times larger
than the image as windows overlap, and is written and read once; then all positions and all channels are one axis each.
The copy has its axes in the order in which the other operand and the result have them, so that they lie behind each
other in all three. Where the copy would be large it is made of some images at a time, whose results are joined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Module, Op, Value
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import TensorType
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu_machine import GpuMachine, gpu_machine
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of, volume
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.placed_copies import MOST_BLOCKED, Place, placed_copies
from tiledsl.passes.graph.rewrites.split_floats import FMA_SHARE, by_multiply_adds, up
from tiledsl.passes.graph.rewrites.windows.windows_in_place import InPlace
from tiledsl.passes.manager import PassContext
from tiledsl.support.location import BUILTIN

LEAST_USES = 16
"""Of each element of a window: so many output channels are worth its copy, whatever a machine takes."""
FEWEST_USES = 3
"""With fewer of them there is no product to speak of."""
COPIED_BYTES = 8
"""Of an element of windows in f32 that is copied: it is written and read."""
TILE = 16
"""Rows, columns and depth of the smallest tile of products by single multiply-adds: what is less fills it."""
IN_PLACE_SHARE = 0.3
"""Of the rate of single multiply-adds, what products of windows in place reach (measured on an H200: 0.18 in small
tiles)."""
MOST_BYTES = 1 << 28
"""Of a copy: more memory than that is not taken beside the image."""
MOST_ON_GPU = 1 << 31
BLOCKED_ON_GPU = 5
"""Axes of a copy that go by blocks: those within windows are short."""
MOST_PARTS = 64
"""Of a copy that is made of some images at a time."""

Copies = dict[tuple[Value, tuple[int, ...]], Value]
"""Of whole windows, in each order of their axes: all products that read them so read one copy."""


@dataclass(frozen=True)
class CopyWindows:
    """Of the entry."""

    name: ClassVar[str] = "copy-windows"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        on_gpu = self.arch.startswith("sm_")
        machine = gpu_machine(self.arch, BUILTIN) if on_gpu else None
        taken = {function.name for function in module.functions}
        made: list[Function] = []
        copies: Copies = {}
        in_place = InPlace(taken, made)
        for op in list(module.entry.body.ops):
            if not isinstance(op, ops.Contract):
                continue
            number = next((n for n, v in enumerate((op.a, op.b)) if isinstance(v.op, ops.Window)), None)
            if on_gpu and has_tensor_cores(op) and (number is None or not sums_positions(op, number)):
                continue
            if number is not None and not on_gpu and _has_columns(op, number) and in_place.rewrite(op, number):
                context.remark(self.name, op.location, "windows are read in place, a row of each at a time")
                continue
            if number is not None and not on_gpu and in_place.lay_weights(op, number):
                context.remark(self.name, op.location, "weights are copied: those of neighbours lie side by side")
                continue
            parts = 0 if number is None else parts_of(op, number, MOST_ON_GPU if on_gpu else MOST_BYTES, machine)
            if number is not None and parts:
                made += _copied(op, number, parts, taken, most_blocked(self.arch), copies)
                context.remark(self.name, op.location, "windows are copied, so that they are one matrix")
        tidy(module.entry)
        return Module([*module.functions, *made])


def most_blocked(arch: str) -> int:
    """How many axes of a copy go by blocks, at most."""
    return BLOCKED_ON_GPU if arch.startswith("sm_") else MOST_BLOCKED


def has_tensor_cores(op: ops.Contract) -> bool:
    """Whether a GPU multiplies these by matrix instructions."""
    dtype = tensor_type(op.a).dtype
    return dtype.bits <= 16 or dtype.bits == 64 or op.precision != "ieee"


def sums_positions(op: ops.Contract, number: int) -> bool:
    """Whether a product sums over all that its windows, operand `number`, slide over, and has the places within them in
    its result: the gradient of weights. No tile has rows of it that lie behind each other in an image."""
    windows, (*operands, result) = (op.a, op.b)[number].op, op.axis_names()
    assert isinstance(windows, ops.Window)
    mine, places = operands[number], len(windows.axes)
    slid = [mine[axis] for axis in windows.axes]
    within = [name for name, size in zip(mine[-places:], windows.sizes) if size != 1]
    seen = bool(within) or max(windows.strides, default=1) > 1
    return seen and not set(slid) & set(result) and set(within) <= set(result)


def parts_of(op: ops.Contract, number: int, most_bytes: int, machine: GpuMachine | None) -> int:
    """In how many parts windows, which are operand `number`, are better copied; 0 if they are better read in place.
    `machine`: None for CPUs, which copy them in one.

    A copied element costs about as much as 25 multiply-adds, and is used for each output channel; in place, products
    run at half of their speed at best. On GPUs what few channels take is estimated.
    """
    in_parts = machine is not None
    window, uses, names = (op.a, op.b)[number], _uses(op, number), op.axis_names()
    assert isinstance(window.op, ops.Window)
    if _are_pixels(window.op) and not (
        in_parts and (isinstance(window.op.source.op, ops.Pad) or max(window.op.strides) > 1)
    ):
        return 0
    if volume(window) == 0:
        return 0
    if uses < LEAST_USES and (machine is None or uses < FEWEST_USES or not _pays(op, number, uses, machine)):
        return 0
    images = sizes_of(window)[0] if in_parts and names[number][0] == names[2][0] else 1
    each = most_bytes * images // max(bytes_of(window), 1)
    parts = -(-images // max(each, 1))
    return parts if each and parts <= MOST_PARTS else 0


def _uses(op: ops.Contract, number: int) -> int:
    """Of each element of the windows, which are operand `number`: how many columns the other operand has."""
    names, other = op.axis_names(), (op.a, op.b)[1 - number]
    return math.prod(size for name, size in zip(names[1 - number], sizes_of(other)) if name not in names[number])


def _are_pixels(window: ops.Window) -> bool:
    """Whether there is one place in each window."""
    return math.prod(size for size in window.sizes if isinstance(size, int)) == 1


def _has_columns(op: ops.Contract, number: int) -> bool:
    """Whether a product with windows is worth a copy of the image on a CPU."""
    window = (op.a, op.b)[number].op
    return isinstance(window, ops.Window) and not _are_pixels(window) and _uses(op, number) >= LEAST_USES


def _pays(op: ops.Contract, number: int, columns: int, machine: GpuMachine) -> bool:
    """Whether a copy, and a product of it, take less than a product of windows in place, whose places are a turn of the
    loop each, with the channels, or with the places along one axis if there is one channel."""
    window, names = (op.a, op.b)[number], op.axis_names()
    summed = [size for name, size in zip(names[number], sizes_of(window)) if name not in names[2]]
    inner = len(window.op.axes) if isinstance(window.op, ops.Window) else 0
    places, channels = summed[len(summed) - inner :], math.prod(summed[: len(summed) - inner])
    along = channels if channels > 1 else max(places, default=1)
    depth = math.prod(summed)
    rows = volume(window) // depth
    wide = up(columns, TILE)
    in_place = by_multiply_adds(machine, rows * wide * (depth // along) * up(along, TILE)) * FMA_SHARE / IN_PLACE_SHARE
    copied = volume(window) * COPIED_BYTES / machine.copied_bytes_per_second + machine.speeds.launch
    return copied + by_multiply_adds(machine, rows * wide * up(depth, TILE)) < in_place


def order_of(op: ops.Contract, number: int) -> list[str]:
    """The axes of the windows as the copy has them: those of the result in front of any that the other operand alone
    has, what is summed, and the other ones of the result."""
    names = op.axis_names()
    mine, other, result = names[number], names[1 - number], names[2]
    lone = [place for place, name in enumerate(result) if name not in mine]
    first = result[: lone[0]] if lone else [name for name in result if name in other]
    summed = [name for name in other if name in mine and name not in result]
    return [*first, *summed, *(name for name in result if name in mine and name not in first)]


def _places(op: ops.Contract, number: int) -> int:
    """How many axes are places within windows: the last ones."""
    windows = (op.a, op.b)[number].op
    assert isinstance(windows, ops.Window)
    return len(windows.axes)


def _as_they_lie(op: ops.Contract, number: int) -> list[str]:
    """The axes of windows whose positions are summed: positions, and what the result has of an image, each group in the
    order of memory, the one in which elements lie side by side last."""
    operands, result = op.axis_names()[:2], op.axis_names()[2]
    mine, other, view = operands[number], operands[1 - number], view_of_value((op.a, op.b)[number])
    shared = [name for name in result if name in mine and name in other]
    summed = [name for name in other if name in mine and name not in result]
    rest = [name for name in mine if name not in shared and name not in summed]
    if view is not None:
        strides = dict(zip(mine, view.place.strides))
        rest.sort(key=lambda name: -strides[name])
        slid = len(mine) - _places(op, number)
        if min((name for name in mine[:slid] if name not in shared), key=lambda name: strides[name]) in summed:
            return [*shared, *rest, *summed]
    return [*shared, *summed, *rest]


def _copied(
    op: ops.Contract, number: int, parts: int, taken: set[str], most_blocked: int, copies: Copies
) -> list[Function]:
    """Lets the product read copies of so many parts; gives the functions that copy."""
    names = list(op.axis_names())
    windows, order = (op.a, op.b)[number], order_of(op, number)
    if sums_positions(op, number):
        order = _as_they_lie(op, number)
    permutation = tuple(names[number].index(name) for name in order)
    names[number] = order
    text = f"{' '.join(names[0])}, {' '.join(names[1])} -> {' '.join(names[2])}"
    turned = _insert(op, ops.Transpose(op.location, source=windows, permutation=permutation))
    sizes = sizes_of(turned)
    each = -(-sizes[0] // parts)
    functions: list[Function] = []
    products: list[Value] = []
    for start in range(0, sizes[0], each):
        part = turned
        if parts > 1:
            starts, stops = (start, *(0,) * (len(sizes) - 1)), (min(start + each, sizes[0]), *sizes[1:])
            part = _insert(op, ops.Slice(op.location, source=turned, starts=starts, stops=stops,
                                         steps=(1,) * len(sizes)))  # fmt: skip
        copy = copies.get((windows, permutation)) if parts == 1 else None
        if copy is None:
            function, copy = _copy(op, part, taken, most_blocked)
            functions.append(function)
        if parts == 1:
            copies[windows, permutation] = copy
        operands: list[Value] = [op.a, op.b]
        operands[number] = copy
        products.append(_insert(op, ops.Contract(
            op.location, a=operands[0], b=operands[1], axes=text, dtype=op.dtype, precision=op.precision,
            result_names=[op.result.name],
        )))  # fmt: skip
    joined = products[0] if parts == 1 else _insert(op, ops.Concat(op.location, sources=products, axis=0))
    op.result.replace_with(joined)
    op.erase()
    return functions


def _copy(op: ops.Contract, value: Value, taken: set[str], most_blocked: int) -> tuple[Function, Value]:
    """A function that copies a view, and the result of its call."""
    name = f"windows_{len(taken)}"
    while name in taken:
        name += "_"
    taken.add(name)
    sizes, dtype = sizes_of(value), tensor_type(value).dtype
    place = Place.of(view_of_value(value), sizes, (0,) * len(sizes))
    call = ops.Call(op.location, inputs=[value], callee=name, types=[TensorType(dtype, sizes)],
                    result_names=["windows"])  # fmt: skip
    return placed_copies(name, dtype, [place], sizes, None, op.location, most_blocked), _insert(op, call)


def _insert(before: Op, op: Op) -> Value:
    assert before.parent is not None
    before.parent.insert_before(before, op)
    return op.results[0]
