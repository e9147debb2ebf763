"""What is put into rows of a few elements as it is, is copied by the group that computes the others of these.

    %p = map([%a, %b]) {fn = add}, %b in memory
    %j = graph.concat([%p, %b]) {axis = 1}     =>    %j = graph.concat([%p, graph.cast(%b)]) {axis = 1}

So one kernel makes whole rows (`kernels/records.py`). What others read too is copied for the row. So is an argument
that is given back as it is, by a group that computes with it:

    %y = map([%u, %v]) {fn = add}
    return([%y, %u])                           =>    return([%y, graph.cast(%u)])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.joins import JOINS, Join, makes_short_rows
from tiledsl.passes.graph.analysis.outline import is_soft
from tiledsl.passes.graph.analysis.shapes import volume
from tiledsl.passes.manager import PassContext

COMPUTED = (ops.Map, ops.Cast)


@dataclass(frozen=True)
class CopyFields:
    """Of the entry, on GPUs."""

    name: ClassVar[str] = "copy-fields"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        joins = [op for op in module.entry.body.ops if isinstance(op, JOINS)] if self.arch.startswith("sm_") else []
        for join in filter(_makes_records, joins):
            sources = list(join.sources)
            for number, source in enumerate(sources):
                if not _is_made_for(source, join):
                    same = ops.Cast(join.location, source=source, dtype=tensor_type(source).dtype)
                    module.entry.body.insert_before(join, same)
                    sources[number] = same.result
            join.set_field("sources", sources)
        if self.arch.startswith("sm_"):
            _copy_arguments(module)
        return module


def _copy_arguments(module: Module) -> None:
    """Copies the arguments that are given back, and that elementwise ops read whole."""
    last = module.entry.body.terminator
    assert last is not None
    for value in dict.fromkeys(last.operands):
        if value.op is None and any(_computes_with(user, value) for user in value.users):
            same = ops.Cast(last.location, source=value, dtype=tensor_type(value).dtype)
            module.entry.body.insert_before(last, same)
            last.set_field("values", [same.result if one is value else one for one in last.operands])


def _computes_with(user: Op, value: Value) -> bool:
    """Whether an elementwise op of as many elements reads a value, perhaps by plain reindexing."""
    if isinstance(user, COMPUTED):
        return volume(user.results[0]) == volume(value)
    return is_soft(user) and any(_computes_with(after, value) for after in user.results[0].users)


def _makes_records(join: Join) -> bool:
    """Whether a join makes short rows of what is computed element by element, or in memory."""
    return makes_short_rows(join) and all(map(_is_elementwise, join.sources))


def _is_elementwise(value: Value) -> bool:
    """Whether a value is computed element by element, or is in memory."""
    while isinstance(value.op, (ops.Reshape, ops.Slice, ops.Transpose)):
        value = value.op.source
    return value.op is None or isinstance(value.op, (*COMPUTED, ops.Call))


def _is_made_for(value: Value, join: Join) -> bool:
    """Whether an elementwise op makes a value for a join alone."""
    reader = join
    while True:
        if dict(value.users) != {reader: 1}:
            return False
        if not isinstance(value.op, ops.Reshape):
            return isinstance(value.op, COMPUTED)
        value, reader = value.op.source, value.op
