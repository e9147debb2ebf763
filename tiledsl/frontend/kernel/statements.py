"""Runs the statements of a kernel."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tiledsl.frontend.kernel.assignment import assign, bind
from tiledsl.frontend.kernel.blocked_loops import Returned
from tiledsl.frontend.kernel.expressions import binary, condition, evaluate, operand, reject, static_truth
from tiledsl.frontend.kernel.frame import Frame
from tiledsl.frontend.kernel.loops import lower_for, lower_while
from tiledsl.frontend.source.jumps import assigned_names, printable_name
from tiledsl.frontend.words.access import emit_load
from tiledsl.frontend.words.builtin_memory import store
from tiledsl.frontend.words.elementwise import truth
from tiledsl.frontend.words.merging import merge_branches
from tiledsl.frontend.words.operands import operand_like, read
from tiledsl.frontend.words.values import Access, FrontValue, Static, Tile, Undefined
from tiledsl.ir.core import Block
from tiledsl.ir.tile_ops import Assert


def run(frame: Frame, statements: Sequence[ast.stmt]) -> Returned | None:
    """Runs statements in order, up to a `return` if they come to one."""
    builder = frame.low.builder
    for statement in statements:
        outer = builder.location
        builder.location = frame.location(statement)
        returned = _run(frame, statement)
        builder.location = outer
        if returned is not None:
            return returned
    return None


def _run(frame: Frame, node: ast.stmt) -> Returned | None:
    match node:
        case ast.Assign():
            value = operand(frame, node.value)
            for target in node.targets:
                assign(frame, target, value)
        case ast.AnnAssign():
            if node.value is not None:
                assign(frame, node.target, operand(frame, node.value))
        case ast.AugAssign():
            _update(frame, node)
        case ast.Expr():
            if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
                evaluate(frame, node.value)
        case ast.For():
            return lower_for(frame, node, run)
        case ast.While():
            lower_while(frame, node, run)
        case ast.If():
            return _branch(frame, node)
        case ast.Assert():
            _assert(frame, node)
        case ast.Return():
            return _return(frame, node)
        case ast.Pass():
            pass
        case _:
            reject(frame, node)
    return None


def _update(frame: Frame, node: ast.AugAssign) -> None:
    """`x += y`, and `c[m] += y`, which loads, adds and stores."""
    low = frame.low
    match node.target:
        case ast.Name() as target:
            name = ast.copy_location(ast.Name(target.id, ast.Load()), target)
            left, right = operand(frame, name), operand(frame, node.value)
            bind(frame, target, binary(frame, node.op, left, right))
        case ast.Subscript():
            destination, right = operand(frame, node.target), operand(frame, node.value)
            access = destination.value
            if not isinstance(access, Access):
                frame.fail(node.target, "store-target", text=destination.text, what="a value")
            old = operand_like(destination, Tile(emit_load(low, access)))
            new = binary(frame, node.op, old, read(low, right))
            store(low, access, operand_like(destination, new), destination.text)
        case ast.Attribute():
            frame.fail(node.target, "assign-attribute", text=frame.source.segment(node.target))


def _branch(frame: Frame, node: ast.If) -> Returned | None:
    """An `if`: the branch taken where the condition is known, else both, with their variables merged."""
    low = frame.low
    test = read(low, operand(frame, node.test))
    known = static_truth(test.value)
    if known is not None:
        return run(frame, node.body if known else node.orelse)
    choice = condition(frame, test)
    before = dict(frame.scope)
    scopes: list[dict[str, FrontValue]] = []
    blocks: list[Block] = []
    for statements in (node.body, node.orelse):
        frame.scope = dict(before)
        with low.body() as block:
            frame.run_time_depth += 1
            run(frame, statements)
            frame.run_time_depth -= 1
        blocks.append(block)
        scopes.append(frame.scope)
    frame.scope = before
    names = [name for name in assigned_names([node]) if all(_has_value(scope, name) for scope in scopes)]
    values = [[scope[name] for name in names] for scope in scopes]
    merged = merge_branches(
        low, choice.value, (blocks[0], values[0]), (blocks[1], values[1]), list(map(printable_name, names))
    )
    for name, value in zip(names, merged):
        at = frame.assigned.get(name, low.location)
        frame.scope[name] = (
            Undefined(f"its value depends on a branch, and {value}", at) if isinstance(value, str) else value
        )
    for name in assigned_names([node]):
        if name not in names:
            at = frame.assigned.get(name, low.location)
            frame.scope[name] = Undefined("only one branch of a run-time `if` gives it a value", at)
    return None


def _has_value(scope: dict[str, FrontValue], name: str) -> bool:
    return name in scope and not isinstance(scope[name], Undefined)


def _assert(frame: Frame, node: ast.Assert) -> None:
    low = frame.low
    test = read(low, operand(frame, node.test))
    message = f"`{test.text}` does not hold"
    if node.msg is not None:
        text = operand(frame, node.msg)
        if not isinstance(text.value, Static):
            low.fail_at(text, "assert-message")
        message = str(text.value.value)
    known = static_truth(test.value)
    if known is None:
        low.require_in_grid("assert")
        low.builder.emit(Assert, condition=truth(low, test).value, text=message)
    elif not known:
        low.fail("static-assert", message=message)


def _return(frame: Frame, node: ast.Return) -> Returned:
    if frame.run_time_depth:
        frame.fail(node, "early-return")
    value: FrontValue = Static(None) if node.value is None else evaluate(frame, node.value)
    return Returned(value, frame.location(node))
