"""Who goes on when: by the seed, and by nothing else; and what is said when nobody can."""

from __future__ import annotations

import pytest

from tests.support.gpu_code.emulated import fault, numbers, outcome, run, shared, small
from tests.support.hopper.hopper_text import role
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.ir.text.parser import parse_module

LOAD = "%t = gpu.load(%x, [%m], []) {axes = [0], shape = [64], layout = spatial(64)}\n"
ZEROS = (
    "%i = gpu.arange() {layout = spatial(64)}\n"
    "%z = tile.map([%i, %0]) {fn = mul} : tile<i64, [64], register, spatial(64)>\n"
)
NEXT = ZEROS + LOAD + (
    "%one = tile.map([%t, %t]) {fn = div} : tile<f32, [64], register, spatial(64)>\n"
    "%old = gpu.atomic(%y, [%z], %one, []) {fn = add, axes = [-1]}\n"
    "gpu.store(%out, [%m], %old, []) {axes = [0]}\n"
)  # fmt: skip
XY = "%x: tensor<f32, [M], unit=0>, %y: tensor<f32, [1], unit=0>"
A, B = (f"%{name} = gpu.mbarriers() {{count = 2, arrivals = 32, offset = {at}}}" for name, at in [("a", 0), ("b", 16)])


def tickets(seed: int | None) -> list[float]:
    """The order in which 64 threads come to a counter."""
    text = small(NEXT, shared(), parameters=XY)
    (result,) = run(text, numbers() + 1, numbers(1) * 0, seed=seed)
    return result.tolist()


def test_the_same_seed_gives_the_same_order() -> None:
    for seed in range(4):
        assert tickets(seed) == tickets(seed)


def test_other_seeds_give_other_orders() -> None:
    orders = {tuple(tickets(seed)) for seed in range(12)}
    assert len(orders) > 1
    for order in orders:
        assert sorted(order) == numbers().tolist()


def test_in_step_threads_go_one_after_the_other() -> None:
    assert tickets(None) == numbers().tolist()


def test_programs_go_in_another_order_too() -> None:
    text = small('tile.print([%m]) {text = "at"}', shared())
    seen: set[tuple[str, ...]] = set()
    for seed in (None, *range(5)):
        lines: list[str] = []
        emulate(parse_module(text).entry, [numbers(256)], seed=seed, output=lines.append)
        assert sorted(lines) == ["at 0", "at 128", "at 192", "at 64"]
        seen.add(tuple(lines))
        if seed is None:
            assert lines == ["at 0", "at 64", "at 128", "at 192"]
    assert len(seen) > 1


def test_the_same_seed_gives_the_same_error() -> None:
    write = LOAD + "gpu.write(%s, %t, [%0]) {places = [0]}\n"
    read = "%u = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = local(2) * replicate(2) * spatial(32)}\n"
    buffer = "%s = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 0}"
    text = small(write + read + write.replace("%t", "%v"), shared(buffer))
    said = {seed: str(fault(text, seed=seed)) for seed in range(8)}
    for seed, words in said.items():
        assert str(fault(text, seed=seed)) == words
    assert len(set(said.values())) > 1


# Deadlocks


def crossed() -> str:
    """Two roles, each of which waits for what the other one would do afterwards."""
    one = "gpu.mbarrier_wait(%a, %1, %0)\ngpu.mbarrier_arrive(%b, %0)"
    other = "gpu.mbarrier_wait(%b, %0, %0)\ngpu.mbarrier_arrive(%a, %1)"
    return small(role(0, 32, one) + "\n" + role(32, 32, other), shared(A, B))


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_deadlock_names_who_waits_for_what(seed: int | None) -> None:
    found = fault(crossed(), seed=seed)
    assert found.code == "emulator-deadlock"
    said = str(found)
    waits = "`gpu.mbarrier_wait` waits for parity 0 of"
    assert f"threads 0 to 31: {waits} %a[1]: phase 0 is on, with 0 of 32 arrivals" in said
    assert f"threads 32 to 63: {waits} %b[0]: phase 0 is on, with 0 of 32 arrivals" in said
    assert said.count("gpu.mbarrier_wait(%") == 3  # the line of the error, and one of each


def test_a_deadlock_names_who_is_gone() -> None:
    text = small(role(0, 32, "gpu.named_barrier() {id = 1, threads = 64}") + "\n" + role(32, 32, ""), shared())
    said = str(fault(text, seed=None))
    assert "threads 0 to 31: `gpu.named_barrier` waits for named barrier 1, where 32 of 64 threads are" in said
    assert "note: at their ends already: " in said
    assert "threads 32 to 63" in said


def test_a_deadlock_that_only_some_orders_lead_to() -> None:
    """Both roles take what comes first: an order in which the late one finds nothing."""
    take = "gpu.mbarrier_arrive(%a, %0) {by = role}\n"
    both = "%a = gpu.mbarriers() {count = 1, arrivals = 1, offset = 0}"
    text = small(role(0, 32, take * 2) + "\n" + role(32, 32, "gpu.mbarrier_wait(%a, %0, %0)"), shared(both))
    assert "emulator-deadlock" in {outcome(text, seed=seed) for seed in range(10)}
