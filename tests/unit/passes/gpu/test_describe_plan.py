"""Plans in words."""

from __future__ import annotations

from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.gpu.plans.describe_plan import plan_differences, plan_words

TENSORS = ["x", "y"]
PLAN = Plan(
    (GridPlan(256, 4, (2, 4), 3, raster=8), GridPlan(64)),
    blocks=(("m", 128), ("k", 64)),
    capacities=(("N", 2048),),
    sizes=(("E", 96),),
    divisors=(("M", 128), ("N", 16)),
    alignment=(16, 2),
)


def test_words() -> None:
    grid = (
        "256 threads per block, clusters of 4 blocks, 2 x 4 warps over a matrix product, up to 3 stages, "
        "8 rows of blocks walked together"
    )
    assert plan_words(PLAN, TENSORS) == [
        ("sizes", "E is exactly 96; N is at most 2048 and a multiple of 16; M is a multiple of 128"),
        ("arrays", "rows start at multiples of 16 bytes (`x`), 2 bytes (`y`)"),
        ("blocks", "m = 128, k = 64"),
        ("grid 1", grid),
        ("grid 2", "64 threads per block"),
    ]


def test_what_is_usual_is_not_said() -> None:
    assert plan_words(Plan((GridPlan(128),)), []) == [("grid", "128 threads per block")]
    aligned = Plan((GridPlan(128, row_threads=16, programs=132),), alignment=(1, 1))
    assert plan_words(aligned, TENSORS) == [
        ("arrays", "rows start at multiples of 1 byte"),
        ("grid", "128 threads per block, 16 threads share a row, 132 programs go through all blocks"),
    ]
    (grid,) = plan_words(Plan((GridPlan(128, programs=132, counted=True),)), TENSORS)
    assert grid == ("grid", "128 threads per block, 132 programs take blocks from a counter")
    (grid,) = plan_words(Plan((GridPlan(128, programs=132, private=True),)), TENSORS)
    assert grid[1] == (
        "128 threads per block, 132 programs go through all blocks, small tensors updated in shared memory first"
    )
    copies = Plan((GridPlan(128, copied=(0, 1), lines=(1,)),))
    (grid,) = plan_words(copies, TENSORS)
    assert grid[1] == (
        "128 threads per block, 2 operands copied before to aligned rows, 1 of these to rows that start at lines of "
        "the cache"
    )


def test_differences() -> None:
    other = Plan(
        (GridPlan(128, 4, (2, 4), 3, raster=8), GridPlan(64)),
        blocks=(("m", 64), ("k", 64)),
        capacities=(("N", 2048),),
        sizes=(("M", 100),),
        divisors=(("N", 16),),
        alignment=(16, 16),
    )
    assert plan_differences(PLAN, PLAN, TENSORS) == []
    *what, grid = plan_differences(PLAN, other, TENSORS)
    assert what == [
        "M is exactly 100, not a multiple of 128",
        "E is any, not exactly 96",
        "`y` is aligned to 16 bytes, not 2",
        "blocks of 64 along m, not 128",
    ]
    assert grid.startswith("128 threads per block, clusters of 4 blocks")
    assert ", not 256 threads per block" in grid


def test_specialised_warps() -> None:
    grid = GridPlan(256, 4, (8, 1), 4, programs=132, roles="cooperative", splits=4, copied=(0, 1))
    assert plan_words(Plan((grid,)), []) == [
        (
            "grid",
            "256 threads per block multiply (cooperative), 128 more load, clusters of 4 blocks, 8 x 1 warps over a "
            "matrix product, up to 4 stages, 4 blocks of a cluster share each loop, 132 programs go through all blocks"
            ", 2 operands copied before to aligned rows",
        )
    ]


def test_parts_of_sums() -> None:
    split = Plan((GridPlan(128), GridPlan(256)), parts=(4,))
    assert plan_words(split, [])[0] == ("sums", "in 4 parts, added by another grid")
    assert plan_words(Plan((), parts=(4, 1)), []) == [("sums", "in 4/1 parts by grid, added by others")]
    assert plan_differences(Plan((GridPlan(128),)), split, []) == ["sums in 4 parts, added by another grid, not whole"]
    assert plan_differences(split, Plan((GridPlan(128),)), []) == ["sums whole, not in 4 parts, added by another grid"]
