"""Prices of groups on a CPU are the cost of their programs on one machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tiledsl
from tiledsl import tile
from tiledsl.ir import graph_ops as ops
from tiledsl.passes.graph.analysis.limits import busy_programs
from tiledsl.passes.machine import MACHINES, CpuMachine
from tiledsl.passes.manager import PassContext

MACHINE = replace(MACHINES["avx512"], cores=2)


def kernels(formula: Any, *specs: Any, machine: CpuMachine = MACHINE) -> tuple[int, list[str]]:
    """How many launches a formula has, and what was remarked about groups."""
    context = PassContext(machine)
    module = tiledsl.fuse(tiledsl.trace(formula, *specs)).lowered("cpu", {}, context)
    calls = [op for op in module.entry.body.ops if isinstance(op, ops.Call)]
    return len(calls), [remark.text for remark in context.remarks if remark.pass_name == "group"]


def normed(x: Any, w: Any) -> Any:
    y = tile.dot(x, w)
    return y * tile.rsqrt(tile.mean(y * y, axis=1, keepdims=True) + 1e-5)


def test_wide_rows_of_a_product_are_normed_where_they_are_made() -> None:
    """Blocks have whole rows, and enough of them that packing `w` for each costs little: 23.9 ms, as the product alone
    takes, on the machine where that was measured."""
    assert kernels(normed, tile.spec((1024, 1024), tile.f32), tile.spec((1024, 1024), tile.f32))[0] == 1


def test_narrow_rows_are_normed_where_they_are_made() -> None:
    count, _ = kernels(normed, tile.spec((1024, 64), tile.f32), tile.spec((64, 64), tile.f32))
    assert count == 1


def test_maps_behind_a_product_are_its_epilogue() -> None:
    def gated(x: Any, w: Any, r: Any) -> Any:
        return tile.gelu(tile.dot(x, w)) + r

    shape = tile.spec((512, 512), tile.f32)
    assert kernels(gated, shape, shape, shape)[0] == 1


def test_a_mask_by_lengths_that_are_loaded_ends_the_loop() -> None:
    """The loop is as long as the program lets it be, so its price is that of a loop over all keys, not of a guess."""

    def sums(q: Any, k: Any, lengths: Any) -> Any:
        s = tile.where(tile.arange(k.shape[1]) < lengths[:, None, None], tile.dot(q, k.mT), -float("inf"))
        return tile.dot(tile.softmax(s, axis=-1), k)

    for size in (40, 1024):
        tensor = tile.spec((4, size, 16), tile.f32)
        assert kernels(sums, tensor, tensor, tile.spec((4,), tile.i32))[0] == 1


def test_what_keeps_a_machine_busy() -> None:
    assert busy_programs("cpu", MACHINE) == 2
    assert busy_programs("cpu", replace(MACHINE, cores=64)) == 64
    assert busy_programs("sm_90", MACHINE) == 132
    assert busy_programs("sm_80", MACHINE) == 108
