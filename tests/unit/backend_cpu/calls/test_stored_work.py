"""The cost model's view of grids, kept beside machine code: what is read is what was written."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tiledsl.backend_cpu.calls.stored_work import work_from_json, work_to_json
from tiledsl.ir.symbolic import Dim, dim_from_text
from tiledsl.passes.cpu.grid_work import Axis, GridWork, Task
from tiledsl.passes.cpu.moving_loops import Begins, MovingLoop

DIMS: st.SearchStrategy[Dim] = st.integers(0, 2**40) | st.sampled_from(["N", "2 * M", "(M + 63) // 64"]).map(
    dim_from_text
)
NAMES = st.sampled_from(["m", "n", "k"])
TASKS = st.builds(
    Task,
    st.sampled_from(["dot", "load", "store", "vector", "again"]),
    st.lists(DIMS, max_size=4).map(tuple),
    st.integers(0, 64),
    st.lists(NAMES, max_size=3).map(tuple),
    run=st.none() | st.integers(0, 3),
    across=st.none() | st.integers(0, 3),
    in_registers=st.booleans(),
    times=DIMS,
)
AXES = st.builds(Axis, NAMES, st.none() | DIMS, st.integers(1, 4096), st.integers(1, 64), st.sampled_from(["upto"]))

BEGINS = st.builds(Begins, NAMES, DIMS, DIMS)
MOVING = st.builds(MovingLoop, NAMES, DIMS, DIMS, st.lists(BEGINS, max_size=2).map(tuple))


@given(
    st.lists(AXES, max_size=3),
    st.lists(AXES, max_size=2),
    st.lists(TASKS, max_size=4),
    DIMS,
    st.lists(DIMS, max_size=3),
    st.lists(MOVING, max_size=2),
)
def test_what_is_kept_is_read_as_it_was(
    axes: list[Axis], loops: list[Axis], tasks: list[Task], programs: Dim, tile: list[Dim], moving: list[MovingLoop]
) -> None:
    work = GridWork(tuple(axes), tuple(loops), tuple(tasks), programs, (tuple(tile),), tuple(moving))
    stored: dict[str, Any] = json.loads(json.dumps(work_to_json(work)))
    assert work_from_json(stored) == work


def test_every_field_of_a_task_is_drawn_here() -> None:
    """Who adds one, adds it above."""
    drawn = ["kind", "dims", "weight", "loops", "run", "across", "in_registers", "times"]
    assert [field.name for field in fields(Task)] == drawn
