"""Programs in parts."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tiledsl.importers.parts import GraphPart, HostPart, PartTree, Writer


def counted(log: list[str], name: str, fn: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    """What builds a part, and says so."""

    def build() -> Callable[..., Any]:
        log.append(name)
        return fn

    return build


def program(log: list[str]) -> PartTree:
    """x doubled, then n times plus 1; then what of it is not 2, which the host finds, negated."""

    def write(writer: Writer, inputs: Sequence[int]) -> Callable[[Sequence[Any]], Any]:
        log.append("write")
        x, n = inputs
        writer.kind(x)
        (at,) = writer.graph(counted(log, "double", lambda x: x * 2), [x], 1)
        for _ in range(int(writer.value(n))):
            (at,) = writer.graph(counted(log, "add", lambda x: x + 1), [at], 1)
        (at,) = writer.host("select", lambda x: [x[x != 2]], [at], 1)
        writer.kind(at)
        (at,) = writer.graph(counted(log, "negate", lambda x: -x), [at], 1)
        return lambda values: values[at]

    return PartTree(write)


def test_what_was_written_is_run_without_writing_it_again() -> None:
    log: list[str] = []
    run = program(log)
    x = np.array([1, 0, 4])
    assert run([x, np.array(0)]).tolist() == [0, -8]
    assert log == ["write", "double", "negate"]
    assert run([x + 1, np.array(0)]).tolist() == [-4, -10]
    assert log == ["write", "double", "negate"]


def test_an_answer_that_is_new_makes_a_branch_with_the_parts_before_it() -> None:
    log: list[str] = []
    run = program(log)
    x = np.array([1, 0, 4])
    run([x, np.array(0)])
    log.clear()
    assert run([x, np.array(2)]).tolist() == [-4, -10]
    assert log == ["write", "add", "add", "negate"]
    log.clear()
    assert run([np.array([1, 1]), np.array(0)]).tolist() == []  # other sizes, from the first part on
    assert log == ["write", "double", "negate"]
    assert [type(part) for part in run.parts].count(HostPart) == 3
    assert [type(part) for part in run.parts].count(GraphPart) == 7
