"""What grids cost on a CPU, by resource."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiledsl
from examples.gemm import gemm
from examples.vector_add import vector_add
from tests.support.tile_programs import ATTENTION, GEMM, SOFTMAX
from tiledsl import tile
from tiledsl.ir.symbolic import evaluate
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import Grid
from tiledsl.passes.cpu.choose_blocks import launch_blocks
from tiledsl.passes.cpu.cpu_cost import CpuTimes, cpu_times, total_time
from tiledsl.passes.cpu.grid_work import GridWork, collect_work, grid_programs
from tiledsl.passes.cpu.plan_launch import plan_launch
from tiledsl.passes.machine import CORE, MACHINES
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
    faster = replace(MACHINE.speeds, stream=0.0, run=0.0, cache_bytes=(math.inf,) * 3)
    slower = replace(faster, memory_bytes=faster.memory_bytes / 2)
    work = work_of(SOFTMAX)
    machines = [replace(MACHINE, speeds=speeds) for speeds in (faster, slower)]
    times = [cpu_times(work, machine, sizes(4096), {"m": 1}) for machine in machines]
    assert times[1].memory == 2 * times[0].memory
    assert times[1]._replace(memory=0.0) == times[0]._replace(memory=0.0)


def test_what_is_read_again_comes_from_the_cache_that_has_room_for_it() -> None:
    """Rows of a softmax are gone through three times: a call takes as few at a time as stay in a cache."""
    work = work_of(SOFTMAX)
    assert any(task.kind == "again" for task in work.tasks)
    few, many = (cpu_times(work, MACHINE, sizes(4096), {"m": rows}) for rows in (16, 1024))
    assert many.memory / 1024 > 1.3 * few.memory / 16
    assert launch_blocks(work, MACHINE, sizes(4096), 2)["m"] <= 64


@tile.kernel
def windows(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    P, M, K = x.shape
    P, K, N = w.shape
    y = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n))
        for p in tile.range(P, block=1):
            for k in tile.range(K):
                acc = tile.dot(x[p, m, k], w[p, k, n], acc)
        y[m, n] = acc
    return y


def test_turns_of_one_coordinate_count() -> None:
    """A loop over the places of a window has no block whose symbol could say how often it turns."""
    specs = [tile.spec((places, 64, 64), tile.f32) for places in (1, 9)]
    one, many = (windows.audit(spec, spec, arch="cpu") for spec in specs)
    assert many.kernels[0].kernel.multiply_adds == 9 * one.kernels[0].kernel.multiply_adds == 9 * 64**3
    launch = CORE.launch
    assert many.predicted - launch > 3 * (one.predicted - launch)


def summed(x: Any) -> Any:
    return tile.exp(x).sum(axis=-1)


def test_an_audit_says_what_moves_and_how_long_it_takes() -> None:
    audit = gemm.audit(tile.spec((256, 128), tile.f32), tile.spec((128, 512), tile.f32), arch="cpu")
    kernel = audit.kernels[0].kernel
    assert kernel.must_bytes == 4 * (256 * 128 + 128 * 512 + 256 * 512)
    assert kernel.moved_bytes >= kernel.must_bytes
    assert kernel.multiply_adds == 256 * 128 * 512
    assert kernel.bound == "products"
    assert kernel.predicted > kernel.floor > 0
    assert "whose clock and memory were not measured" in str(audit)
    graph = tiledsl.fuse(tiledsl.trace(summed, tile.spec((64, 256), tile.f32)))
    (one,) = graph.audit("cpu").kernels
    assert one.kernel.must_bytes == 4 * (64 * 256 + 64)


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


LOOP = """
func @f(%x: tensor<f32, [B, N], unit=1>, %lengths: tensor<i64, [B]>, %out: tensor<f32, [B]>) {
  %rows = tile.size() {value = B} : i64
  %zero = tile.constant() {value = 0, dtype = i64} : i64
  %one = tile.constant() {value = 1, dtype = i64} : i64
  %size = tile.size() {value = N} : i64
  %none = tile.constant() {value = 0.0, dtype = f32} : f32
  tile.grid([%rows]) {blocks = [1]} body(%b: i64) {
    %length = tile.load(%lengths, [%b]) : i64
    BOUND
    %sum = tile.range(%zero, %end, [%none]) {blocks = [auto]} body(%n: axis<n>, %before: f32) {
      %part = tile.load(%x, [%b, %n]) : tile<f32, [n]>
      %folded = tile.reduce([%part]) {axes = [0], fn = add} : f32
      %after = tile.map([%before, %folded]) {fn = add} : f32
      tile.yield([%after])
    }
    tile.store(%out, [%b], %sum)
    tile.yield([])
  }
  tile.return([])
}
"""


@pytest.mark.parametrize(
    ("bound", "length"),
    [
        ("%end = tile.map([%size, %zero]) {fn = add} : i64", None),
        ("%end = tile.map([%length, %zero]) {fn = add} : i64", None),
        ("%end = tile.map([%length, %size]) {fn = minimum} : i64", 1000),
        ("%next = tile.map([%b, %one]) {fn = add} : i64\n %end = tile.map([%next, %size]) {fn = minimum} : i64", 1000),
    ],
    ids=["sum", "data", "bounded data", "causal"],
)
def test_loops_are_as_long_as_the_program_lets_them_be(bound: str, length: int | None) -> None:
    (loop,) = work_of(LOOP.replace("BOUND", bound)).loops
    assert (loop.length if loop.length is None else evaluate(loop.length, {"N": 1000})) == length


TURNED = """
func @turned(%x: tensor<f32, [N, M], unit=1>, %y: tensor<f32, [M, N], unit=1>, %out: tensor<f32, [M, N], unit=1>) {
  %rows = tile.size() {value = M} : i64
  %columns = tile.size() {value = N} : i64
  tile.grid([%rows, %columns]) {blocks = [auto, auto]} body(%m: axis<m>, %n: axis<n>) {
    %across = tile.load(%x, [%n, %m]) : tile<f32, [n, m]>
    %along = tile.load(%y, [%m, %n]) : tile<f32, [m, n]>
    %back = tile.transpose(%across) {permutation = [1, 0]} : tile<f32, [m, n]>
    %sum = tile.map([%back, %along]) {fn = add} : tile<f32, [m, n]>
    tile.store(%out, [%m, %n], %sum)
    tile.yield([])
  }
  tile.return([])
}
"""


def test_what_is_read_across_the_order_of_memory() -> None:
    """Rows that are stored are a vector long: so many lines of the other operand stay in the first cache."""
    work = work_of(TURNED)
    loads = [task for task in work.tasks if task.kind == "load"]
    assert [task.across for task in loads] == [0, None]
    rows, columns = work.axes
    lanes = MACHINE.vector_bytes // 4
    assert (columns.limit, columns.unit) == (lanes, lanes)
    assert rows.limit > lanes

    def memory(n: int) -> float:
        """For each element, but for what beginning streams and runs costs."""
        machine = replace(MACHINE, speeds=replace(MACHINE.speeds, stream=0.0, run=0.0))
        return cpu_times(work, machine, sizes(2048), {"m": 256, "n": n}).memory / (256 * n)

    assert memory(16) < memory(256) < memory(2048)


@pytest.mark.parametrize(
    ("dtypes", "feature", "times"), [(("i8", "i32"), "avx512vnni", 4), (("bf16", "f32"), "avx512bf16", 2)]
)
def test_narrow_products_take_less_where_there_is_an_instruction(
    dtypes: tuple[str, str], feature: str, times: int
) -> None:
    narrow, total = dtypes
    work = work_of(
        f"""
        func @f(%a: tensor<{narrow}, [M, K]>, %b: tensor<{narrow}, [K, N]>, %c: tensor<{total}, [M, N]>) {{
          %M = tile.size() {{value = M}}
          %N = tile.size() {{value = N}}
          tile.grid([%M, %N]) {{blocks = [auto, auto]}} body(%m: axis<m>, %n: axis<n>) {{
            %x = tile.load(%a, [%m, :])
            %y = tile.load(%b, [:, %n])
            %product = tile.dot(%x, %y) {{dtype = {total}}}
            tile.store(%c, [%m, %n], %product)
          }}
          tile.return([])
        }}
        """
    )
    blocks = {axis.symbol: 128 for axis in work.axes}
    having = replace(MACHINE, features=MACHINE.features | {feature})
    plain, fast = (cpu_times(work, machine, sizes(256), blocks) for machine in (MACHINE, having))
    assert plain.products / times <= fast.products < plain.products / (times - 0.7)
    assert fast.packing == plain.packing


SCATTER = """
func @f(%x: tensor<f32, [N, D], unit=1>, %i: tensor<i64, [N], unit=0>, %y: tensor<f32, [M, D], unit=1>) {
  %N = tile.size() {value = N}
  %D = tile.size() {value = D}
  tile.grid([%N, %D]) {blocks = [auto, auto]} body(%n: axis<n>, %d: axis<d>) {
    %at = tile.load(%i, [%n])
    %t = tile.load(%x, [%n, %d])
    %old = tile.atomic(%y, [%at, %d], %t) {fn = add}
  }
  tile.return([%y])
}
"""
COUNTS = """
func @f(%i: tensor<i64, [N], unit=0>, %y: tensor<f32, [M], unit=0>) {
  %N = tile.size() {value = N}
  tile.grid([%N]) {blocks = [auto]} body(%n: axis<n>) {
    %at = tile.load(%i, [%n])
    %one = tile.constant() {value = 1.0, dtype = f32}
    %t = tile.broadcast(%one) {shape = [n]}
    %old = tile.atomic(%y, [%at], %t) {fn = add}
  }
  tile.return([%y])
}
"""


def test_updates_of_rows_get_one_thread_and_single_ones_several() -> None:
    """One thread adds rows by vectors; several need a compare-and-swap for each element."""
    numbers = {"N": 100_000, "D": 96, "M": 20_000}
    machine = MACHINES["avx2"]
    rows, counts = work_of(SCATTER), work_of(COUNTS)
    assert plan_launch([rows], machine, numbers, 2).threads == (1,)
    assert plan_launch([counts], machine, numbers, 8).threads > (1,)
    blocks = plan_launch([rows], machine, numbers, 2).blocks
    alone = cpu_times(rows, machine, numbers, blocks)
    assert alone.elementwise < cpu_times(rows, machine, numbers, blocks, alone=False).elementwise / 8
