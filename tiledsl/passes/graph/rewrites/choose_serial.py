"""The pass that leaves one of two ways to compute the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module
from tiledsl.ir.verifier import Form, is_tile_function
from tiledsl.passes.graph.rewrites.canonicalise_graph import drop_unread
from tiledsl.passes.manager import PassContext


@dataclass(frozen=True)
class ChooseSerial:
    """Takes the serial program on CPUs, and the values that threads share elsewhere.

    %v, %p = graph.call([%x]) {callee = halved}
    %s, %q = graph.serial([%v, %p], [%x]) {callee = counted}
      =>  %s, %q = graph.call([%x]) {callee = counted}       on CPUs; elsewhere %v, %p for %s, %q

    With `on_gpus` it is the other way round.
    """

    name: ClassVar[str] = "choose-serial"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            found = [] if is_tile_function(function) else list(function.body.ops)
            for op in found:
                if isinstance(op, ops.Serial):
                    self._choose(op)
            if any(isinstance(op, ops.Serial) for op in found):
                drop_unread(function.body)
        called = ops.called_by(module.functions)
        return Module([f for f in module.functions if f is module.entry or f.name in called])

    def _choose(self, op: ops.Serial) -> None:
        chosen = op.values
        if self.arch.startswith("sm_") == op.on_gpus:
            types, names = [v.type for v in op.results], [v.name for v in op.results]
            call = ops.Call(op.location, inputs=op.inputs, callee=op.callee, types=types, result_names=names)
            assert op.parent is not None
            op.parent.insert_before(op, call)
            chosen = call.results
        for old, new in zip(op.results, chosen):
            old.replace_with(new)
        op.erase()
