"""Loops that do nothing but add up: parts of them may be added up apart from each other.

for k in tile.range(K):
    acc = tile.dot(a[m, k], b[k, n], acc)              plain
    norm = norm + tile.sum(a[m, k] * a[m, k], axis=1)   plain
    most = tile.maximum(most, ...)                      none
"""

from __future__ import annotations

from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.tile_ops import Dot, Load, Map, Range
from tiledsl.passes.analysis.effects import has_effect
from tiledsl.passes.tile.carried_values import yielded


class NotSplitError(Exception):
    """Why the sums of a loop are not split, in words that follow "because"."""


def check_plain_sums(loop: Range, written: frozenset[Value]) -> None:
    """Raises NotSplitError unless every carried value of a loop is a sum, to which each turn adds what depends on no
    carried value. `written`: the tensors that the grid around it writes."""
    if not loop.initial:
        raise NotSplitError("the loop carries nothing")
    check_reads(loop, written)
    if has_effect(loop):
        raise NotSplitError("the loop writes, prints or checks")
    for argument, last in zip(loop.body.arguments[1:], yielded(loop.body)):
        if not (argument.dtype.is_float or argument.dtype.is_integer):
            raise NotSplitError(f"`{argument.name}` is no number")
        _check_sum(argument, last)


def check_reads(op: Op, written: frozenset[Value]) -> None:
    """Raises NotSplitError where an op, or one in its bodies, reads one of the tensors."""
    for nested in op.walk():
        if isinstance(nested, Load) and nested.tensor in written:
            raise NotSplitError(f"`{nested.tensor.name}` is read and written by the same grid")


def _check_sum(argument: Value, last: Value) -> None:
    """Follows a carried value through additions, each of which is all that reads the one before, to what is yielded."""
    value = argument
    while True:
        if sum(value.users.values()) != 1:
            raise NotSplitError(f"the loop does more with `{argument.name}` than to add to it")
        (user,) = value.users
        if value is last and user is _block_of(argument).terminator:
            return
        if user.parent is not _block_of(argument) or not _adds_to(user, value):
            raise NotSplitError(f"`{argument.name}` is no plain sum")
        value = user.result


def _block_of(argument: Value) -> Block:
    """The block that has an argument."""
    assert isinstance(argument.owner, Block)
    return argument.owner


def _adds_to(op: Op, value: Value) -> bool:
    """Whether an op gives `value` and something else, added up."""
    match op:
        case Dot():
            return op.acc is value
        case Map(fn="add"):
            return True
        case Map(fn="sub"):
            return op.inputs[0] is value
        case Map(fn="fma"):
            return op.inputs[2] is value
        case _:
            return False
