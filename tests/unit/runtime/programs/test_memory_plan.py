"""Which buffers share memory."""

from __future__ import annotations

from tiledsl.ir.dtypes import f32
from tiledsl.ir.strided_views import whole
from tiledsl.runtime.programs.memory_plan import MOST_DIRECT, is_direct, plan_memory
from tiledsl.runtime.programs.schedule import Buffer, Operand, Schedule, Step


def schedule(sizes: list[int], steps: list[tuple[int, ...]]) -> Schedule:
    """Inner buffers of so many floats, and steps that touch some of them."""
    buffers = tuple(Buffer(f"b{n}", "inner", f32, (size,)) for n, size in enumerate(sizes))
    made = tuple(
        Step(f"s{n}", 0, tuple(Operand(b, whole(buffers[b].shape)) for b in touched), (), (), {}, 0, 0)
        for n, touched in enumerate(steps)
    )
    return Schedule("plan", buffers, (), (), (), made)


def test_a_chain_needs_two_places() -> None:
    plan = plan_memory(schedule([64, 64, 64, 64], [(0,), (0, 1), (1, 2), (2, 3), (3,)]))
    assert plan.bytes == 512
    assert plan.unshared_bytes == 1024
    assert plan.offsets[0] == plan.offsets[2] != plan.offsets[1] == plan.offsets[3]


def test_large_buffers_come_first_and_small_ones_fill_gaps() -> None:
    plan = plan_memory(schedule([1, 100, 256], [(0, 2), (1, 0)]))
    assert plan.offsets == {0: 1024, 1: 0, 2: 0}
    assert plan.bytes == 1280
    assert all(offset % 256 == 0 for offset in plan.offsets.values())


def test_nothing_within() -> None:
    assert plan_memory(schedule([4], [])).bytes == 0


def test_what_has_buffers_within_is_no_run_of_launches_however_small_they_are() -> None:
    for inner, direct in (([0], False), ([4], False), ([], True)):
        made = schedule(inner, [tuple(range(len(inner)))] * 2)
        assert is_direct(made, plan_memory(made)) == direct
    many = schedule([], [()] * (MOST_DIRECT + 1))
    assert not is_direct(many, plan_memory(many))
