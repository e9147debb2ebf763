"""Products of windows as products of matrices, on CPUs: windows are copied side by side where that pays.

    %y = contract(window(%x), %w)  "n c p q r s, k c r s -> n k p q"
 =>
    %l = graph.call(transpose(window(%x)))                          l[n, c, r, s, p, q], each element of a window once
    %y = contract(%l, %w)          "n c r s p q, k c r s -> n k p q"      c r s are one axis, and so are p q

Read in place, windows give a product for each position in them, of no more rows than an axis of positions is long and
over the channels alone; and each of these products packs its part of the weights anew. A copy is as many times larger
than the image as windows overlap, and is written and read once; then all positions and all channels are one axis each.
The copy has its axes in the order in which the other operand and the result have them, so that they lie behind each
other in all three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Module, Value
from tiledsl.ir.tile_ops import tensor_type
from tiledsl.ir.types import TensorType
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.placed_copies import Place, placed_copies
from tiledsl.passes.manager import PassContext

LEAST_USES = 16
"""Of each element of a window: so many output channels are worth its copy."""
MOST_BYTES = 1 << 28
"""Of a copy: more memory than that is not taken beside the image."""


@dataclass(frozen=True)
class CopyWindows:
    """Of the entry, where `arch` is a CPU: GPUs read windows from shared memory."""

    name: ClassVar[str] = "copy-windows"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        if self.arch.startswith("sm_"):
            return module
        taken = {function.name for function in module.functions}
        made: list[Function] = []
        for op in list(module.entry.body.ops):
            if isinstance(op, ops.Contract):
                number = next((n for n, v in enumerate((op.a, op.b)) if isinstance(v.op, ops.Window)), None)
                if number is not None and pays(op, number):
                    made.append(_copied(op, number, taken))
                    context.remark(self.name, op.location, "windows are copied, so that they are one matrix")
        tidy(module.entry)
        return Module([*module.functions, *made])


def pays(op: ops.Contract, number: int) -> bool:
    """Whether windows, which are operand `number`, are better copied.

    A copied element costs about as much as 25 multiply-adds, and is used for each output channel; in place, products
    run at half of their speed at best.
    """
    window, other = (op.a, op.b)[number], (op.a, op.b)[1 - number]
    assert isinstance(window.op, ops.Window)
    if math.prod(size for size in window.op.sizes if isinstance(size, int)) == 1:
        return False
    names = op.axis_names()
    uses = math.prod(size for name, size in zip(names[1 - number], sizes_of(other)) if name not in names[number])
    return uses >= LEAST_USES and bytes_of(window) <= MOST_BYTES


def order_of(op: ops.Contract, number: int) -> list[str]:
    """The axes of the windows as the copy has them: those of the result in front of any that the other operand alone
    has, what is summed, and the other ones of the result."""
    names = op.axis_names()
    mine, other, result = names[number], names[1 - number], names[2]
    lone = [place for place, name in enumerate(result) if name not in mine]
    first = result[: lone[0]] if lone else [name for name in result if name in other]
    summed = [name for name in other if name in mine and name not in result]
    return [*first, *summed, *(name for name in result if name in mine and name not in first)]


def _copied(op: ops.Contract, number: int, taken: set[str]) -> Function:
    """Lets the product read a copy; gives the function that copies."""
    names = list(op.axis_names())
    windows, order = (op.a, op.b)[number], order_of(op, number)
    parent = op.parent
    assert parent is not None
    permutation = tuple(names[number].index(name) for name in order)
    transposed = ops.Transpose(op.location, source=windows, permutation=permutation)
    parent.insert_before(op, transposed)
    name = f"windows_{len(taken)}"
    while name in taken:
        name += "_"
    taken.add(name)
    sizes, dtype = sizes_of(transposed.result), tensor_type(windows).dtype
    place = Place.of(view_of_value(transposed.result), sizes, (0,) * len(sizes))
    function = placed_copies(name, dtype, [place], sizes, None, op.location)
    types = [TensorType(dtype, sizes)]
    call = ops.Call(op.location, inputs=[transposed.result], callee=name, types=types, result_names=["windows"])
    parent.insert_before(op, call)
    names[number] = order
    operands: list[Value] = [op.a, op.b]
    operands[number] = call.result
    axes = f"{' '.join(names[0])}, {' '.join(names[1])} -> {' '.join(names[2])}"
    product = ops.Contract(
        op.location,
        a=operands[0],
        b=operands[1],
        axes=axes,
        dtype=op.dtype,
        precision=op.precision,
        result_names=[op.result.name],
    )
    parent.insert_before(op, product)
    op.result.replace_with(product.result)
    op.erase()
    return function
