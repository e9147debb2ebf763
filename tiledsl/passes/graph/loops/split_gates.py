"""Products whose columns are read in parts, as a product for each part, where one kernel can then do more.

    %p = contract(%h, %w) {axes = "n k, j k -> n j"}        %i = contract(%h, %w[0:512])
    %i, %f = %p[:, 0:512], %p[:, 512:1024]             =>   %f = contract(%h, %w[512:1024])
    %c = map(mul, %i, %f)                                   %c = map(mul, %i, %f)

So the gates of a recurrent step, which lie behind each other in one product, meet in registers instead of in memory. It
is done where the groups that come of it are predicted to take less time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Module, Op, Value
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.verifier import Form, is_tile_function
from tiledsl.passes.graph.analysis.limits import limits_of
from tiledsl.passes.graph.analysis.outline import Outlined
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.groups.group import Group
from tiledsl.passes.graph.groups.price import Prices
from tiledsl.passes.graph.kernels.kernel_plan import plan_function
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.widen_floats import WidenFloats
from tiledsl.passes.machine import CpuMachine
from tiledsl.passes.manager import Pass, PassContext

MOST_PARTS = 8
"""Products are not split into more: each has an accumulator in every kernel that has them all."""


@dataclass(frozen=True)
class SplitGates:
    """Of the entry, all such products or none. `arch`: for what the kernels will be compiled."""

    name: ClassVar[str] = "split-gates"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        split = module.clone()
        found = split_products(split.entry)
        if not found:
            return module
        before, after = (predicted_groups(m, self.arch, context.machine) for m in (module, split))
        if after >= before:
            return module
        text = f"a product for each of its parts: {after * 1e6:.1f} us, {before * 1e6:.1f} for all in one"
        context.remark(self.name, found[0].location, text)
        return split


def split_products(function: Function) -> list[ops.Contract]:
    """Makes a product for each part in which one is read, as far as that can be; gives the products that were split."""
    for op in reversed(list(function.body.ops)):
        _cut_before(op)
    found = [op for op in function.body.ops if isinstance(op, ops.Contract) and _parts(op)]
    for op in found:
        _split(op)
    tidy(function)
    return found


def _parts(op: Op) -> list[ops.Slice]:
    """The parts, along one axis, that are all that reads the result of an op; none of others."""
    users = list(op.results[0].users)
    slices = [user for user in users if isinstance(user, ops.Slice)]
    if len(slices) != len(users) or not 1 < len(slices) <= MOST_PARTS:
        return []
    along = {axis for part in slices for axis in _cut(part)}
    if len(along) != 1 or any(step != 1 for part in slices for step in part.steps):
        return []
    if isinstance(op, ops.Contract):
        a, b, result = op.axis_names()
        name = result[along.pop()]
        return slices if (name in a) != (name in b) and op.precision != "planes" else []
    return slices


def _cut(part: ops.Slice) -> list[int]:
    """The axes that a slice has not all of."""
    return [axis for axis, (n, all_) in enumerate(zip(sizes_of(part.result), sizes_of(part.source))) if n != all_]


def _cut_before(op: Op) -> None:
    """Cuts what an elementwise op reads instead of what it gives, if that is read in parts."""
    if not isinstance(op, (ops.Map, ops.Cast, ops.Broadcast)):
        return
    parts = _parts(op)
    for part in parts:
        (axis,) = _cut(part)
        start, stop = part.starts[axis], part.stops[axis]
        rewriter = Rewriter(part)
        behind = axis - len(sizes_of(op.result))  # broadcasts have axes in front
        sources = [_sliced(rewriter, value, behind, start, stop) for value in op.operands]
        match op:
            case ops.Map():
                made = rewriter.emit(ops.Map, fn=op.fn, inputs=sources)
            case ops.Cast():
                made = rewriter.emit(ops.Cast, source=sources[0], dtype=op.dtype)
            case ops.Broadcast():
                made = rewriter.emit(ops.Broadcast, source=sources[0], shape=sizes_of(part.result))
        rewriter.replace(part, made.result)
    if parts:
        op.erase()


def _sliced(rewriter: Rewriter, value: Value, axis: int, start: Dim, stop: Dim) -> Value:
    """A part of a tensor along an axis, which is counted from the end; all of one that has it not."""
    sizes = sizes_of(value)
    if len(sizes) < -axis or sizes[axis] == 1:
        return value
    starts, stops = list[Dim]([0] * len(sizes)), list[Dim](sizes)
    starts[axis], stops[axis] = start, stop
    steps = (1,) * len(sizes)
    return rewriter.emit(ops.Slice, source=value, starts=tuple(starts), stops=tuple(stops), steps=steps).result


def _split(op: ops.Contract) -> None:
    names = op.axis_names()
    for part in _parts(op):
        (axis,) = _cut(part)
        name, start, stop = names[2][axis], part.starts[axis], part.stops[axis]
        rewriter = Rewriter(part)
        a, b = (
            _sliced(rewriter, value, mine.index(name) - len(mine), start, stop) if name in mine else value
            for mine, value in zip(names, (op.a, op.b))
        )
        product = rewriter.emit(ops.Contract, a=a, b=b, axes=op.axes, dtype=op.dtype, precision=op.precision)
        rewriter.replace(part, product.result)


def predicted_groups(module: Module, arch: str, host: CpuMachine) -> float:
    """Seconds that the groups of an entry are predicted to take. `host`: the CPU that counts if `arch` is no GPU's."""
    passes: list[Pass] = [WidenFloats(), Group(arch=arch)]
    module = module.clone()
    for each in passes:
        module = each.run(module, PassContext(host))
    prices, seconds = Prices(arch, host), 0.0
    for op in module.entry.body.ops:
        function = module.function(op.callee) if isinstance(op, ops.Call) else None
        if isinstance(op, ops.Call) and function is not None and not is_tile_function(function):
            seconds += prices.of(plan_function(Outlined(function, op.inputs, op.results), limits_of(arch))).seconds
    return seconds
