"""Loops with two products on Hopper: rotated, with clean turns apart, right in the emulator, and code worth running."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from attention import attention
from benchmarks.zoo.neighbours import capped
from tests.support.compare import assert_close
from tests.support.gpu_code.gpu_lowering import Array, lowered
from tests.support.gpu_code.run_gpu_ir import CompiledIr
from tests.support.gpu_code.sass import disassemble
from tests.support.hopper.hopper_softmax import attention_of
from tests.support.kernels.attention_kernels import (
    band,
    band_of,
    biased,
    biased_of,
    faded,
    faded_of,
    window,
    window_of,
)
from tests.support.kernels.lowered_kernels import tensor
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.frontend.kernel.arguments import ConstantArgument
from tiledsl.frontend.kernel.lower import lower_kernel
from tiledsl.frontend.source.kernel_source import KernelSource
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import bf16
from tiledsl.ir.gpu.async_ops import Wgmma, WgmmaWait
from tiledsl.ir.gpu.gpu_ops import Load
from tiledsl.ir.tile_ops import Cast, For, If, Map
from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline

Sizes = tuple[int, int, int, int]
"""Heads, queries, keys, the head dim."""


def plan_of(
    rows: int, keys: int, *, stages: int = 2, programs: int = 0, raster: int = 1, counted: bool = False
) -> Plan:
    consumers = rows // 64
    grid = GridPlan(
        128 * consumers, 1, (4 * consumers, 1), stages, roles="cooperative", programs=programs, raster=raster,
        counted=counted,
    )  # fmt: skip
    return Plan((grid,), (("i", rows), ("j", keys)), alignment=(16,) * 5)


def module_of(kernel: Any, operands: list[Array], *, known: bool, **constants: object) -> Module:
    """The kernel for these arrays, form `tile-placed`. `known`: with their sizes as numbers."""
    source = KernelSource(kernel.__wrapped__)
    given: dict[str, Any] = {}
    for name, operand in zip("qkvb", operands):
        sizes = operand.shape if known else (*(None,) * (operand.ndim - 1), operand.shape[-1])
        given[name] = tensor(operand.ndim, bf16, sizes)
    module = lower_kernel(source, given | {name: ConstantArgument(value) for name, value in constants.items()})
    return PassManager(gpu_front_pipeline()).run(module, PassContext())


def operands_of(sizes: Sizes) -> list[Array]:
    heads, queries, keys, depth = sizes
    random = np.random.default_rng(0)
    shapes = [(heads, n, depth) for n in (queries, keys, keys)]
    return [random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes]


def products(module: Module) -> Counter[int]:
    """How many loops there are with so many products, those around others left out."""
    loops = [op for op in module.walk() if isinstance(op, For)]
    loops = [op for op in loops if not any(isinstance(inner, For) for inner in op.body.walk())]
    return Counter(sum(isinstance(inner, Wgmma) for inner in loop.body.ops) for loop in loops)


CASES: list[tuple[Sizes, bool, Plan]] = [
    ((2, 256, 192, 64), False, plan_of(128, 64)),
    ((2, 192, 200, 64), False, plan_of(192, 64)),
    ((1, 128, 64, 64), False, plan_of(128, 64)),  # one turn
    ((2, 256, 256, 64), True, plan_of(128, 64)),
    ((1, 300, 400, 64), True, plan_of(192, 48)),
    ((1, 256, 100, 64), True, plan_of(128, 64)),  # some see nothing
    ((3, 256, 256, 128), True, plan_of(128, 32, programs=2)),
    ((2, 256, 320, 64), True, plan_of(128, 64, stages=3, raster=2)),
    ((1, 128, 320, 64), True, plan_of(128, 64, stages=1)),
    ((1, 256, 160, 256), False, plan_of(128, 80, programs=1)),  # results go out where queries came in
    ((2, 128, 160, 256), True, plan_of(128, 80, programs=1)),
    ((3, 384, 320, 64), True, plan_of(128, 64, programs=4, raster=2, counted=True)),
]


BY_TURNS = [
    pytest.param(*case, known, marks=() if (n + known) % 2 else (pytest.mark.slow,))
    for n, case in enumerate(CASES)
    for known in (True, False)
]
"""The ordinary run takes each of the cases once, with sizes that are known and with others by turns."""


@pytest.mark.parametrize(("sizes", "causal", "plan", "known"), BY_TURNS, ids=str)
def test_attention(sizes: Sizes, causal: bool, plan: Plan, known: bool) -> None:
    operands = operands_of(sizes)
    module = lowered(module_of(attention, operands, known=known, causal=causal), plan)
    found = products(module)
    assert found[2] == (1 if not causal and known and sizes[2] % plan.blocks[1][1] == 0 else 2), "not rotated"
    with np.errstate(invalid="ignore"):
        wanted: Array = attention_of(*operands, causal=causal)
        wanted = np.where(np.isnan(wanted), 0.0, wanted).astype(ml_dtypes.bfloat16)
    for seed in (None, 0, 1):
        (got,) = emulate(module.entry, operands, seed=seed).results
        assert_close(got, wanted, relative=2e-2)


def none_of(*_: object) -> None:
    return None


def nothing_of(*_: object) -> dict[object, object]:
    return {}


def as_it_is(_: object, module: Module, context: PassContext) -> Module:
    return module


SWITCHES: dict[str, tuple[str, object]] = {
    "turns of warpgroups": ("roles.products.warpgroup_turns.TURNS", False),
    "rotation": ("transforms.rotate_loops.RotateLoops.run", as_it_is),
    "clean turns": ("transforms.peel_masks.PeelMasks.run", as_it_is),
    "known padding": ("roles.products.back_to_back_loops.fills_of", nothing_of),
    "sums of each thread": ("transforms.delay_folds.DelayFolds.run", as_it_is),
}
"""What makes the loop fast, and what to put in its place."""


@pytest.mark.parametrize("off", SWITCHES)
@pytest.mark.parametrize("causal", [False, True])
def test_each_may_be_switched_off(off: str, causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    name, instead = SWITCHES[off]
    monkeypatch.setattr(f"tiledsl.passes.gpu.{name}", instead)
    operands = operands_of((1, 192, 200, 64))
    module = lowered(module_of(attention, operands, known=False, causal=causal), plan_of(128, 64, programs=2))
    wanted: Array = attention_of(*operands, causal=causal).astype(ml_dtypes.bfloat16)
    for seed in (None, 0):
        (got,) = emulate(module.entry, operands, seed=seed).results
        assert_close(got, wanted, relative=2e-2)


@pytest.mark.parametrize("known", [True, False])
def test_masks_that_hold_later(known: bool) -> None:
    random = np.random.default_rng(0)
    operands: list[Array] = [random.integers(-2, 3, (n, 64)).astype(ml_dtypes.bfloat16) for n in (256, 320, 320)]
    plan = replace(plan_of(128, 64), alignment=(16, 16, 16, 16, 4))
    module = lowered(module_of(window, operands, known=known, width=70), plan)
    assert products(module)[2] == 3
    for seed in (None, 0):
        got = emulate(module.entry, operands, seed=seed).results
        wanted = window_of(operands[0], operands[1], operands[2], width=70)
        for one, want in zip(got, wanted):
            assert_close(one, want, relative=1e-2)


@pytest.mark.parametrize(
    ("sizes", "plan", "before", "behind", "masks"),
    [
        ((512, 512), plan_of(128, 128), 255, 0, [0, 1]),  # behind the first turn the far end is not seen
        ((300, 300), plan_of(128, 128), 150, 0, [0, 1]),
        ((512, 512), plan_of(128, 128, programs=2), 200, 200, [0, 1]),
        ((384, 384), plan_of(128, 64), 200, 0, [2, 0, 1]),  # it is seen in the second turn too
        ((256, 200), plan_of(192, 64), 70, 3, [2, 0, 1]),
    ],
    ids=str,
)
@pytest.mark.parametrize("known", [True, False])
def test_windows(sizes: tuple[int, int], plan: Plan, before: int, behind: int, masks: list[int], known: bool) -> None:
    random = np.random.default_rng(0)
    operands: list[Array] = [random.integers(-2, 3, (n, 64)).astype(ml_dtypes.bfloat16) for n in (*sizes, sizes[1])]
    module = lowered(module_of(band, operands, known=known, before=before, behind=behind), plan)
    loops = [op for op in module.walk() if isinstance(op, For) and any(isinstance(o, Wgmma) for o in op.body.ops)]
    compared = [
        [op for op in loop.body.ops if isinstance(op, Map) and op.fn == "le" and op.result.shape] for loop in loops
    ]
    assert [len(found) for found in compared] == masks
    assert all(side.dtype.bits == 32 for found in compared for op in found for side in op.inputs)
    for seed in (None, 0):
        (got,) = emulate(module.entry, operands, seed=seed).results
        q, k, v = operands
        assert_close(got, band_of(q, k, v, before, behind), relative=1e-2)


@pytest.mark.parametrize(("sizes", "depth", "keys", "ahead"), [
    ((192, 200), 64, 64, True),
    ((256, 256), 128, 128, True),
    ((256, 512), 64, 256, False),  # 128 registers of scores, 32 of sums, 64 of weights leave no room for 64
])  # fmt: skip
def test_what_scores_are_combined_with_is_loaded_before_them(
    sizes: tuple[int, int], depth: int, keys: int, ahead: bool
) -> None:
    random = np.random.default_rng(0)
    shapes = [(sizes[0], depth), (sizes[1], depth), (sizes[1], depth), sizes]
    operands: list[Array] = [random.integers(-2, 3, shape).astype(ml_dtypes.bfloat16) for shape in shapes]
    module = lowered(module_of(biased, operands, known=True), plan_of(128, keys))
    for loop in module.walk():
        if isinstance(loop, For) and any(isinstance(op, Wgmma) for op in loop.body.ops):
            order = [type(op) for op in loop.body.ops if isinstance(op, (Load, Wgmma, WgmmaWait))]
            assert order.index(Load) == (0 if ahead else 3)
    (got,) = emulate(module.entry, operands, seed=0).results
    q, k, v, b = operands
    assert_close(got, biased_of(q, k, v, b), relative=2e-2)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shift", [0, -300])
def test_distances_are_sums_of_floats(shift: int, known: bool) -> None:
    random = np.random.default_rng(0)
    operands: list[Array] = [random.integers(-2, 3, (n, 64)).astype(ml_dtypes.bfloat16) for n in (200, 300, 300)]
    module = lowered(module_of(faded, operands, known=known, shift=shift), plan_of(128, 64))
    for loop in module.walk():
        if isinstance(loop, For) and any(isinstance(op, Wgmma) for op in loop.body.ops):
            converted = [op for op in loop.body.ops if isinstance(op, Cast) and op.source.dtype.is_integer]
            assert all(not op.result.shape for op in converted if op.source.dtype.bits == 64)
    (got,) = emulate(module.entry, operands, seed=0).results
    q, k, v = operands
    assert_close(got, faded_of(q, k, v, shift), relative=1e-2)


@pytest.mark.parametrize("known", [True, False])
def test_capped_scores(known: bool) -> None:
    """tanh without its own accuracy near 0, which exponents do not need."""
    operands: list[Array] = [(4 * one).astype(ml_dtypes.bfloat16) for one in operands_of((1, 192, 200, 64))]
    module = lowered(module_of(capped, operands, known=known), plan_of(128, 64, programs=2))
    functions = {op.fn for op in module.walk() if isinstance(op, Map)}
    assert "sigmoid2" in functions
    assert "tanh" not in functions
    q, k, v = (operand.astype(np.float64) for operand in operands)
    scores: Array = 30 * np.tanh(np.einsum("hmd, hnd -> hmn", q, k) / (8 * 30))
    p: Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
    wanted = (p @ v / p.sum(axis=-1, keepdims=True)).astype(ml_dtypes.bfloat16)
    for seed in (None, 0):
        (got,) = emulate(module.entry, operands, seed=seed).results
        assert_close(got, wanted, relative=2e-2)


def test_what_is_waited_for() -> None:
    module = lowered(module_of(attention, operands_of((1, 256, 256, 64)), known=True, causal=False), plan_of(128, 64))
    (loop,) = [op for op in module.walk() if isinstance(op, For) and any(isinstance(o, Wgmma) for o in op.body.ops)]
    assert [op.groups for op in loop.body.ops if isinstance(op, WgmmaWait)] == [1, 0]
    assert not any(isinstance(op, If) for op in module.walk())


@pytest.mark.parametrize(
    ("sizes", "causal", "plan"),
    [
        ((8, 1024, 1024, 64), False, plan_of(192, 128)),
        ((8, 1024, 1024, 64), True, plan_of(192, 112)),
        ((8, 1024, 1024, 128), False, plan_of(128, 128, programs=132)),
        ((8, 1024, 1024, 128), True, plan_of(128, 128)),
        ((8, 1056, 1056, 128), False, plan_of(128, 176)),
        ((8, 1040, 1040, 256), False, plan_of(128, 80, programs=132, raster=8)),
        ((8, 1024, 1024, 64), True, plan_of(192, 128, programs=132, raster=8, counted=True)),
        ((8, 1024, 1024, 128), True, plan_of(128, 128, programs=132, raster=8, counted=True)),
        ((8, 1024, 1024, 256), True, plan_of(128, 80, programs=132, raster=8, counted=True)),
    ],
    ids=str,
)
@pytest.mark.parametrize("known", [True, False])
def test_compiles(sizes: Sizes, causal: bool, plan: Plan, known: bool) -> None:
    module = lowered(module_of(attention, operands_of(sizes), known=known, causal=causal), plan)
    cubin = CompiledIr(module).cubin
    assert refusals(cubin) == []
    code = max(disassemble(cubin).values(), key=lambda kernel: len(kernel.opcodes))  # another one may set a counter
    assert code.beside_products("MUFU.EX2") >= plan.blocks[1][1] // 2  # two threads have four of 64 rows
