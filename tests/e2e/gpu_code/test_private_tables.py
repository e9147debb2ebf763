"""Small tensors that many threads update: each program does so in shared memory first. When, and that it is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.gpu_code.cuda_on_host import aligned, host_compiler, run_on_host
from tests.support.gpu_code.gpu_lowering import lowered
from tests.support.gpu_code.sass import disassemble
from tests.support.kernels.lowered_kernels import lower, tensor
from tiledsl import ops, tile
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.gpu_ops import Combine
from tiledsl.passes.gpu.plan import Plan, parse_plan
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline

Array = npt.NDArray[Any]
RULES = {"add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or}


def counts(y: tile.Tensor, at: tile.Tensor) -> tile.Tensor:
    (K,) = at.shape
    for k in tile.grid(K):
        tile.atomic_add(y[at[k]], tile.broadcast_to(tile.full((), 3, y.dtype), (k,)))
    return y


def counts_of_rows(y: tile.Tensor, at: tile.Tensor) -> tile.Tensor:
    """Rows of 7 bins behind each other; odd places count for nothing."""
    P, K = at.shape
    for p, k in tile.grid(P, K):
        place = at[p, k]
        where = tile.where(place % 2 == 0, p.index[:, None] * 7 + place, -1)
        tile.atomic_add(y[where], tile.broadcast_to(tile.full((), 1, y.dtype), (p, k)))
    return y


def two(y: tile.Tensor, z: tile.Tensor, at: tile.Tensor, x: tile.Tensor) -> Any:
    """Counts, and the greatest of numbers that are loaded."""
    (K,) = at.shape
    (K,) = x.shape
    for k in tile.grid(K):
        place = at[k]
        tile.atomic_add(y[place], tile.broadcast_to(tile.full((), 1, y.dtype), (k,)))
        tile.atomic_max(z[place], x[k])
    return y, z


def combined(fn: str) -> Any:
    update = {
        "add": tile.atomic_add, "max": tile.atomic_max, "min": tile.atomic_min,
        "and": tile.atomic_and, "or": tile.atomic_or,
    }[fn]  # fmt: skip

    def formula(y: tile.Tensor, at: tile.Tensor, x: tile.Tensor) -> tile.Tensor:
        (K,) = at.shape
        (K,) = x.shape
        for k in tile.grid(K):
            update(y[at[k]], x[k])
        return y

    return formula


def placed(module: Module) -> Module:
    return PassManager(gpu_front_pipeline()).run(module, PassContext())


def emulated(module: Module, plan: str, arrays: list[Array], seed: int) -> list[Array]:
    code = lowered(placed(module), parse_plan(plan))
    assert any(isinstance(op, Combine) for op in code.entry.walk())
    return list(emulate(code.entry, [np.array(array) for array in arrays], seed=seed).results)


DTYPES = {tile.f32: np.float32, tile.f16: np.float16, tile.i32: np.int32, tile.i64: np.int64, tile.u8: np.uint8}


@given(
    count=st.integers(1, 700), bins=st.integers(1, 150), dtype=st.sampled_from(list(DTYPES)),
    programs=st.integers(1, 4), threads=st.sampled_from([32, 64, 128]), stages=st.integers(2, 4),
    block=st.sampled_from([32, 64, 128, 256]), wide=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_a_number_is_added_as_often_as_it_comes(
    count: int, bins: int, dtype: Any, programs: int, threads: int, stages: int, block: int, wide: bool, seed: int
) -> None:
    """Also where places come again and again, or lie outside of the tensor, and in any order of threads."""
    random: Any = np.random.default_rng(seed)
    at = random.integers(-3, bins + 3, count).astype(np.int64 if wide else np.int32)
    y = random.integers(0, 5, bins).astype(DTYPES[dtype])
    module = lower(counts, y=tensor(1, dtype), at=tensor(1, tile.i64 if wide else tile.i32))
    plan = f"k={block}, {threads} threads, {stages} stages, {programs} programs, own tables, y_0:={bins}"
    (got,) = emulated(module, plan + ", aligned to 16/4", [y, at], seed)
    wanted = y.copy()
    for place in at[(at >= 0) & (at < bins)]:
        wanted[place] += np.asarray(3, wanted.dtype)
    np.testing.assert_array_equal(got, wanted)


@given(
    fn=st.sampled_from(list(RULES)), signed=st.booleans(), count=st.integers(1, 500), bins=st.integers(1, 99),
    programs=st.integers(1, 3), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_integers_are_combined(fn: str, signed: bool, count: int, bins: int, programs: int, seed: int) -> None:
    random: Any = np.random.default_rng(seed)
    dtype, kind = (tile.i32, np.int32) if signed else (tile.u32, np.uint32)
    least, most = (-(2**31), 2**31 - 1) if signed else (0, 2**32 - 1)
    at = random.integers(0, bins, count)
    y, x = (random.integers(least, most, size, endpoint=True).astype(kind) for size in (bins, count))
    module = lower(combined(fn), y=tensor(1, dtype), at=tensor(1, tile.i64), x=tensor(1, dtype))
    plan = f"k=64, 64 threads, 2 stages, {programs} programs, own tables, y_0:={bins}, aligned to 16/16/16"
    (got,) = emulated(module, plan, [y, at, x], seed)
    wanted = y.copy()
    RULES[fn].at(wanted, at, x)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_rows_behind_each_other_and_two_tables(seed: Any) -> None:
    random: Any = np.random.default_rng(7)
    y, at = np.zeros(35, np.float32), random.integers(0, 7, (5, 333))
    module = lower(counts_of_rows, y=tensor(1, tile.f32), at=tensor(2, tile.i64))
    plan = "p=1, k=128, 64 threads, 2 stages, 3 programs, own tables, y_0:=35, aligned to 16/8"
    (got,) = emulated(module, plan, [y, at], seed)
    wanted = [[np.sum(row == b) if b % 2 == 0 else 0 for b in range(7)] for row in at]
    np.testing.assert_array_equal(got, np.reshape(wanted, -1))

    x, at = random.integers(-99, 99, 500).astype(np.int32), random.integers(0, 20, 500)
    y, z = np.zeros(20, np.float32), np.full(20, -50, np.int32)
    module = lower(two, y=tensor(1, tile.f32), z=tensor(1, tile.i32), at=tensor(1, tile.i64), x=tensor(1, tile.i32))
    plan = "k=128, 64 threads, 2 stages, 2 programs, own tables, y_0:=20, z_0:=20, aligned to 16/16/16/16"
    counted, greatest = emulated(module, plan, [y, z, at, x], seed)
    np.testing.assert_array_equal(counted, np.bincount(at, minlength=20))
    np.maximum.at(z, at, x)
    np.testing.assert_array_equal(greatest, z)


def plan_of(module: Module, sizes: dict[str, int], tensors: int) -> tuple[Module, Plan]:
    ready = placed(module)
    return ready, choose_plans(ready.entry, gpu_machine("sm_90"), sizes, (16,) * tensors)[0]


def test_when_programs_have_tables() -> None:
    """Where many updates meet few elements: not few updates, not large tensors, not floats that differ."""
    counted = lower(counts, y=tensor(1, tile.f32), at=tensor(1, tile.i64))
    _, plan = plan_of(counted, {"y_0": 256, "K": 5_000_000}, 2)
    assert plan.grids[0].private
    assert dict(plan.sizes)["y_0"] == 256
    assert not plan_of(counted, {"y_0": 8192, "K": 10_000}, 2)[1].grids[0].private
    assert not plan_of(counted, {"y_0": 1 << 20, "K": 5_000_000}, 2)[1].grids[0].private
    floats = lower(combined("add"), y=tensor(1, tile.f32), at=tensor(1, tile.i64), x=tensor(1, tile.f32))
    assert not plan_of(floats, {"y_0": 256, "K": 5_000_000}, 3)[1].grids[0].private
    integers = lower(combined("max"), y=tensor(1, tile.i32), at=tensor(1, tile.i64), x=tensor(1, tile.i32))
    assert plan_of(integers, {"y_0": 256, "K": 5_000_000}, 3)[1].grids[0].private


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_counting_is_one_instruction_that_no_thread_waits_for(arch: str) -> None:
    """Whoever of a warp has the same place is counted at once, by `POPC.INC`; nothing tries again."""
    module, plan = plan_of(
        lower(counts, y=tensor(1, tile.f32), at=tensor(1, tile.i64)), {"y_0": 256, "K": 5_000_000}, 2
    )
    source = emit_program(lowered(module, plan, arch), int(arch.removeprefix("sm_")))
    cubin = compile_cubin(source.text, arch, "counts")
    assert refusals(cubin) == []
    (code,) = disassemble(cubin).values()
    updates = {opcode for opcode in code.opcodes if opcode.startswith("ATOMS")}
    assert updates == {"ATOMS.POPC.INC.32"}


def test_histograms_of_graphs_count_in_shared_memory() -> None:
    """A number that is put at many places is not written down for each of them."""

    def histogram(x: Any) -> Any:
        return ops.index_put(tile.zeros((256,), tile.f32), (x,), 1.0, True, deterministic=False)

    audit = tiledsl.fuse(tiledsl.trace(histogram, tile.spec((1_000_000,), tile.i64))).audit("sm_90")
    assert [kernel.kernel.name for kernel in audit.kernels if "copy" not in kernel.kernel.name] == ["_into_row_fused"]
    assert any("own tables" in kernel.kernel.plan for kernel in audit.kernels)


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
def test_its_cuda_c_counts(tmp_path: Path) -> None:
    """Two tables beside stages of what is loaded, of which one is of unsigned integers."""
    plan = "k=128, 64 threads, 2 stages, 3 programs, own tables, y_0:=9, z_0:=80, aligned to 16/16/16/16"
    module = lower(two, y=tensor(1, tile.f32), z=tensor(1, tile.u32), at=tensor(1, tile.i64), x=tensor(1, tile.u32))
    code = lowered(placed(module), parse_plan(plan))
    random: Any = np.random.default_rng(0)
    at, x = random.integers(-1, 90, 1000), random.integers(0, 2**32, 1000).astype(np.uint32)
    y, z = np.zeros(9, np.float32), np.full(80, 2**30, np.uint32)
    given = [aligned(array) for array in (y, z, at, x)]
    counted, greatest = run_on_host(emit_program(code, 90), code.entry, given, tmp_path)
    inside = (at >= 0) & (at < 80)
    np.testing.assert_array_equal(counted, np.bincount(at[(at >= 0) & (at < 9)], minlength=9))
    np.maximum.at(z, at[inside], x[inside])
    np.testing.assert_array_equal(greatest, z)
