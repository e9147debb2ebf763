"""Recursive questions about graphs of any depth, answered without recursion, and at each place only once."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

K = TypeVar("K")
A = TypeVar("A")
Rule: TypeAlias = Callable[[K], Generator[K, A, A]]
"""How a question is answered at one place: it yields other places, is sent their answers, and returns its own."""


def follow(rule: Rule[K, A], place: K, known: dict[K, A] | None = None) -> A:
    """The answer of a rule at a place, which must not depend on itself.

    `known`: answers from before, to which those that are found are added; a rule may add some itself.

    >>> def depth(op):
    ...     deepest = 0
    ...     for operand in op.operands:
    ...         deepest = max(deepest, (yield operand.op))
    ...     return deepest + 1
    >>> follow(depth, op)
    3
    """
    answers: dict[K, A] = {} if known is None else known
    if place in answers:
        return answers[place]
    places, rules = [place], [rule(place)]
    answer: Any = None  # what a rule is sent first
    while rules:
        try:
            asked = rules[-1].send(answer)
        except StopIteration as end:
            rules.pop()
            answer = answers[places.pop()] = end.value
            continue
        if asked in answers:
            answer = answers[asked]
        else:
            places.append(asked)
            rules.append(rule(asked))
            answer = None
    return answers[place]
