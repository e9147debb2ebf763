"""Plans as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiledsl.passes.gpu.lower_to_gpu import LowerToGpu
from tiledsl.passes.gpu.plan import ROLES, GridPlan, LibraryPlan, Plan, parse_plan
from tiledsl.passes.pipeline_text import parse_pipeline

NUMBERS = st.integers(1, 2**20)
SYMBOLS = st.sampled_from(["m", "N", "k_1", "row"])
SIZES = st.one_of(SYMBOLS, st.sampled_from(["2*N + 1", "min(M, N)", "max(1, min(M, N))", "(N + 3) // 4", "N % 4"]))
# every field is drawn: a new one that the text leaves out is found
GRIDS = st.builds(
    GridPlan, threads=NUMBERS, cluster=NUMBERS, warps=st.tuples(NUMBERS, NUMBERS), stages=NUMBERS, row_threads=NUMBERS,
    programs=NUMBERS, raster=NUMBERS, roles=st.sampled_from(["", *ROLES]), splits=NUMBERS, resident=NUMBERS,
    rows=NUMBERS, across=NUMBERS,
    copied=st.lists(st.integers(0, 9), max_size=3).map(tuple), lines=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    flat=st.booleans(), counted=st.booleans(), swapped=st.booleans(), split=st.booleans(),
    private=st.booleans(), groups=NUMBERS,
)  # fmt: skip


def pairs(names: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[tuple[str, int], ...]]:
    return st.lists(st.tuples(names, NUMBERS), max_size=3).map(tuple)


LIBRARIES = st.builds(
    LibraryPlan, version=NUMBERS, workspace=st.integers(0, 2**25),
    algorithm=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=8).map(tuple),
)  # fmt: skip
PLANS = st.builds(
    Plan, grids=st.lists(GRIDS, max_size=3).map(tuple), blocks=pairs(SYMBOLS), capacities=pairs(SIZES),
    sizes=pairs(SYMBOLS), divisors=pairs(SYMBOLS),
    alignment=st.lists(st.sampled_from([1, 2, 16]), max_size=3).map(tuple), chained=st.booleans(),
    parts=st.lists(NUMBERS, max_size=3).map(tuple), packed=st.lists(st.sampled_from([0, 2, 16]), max_size=3).map(tuple),
    steps=st.lists(st.sampled_from([0, 64, 65, 98]), max_size=3).map(tuple),
    turned=st.lists(st.integers(0, 9), max_size=3).map(tuple), library=st.none() | LIBRARIES, forwarded=st.booleans(),
)  # fmt: skip


@given(PLANS)
def test_text_is_read_back(plan: Plan) -> None:
    assert parse_plan(str(plan)) == plan


def test_every_field_is_drawn() -> None:
    of_grids = {"threads", "cluster", "warps", "stages", "row_threads", "programs", "raster"}
    of_grids |= {"roles", "splits", "rows", "resident", "copied", "lines", "across", "flat", "counted", "swapped"}
    of_grids |= {"split", "private", "groups"}
    assert set(GridPlan.__dataclass_fields__) == of_grids
    of_plans = {
        "grids",
        "blocks",
        "capacities",
        "sizes",
        "divisors",
        "alignment",
        "chained",
        "parts",
        "packed",
        "steps",
        "turned",
        "library",
        "forwarded",
    }
    assert set(Plan.__dataclass_fields__) == of_plans
    assert set(LibraryPlan.__dataclass_fields__) == {"version", "algorithm", "workspace"}


def test_text() -> None:
    plan = Plan(
        (GridPlan(128, warps=(2, 2), stages=3), GridPlan(512, cluster=8, row_threads=16, raster=4)),
        blocks=(("m", 64),), capacities=(("2*N", 4096),), sizes=(("K", 80),), divisors=(("M", 4),), alignment=(16, 2),
    )  # fmt: skip
    assert str(plan) == (
        "m=64, 2*N<=4096, 128 threads, 2x2 warps, 3 stages, 512 threads x 8, 16 per row, 4 rows at a time,"
        " K:=80, M%4=0, aligned to 16/2"
    )
    assert parse_plan(str(Plan(()))) == Plan(())


def test_text_of_specialised_warps() -> None:
    split = GridPlan(256, cluster=4, warps=(8, 1), stages=4, programs=132, roles="cooperative", splits=4)
    turns = GridPlan(256, warps=(4, 1), roles="pingpong", rows=16, resident=2, copied=(0, 3), lines=(3,))
    plan = Plan((split, turns), blocks=(("m", 128),))
    text = "m=128, 256 threads x 4, 8x1 warps, 4 stages, 132 programs, cooperative, 4 splits"
    assert (
        str(plan) == text + ", 256 threads, 4x1 warps, pingpong, 16 rows in all, 2 at once, copies of 0/3, lines of 3"
    )


def test_the_usual_choices_need_no_words() -> None:
    assert parse_plan("64 threads") == Plan((GridPlan(64),))
    assert parse_plan("  m=4 ,64 threads,") == Plan((GridPlan(64),), blocks=(("m", 4),))


@pytest.mark.parametrize(
    "text",
    ["m", "m=", "m=-4", "threads", "64 threads x", "3 stages", "aligned to", "m==4", "m 4", "pingpong", "splits"],
)
def test_what_is_no_plan(text: str) -> None:
    with pytest.raises(ValueError, match="is nothing that a plan says"):
        parse_plan(text)


def test_in_pipelines() -> None:
    plan = Plan((GridPlan(64, stages=2),), blocks=(("m", 4),))
    assert parse_pipeline(f'lower-to-gpu{{plan="{plan}",arch=sm_80}}') == [LowerToGpu(plan, "sm_80")]
