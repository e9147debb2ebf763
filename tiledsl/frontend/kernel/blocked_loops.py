"""Runs the loops over blocks of axes: `tile.grid` and `tile.range`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tiledsl.frontend.kernel.carrying import Carried
from tiledsl.frontend.kernel.expressions import call_arguments, coerce_integer, loaded
from tiledsl.frontend.kernel.frame import Frame
from tiledsl.frontend.language import program as language
from tiledsl.frontend.language.values import Auto
from tiledsl.frontend.source.jumps import FlatLoop, assigned_names, flatten_jumps, jumps_in
from tiledsl.frontend.words.builtin_table import Arguments, bind
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.operands import operand_like, read
from tiledsl.frontend.words.values import (
    AxisBlock,
    Coordinate,
    FrontValue,
    Operand,
    Static,
    Tuple,
    Undefined,
    size_of,
    static_integer,
)
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.symbolic import Dim, symbol_name
from tiledsl.ir.tile_ops import Grid, Range
from tiledsl.ir.types import AxisType, BlockSize, Type, scalar
from tiledsl.support.errors import Label
from tiledsl.support.location import Location


@dataclass(frozen=True)
class Returned:
    """What a `return` gave, and where it stands."""

    value: FrontValue
    location: Location


Run: TypeAlias = Callable[[Frame, Sequence[ast.stmt]], "Returned | None"]
"""Runs statements. Loops get it as an argument, which closes the circle from them back to statements."""
LOOP_LOCAL = "only the body of a loop assigns it, and that may run no time at all"
GRID_LOCAL = "a program of the grid assigned it; programs run in parallel, and hand on only what they store"
_GRID, _RANGE = inspect.signature(language.grid), inspect.signature(language.range)


@dataclass(frozen=True)
class _Axis:
    """One axis of a loop: its target, how far it goes, and how the block is declared in the body."""

    target: ast.Name
    stop: Dim | None
    type: Type

    def value(self, low: Lowering, argument: Value) -> FrontValue:
        """What the target stands for in the body."""
        if not isinstance(self.type, AxisType):
            return Coordinate(argument, True, self.stop, self.target.id)
        name = symbol_name(self.type.extent)
        assert name is not None
        low.blocks[name] = argument
        return AxisBlock(argument, self.target.id, self.stop)


def _axis(frame: Frame, target: ast.Name, stop: Operand, block: BlockSize) -> _Axis:
    size = size_of(stop.value)
    known = None if size is None else frame.low.sizes.resolve(size)
    scalar_axis = block.kind == "fixed" and block.size == 1
    return _Axis(target, known, scalar(i64) if scalar_axis else AxisType(frame.low.sizes.declare_extent(target.id)))


def lower_grid(frame: Frame, node: ast.For, call: ast.Call, run: Run) -> None:
    """`for m, n in tile.grid(M, N):`"""
    low = frame.low
    _check_place(frame, node, call)
    arguments = _arguments(frame, "tile.grid", _GRID, call)
    if not arguments.rest:
        frame.fail(call, "grid-sizes")
    targets = _targets(frame, node, len(arguments.rest))
    blocks = _block_sizes(arguments, len(arguments.rest))
    stops = [read(low, size) for size in arguments.rest]
    stop_values = [coerce_integer(frame, stop) for stop in stops]
    axes = [_axis(frame, *parts) for parts in zip(targets, stops, blocks)]
    flat = flatten_jumps(node)
    snapshot = dict(frame.scope)
    low.grid, low.grid_seen = frame.location(call), True
    with low.body([(axis.type, axis.target.id) for axis in axes]) as body:
        for axis, argument in zip(axes, body.arguments):
            frame.scope[axis.target.id] = axis.value(low, argument)
            frame.assigned[axis.target.id] = frame.location(axis.target)
        frame.run_time_depth += 1
        run(frame, flat.body)
        frame.run_time_depth -= 1
    low.grid = None
    frame.scope = snapshot
    for name in (*assigned_names(flat.body), *(target.id for target in targets)):
        frame.scope[name] = Undefined(GRID_LOCAL, frame.assigned.get(name, frame.location(node)))
    low.builder.emit(Grid, stops=stop_values, blocks=tuple(blocks), body=body)


def _check_place(frame: Frame, node: ast.For, call: ast.Call) -> None:
    """Grids stand in the kernel itself, not in one another, and do not end early."""
    if frame.low.grid is not None:
        frame.fail(call, "grid-nested", labels=[Label(frame.low.grid, "the grid around it")])
    if frame.run_time_depth or frame.caller is not None:
        frame.fail(call, "grid-place")
    jump = jumps_in(node.body, ast.Break)
    if jump is not None:
        frame.fail(jump, "grid-break")


def lower_range(frame: Frame, node: ast.For, call: ast.Call, run: Run) -> None:
    """`for k in tile.range(K):`, `for k in tile.range(lo, hi):`"""
    low = frame.low
    if low.grid is None:
        frame.fail(call, "tile-outside-grid", name="tile.range")
    arguments = _arguments(frame, "tile.range", _RANGE, call)
    (target,) = _targets(frame, node, 1)
    (block,) = _block_sizes(arguments, 1)
    start, stop = arguments.read("start"), arguments.read("stop")
    if not arguments.given("stop"):
        start, stop = operand_like(start, Static(0)), start
    start_value, stop_value = coerce_integer(frame, start), coerce_integer(frame, stop)
    axis = _axis(frame, target, stop, block)
    stages = _stages(arguments)
    flat = flatten_jumps(node)
    carried = start_carrying(frame, node, flat, [target.id])

    def body(leading: Sequence[Value]) -> None:
        frame.scope[target.id] = axis.value(low, leading[0])
        frame.assigned[target.id] = frame.location(target)
        run(frame, flat.body)

    inner = carried.lower([(axis.type, target.id)], body)
    bounds = {"start": start_value, "stop": stop_value, "initial": carried.initial()}
    op = low.builder.emit(Range, **bounds, blocks=(block,), num_stages=stages, body=inner, result_names=carried.names)
    carried.bind(op.results)
    carried.forget_locals(LOOP_LOCAL, [target.id])


def start_carrying(frame: Frame, node: ast.For | ast.While, flat: FlatLoop, targets: Sequence[str]) -> Carried:
    """The carried variables of a loop that is about to be lowered."""
    if flat.broken is not None:
        frame.scope[flat.broken] = Static(False)
    names = [name for name in assigned_names(flat.body) if name not in targets]
    return Carried(frame, names, frame.location(node))


def _arguments(frame: Frame, name: str, signature: inspect.Signature, call: ast.Call) -> Arguments:
    positional, keywords = call_arguments(frame, call, loaded)
    with frame.low.builder.at(frame.location(call)):
        return bind(frame.low, name, signature, positional, keywords)


def _targets(frame: Frame, node: ast.For, count: int) -> list[ast.Name]:
    """The names that stand for the blocks, one for each axis."""
    elements = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
    targets = [element for element in elements if isinstance(element, ast.Name)]
    if len(targets) != len(elements):
        frame.fail(node.target, "loop-target")
    if len(targets) != count:
        frame.fail(node.target, "loop-target-count", count=len(targets), expected=count)
    names = [target.id for target in targets]
    if len(set(names)) != len(names):
        frame.fail(node.target, "loop-target-repeated", names=", ".join(names))
    return targets


def _block_sizes(arguments: Arguments, count: int) -> list[BlockSize]:
    """`block=`: one entry for each axis; what is left out is the compiler's choice."""
    operand_ = arguments["block"]
    if _is_auto(operand_.value):
        return [BlockSize.auto()] * count
    items = operand_.value.items if isinstance(operand_.value, Tuple) else (operand_.value,)
    if len(items) != count:
        arguments.low.fail_at(operand_, "block-count", count=len(items), expected=count, name=arguments.name)
    return [_block_size(arguments.low, operand_, item) for item in items]


def _block_size(low: Lowering, operand_: Operand, item: FrontValue) -> BlockSize:
    if _is_auto(item):
        return BlockSize.auto()
    size = static_integer(item)
    if size is None or size <= 0:
        low.fail_at(operand_like(operand_, item), "block-size")
    return BlockSize.fixed(size)


def _is_auto(value: FrontValue) -> bool:
    return isinstance(value, Static) and (value.value is None or isinstance(value.value, Auto))


def _stages(arguments: Arguments) -> int:
    """`num_stages=`; 0 is the compiler's choice."""
    operand_ = arguments["num_stages"]
    if _is_auto(operand_.value):
        return 0
    stages = static_integer(operand_.value)
    if stages is None or stages < 1:
        arguments.low.fail_at(operand_, "num-stages")
    return stages
