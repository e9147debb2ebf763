"""Vector clocks: what is known to be over, and through which proxy."""

from __future__ import annotations

from tiledsl.backend_ref.emulator.agents.clocks import Clock


def known(clock: Clock) -> tuple[list[int], list[int]]:
    return clock.seen.tolist(), clock.fenced.tolist()


def test_nothing_is_known_at_first() -> None:
    assert known(Clock.start(1, 3)) == ([0, 0, 0], [0, 0, 0])
    assert Clock.start(1, 3).has_seen(2, 0)
    assert not Clock.start(1, 3).has_seen(2, 1)


def test_learn_never_forgets() -> None:
    clock = Clock.start(1, 2)
    clock.learn(1, 5)
    clock.learn(1, 3)
    assert known(clock) == ([0, 5], [0, 5])
    assert clock.has_seen(1, 5)
    assert not clock.has_seen(1, 6)


def test_join_takes_the_later_of_both() -> None:
    one, other = Clock.start(2, 3), Clock.start(2, 3)
    one.learn(2, 4)
    other.learn(2, 1)
    other.seen[1] = 7
    one.join(other)
    assert known(one) == ([0, 7, 4], [0, 0, 4])
    assert known(other) == ([0, 7, 1], [0, 0, 1])


def test_copies_are_apart() -> None:
    one = Clock.start(1, 2)
    copy = one.copy()
    one.learn(1, 1)
    assert known(copy) == ([0, 0], [0, 0])
