"""Barriers of the block, of the cluster and of some number of threads; proxy fences before them."""

from __future__ import annotations

import pytest

from tests.support.gpu_code.emulated import fault, numbers, outcomes, run, shared, small
from tests.support.hopper.hopper_text import Shared, role

S = "%s = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 0}"
FULL = "%full = gpu.mbarriers() {count = 1, arrivals = 1, offset = 1024}"
LOAD = "%t = gpu.load(%x, [%m], []) {axes = [0], shape = [64], layout = spatial(64)}\n"
WRITE = "gpu.write(%s, %t, [%0]) {places = [0]}\n"
READ = "%u = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = spatial(64)}\n"
OTHERS = READ.replace("spatial(64)", "local(2) * replicate(2) * spatial(32)")
STORE = "gpu.store(%out, [%m], %u, []) {axes = [0]}\n"
BARRIER = "gpu.barrier()\n"
FENCE = "gpu.proxy_fence()\n"
XY = "%x: tensor<f32, [M], unit=0>, %y: tensor<f32, [M], unit=0>"


def line(body: str, memory: Shared | None = None, **options: object) -> str:
    return small(body, memory or shared(S, FULL), **options)  # pyright: ignore[reportArgumentType]


# The barrier of the block


def test_what_was_written_is_seen_after_a_barrier() -> None:
    for seed in (None, 0, 1, 2):
        (result,) = run(line(LOAD + WRITE + BARRIER + OTHERS + STORE), numbers(), seed=seed)
        assert result.tolist() == numbers().tolist()


def test_without_a_barrier_it_is_a_race() -> None:
    assert "" not in outcomes(line(LOAD + WRITE + OTHERS + STORE))
    assert outcomes(line(LOAD + WRITE + READ + STORE)) == {""}  # each thread reads what it wrote itself


def test_a_warp_is_no_exception() -> None:
    within = READ.replace("spatial(64)", "spatial(2) * local(2) * replicate(2) * spatial(16)")
    found = fault(line(LOAD + WRITE + within + STORE), seed=None)
    assert found.code == "emulator-race"
    assert outcomes(line(LOAD + WRITE + BARRIER + within + STORE)) == {""}


def test_reads_come_before_what_is_written_next() -> None:
    first = LOAD + WRITE + BARRIER + OTHERS + STORE
    assert outcomes(line(first + BARRIER + WRITE)) == {""}
    assert outcomes(line(first + WRITE)) == {"emulator-race"}


def test_a_barrier_of_the_block_in_a_role_waits_for_ever() -> None:
    assert outcomes(line(role(0, 32, BARRIER))) == {"emulator-deadlock"}


# Clusters


def across(barrier: str) -> str:
    """Two blocks store a tile each, and load that of the other one."""
    body = f"""%t = gpu.load(%x, [%m], []) {{axes = [0], shape = [128], layout = spatial(128)}}
    gpu.store(%y, [%m], %t, []) {{axes = [0]}}
    {barrier}
    %u = gpu.load(%y, [%m], []) {{axes = [0], shape = [128], layout = local(2) * replicate(2) * spatial(64)}}
    gpu.store(%out, [%m], %u, []) {{axes = [0]}}"""
    return line(body, cluster=2, block=128, parameters=XY)


def test_barriers_of_the_cluster() -> None:
    both = (numbers(128), numbers(128) * 0)
    assert outcomes(across("gpu.barrier() {scope = cluster}"), *both) == {""}
    assert "" not in outcomes(across("gpu.barrier()"), *both, seeds=(0, 1, 2))


# Named barriers


def handed_over(arrive: str, wait: str, threads: int = 64) -> str:
    give = LOAD.replace("64", "32") + WRITE + arrive
    take = wait + "\n" + READ.replace("64", "32") + STORE
    return line(role(0, 32, give) + "\n" + role(32, 32, take), threads=threads)


def named(number: int, threads: int, action: str = "sync") -> str:
    return f"gpu.named_barrier() {{id = {number}, threads = {threads}, action = {action}}}"


@pytest.mark.parametrize("action", ["sync", "arrive"])
def test_named_barriers(action: str) -> None:
    assert outcomes(handed_over(named(1, 64, action), named(1, 64))) == {""}


def test_who_only_arrives_has_waited_for_nobody() -> None:
    """The role that arrives may not read what the other one wrote before it."""
    give = LOAD.replace("64", "32") + WRITE + named(1, 64)
    take = named(1, 64, "arrive") + "\n" + READ.replace("64", "32") + STORE
    text = line(role(0, 32, give) + "\n" + role(32, 32, take))
    assert outcomes(text) <= {"emulator-race", "emulator-uninitialised"}


def test_barriers_of_other_numbers_are_others() -> None:
    assert outcomes(handed_over(named(1, 64), named(2, 64))) == {"emulator-deadlock"}


def test_who_comes_counts_for_as_many_as_they_are() -> None:
    assert outcomes(handed_over(named(1, 64), named(1, 96), threads=96)) == {"emulator-barrier-threads"}
    assert outcomes(handed_over(named(1, 96), named(1, 96), threads=96)) == {"emulator-deadlock"}


def test_too_many_come() -> None:
    two = role(0, 64, named(1, 96, "arrive")) + "\n" + role(64, 64, named(1, 96, "arrive"))
    found = fault(line(two, threads=128), seed=None)
    assert found.code == "emulator-barrier-threads"
    assert "brings 64 threads to named barrier 1, where 64 are already, of 96" in found.message


def test_a_named_barrier_is_used_again() -> None:
    twice = "\n".join([named(1, 64)] * 4)
    assert outcomes(line(role(0, 32, twice) + "\n" + role(32, 32, twice))) == {""}


# Turns


def in_turn(*actions: str) -> str:
    """Two warpgroups that do the same: turns, from barrier 3 on."""
    return line(role(0, 256, "\n".join(f"gpu.turn() {{id = 3, action = {action}}}" for action in actions)), threads=256)


@pytest.mark.parametrize("times", [1, 3])
def test_warpgroups_take_turns(times: int) -> None:
    assert outcomes(in_turn("begin", *["take", "pass"] * times, "end"), seeds=(None, *range(8))) == {""}


@pytest.mark.parametrize(
    "actions", [("take", "pass", "end"), ("begin", "take", "take"), ("begin", "take", "pass", "end", "end")]
)
def test_turns_that_nobody_hands_on(actions: tuple[str, ...]) -> None:
    assert outcomes(in_turn(*actions), seeds=(0, 1, 2, 3)) == {"emulator-deadlock"}


# Proxies

SEND = "gpu.tma_store(%out, [%m], %s, [%0]) {axes = [0], places = [0], shape = [64]}\ngpu.bulk_commit()\n"
DONE = "gpu.bulk_wait() {groups = 0}\n"
EXPECT = "gpu.mbarrier_expect(%full, %0) {bytes = 256}\n"
FETCH = "gpu.tma_load(%x, [%m], %s, [%0], %full, %0) {axes = [0], places = [0], shape = [64]}\n"


@pytest.mark.parametrize(
    ("between", "codes"),
    [
        (FENCE + BARRIER, {""}),
        (BARRIER, {"emulator-proxy-fence"}),
        (FENCE, {"emulator-race", "emulator-uninitialised"}),
    ],
)
def test_written_by_threads_then_sent(between: str, codes: set[str]) -> None:
    assert outcomes(line(LOAD + WRITE + between + SEND + DONE)) <= codes


def test_a_fence_is_of_those_who_wrote() -> None:
    """After the barrier it comes too late: the thread that sends did not write all of it."""
    assert "emulator-proxy-fence" in outcomes(line(LOAD + WRITE + BARRIER + FENCE + SEND + DONE))


@pytest.mark.parametrize(("fence", "code"), [(FENCE, ""), ("", "emulator-proxy-fence")])
def test_read_by_threads_then_filled_again(fence: str, code: str) -> None:
    fill = EXPECT + FETCH + "gpu.mbarrier_wait(%full, %0, "
    body = f"{fill}%0)\n" + READ + STORE + fence + BARRIER + f"{fill}%1)\n"
    assert outcomes(line(body)) == {code}


@pytest.mark.parametrize(
    ("fence", "code"), [("", "emulator-proxy-fence"), ("gpu.proxy_fence() {scope = global}\n", "")]
)
def test_stored_by_threads_then_fetched(fence: str, code: str) -> None:
    body = LOAD + "gpu.store(%y, [%m], %t, []) {axes = [0]}\n" + fence + BARRIER + EXPECT
    body += FETCH.replace("%x", "%y") + "gpu.mbarrier_wait(%full, %0, %0)\n" + READ + STORE
    assert outcomes(line(body, parameters=XY), numbers(), numbers()) == {code}


def test_what_threads_read_of_what_came_needs_no_fence() -> None:
    assert outcomes(line(EXPECT + FETCH + "gpu.mbarrier_wait(%full, %0, %0)\n" + READ + STORE)) == {""}
