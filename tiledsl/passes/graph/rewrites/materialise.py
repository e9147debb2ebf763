"""Puts in memory what is neither computed by a group nor a view: padded and joined tensors, and odd reshapes.

    %p = graph.pad(%x) {low = [1], high = [1], ...}       =>   %p = graph.call(%x) {callee = pad_f32_1}
    %c = graph.concat([%x, %y]) {axis = 0}                =>   %c = graph.call(%x, %y) {callee = concat_f32_1}
    %m = graph.reshape(%t), no view of transposed %t      =>   graph.reshape of graph.call(%t) {callee = copy_f32_2}

Each becomes a tile program that copies its operands to where they belong. A join of what calls make stays: they write
their results to their places in it (`joins.py`), and only what is in memory already is copied there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Function, Module, Op, Value
from tiledsl.ir.tile_ops import tensor_type
from tiledsl.ir.types import TensorType
from tiledsl.ir.verifier import Form, is_tile_function
from tiledsl.passes.graph.analysis.joins import part_of, starts_of
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.placed_copies import Place, placed_copies
from tiledsl.passes.manager import PassContext

MOST_SOURCES = 32
"""At most so many tensors are joined by one program, which has a loop for each; more are joined in several steps."""


@dataclass(frozen=True)
class Materialise:
    """Leaves an entry of calls, views, constants, and joins of what calls make for them alone."""

    name: ClassVar[str] = "materialise"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH

    def run(self, module: Module, context: PassContext) -> Module:
        made = _Copies(module)
        for op in list(module.entry.body.ops):
            match op:
                case ops.Pad():
                    made.pad(op)
                case ops.Concat():
                    made.concat(op)
                case ops.Reshape() if view_of_value(op.result) is None:
                    made.reshape(op)
                    context.remark("materialise", op.location, "copied: strides cannot tell this reshape")
                case _:
                    pass
        return Module([*module.functions, *made.functions])


def _is_new(program: Function, number: int) -> bool:
    """Whether a result of a tile program is a tensor that it makes, gives back once, and does not fill before."""
    last = program.body.terminator
    assert last is not None
    tensor = last.operands[number]
    made = tensor.op
    return isinstance(made, tile_ops.Empty) and made.fill is None and list(last.operands).count(tensor) == 1


class _Copies:
    """Replaces ops by calls of programs that copy."""

    def __init__(self, module: Module) -> None:
        self.known = {f.name: f for f in module.functions}
        """The functions of the module, and those that are made."""
        self.functions: list[Function] = []

    def pad(self, op: ops.Pad) -> None:
        low = tuple(n for n in op.low if isinstance(n, int))
        op.result.replace_with(self.call(op, "pad", [op.source], sizes_of(op.result), [low], fill=op.value))
        op.erase()

    def concat(self, op: ops.Concat) -> None:
        sources: list[Value] = []
        for made, run in groupby(op.sources, self.is_made_for_join):
            values = list(run)
            parts = [values[i : i + MOST_SOURCES] for i in range(0, len(values), MOST_SOURCES)]
            sources += values if made else [self.joined(op, part) for part in parts]
        if len(sources) > 1:
            op.set_field("sources", sources)
        else:
            op.result.replace_with(sources[0])
            op.erase()

    def is_made_for_join(self, source: Value) -> bool:
        """Whether a call makes a source, and nobody reads it elsewhere: then it can be written to its place."""
        value = source
        while isinstance(value.op, (ops.Reshape, ops.Transpose)):
            value = value.op.source
        call = value.op
        if not isinstance(call, ops.Call) or part_of(value) is None:
            return False
        callee = self.known[call.callee]
        return not is_tile_function(callee) or _is_new(callee, call.results.index(value))

    def joined(self, op: ops.Concat, sources: Sequence[Value]) -> Value:
        """Some tensors behind each other, by one program."""
        length = sum(sizes_of(source)[op.axis] for source in sources)
        shape = tuple(length if axis == op.axis else size for axis, size in enumerate(sizes_of(op.result)))
        return self.call(op, "concat", sources, shape, list(starts_of(sources, op.axis)))

    def reshape(self, op: ops.Reshape) -> None:
        sizes = sizes_of(op.source)
        op.set_field("source", self.call(op, "copy", [op.source], sizes, [(0,) * len(sizes)]))

    def call(
        self,
        op: Op,
        kind: str,
        sources: Sequence[Value],
        shape: tuple[int, ...],
        starts: Sequence[tuple[int, ...]],
        fill: float | None = None,
    ) -> Value:
        """The result of a call, in front of `op`, of a program that copies `sources` to where they start."""
        places = [Place.of(view_of_value(v), sizes_of(v), start) for v, start in zip(sources, starts)]
        dtype = tensor_type(sources[0]).dtype
        name = f"{kind}_{dtype}_{len(self.functions)}"
        while name in self.known:
            name += "_"
        self.known[name] = placed_copies(name, dtype, places, shape, fill, op.location)
        self.functions.append(self.known[name])
        names = [v.name for v in op.results]
        types = [TensorType(dtype, shape)]
        call = ops.Call(op.location, inputs=sources, callee=name, types=types, result_names=names)
        assert op.parent is not None
        op.parent.insert_before(op, call)
        return call.result
