"""Loop nests as text, and the pass `loop-nest`, which prints them.

grid m of M, n of N
  loop k of K: fixed
  read %a[m, k] f16[m, k] along k; moved by m, k; again for each n
  write %c[m, n] f16[m, n] along n; moved by m, n
  dot [m, k] x [k, n] -> f32: loaded x loaded
  1 add of f32[m, n] in k
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Index, Module, Value
from tiledsl.ir.types import AxisType, Slice, Whole, format_shape
from tiledsl.ir.verifier import Form
from tiledsl.passes.manager import PassContext
from tiledsl.passes.nest.loop_nest import Access, Elementwise, LoopNest, NestDot, NestLoop, loop_nests


@dataclass(frozen=True)
class PrintLoopNests:
    """Prints what each grid does, and leaves the module as it is."""

    name: ClassVar[str] = "loop-nest"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            for nest in loop_nests(function):
                context.printed += describe_nest(nest)
        return module


def describe_nest(nest: LoopNest) -> list[str]:
    """A line for the grid, each loop, access and product; elementwise work is counted by function."""
    axes = ", ".join(f"{axis.argument.name} of {axis.total if axis.total is not None else '?'}" for axis in nest.axes)
    lines = [f"grid {axes}"]
    lines += [f"  {_loop(loop)}" for loop in nest.loops]
    lines += [f"  {_access(access)}" for access in nest.accesses]
    lines += [f"  {_dot(dot)}" for dot in nest.dots]
    counted = Counter(map(_work, nest.elementwise))
    lines += [f"  {number} {text}" for text, number in counted.items()]
    return lines


def _loop(loop: NestLoop) -> str:
    if loop.axis is None:
        return "loop while: data"
    total = loop.definition.total if loop.definition is not None else None
    length = f" of {total}" if total is not None else ""
    along = f" along {_names(loop.depends)}" if loop.depends else ""
    return f"loop {loop.axis.name}{length}: {loop.trips}{along}"


def _access(access: Access) -> str:
    op = access.op
    kind = "read" if access.is_read else f"atomic {op.fn}" if isinstance(op, ops.Atomic) else "write"
    indices = ", ".join(map(_index, op.indices))
    unit = access.tensor.unit
    along = "" if unit is None else f" along axis {unit}"
    parts = [f"{kind} %{op.tensor.name}[{indices}] {access.tensor.dtype}{format_shape(access.shape)}{along}"]
    if access.gathers:
        parts.append("gathers")
    if access.moved_by:
        parts.append(f"moved by {_names(access.moved_by)}")
    if access.repeated_by:
        parts.append(f"again for each {_names(access.repeated_by)}")
    for axis, among in access.chosen:
        parts.append(f"data choose one of {among} for each {axis.name}")
    if access.conditional:
        parts.append("in a branch")
    return "; ".join(parts)


def _index(index: Index) -> str:
    match index:
        case Whole():
            return ":"
        case Slice():
            return str(index)
        case Value(type=AxisType()):
            shift = index.op
            return f"{_index(shift.axis)} + {shift.offset.name}" if isinstance(shift, ops.Shift) else index.name
        case _:
            return index.name


def _dot(dot: NestDot) -> str:
    a, b = format_shape(dot.op.a.shape), format_shape(dot.op.b.shape)
    return f"dot {a} x {b} -> {dot.op.dtype}: {dot.left} x {dot.right}{_within(dot.loops)}"


def _work(work: Elementwise) -> str:
    op = work.op
    match op:
        case ops.Map() | ops.Random():
            what = op.fn
        case ops.Cast():
            what = f"cast to {op.dtype}"
        case ops.Sort():
            what = "sort"
        case ops.Reduce() | ops.Scan():
            what = f"{'fold' if isinstance(op, ops.Reduce) else 'scan'} by {op.fn}"
    source = op.operands[0].dtype if isinstance(op, ops.Cast) else op.results[0].dtype
    return f"{what} of {source}{format_shape(work.shape)}{_within(work.loops)}"


def _within(loops: tuple[NestLoop, ...]) -> str:
    names = [loop.axis.name if loop.axis is not None else "while" for loop in loops]
    return f" in {' in '.join(reversed(names))}" if names else ""


def _names(values: Iterable[Value]) -> str:
    return ", ".join(sorted(value.name for value in values))
