"""What is read off a grid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.kernels.lowered_kernels import lower, tensor
from tiledsl import tile
from tiledsl.cli.main import main
from tiledsl.frontend.kernel.arguments import Argument
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu.plans.split_candidates import costs_of
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.nest.describe_nest import describe_nest
from tiledsl.passes.nest.loop_nest import LoopNest, loop_nests
from tiledsl.passes.pipelines import gpu_front_pipeline


def nest_of(function: Callable[..., Any], **arguments: Argument | int) -> LoopNest:
    (nest,) = loop_nests(lower(function, **arguments).entry)
    return nest


def gemm(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


def attention(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor) -> tile.Tensor:
    """Without softmax: a window of 100 keys before each query."""
    S, D = q.shape
    S, D = k.shape
    S, D = v.shape
    o = tile.empty((S, D), q.dtype)
    for i in tile.grid(S):
        acc = tile.zeros((i, D), tile.f32)
        for j in tile.range(tile.maximum(i.start - 100, 0), tile.minimum(i.start + i.size, S)):
            acc = tile.dot(tile.exp(tile.dot(q[i, :], k[j, :].T)), v[j, :], acc)
        o[i, :] = acc
    return o


def rows(x: tile.Tensor, places: tile.Tensor) -> tile.Tensor:
    N = x.shape[1]
    R = places.shape[0]
    y = tile.empty((R, N), x.dtype)
    for r in tile.grid(R):
        y[r, :] = x[places[r].to(tile.i64), :]
    return y


def segments(x: tile.Tensor, ends: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    S = ends.shape[0]
    y = tile.empty((S, N), x.dtype)
    for s in tile.grid(S, block=1):
        total = 0.0
        for n in tile.range(ends[s].to(tile.i64)):
            total += tile.sum(x[n])
        for i in range(N):
            for k in tile.range(i, N):
                total += tile.sum(x[k])
            y[s, i] = total
    return y


def test_a_product() -> None:
    assert describe_nest(nest_of(gemm, a=2, b=2)) == [
        "grid m of M, n of N",
        "  loop k of K: fixed",
        "  read %a[m, k] f32[m, k] along axis 1; moved by k, m; again for each n",
        "  read %b[k, n] f32[k, n] along axis 1; moved by k, n; again for each m",
        "  write %c[m, n] f32[m, n] along axis 1; moved by m, n",
        "  dot [m, k] x [k, n] -> f32: loaded x loaded in k",
    ]


def test_a_window() -> None:
    nest = nest_of(attention, q=2, k=2, v=2)
    assert [loop.trips for loop in nest.loops] == ["band"]
    assert [(dot.left, dot.right) for dot in nest.dots] == [("loaded", "loaded"), ("computed", "loaded")]
    keys = nest.accesses[1]
    assert [axis.name for axis in keys.moved_by] == ["j"]
    assert [axis.name for axis in keys.repeated_by] == ["i"]


def test_gathers() -> None:
    accesses = {access.op.tensor.name: access for access in nest_of(rows, x=2, places=1).accesses}
    assert {name: access.gathers for name, access in accesses.items()} == {"places": False, "x": True, "y": False}


def by_experts(x: tile.Tensor, w: tile.Tensor, experts: tile.Tensor) -> tile.Tensor:
    K = x.shape[1]
    E, K, N = w.shape
    P = experts.shape[0]
    y = tile.empty((P * 128, N), x.dtype)
    for r, n in tile.grid(P * 128, N, block=(128, tile.auto)):
        mine = tile.minimum(experts[r.start // 128], E - 1)
        acc = tile.zeros((r, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(x[r, k], w[mine, k, n], acc)
        y[r, n] = acc
    return y


def test_places_that_data_choose() -> None:
    """Rows choose a matrix; where an axis moves an access by itself as well, all its blocks are elsewhere."""
    nest = nest_of(by_experts, x=2, w=3, experts=tensor(1, tile.i32))
    chosen = {a.op.tensor.name: [(axis.name, str(among)) for axis, among in a.chosen] for a in nest.accesses}
    assert chosen == {"experts": [], "x": [], "w": [("r", "E")], "y": []}
    assert any("data choose one of E for each r" in line for line in describe_nest(nest))


def test_rows_of_one_expert_are_walked_together() -> None:
    """An expert's matrix does not stay in L2 while all of its rows go by."""
    given = {"x": tensor(2, tile.bf16), "w": tensor(3, tile.bf16), "experts": tensor(1, tile.i32)}
    function = PassManager(gpu_front_pipeline()).run(lower(by_experts, **given), PassContext()).entry
    sizes = {"T": 136 * 128, "K": 4096, "N": 14336, "E": 8, "P": 136}
    first, *_ = ranked_plans(function, gpu_machine("sm_90"), sizes, (16, 16, 16, 16))
    assert first.plan.grids[0].raster >= 8
    (cost,) = costs_of(function, first.plan, sizes, gpu_machine("sm_90"))
    assert cost.memory_bytes < 3 * 2 * sizes["E"] * sizes["K"] * sizes["N"]  # 8 times that, row by row


def test_loops_whose_length_is_data_or_another_loop() -> None:
    nest = nest_of(segments, x=1, ends=1)
    assert [loop.trips for loop in nest.loops] == ["data", "fixed", "shrinks"]
    assert [len(loop.outer) for loop in nest.loops] == [0, 0, 1]


def test_the_pass_prints_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = print_module(lower(gemm, a=2, b=2))
    file = tmp_path / "gemm.tir"
    file.write_text(text, encoding="utf-8")
    assert main(["opt", str(file), "-p", "loop-nest"]) == 0
    printed = capsys.readouterr().out
    comments = [line for line in printed.splitlines() if line.startswith("# ")]
    assert comments[0] == "# grid m of M, n of N"
    assert printed[len("\n".join(comments)) + 1 :] == text
