"""Mbarriers: arrivals, bytes, phases and their parity."""

from __future__ import annotations

import pytest

from tests.support.gpu_code.emulated import fault, numbers, outcome, outcomes, run, shared, small
from tests.support.hopper.hopper_text import Shared, loop, mul, role, turn

S = "%s = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 0}"
FULL = "%full = gpu.mbarriers() {count = 1, arrivals = 1, offset = 1024}"
LOAD = "%t = gpu.load(%x, [%m], []) {axes = [0], shape = [32], layout = spatial(32)}\n"
WRITE = "gpu.write(%s, %t, [%0]) {places = [0]}\n"
READ = "%u = gpu.read(%s, [%0]) {places = [0], shape = [32], layout = spatial(32)}\n"
STORE = "gpu.store(%out, [%m], %u, []) {axes = [0]}\n"
FETCH = "gpu.tma_load(%x, [%m], %s, [%0], %full, %0) {axes = [0], places = [0], shape = [64]}\n"
WHOLE = READ.replace("32]", "64]").replace("spatial(32)", "spatial(64)") + STORE


def memory(*lines: str) -> Shared:
    return shared(*lines)


def expect(count: int) -> str:
    return f"gpu.mbarrier_expect(%full, %0) {{bytes = {count}}}\n"


def wait(parity: int = 0) -> str:
    return f"gpu.mbarrier_wait(%full, %0, %{parity})\n"


def handed_over(arrive: str, arrivals: int) -> str:
    """One warp writes and arrives, another one waits and reads."""
    full = FULL.replace("arrivals = 1", f"arrivals = {arrivals}")
    body = role(0, 32, LOAD + WRITE + arrive) + "\n" + role(32, 32, wait() + READ + STORE)
    return small(body, memory(S, full), block=32)


@pytest.mark.parametrize(("by", "arrivals"), [("thread", 32), ("warp", 1)])
def test_arrivals_hand_over(by: str, arrivals: int) -> None:
    text = handed_over(f"gpu.mbarrier_arrive(%full, %0) {{by = {by}}}", arrivals)
    for seed in (None, 0, 1, 2):
        (result,) = run(text, numbers(32), seed=seed)
        assert result.tolist() == numbers(32).tolist()


@pytest.mark.parametrize("arrivals", [31, 33])
def test_arrivals_must_be_those_that_are_made(arrivals: int) -> None:
    text = handed_over("gpu.mbarrier_arrive(%full, %0)", arrivals)
    assert outcomes(text, numbers(32)) == {"emulator-deadlock" if arrivals == 33 else "emulator-arrivals"}


def test_no_wait() -> None:
    text = handed_over("gpu.mbarrier_arrive(%full, %0)", 32).replace(wait().strip(), "")
    assert outcomes(text, numbers(32)) <= {"emulator-race", "emulator-uninitialised"}


def test_the_wrong_parity_does_not_wait() -> None:
    text = handed_over("gpu.mbarrier_arrive(%full, %0)", 32).replace("(%full, %0, %0)", "(%full, %0, %1)")
    found = outcomes(text.replace("%0 = ", "%1 = tile.constant() {value = 1, dtype = i64}\n%0 = "), numbers(32))
    assert found & {"emulator-race", "emulator-uninitialised"}
    assert "" not in found


def test_one_thread_arrives_for_all_when_they_met() -> None:
    alone = "gpu.mbarrier_arrive(%full, %0) {by = role}"
    assert outcomes(handed_over(alone, 1), numbers(32)) == {"emulator-race"}
    assert outcomes(handed_over(f"gpu.named_barrier() {{id = 1, threads = 32}}\n{alone}", 1), numbers(32)) == {""}


# Bytes


def fetched(begin: str, more: str = "") -> str:
    return small(begin + wait() + WHOLE + more, memory(S, FULL))


@pytest.mark.parametrize("begin", [expect(256) + FETCH, FETCH + expect(256)])
def test_bytes_may_come_before_they_are_expected(begin: str) -> None:
    for seed in range(6):
        (result,) = run(fetched(begin), numbers(), seed=seed)
        assert result.tolist() == numbers().tolist()


def test_a_phase_needs_its_arrival_too() -> None:
    assert outcomes(fetched(FETCH)) == {"emulator-deadlock"}


@pytest.mark.parametrize(
    ("count", "lacks"),
    [(272, "16 expected bytes have not come"), (240, "16 bytes have come that nobody expected")],
)
def test_bytes_that_are_too_many_or_too_few(count: int, lacks: str) -> None:
    found = fault(fetched(expect(count) + FETCH), seed=None)
    assert found.code == "emulator-deadlock"
    assert f"phase 0 is on, with 1 of 1 arrivals, {lacks}" in str(found)


# Phases


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5])
def test_phase_after_phase(steps: int) -> None:
    """One buffer, filled and emptied `steps` times."""
    text = rounds(steps)
    for seed in (None, 0, 1, 2):
        (result,) = run(text, numbers(64 * steps), seed=seed)
        assert result.tolist() == numbers(64 * steps).tolist()


def rounds(steps: int) -> str:
    at = mul("at", "%i", "%64")
    fill = f"""{turn(1)}
    gpu.mbarrier_wait(%empty, %0, %other)
    {expect(256)}{at}
    {FETCH.replace("[%m]", "[%at]")}"""
    use = f"""{turn(1)}
    gpu.mbarrier_wait(%full, %0, %parity)
    {at}
    {WHOLE.replace("[%m]", "[%at]").replace("spatial(64)", "spatial(32) * local(2)")}
    gpu.proxy_fence()
    gpu.mbarrier_arrive(%empty, %0)"""
    body = role(0, 32, loop(f"%{steps}", fill)) + "\n" + role(32, 32, loop(f"%{steps}", use))
    empty = FULL.replace("%full", "%empty").replace("arrivals = 1,", "arrivals = 32,").replace("1024", "1032")
    return small(body, memory(S, FULL, empty), block=64 * steps)


def test_who_skips_a_step_must_consume_and_release_it() -> None:
    """A consumer that leaves out its third step: its stage stays full, and phases are no longer those of its steps."""
    keep = "%is_other = tile.map([%i, %2]) {fn = ne}\ntile.if(%is_other) then() {\n"
    text = rounds(5)
    head, tail = text.rsplit("gpu.mbarrier_wait(%full, %0, %parity)", 1)
    work, rest = tail.split("gpu.proxy_fence()", 1)
    consumed = head + "gpu.mbarrier_wait(%full, %0, %parity)\n" + keep + work + "tile.yield([])\n} otherwise() {\n"
    consumed += "tile.yield([])\n}\ngpu.proxy_fence()" + rest
    assert outcomes(consumed, numbers(320)) == {""}
    arrive = "gpu.mbarrier_arrive(%empty, %0)"
    before, after = rest.split(arrive, 1)
    skipped = head + keep + "gpu.mbarrier_wait(%full, %0, %parity)\n" + work + "gpu.proxy_fence()" + before + arrive
    skipped += "\ntile.yield([])\n} otherwise() {\ntile.yield([])\n}\n" + after
    found = outcomes(skipped, numbers(320))
    assert found & {"emulator-deadlock", "emulator-phase", "emulator-overtaken"}
    assert "" not in found


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_a_wait_that_is_overtaken(seed: int | None) -> None:
    """Whether or not the phase is gone by the time that it is waited for, nobody may rely on it."""
    arrive = "gpu.mbarrier_arrive(%full, %0) {by = role}\n"
    text = small(role(0, 32, arrive * 2) + "\n" + role(32, 32, wait()), memory(FULL))
    assert outcome(text, seed=seed) in {"emulator-overtaken", "emulator-deadlock"}


def test_an_index_that_is_none() -> None:
    text = fetched(expect(256) + FETCH).replace("gpu.mbarrier_wait(%full, %0,", "gpu.mbarrier_wait(%full, %64,")
    text = text.replace("%0 = ", "%64 = tile.constant() {value = 64, dtype = i64}\n  %0 = ")
    found = fault(text)
    assert found.code == "emulator-shared-bounds"
    assert "%full at 64 on axis 0, whose size is 1" in found.message
