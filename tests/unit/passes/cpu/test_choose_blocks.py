"""The cost model and what is chosen by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.tile_programs import ATTENTION, GEMM, SOFTMAX
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import Grid
from tiledsl.passes.cpu.choose_blocks import launch_blocks
from tiledsl.passes.cpu.cpu_cost import cpu_times, packed_depth, total_time
from tiledsl.passes.cpu.grid_work import GridWork, collect_work, grid_programs, total_traffic
from tiledsl.passes.machine import MACHINES
from tiledsl.passes.manager import PassManager
from tiledsl.passes.nest.loop_nest import loop_nest
from tiledsl.passes.tile.infer_tiling import InferTiling
from tiledsl.passes.tile.place_levels import PlaceLevels

MACHINE = MACHINES["avx512"]


def work_of(text: str) -> GridWork:
    module = PassManager([PlaceLevels(), InferTiling(arch="avx512")]).run(parse_module(text))
    (grid,) = (op for op in module.walk() if isinstance(op, Grid))
    return collect_work(loop_nest(grid))


def test_traffic_of_a_product() -> None:
    sizes, blocks = {"M": 512, "K": 256, "N": 1024}, {"m": 128, "n": 512, "k": 64}
    read, written, operations = total_traffic(work_of(GEMM), sizes, blocks)
    assert read == 4 * (512 * 256 * 2 + 256 * 1024 * 4)  # A once per column of blocks, B once per row of them
    assert written == 4 * 512 * 1024
    assert operations == 2 * 512 * 256 * 1024


@pytest.mark.parametrize("text", [GEMM, SOFTMAX, ATTENTION])
@pytest.mark.parametrize("size", [1, 17, 500, 1000, 4096])
def test_launch_blocks_respect_limits_and_units(text: str, size: int) -> None:
    work = work_of(text)
    sizes = dict.fromkeys("MNKHQSD", size)
    blocks = launch_blocks(work, MACHINE, sizes, 4)
    for axis in (*work.axes, *work.loops):
        assert 0 < blocks[axis.symbol] <= axis.limit
        assert blocks[axis.symbol] % axis.unit == 0


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("size", [512, 1000, 2048])
def test_a_large_product_gives_every_thread_work(size: int, threads: int) -> None:
    work, sizes = work_of(GEMM), dict.fromkeys("MNK", size)
    blocks = launch_blocks(work, MACHINE, sizes, threads)
    programs = grid_programs(work, sizes, blocks)
    assert programs >= threads
    rounds = -(-programs // threads)
    assert programs / (rounds * threads) > 0.8, "threads that wait for the last one"


def test_more_threads_are_never_slower() -> None:
    work, sizes = work_of(GEMM), dict.fromkeys("MNK", 1000)
    times = [
        total_time(work, MACHINE, sizes, launch_blocks(work, MACHINE, sizes, threads), threads)
        for threads in (1, 2, 4, 8)
    ]
    assert times == sorted(times, reverse=True)


def test_empty_arrays_have_no_programs() -> None:
    work, sizes = work_of(GEMM), {"M": 0, "N": 5, "K": 5}
    assert grid_programs(work, sizes, launch_blocks(work, MACHINE, sizes, 2)) == 0


def test_heads_are_no_long_rows() -> None:
    """No block cuts an axis of the head: it is not as long as those that are cut, and leaves room for many queries."""
    work = work_of(ATTENTION)
    (queries,) = (axis for axis in work.axes if axis.limit > 1)
    assert queries.limit >= 64


def test_depths_are_counted_in_steps() -> None:
    """Four bytes are multiplied in a step, where there is an instruction for it."""
    bytes_together = replace(MACHINE, features=MACHINE.features | {"avx512vnni"})
    assert packed_depth(bytes_together, 4) == 4 * packed_depth(bytes_together, 1)
    assert packed_depth(replace(MACHINE, features=frozenset()), 4) == packed_depth(MACHINE, 1)


def test_short_rows_cost_what_picking_them_apart_does() -> None:
    """Pairs are read by two vectors and a shuffle for each vector of them, not by beginnings of runs."""
    pairs = """
    func @pairs(%x: tensor<f32, [N, {few}], unit=1>) {{
      %y = tile.empty() {{shape = [{few}, N], dtype = f32}}
      %n = tile.size() {{value = N}}
      tile.grid([%n]) {{blocks = [auto]}} body(%i: axis<i>) {{
        %a = tile.load(%x, [%i, :])
        %b = tile.transpose(%a) {{permutation = [1, 0]}}
        tile.store(%y, [:, %i], %b)
      }}
      tile.return([%y])
    }}
    """
    two, nine = (
        cpu_times(work_of(pairs.format(few=few)), MACHINE, {"N": 1 << 14}, {"i": 1024}).cycles / few for few in (2, 9)
    )
    assert 4 * two < nine
