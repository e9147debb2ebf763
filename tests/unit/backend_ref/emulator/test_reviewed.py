"""Programs that once went by with a mistake, and correct ones that did not."""

from __future__ import annotations

from tests.support.emulated import fault, outcomes, shared, small
from tests.support.hopper_text import role

S = "%s = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 0}"
TWICE = "layout = local(2) * spatial(32)"
"""Of a warp, for a line of 64 numbers."""
GIVE = f"""%t = gpu.load(%x, [%m], []) {{axes = [0], shape = [64], {TWICE}}}
gpu.write(%s, %t, [%0]) {{places = [0]}}
"""
TAKE = f"""%u = gpu.read(%s, [%0]) {{places = [0], shape = [64], {TWICE}}}
gpu.store(%out, [%m], %u, []) {{axes = [0]}}
"""
ORDERS = (None, *range(10))


def roles(*bodies: str) -> str:
    """A warp for each."""
    body = "\n".join(role(32 * number, 32, one) for number, one in enumerate(bodies))
    return small(body, shared(S), threads=32 * len(bodies))


def named(number: int, action: str = "sync") -> str:
    return f"gpu.named_barrier() {{id = {number}, threads = 64, action = {action}}}\n"


# Named barriers


def test_who_arrives_twice_is_counted_twice() -> None:
    text = roles(named(1, "arrive") * 2, named(1) * 2)
    assert outcomes(text, seeds=ORDERS) == {"emulator-barrier-turn"}
    assert "threads 32 to 63 to named barrier 1 for another turn" in fault(text).message


def test_others_who_may_come_for_the_turn_before() -> None:
    text = roles(GIVE + named(1, "arrive"), named(1) + TAKE, named(1, "arrive"), named(1))
    assert "" not in outcomes(text, seeds=ORDERS)


def test_others_take_the_barrier_before_all_have_woken() -> None:
    """The second role wakes when the last two have used the barrier too: it learns of the first one nevertheless."""
    last = [named(2) + named(3, "arrive") + named(1, "arrive"), named(3) + named(1)]
    text = roles(GIVE + named(1) + named(2, "arrive"), named(1) + TAKE, *last)
    assert outcomes(text, seeds=tuple(range(40))) == {""}
