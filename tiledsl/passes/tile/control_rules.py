"""Algebra of branches and loops: those that are decided, those that carry nothing of use."""

from __future__ import annotations

from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.tile_ops import For, Grid, If, Map, Range, While
from tiledsl.passes.analysis.sizes import SIZES, blocks_of, constant_of, size_of
from tiledsl.passes.tile.loops.carried_values import Loop, carried_arguments, keep_results, keep_yields, yielded
from tiledsl.passes.tile.map_rules import number_of

CONTROL_RULES = Rules()
"""For `tile.if`, `tile.for`, `tile.range`, `tile.while` and `tile.grid`."""


def _inline(op: Op, body: Block, rewriter: Rewriter) -> None:
    """Puts a body's ops where the op is, and what the body yields in place of its results."""
    values = yielded(body)
    assert op.parent is not None
    for inner in list(body.ops):
        if inner.effect != "terminator":
            body.ops.remove(inner)
            op.parent.insert_before(op, inner)
            rewriter.revisit(inner)
    rewriter.replace(op, *values)


@CONTROL_RULES.on(If)
def decided_branch(op: If, rewriter: Rewriter) -> bool:
    # if true { A } else { B } => A
    condition = number_of(op.condition)
    if condition is None:
        return False
    _inline(op, op.then if condition else op.otherwise, rewriter)
    return True


@CONTROL_RULES.on(If)
def negated_branch(op: If, rewriter: Rewriter) -> bool:
    # if not c { A } else { B } => if c { B } else { A }
    condition = op.condition.op
    if not isinstance(condition, Map) or condition.fn != "not":
        return False
    op.set_field("condition", condition.inputs[0])
    op.bodies["then"], op.bodies["otherwise"] = op.otherwise, op.then
    return True


@CONTROL_RULES.on(If)
def same_in_both_branches(op: If, rewriter: Rewriter) -> bool:
    # if c { yield x } else { yield x } => x
    pairs = zip(op.results, yielded(op.then), yielded(op.otherwise))
    same = [(result, yes) for result, yes, no in pairs if yes is no and result.users]
    for result, value in same:
        rewriter.pending.extend(result.users)
        result.replace_with(value)
    return bool(same)


@CONTROL_RULES.on(If)
def unread_branch_result(op: If, rewriter: Rewriter) -> bool:
    # %a, %b = if c { yield x, y } else { yield z, w }, %b not read => %a = if c { yield x } else { yield z }
    keep = [bool(result.users) for result in op.results]
    if all(keep):
        return False
    keep_yields(op, keep)
    rewriter.revisit(keep_results(op, keep))
    return True


@CONTROL_RULES.on(For, Range)
def no_turns(op: For | Range, rewriter: Rewriter) -> bool:
    # for i in range(5, 5): A => nothing
    step = constant_of(op.step) if isinstance(op, For) else 1
    start, stop = size_of(op.start), size_of(op.stop)
    if start is None or stop is None or not step:
        return False
    if not (SIZES.less_equal(stop, start) if step > 0 else SIZES.less_equal(start, stop)):
        return False
    rewriter.replace(op, *op.initial)
    return True


@CONTROL_RULES.on(Grid)
def no_programs(op: Grid, rewriter: Rewriter) -> bool:
    # grid(0, N) A => nothing
    totals = [block.total for block in blocks_of(op)]
    if not any(total is not None and SIZES.less_equal(total, 0) for total in totals):
        return False
    rewriter.erase(op)
    return True


@CONTROL_RULES.on(For)
def one_turn(op: For, rewriter: Rewriter) -> bool:
    # for i in range(0, 1): A(i) => A(0)
    start, stop, step = constant_of(op.start), constant_of(op.stop), constant_of(op.step)
    if start is None or stop is None or not step or len(range(start, stop, step)) != 1:
        return False
    index = rewriter.cast(op.start, i64)
    for argument, value in zip(op.body.arguments, (index, *op.initial)):
        argument.replace_with(value)
    _inline(op, op.body, rewriter)
    return True


@CONTROL_RULES.on(While)
def false_from_the_start(op: While, rewriter: Rewriter) -> bool:
    # while false: A => nothing
    if number_of(yielded(op.condition)[0]) is not False:
        return False
    rewriter.replace(op, *op.initial)
    return True


@CONTROL_RULES.on(For, Range, While)
def carried_unchanged(op: Loop, rewriter: Rewriter) -> bool:
    # a value that the body yields as it got it, is what it was before the loop
    changed = False
    for position, initial in enumerate(op.initial):
        if not _is_unchanged(op, position):
            continue
        for value in (op.results[position], *(carried_arguments(op, body)[position] for body in op.bodies.values())):
            reads = [user for user in value.users if user is not op.body.terminator]
            for user in reads:
                user.replace_operand(value, initial)
                rewriter.pending.append(user)
                changed = True
    return changed


def _is_unchanged(op: Loop, position: int) -> bool:
    return yielded(op.body)[position] in (carried_arguments(op, op.body)[position], op.initial[position])


@CONTROL_RULES.on(For, Range, While)
def unread_carried_value(op: Loop, rewriter: Rewriter) -> bool:
    # a carried value that is read neither in the loop, but to yield it, nor after it, goes
    keep = [_is_read(op, position) for position in range(len(op.initial))]
    if all(keep):
        return False
    keep_yields(op, keep)
    rewriter.revisit(keep_results(op, keep))
    return True


def _is_read(op: Loop, position: int) -> bool:
    arguments: list[Value] = [carried_arguments(op, body)[position] for body in op.bodies.values()]
    own_yield = op.body.terminator if yielded(op.body)[position] in arguments else None
    counts = [argument.users.get(own_yield, 0) if own_yield is not None else 0 for argument in arguments]
    read_inside = any(
        user is not own_yield or count > 1 for argument, count in zip(arguments, counts) for user in argument.users
    )
    return bool(op.results[position].users) or read_inside
