"""The order in which persistent programs go through the blocks of a grid, read off GPU IR."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from attention import attention
from tests.e2e.products.test_rotated_loops import module_of, operands_of, plan_of
from tests.support.gpu_code.gpu_lowering import lowered
from tests.unit.passes.gpu.plans.test_specialised_plans import product
from tiledsl.ir.core import Module, Value
from tiledsl.ir.gpu.async_ops import Role, TmaStore
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.ir.tile_ops import For
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.nest.evaluate_scalars import Place, ScalarValues

BLOCK = 64


def walks(module: Module, sizes: Mapping[str, int]) -> list[list[tuple[int, ...]]]:
    """For each program where the blocks begin that it stores, in order."""
    (launch,) = [op for op in module.walk() if isinstance(op, Launch)]
    (store,) = [op for op in launch.walk() if isinstance(op, TmaStore)]
    (loop,) = [op for role in launch.walk() if isinstance(role, Role) for op in role.body.ops if isinstance(op, For)][
        :1
    ]
    (program,), turn = launch.body.arguments, loop.body.arguments[0]

    def number(value: Value, **places: int) -> int:
        given = {program: places.get("program"), turn: places.get("turn")}
        known = ScalarValues(sizes, {v: Place(place, 1) for v, place in given.items() if place is not None})
        found = known.of(value)
        assert found is not None
        return found

    return [
        [
            tuple(number(index, program=each, turn=now) for index in store.indices)
            for now in range(number(loop.stop, program=each))
        ]
        for each in range(number(launch.stops[0]))
    ]


def of_product(rows: int, columns: int, programs: int, raster: int) -> list[list[tuple[int, ...]]]:
    """In blocks, of a result that has so many of them; the last ones begin earlier."""
    at_a_time = "" if raster == 1 else f"{raster} rows at a time, "
    plan = f"m=64, n=64, k=64, 128 threads, 4x1 warps, 3 stages, {programs} programs, {at_a_time}cooperative"
    module = lowered(product(), parse_plan(f"{plan}, aligned to 16/16/16"))
    sizes = {"M": BLOCK * rows - 3, "N": BLOCK * columns - 5, "K": 128}
    return [[(-(-row // BLOCK), -(-column // BLOCK)) for row, column in walk] for walk in walks(module, sizes)]


def test_one_program_goes_down_so_many_rows_column_by_column() -> None:
    (walk,) = of_product(5, 3, programs=1, raster=3)
    order = {block: number for number, block in enumerate(walk)}
    assert [[order[row, column] for column in range(3)] for row in range(5)] == [
        [0, 3, 6],
        [1, 4, 7],
        [2, 5, 8],
        [9, 11, 13],
        [10, 12, 14],
    ]


def test_last_blocks_begin_earlier_and_are_whole() -> None:
    plan = "m=64, n=64, k=64, 128 threads, 4x1 warps, 3 stages, 1 programs, cooperative, aligned to 16/16/16"
    module = lowered(product(), parse_plan(plan))
    (walk,) = walks(module, {"M": 130, "N": 40, "K": 128})
    assert walk == [(0, 0), (64, 0), (66, 0)]
    stores = [op for op in module.walk() if isinstance(op, TmaStore)]
    assert all(store.alike for store in stores)


def test_without_a_raster_row_by_row() -> None:
    (walk,) = of_product(2, 3, programs=1, raster=1)
    assert walk == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (4, 4), (7, 2), (3, 5)])
@pytest.mark.parametrize("raster", [1, 2, 4])
def test_each_block_is_made_once_and_programs_share_them_evenly(rows: int, columns: int, raster: int) -> None:
    found = of_product(rows, columns, programs=5, raster=raster)
    made = [block for walk in found for block in walk]
    assert sorted(made) == [(row, column) for row in range(rows) for column in range(columns)]
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_long_blocks_come_first_and_who_had_the_longest_gets_the_shortest_next() -> None:
    """Causal attention: the farther a block of queries, the more keys it sees."""
    module = module_of(attention, operands_of((1, 128, 128, 64)), known=False, causal=True)
    found = walks(lowered(module, plan_of(128, 64, programs=3)), {"H": 1, "Q": 7 * 128 - 1, "K": 7 * 128})
    queries = [[start // 128 for _, start, _ in walk] for walk in found]
    assert queries == [[6, 1, 0], [5, 2], [4, 3]]


def test_blocks_of_one_length_are_gone_through_from_the_front() -> None:
    module = module_of(attention, operands_of((1, 128, 128, 64)), known=False, causal=False)
    found = walks(lowered(module, plan_of(128, 64, programs=3)), {"H": 1, "Q": 7 * 128 - 1, "K": 7 * 128})
    assert [[start // 128 for _, start, _ in walk] for walk in found] == [[0, 3, 6], [1, 4], [2, 5]]
