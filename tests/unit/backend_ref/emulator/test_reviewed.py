"""Programs that once went by with a mistake, and correct ones that did not."""

from __future__ import annotations

from tests.support.gpu_code.emulated import fault, outcomes, shared, small
from tests.support.hopper.hopper_text import role

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


# What one thread waited for


def stored(wait: str) -> str:
    """A warp stores a line by TMA and tells the other one, which writes the next line over it."""
    send = "gpu.tma_store(%out, [%m], %s, [%0]) {axes = [0], places = [0], shape = [64]}\ngpu.bulk_commit()\n"
    send += wait + "gpu.mbarrier_arrive(%empty, %0) {by = role}\ngpu.bulk_wait() {groups = 0}"
    empty = "%empty = gpu.mbarriers() {count = 1, arrivals = 1, offset = 1024}"
    first = GIVE.replace("%t", "%first").replace(TWICE, "layout = spatial(64)") + "gpu.proxy_fence()\ngpu.barrier()\n"
    body = role(0, 32, send) + "\n" + role(32, 32, "gpu.mbarrier_wait(%empty, %0, %0)\n" + GIVE)
    return small(first + body, shared(S, empty))


def test_the_thread_that_stored_tells_that_the_buffer_is_free() -> None:
    assert outcomes(stored("gpu.bulk_wait() {groups = 0, read = true}\n"), seeds=ORDERS) == {""}
    assert "" not in outcomes(stored(""), seeds=ORDERS)


# Reads


def test_a_read_is_kept_till_it_is_over_for_all() -> None:
    """What a thread read of what another one has read since: nothing says that the first one is done."""
    load = GIVE.replace(TWICE, "layout = spatial(64)")
    others = "%u = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = local(2) * replicate(2) * spatial(32)}\n"
    own = "%w = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = spatial(64)}\n"
    again = "gpu.write(%s, %w, [%0]) {places = [0]}\n"
    arrive = "gpu.mbarrier_arrive(%full, %0) {by = role}\n"
    memory = shared(S, "%full = gpu.mbarriers() {count = 1, arrivals = 1, offset = 1024}")
    before = load + "gpu.barrier()\n" + others + arrive + own
    assert "" not in outcomes(small(before + again, memory), seeds=ORDERS)
    assert outcomes(small(before + "gpu.barrier()\n" + again, memory), seeds=ORDERS) == {""}


# Memory that is used again


def test_mbarriers_in_the_place_of_a_buffer() -> None:
    fill = GIVE.replace(TWICE, "layout = spatial(64)")
    take = TAKE.replace(TWICE, "layout = spatial(64)")
    mbarriers = "%full = gpu.mbarriers() {count = 1, arrivals = 1, offset = 128}\n"
    barrier = "gpu.barrier()\n"
    assert outcomes(small(fill + take + barrier + mbarriers, shared(S))) == {""}
    assert outcomes(small(fill + take + mbarriers, shared(S))) == {"emulator-race"}
    assert outcomes(small(fill + barrier + mbarriers + barrier + take, shared(S))) == {"emulator-uninitialised"}
