"""Writes calls of plain tile programs as the ops that they come to, so that they fuse with what is around them.

    %c = graph.call([%a, %b]) {callee = gemm}      =>     %c = graph.contract(%a, %b) {axes = "m k, k n -> m n"}
    %y = graph.map([%c, %r]) {fn = add}                   %y = graph.map([%c, %r]) {fn = add}

A map, a fold of whole axes or a product is raised if it is one kernel as a graph too. All other programs stay calls,
and so does one that says a block size, a level or stages: that is a contract.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Function, Module, Value
from tiledsl.ir.symbolic import symbol_name
from tiledsl.ir.types import AxisType
from tiledsl.ir.verifier import Form, is_tile_function
from tiledsl.passes.graph.analysis.limits import limits_of
from tiledsl.passes.graph.analysis.outline import is_repeated
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan, Refusal, plan_kernel
from tiledsl.passes.graph.raising.raise_body import raise_body
from tiledsl.passes.graph.raising.raised import NotPlainError
from tiledsl.passes.graph.rewrites.canonicalise_graph import CanonicaliseGraph, tidy
from tiledsl.passes.graph.rewrites.derive_online import DeriveOnline
from tiledsl.passes.graph.rewrites.widen_floats import WidenFloats
from tiledsl.passes.manager import Pass, PassContext
from tiledsl.passes.tile.canonicalise import Canonicalise
from tiledsl.passes.tile.cse import EliminateCommonSubexpressions
from tiledsl.passes.tile.dce import EliminateDeadCode
from tiledsl.passes.tile.infer_shapes import InferShapes


@dataclass(frozen=True)
class RaisePrograms:
    """Of the calls in the entry. `arch`: for what kernels will be compiled."""

    name: ClassVar[str] = "raise-programs"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        for op in list(module.entry.body.ops):
            if not isinstance(op, ops.Call):
                continue
            callee = module.function(op.callee)
            if not is_tile_function(callee):
                continue
            try:
                raised = raise_body(with_sizes(callee, op))
            except NotPlainError as error:
                reason = f"`{error.op.name}` ({error.op.location}): {error.reason}"
                context.remark(self.name, op.location, f"@{callee.name} stays a kernel of its own: {reason}")
                continue
            tidy(raised)
            refusal = _refusal(raised, self.arch)
            if refusal is not None:
                reason = f"as a graph it is not one kernel: {refusal.reason}"
                context.remark(self.name, op.location, f"@{callee.name} stays a kernel of its own: {reason}")
                continue
            context.remark(self.name, op.location, f"@{callee.name} is taken for the ops that it comes to")
            inline(op, raised)
        tidy(module.entry)
        called = ops.called_by(module.functions)
        return Module([f for f in module.functions if f is module.entry or f.name in called])


def sizes_of_call(function: Function, call: ops.Call) -> dict[str, int]:
    """The number for each size of a tile program in one call of it."""
    sizes: dict[str, int] = {}
    for parameter, value in zip(function.parameters, call.inputs):
        if isinstance(parameter.type, AxisType):
            continue
        for dim, size in zip(parameter.type.shape, sizes_of(value)):
            name = symbol_name(dim)
            if name is not None:
                sizes.setdefault(name, size)
    return sizes


def with_sizes(function: Function, call: ops.Call) -> Function:
    """A tidy copy of a tile program with the sizes, and the numbers, that a call of it has."""
    function = function.clone()
    for parameter, value in zip(function.parameters, call.inputs):
        if isinstance(value.op, ops.Constant) and not isinstance(parameter.type, tile_ops.TensorType):
            constant = tile_ops.Constant(function.location, value=value.op.value, dtype=value.op.dtype)
            function.body.insert_before(function.body.ops[0], constant)
            parameter.replace_with(constant.result)
    sizes = tuple(sizes_of_call(function, call).items())
    passes: list[Pass] = [
        InferShapes(sizes=sizes), Canonicalise(), EliminateCommonSubexpressions(), Canonicalise(), EliminateDeadCode(),
    ]  # fmt: skip
    module = Module([function])
    for step in passes:
        module = step.run(module, PassContext())
    return module.entry


def _refusal(function: Function, arch: str) -> Refusal | None:
    """Why a GRAPH function is not one kernel, if it is not."""
    passes: list[Pass] = [CanonicaliseGraph(), WidenFloats(), DeriveOnline()]
    module = Module([function.clone()])
    for step in passes:
        module = step.run(module, PassContext())
    body = [op for op in module.entry.body.ops if op.effect != "terminator"]
    members = [op for op in body if not is_repeated(op) and not isinstance(op, ops.Slice)]
    if not members:
        return None
    plan = plan_kernel(members, limits_of(arch))
    return None if isinstance(plan, KernelPlan) else plan


def inline(call: ops.Call, function: Function) -> None:
    """Puts the ops of a GRAPH function in the place of a call of it."""
    values: dict[Value, Value] = dict(zip(function.parameters, call.inputs))
    assert call.parent is not None
    for op in function.body.ops:
        if isinstance(op, ops.Return):
            for old, new in zip(call.results, op.values):
                old.replace_with(values[new])
        else:
            call.parent.insert_before(call, op.clone(values))
    call.erase()
