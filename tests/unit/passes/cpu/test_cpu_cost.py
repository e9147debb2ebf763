"""What grids cost on a CPU, by resource."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from examples.gemm import gemm
from examples.vector_add import vector_add
from tests.support.tile_programs import ATTENTION, GEMM, SOFTMAX
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import Grid
from tiledsl.passes.cpu.cpu_cost import CpuTimes, cpu_times, total_time
from tiledsl.passes.cpu.grid_work import GridWork, collect_work, grid_programs
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


def sizes(size: int) -> dict[str, int]:
    return dict.fromkeys("MNKHQSD", size)


@pytest.mark.parametrize("text", [GEMM, SOFTMAX, ATTENTION])
def test_a_core_does_one_thing_after_the_other(text: str) -> None:
    work = work_of(text)
    blocks = {axis.symbol: axis.unit for axis in (*work.axes, *work.loops)}
    times = cpu_times(work, MACHINE, sizes(512), blocks)
    programs = grid_programs(work, sizes(512), blocks)
    assert total_time(work, MACHINE, sizes(512), blocks, 1) == pytest.approx(programs * sum(times))
    assert sum(times.shares.values()) == pytest.approx(1)
    assert list(times.shares.values()) == sorted(times.shares.values(), reverse=True)


def test_what_takes_longest() -> None:
    product = cpu_times(work_of(GEMM), MACHINE, sizes(1024), {"m": 256, "n": 512, "k": 256})
    assert next(iter(product.shares)) == "products"
    assert next(iter(cpu_times(work_of(SOFTMAX), MACHINE, sizes(4096), {"m": 1}).shares)) != "products"


def test_figures_are_the_machines() -> None:
    """A core that draws half as much from memory waits twice as long for it, but for what starts its streams."""
    slower = replace(MACHINE, speeds=replace(MACHINE.speeds, memory_bytes=MACHINE.speeds.memory_bytes / 2, stream=0.0))
    faster = replace(MACHINE, speeds=replace(MACHINE.speeds, stream=0.0, run=0.0))
    slower = replace(slower, speeds=replace(slower.speeds, run=0.0))
    work = work_of(SOFTMAX)
    times = [cpu_times(work, machine, sizes(4096), {"m": 1}) for machine in (faster, slower)]
    assert times[1].memory == 2 * times[0].memory
    assert times[1]._replace(memory=0.0) == times[0]._replace(memory=0.0)


def test_nothing_takes_no_time() -> None:
    assert CpuTimes().shares == {}


def last_prediction(explained: str) -> str:
    return [line for line in explained.splitlines() if line.startswith("  predicted: ")][-1]


def test_explain_says_what_takes_the_time() -> None:
    x = np.ones(1 << 16, np.float32)
    vector_add(x, x)
    assert "us: memory" in last_prediction(vector_add.explain())
    a = np.ones((512, 512), np.float32)
    gemm(a, a)
    assert "us: products" in last_prediction(gemm.explain())
