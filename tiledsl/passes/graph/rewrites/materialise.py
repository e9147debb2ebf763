"""Puts in memory what is neither computed by a group nor a view: padded and joined tensors, and odd reshapes.

    %p = graph.pad(%x) {low = [1], high = [1], ...}       =>   %p = graph.call(%x) {callee = pad_f32_1}
    %c = graph.concat([%x, %y]) {axis = 0}                =>   %c = graph.call(%x, %y) {callee = concat_f32_1}
    %m = graph.reshape(%t), no view of transposed %t      =>   graph.reshape of graph.call(%t) {callee = copy_f32_2}

Each becomes a program that copies its operands to where they belong. A join of what calls make stays: they write
their results to their places in it (`joins.py`), and only what is in memory already is copied there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Block, Function, Module, Op, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import TensorType
from tiledsl.ir.verifier import Form, is_tile_function
from tiledsl.passes.graph.analysis.joins import JOINS, Join, part_of, record_call, starts_of
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.canonicalise_graph import drop_unread
from tiledsl.passes.graph.rewrites.placed_copies import Place, is_copy, placed_copies
from tiledsl.passes.manager import PassContext

MOST_SOURCES = 32
"""At most so many tensors are joined by one program, which has a loop for each; more are joined in several steps."""


@dataclass(frozen=True)
class Materialise:
    """Leaves an entry of calls, views, constants, and joins of what calls make for them alone. `records`: joins of
    elements that one group makes stay as well, which `graph-to-tile` writes as records, if it can. `masked`: what is
    padded and then joined is written to the join as it is padded, by loads under a mask."""

    name: ClassVar[str] = "materialise"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    records: bool = False
    masked: bool = False

    def run(self, module: Module, context: PassContext) -> Module:
        made = _Copies(module)
        drop_unread(module.entry.body)  # what groups left of other orders counts as a reader of what is joined
        for op in list(module.entry.body.ops):
            match op:
                case ops.Pad() if self.masked and _is_padded_for_join(op):
                    pass  # its join reads what is not padded
                case ops.Pad():
                    made.pad(op)
                case ops.Call() if made.is_needless(op):
                    op.result.replace_with(op.inputs[0])
                    op.erase()
                case ops.Concat() | ops.Interleave() if self.records and made.is_record(op):
                    pass
                case ops.Concat():
                    made.concat(op)
                case ops.Interleave():
                    made.interleave(op)
                case ops.Reshape() if view_of_value(op.result) is None:
                    made.reshape(op)
                    context.remark("materialise", op.location, "copied: strides cannot tell this reshape")
                case _:
                    pass
        return Module([*module.functions, *made.functions])


def is_new(program: Function, number: int) -> bool:
    """Whether a result of a tile program is a tensor that it makes, gives back once, and does not fill before."""
    last = program.body.terminator
    assert last is not None
    tensor = last.operands[number]
    made = tensor.op
    return isinstance(made, tile_ops.Empty) and made.fill is None and list(last.operands).count(tensor) == 1


def _is_padded_for_join(op: ops.Pad) -> bool:
    """Whether a join alone reads what is padded of memory, and nothing is taken away."""
    users = dict(op.result.users)
    grown = min((*numbers(op.low), *numbers(op.high)), default=0) >= 0
    return (
        grown
        and view_of_value(op.source) is not None
        and [*map(type, users)] == [ops.Concat]
        and sum(users.values()) == 1
    )


class _Copies:
    """Replaces ops by calls of programs that copy."""

    def __init__(self, module: Module) -> None:
        self.known = {f.name: f for f in module.functions}
        """The functions of the module, and those that are made."""
        self.functions: list[Function] = []

    def pad(self, op: ops.Pad) -> None:
        low, high = numbers(op.low), numbers(op.high)
        source = op.source
        if min((*low, *high), default=0) < 0:  # what is taken away is a view
            sizes = sizes_of(source)
            starts = tuple(max(0, -n) for n in low)
            stops = tuple(size - max(0, -n) for size, n in zip(sizes, high))
            cut = ops.Slice(op.location, source=source, starts=starts, stops=stops, steps=(1,) * len(sizes))
            assert op.parent is not None
            op.parent.insert_before(op, cut)
            source = cut.result
        if max((*low, *high), default=0) > 0:
            begin = tuple(max(0, n) for n in low)
            source = self.call(op, "pad", [source], sizes_of(op.result), [begin], fill=op.value)
        op.result.replace_with(source)  # windows that no group takes
        op.erase()

    def concat(self, op: ops.Concat) -> None:
        sources: list[Value] = []
        pads = [source.op for source in op.sources if isinstance(source.op, ops.Pad)]
        for made, run in groupby(op.sources, self.is_made_for_join):
            values = list(run)
            parts = [values[i : i + MOST_SOURCES] for i in range(0, len(values), MOST_SOURCES)]
            sources += values if made else [self.joined(op, part) for part in parts]
        if len(sources) > 1:
            op.set_field("sources", sources)
        else:
            op.result.replace_with(sources[0])
            op.erase()
        for pad in pads:
            if not pad.result.users:
                pad.erase()

    def is_needless(self, op: ops.Call) -> bool:
        """Whether a call copies what other calls made in that order already, for others than the caller."""
        if len(op.inputs) != 1 or len(op.results) != 1:
            return False
        if any(isinstance(user, ops.Return) for user in op.result.users):
            return False
        view = view_of_value(op.inputs[0])
        lies_so = view is not None and view.place.is_contiguous and isinstance(view.buffer.op, (ops.Call, *JOINS))
        return lies_so and op.inputs[0].type == op.result.type and is_copy(self.known[op.callee])

    def interleave(self, op: ops.Interleave) -> None:
        """Sources that calls make are written in turns where that can be, others are copied; of none, all at once."""
        made = [self.is_made_for_join(source) for source in op.sources]
        if any(made):
            zeros = (0,) * len(sizes_of(op.result))
            whole = [(v, sizes_of(v)) for v in op.sources]
            sources = [v if is_made else self.call(op, "copy", [v], n, [zeros]) for is_made, (v, n) in zip(made, whole)]
            op.set_field("sources", sources)
            return
        count, rank = len(op.sources), len(sizes_of(op.result))
        starts = [tuple(r if axis == op.axis else 0 for axis in range(rank)) for r in range(count)]
        steps = tuple(count if axis == op.axis else 1 for axis in range(rank))
        op.result.replace_with(self.call(op, "interleave", op.sources, sizes_of(op.result), starts, steps=steps))
        op.erase()

    def is_record(self, op: Join) -> bool:
        """Whether the elements of each row of a join are made by one call of a group, for nobody else."""
        return record_call(op, self.known.__getitem__) is not None

    def is_made_for_join(self, source: Value) -> bool:
        """Whether a call makes a source, and nobody reads it elsewhere: then it can be written to its place."""
        value = source
        while isinstance(value.op, (ops.Reshape, ops.Transpose)):
            value = value.op.source
        call = value.op
        if isinstance(call, JOINS):
            return part_of(value) is not None
        if not isinstance(call, ops.Call) or part_of(value) is None:
            return False
        callee = self.known[call.callee]
        return not is_tile_function(callee) or is_new(callee, call.results.index(value))

    def joined(self, op: ops.Concat, sources: Sequence[Value]) -> Value:
        """Some tensors behind each other, by one program."""
        length = sum(sizes_of(source)[op.axis] for source in sources)
        shape = tuple(length if axis == op.axis else size for axis, size in enumerate(sizes_of(op.result)))
        return self.call(op, "concat", sources, shape, list(starts_of(sources, op.axis)))

    def reshape(self, op: ops.Reshape) -> None:
        """A group that does nothing: its axes are merged, and its blocks chosen, as those of any other."""
        dtype = tensor_type(op.source).dtype
        body = Block()
        same = ops.Cast(op.location, source=body.add_argument(op.source.type, op.source.name), dtype=dtype)
        body.append(same)
        body.append(ops.Return(op.location, values=[same.result]))
        function = Function(self.name("copy", dtype), body, (), op.location)
        op.set_field("source", self.called(op, function, [op.source], sizes_of(op.source)))

    def call(
        self,
        op: Op,
        kind: str,
        sources: Sequence[Value],
        shape: tuple[int, ...],
        starts: Sequence[tuple[int, ...]],
        fill: float | None = None,
        steps: tuple[int, ...] = (),
    ) -> Value:
        """The result of a call, in front of `op`, of a program that copies `sources` to where they start."""
        pads = [v.op if isinstance(v.op, ops.Pad) else None for v in sources]
        sources = [v if pad is None else pad.source for v, pad in zip(sources, pads)]
        places = [
            Place.of(view_of_value(v), sizes_of(v), start, steps).padded(pad)
            for v, start, pad in zip(sources, starts, pads)
        ]
        dtype = tensor_type(sources[0]).dtype
        function = placed_copies(self.name(kind, dtype), dtype, places, shape, fill, op.location)
        return self.called(op, function, sources, shape)

    def name(self, kind: str, dtype: DType) -> str:
        """The name of another program."""
        name = f"{kind}_{dtype}_{len(self.functions)}"
        while name in self.known:
            name += "_"
        return name

    def called(self, op: Op, function: Function, sources: Sequence[Value], shape: tuple[int, ...]) -> Value:
        """The result of a call of a function, in front of `op`."""
        self.known[function.name] = function
        self.functions.append(function)
        names = [v.name for v in op.results]
        types = [TensorType(tensor_type(sources[0]).dtype, shape)]
        call = ops.Call(op.location, inputs=sources, callee=function.name, types=types, result_names=names)
        assert op.parent is not None
        op.parent.insert_before(op, call)
        return call.result
