"""Who accessed what when: every kind of conflict, and what is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from tiledsl.backend_ref.emulator.agents.clocks import Clock
from tiledsl.backend_ref.emulator.agents.shadow import NOBODY, Accessor, Conflict, Shadow, TensorShadow
from tiledsl.ir.core import Op
from tiledsl.ir.gpu.async_ops import ProxyFence
from tiledsl.ir.gpu.gpu_ops import Commit
from tiledsl.support.location import Location

AGENTS = 2
FLIGHT = AGENTS
"""The component of something under way."""
HERE = Location("small.tir", 1)
FIRST, SECOND = ProxyFence(HERE), Commit(HERE)
"""Ops, to be told apart."""


def who(
    component: int, step: int = 1, op: Op = FIRST, *, knows: Mapping[int, int] | None = None,
    fenced: Mapping[int, int] | None = None, landed: Mapping[int, int] | None = None, is_async: bool = False,
    atomic: bool = False,
) -> Accessor:  # fmt: skip
    """An access by an agent, or in a component of something under way. `knows`: steps of others that are over."""
    clock = Clock.start(AGENTS, AGENTS + 1)
    for other, until in (knows or {}).items():
        clock.seen[other] = until
    for other, until in (fenced or {}).items():
        clock.fenced[other] = until
    return Accessor(op, component, step, clock, landed or {}, is_async, atomic)


def array(*numbers: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def write(shadow: Shadow, by: Accessor, unit: int = 0, thread: int = 0) -> Conflict | None:
    return shadow.write(by, array(unit), array(thread))


def read(shadow: Shadow, by: Accessor, unit: int = 0, threads: Sequence[int] = (0,)) -> Conflict | None:
    return shadow.read(by, np.full(len(threads), unit), array(*threads))


def parties(conflict: Conflict | None) -> tuple[str, int, str, int, Op]:
    assert conflict is not None
    return conflict.verb, conflict.thread, conflict.before, conflict.other, conflict.by


def test_write_then_read() -> None:
    shadow = Shadow(4)
    assert write(shadow, who(0), 2, thread=5) is None
    found = read(shadow, who(1, op=SECOND), 2, (40,))
    assert parties(found) == ("read", 40, "wrote", 5, FIRST)
    assert found is not None
    assert (found.unit, found.component, found.step, found.only_unfenced) == (2, 0, 1, False)
    assert read(shadow, who(1, knows={0: 1}), 2, (40,)) is None
    assert read(shadow, who(1), 3, (40,)) is None


def test_read_then_write() -> None:
    shadow = Shadow(1)
    assert read(shadow, who(0), threads=(5,)) is None
    assert parties(write(shadow, who(1, op=SECOND), thread=40)) == ("write", 40, "read", 5, FIRST)
    assert write(shadow, who(1, knows={0: 1}), thread=40) is None


def test_write_then_write() -> None:
    shadow = Shadow(1)
    assert write(shadow, who(0), thread=5) is None
    assert parties(write(shadow, who(1, op=SECOND), thread=40)) == ("write", 40, "wrote", 5, FIRST)


def test_reads_are_in_no_conflict() -> None:
    shadow = Shadow(1)
    assert read(shadow, who(0), threads=(0, 1, 2)) is None
    assert read(shadow, who(1), threads=(40, 41)) is None


def test_an_older_step_alone_is_known() -> None:
    shadow = Shadow(1)
    write(shadow, who(0, step=3))
    assert read(shadow, who(1, knows={0: 2}), threads=(40,)) is not None


def test_own_accesses_are_in_order() -> None:
    shadow = Shadow(1)
    assert write(shadow, who(0, 1), thread=3) is None
    assert read(shadow, who(0, 1), threads=(3,)) is None
    assert write(shadow, who(0, 2), thread=3) is None


def test_other_threads_of_an_agent_are_others() -> None:
    shadow = Shadow(1)
    assert write(shadow, who(0), thread=3) is None
    assert parties(read(shadow, who(0), threads=(4,))) == ("read", 4, "wrote", 3, FIRST)
    assert read(shadow, who(0, knows={0: 1}), threads=(4,)) is None


def test_two_threads_write_at_once() -> None:
    shadow = Shadow(2)
    found = shadow.write(who(0), array(1, 1), array(3, 4))
    assert parties(found) == ("write", 3, "writes", 4, FIRST)
    assert shadow.write(who(0, atomic=True), array(0, 0), array(3, 4)) is None


@pytest.mark.parametrize("readers", [[(0,), (1,)], [(0, 1)], [(1,), (0,)]])
def test_of_several_readers_none_is_forgotten(readers: list[tuple[int, ...]]) -> None:
    shadow = Shadow(1)
    for threads in readers:
        read(shadow, who(0), threads=threads)
    assert write(shadow, who(0), thread=0) is not None
    assert write(shadow, who(0, knows={0: 1}), thread=0) is None


def test_readers_of_two_agents_are_both_asked() -> None:
    shadow = Shadow(1)
    read(shadow, who(0), threads=(0,))
    read(shadow, who(1), threads=(40,))
    assert write(shadow, who(0, knows={0: 1}), thread=0) is not None
    assert write(shadow, who(0, knows={1: 1}), thread=0) is None


def test_a_write_ends_what_readers_did() -> None:
    shadow = Shadow(1)
    read(shadow, who(0), threads=(0,))
    assert write(shadow, who(1, knows={0: 1}), thread=40) is None
    assert write(shadow, who(0, knows={1: 1}), thread=1) is None


def test_atomics_are_in_no_conflict_with_each_other() -> None:
    shadow = Shadow(1)
    assert write(shadow, who(0, atomic=True), thread=0) is None
    assert write(shadow, who(1, atomic=True), thread=40) is None
    assert read(shadow, who(0), threads=(0,)) is not None
    assert write(shadow, who(0), thread=0) is not None


def test_an_atomic_after_a_plain_write() -> None:
    shadow = Shadow(1)
    write(shadow, who(0), thread=0)
    assert write(shadow, who(1, atomic=True), thread=40) is not None


# Under way, and through which proxy


def test_what_is_under_way_is_not_even_the_own_threads() -> None:
    shadow = Shadow(1)
    assert write(shadow, who(FLIGHT, 1), thread=3) is None
    assert read(shadow, who(0), threads=(3,)) is not None
    assert read(shadow, who(0, landed={FLIGHT: 1}), threads=(3,)) is None
    assert read(shadow, who(0, landed={FLIGHT: 1}), threads=(4,)) is not None
    assert read(shadow, who(0, knows={FLIGHT: 1}), threads=(4,)) is None


def test_a_read_under_way_is_in_the_way_of_writes() -> None:
    shadow = Shadow(1)
    assert write(shadow, who(0), thread=3) is None
    assert read(shadow, who(FLIGHT, 2, knows={0: 1}, fenced={0: 1}, is_async=True), threads=(3,)) is None
    assert write(shadow, who(0, landed={FLIGHT: 1}), thread=3) is not None
    assert write(shadow, who(0, landed={FLIGHT: 2}), thread=3) is None


@pytest.mark.parametrize("own", [True, False])
def test_async_after_a_generic_write(own: bool) -> None:
    shadow = Shadow(1)
    write(shadow, who(0), thread=3)
    thread = 3 if own else 4
    found = read(shadow, who(FLIGHT, knows={0: 1}, is_async=True, op=SECOND), threads=(thread,))
    assert parties(found) == ("read", thread, "wrote", 3, FIRST)
    assert found is not None
    assert found.only_unfenced
    assert read(shadow, who(FLIGHT, knows={0: 1}, fenced={0: 1}, is_async=True), threads=(thread,)) is None


def test_async_after_a_generic_read() -> None:
    shadow = Shadow(1)
    read(shadow, who(0), threads=(3,))
    found = write(shadow, who(FLIGHT, knows={0: 1}, is_async=True), thread=3)
    assert parties(found) == ("write", 3, "read", 3, FIRST)
    assert found is not None
    assert found.only_unfenced
    assert write(shadow, who(FLIGHT, knows={0: 1}, fenced={0: 1}, is_async=True), thread=3) is None


def test_async_after_async_needs_no_fence() -> None:
    shadow = Shadow(1)
    write(shadow, who(FLIGHT, is_async=True), thread=3)
    assert read(shadow, who(FLIGHT, 2, knows={FLIGHT: 1}, is_async=True), threads=(4,)) is None


# What was written at all


def test_initialised() -> None:
    shadow = Shadow(3)
    write(shadow, who(0), 1)
    assert shadow.first_uninitialised(array(1, 2, 0)) == 1
    assert shadow.first_uninitialised(array(1)) is None


def test_forget() -> None:
    shadow = Shadow(2)
    write(shadow, who(0))
    read(shadow, who(0))
    shadow.forget(array(0))
    assert write(shadow, who(1), thread=40) is None
    assert shadow.first_uninitialised(array(0)) is None


# Tensors


def test_between_programs_nothing_is_in_order() -> None:
    shadow = TensorShadow(2)
    assert shadow.write(who(0), 0, array(1), array(0)) is None
    for found in (
        shadow.read(who(0, knows={0: 9}), 1, array(1), array(0)),
        shadow.write(who(0, knows={0: 9}), 1, array(1), array(0)),
    ):
        assert found is not None
        assert (found.unit, found.before, found.component, found.by) == (1, "wrote", NOBODY, FIRST)
    assert shadow.write(who(0), 1, array(0), array(0)) is None


def test_one_program_reads_and_another_one_writes() -> None:
    shadow = TensorShadow(1)
    assert shadow.read(who(0), 0, array(0), array(0)) is None
    assert shadow.read(who(0), 1, array(0), array(0)) is None
    found = shadow.write(who(0, knows={0: 9}), 1, array(0), array(0))
    assert found is not None
    assert (found.verb, found.before, found.component) == ("write", "read", NOBODY)


def test_atomics_of_programs() -> None:
    shadow = TensorShadow(1)
    assert shadow.write(who(0, atomic=True), 0, array(0), array(0)) is None
    assert shadow.write(who(0, atomic=True), 1, array(0), array(0)) is None
    assert shadow.write(who(0), 2, array(0), array(0)) is not None
    assert shadow.read(who(0), 2, array(0), array(0)) is not None


def test_programs_may_write_the_same_where_they_say_so() -> None:
    shadow, one, two = TensorShadow(1), np.array([[1]], np.uint8), np.array([[2]], np.uint8)
    assert shadow.write(who(0), 0, array(0), array(0), one) is None
    assert shadow.write(who(0), 1, array(0), array(0), one) is None
    assert shadow.write(who(0, 2), 1, array(0), array(40), one) is None
    assert shadow.write(who(0), 2, array(0), array(0), two) is not None
    assert shadow.write(who(0), 2, array(0), array(0)) is not None


def test_within_a_program_clocks_count() -> None:
    shadow = TensorShadow(1)
    assert shadow.write(who(0), 0, array(0), array(0)) is None
    assert shadow.read(who(1), 0, array(0), array(40)) is not None
    assert shadow.read(who(1, knows={0: 1}), 0, array(0), array(40)) is None


def test_reads_of_an_earlier_program_say_nothing_of_this_ones_time() -> None:
    shadow = TensorShadow(1)
    assert shadow.read(who(0, 5), 0, array(0), array(0)) is None
    assert shadow.read(who(1, 1), 1, array(0), array(40)) is None
