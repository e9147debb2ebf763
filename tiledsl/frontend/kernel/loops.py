"""Runs the loops of a kernel: integer ranges, `while`, what is unrolled. `blocked_loops` has those over blocks."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

from tiledsl.frontend.kernel.assignment import assign, bind
from tiledsl.frontend.kernel.blocked_loops import LOOP_LOCAL, Returned, Run, lower_grid, lower_range, start_carrying
from tiledsl.frontend.kernel.expressions import coerce_integer, condition, operand, static_truth
from tiledsl.frontend.kernel.frame import Frame
from tiledsl.frontend.language import program as language
from tiledsl.frontend.source.jumps import flatten_jumps
from tiledsl.frontend.words.elementwise import apply
from tiledsl.frontend.words.operands import operand_like, read
from tiledsl.frontend.words.values import FrontValue, Operand, Static, Tile, Tuple, static_integer
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import bool_, i64
from tiledsl.ir.tile_ops import For, While, Yield
from tiledsl.ir.types import scalar
from tiledsl.support.errors import fail

UNROLL_LIMIT = 1024


def lower_for(frame: Frame, node: ast.For, run: Run) -> Returned | None:
    """A `for`: over a grid, a range of blocks, integers, or a tuple. The last two may return, if unrolled."""
    if node.orelse:
        frame.fail(node.orelse[0], "loop-else")
    if isinstance(node.iter, ast.Call):
        function = operand(frame, node.iter.func)
        word = function.value.value if isinstance(function.value, Static) else None
        if word is language.grid:
            lower_grid(frame, node, node.iter, run)
            return None
        if word is language.range:
            lower_range(frame, node, node.iter, run)
            return None
        if word is builtins.range:
            return _integer_range(frame, node, node.iter, run)
    source = operand(frame, node.iter)
    if not isinstance(source.value, Tuple):
        frame.low.fail_at(source, "for-kind")
    return _unrolled(frame, node, source.value.items, run)


def _unrolled(frame: Frame, node: ast.For, items: Sequence[FrontValue], run: Run) -> Returned | None:
    """The body once for each item, at compile time."""
    if len(items) > UNROLL_LIMIT:
        frame.fail(node, "unroll-limit", count=len(items), limit=UNROLL_LIMIT)
    flat = flatten_jumps(node)
    if flat.broken is not None:
        frame.scope[flat.broken] = Static(False)
    for item in items:
        assign(frame, node.target, Operand(item, frame.source.segment(node.iter), frame.location(node.iter)))
        returned = run(frame, flat.body)
        if returned is not None:
            return returned
    return None


def _integer_range(frame: Frame, node: ast.For, call: ast.Call, run: Run) -> Returned | None:
    """`for i in range(...)`: unrolled where the bounds are known, else a loop."""
    bounds = [read(frame.low, operand(frame, argument)) for argument in call.args]
    if call.keywords or not 1 <= len(bounds) <= 3:
        frame.fail(call, "range-arguments")
    zero, one = (Operand(Static(n), str(n), frame.location(call)) for n in (0, 1))
    start = bounds[0] if len(bounds) > 1 else zero
    stop = bounds[1] if len(bounds) > 1 else bounds[0]
    step = bounds[2] if len(bounds) > 2 else one
    stride = static_integer(step.value)
    if stride is None or stride == 0:
        frame.low.fail_at(step, "range-step")
    first, last = static_integer(start.value), static_integer(stop.value)
    if first is not None and last is not None:
        numbers = range(first, last, stride)
        if len(numbers) > UNROLL_LIMIT:
            frame.fail(node, "unroll-limit", count=len(numbers), limit=UNROLL_LIMIT)
        return _unrolled(frame, node, [Static(i) for i in numbers], run)
    _run_time_range(frame, node, start, stop, stride, run)
    return None


def _run_time_range(frame: Frame, node: ast.For, start: Operand, stop: Operand, stride: int, run: Run) -> None:
    if not isinstance(node.target, ast.Name):
        frame.fail(node.target, "loop-target")
    low = frame.low
    begin, end = _as_i64(frame, start), _as_i64(frame, stop)
    if stride < 0:
        # range(a, b, -s) is a - s*i for i in range(ceil((a - b) / s))
        zero = operand_like(start, Static(0))
        length = apply(low, "sub", operand_like(start, begin), operand_like(stop, end))
        rounded = apply(low, "add", operand_like(start, length), operand_like(start, Static(-stride - 1)))
        turns = apply(low, "floordiv", operand_like(start, rounded), operand_like(start, Static(-stride)))
        lower, upper, step = _as_i64(frame, zero), _as_i64(frame, operand_like(start, turns)), 1
    else:
        lower, upper, step = begin, end, stride
    flat = flatten_jumps(node)
    target = node.target
    carried = start_carrying(frame, node, flat, [target.id])

    def body(arguments: Sequence[Value]) -> None:
        index: FrontValue = Tile(arguments[0], weak=True)
        if stride < 0:
            back = apply(low, "mul", operand_like(start, index), operand_like(start, Static(-stride)))
            index = apply(low, "sub", operand_like(start, begin), operand_like(start, back))
        bind(frame, target, index)
        run(frame, flat.body)

    block = carried.lower([(scalar(i64), target.id)], body)
    fields = {"start": lower.value, "stop": upper.value, "step": low.integer(step), "initial": carried.initial()}
    op = low.builder.emit(For, **fields, body=block, result_names=carried.names)
    carried.bind(op.results)
    carried.forget_locals(LOOP_LOCAL, [target.id])


def _as_i64(frame: Frame, bound: Operand) -> Tile:
    value = coerce_integer(frame, bound)
    return Tile(frame.low.builder.cast(value, i64), weak=True)


def lower_while(frame: Frame, node: ast.While, run: Run) -> None:
    """A `while` on a run-time scalar."""
    if node.orelse:
        frame.fail(node.orelse[0], "loop-else")
    low = frame.low
    flat = flatten_jumps(node)
    carried = start_carrying(frame, node, flat, [])
    test = node.test if flat.broken is None else _unless(flat.broken, node.test)

    def turn(_: Sequence[Value]) -> None:
        run(frame, flat.body)

    body = carried.lower([], turn)
    snapshot = dict(frame.scope)
    with low.body(carried.arguments()) as head:
        carried.bind(head.arguments)
        value = read(low, operand(frame, test))
        known = static_truth(value.value)
        if known:
            frame.fail(node.test, "while-forever")
        holds = low.builder.constant(False, bool_) if known is not None else condition(frame, value).value
        low.builder.emit(Yield, values=[holds])
    for inner in head.walk():
        if inner.effect == "write":
            fail("condition-writes", inner.location)
    frame.scope = snapshot
    op = low.builder.emit(While, initial=carried.initial(), condition=head, body=body, result_names=carried.names)
    carried.bind(op.results)
    carried.forget_locals(LOOP_LOCAL)


def _unless(flag: str, test: ast.expr) -> ast.expr:
    """`not flag and test`"""
    name = ast.copy_location(ast.Name(flag, ast.Load()), test)
    negated = ast.copy_location(ast.UnaryOp(ast.Not(), name), test)
    return ast.copy_location(ast.BoolOp(ast.And(), [negated, test]), test)
