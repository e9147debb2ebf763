"""Loops with products that feed on each other are rotated where they are cut in two by a wait for operands."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.support.gpu_code.gpu_lowering import Array
from tests.support.pass_runs import run_passes
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.async_ops import Wgmma, WgmmaWait
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import For, If
from tiledsl.passes.gpu.transforms.rotate_loops import RotateLoops
from tiledsl.passes.manager import PassContext

GOLDEN = Path(__file__).parents[4] / "golden" / "rotate-loops" / "two_products.tir"
SYNCHRONISED = "allocate-shared{arch=sm_90},insert-barriers,insert-proxy-fences"


def program() -> str:
    """Products of 64 rows, whose scores are weighed by halves: of 16 keys in each turn."""
    return GOLDEN.read_text(encoding="utf-8").partition("\n# expected\n")[0]


def wide(array: Array) -> Array:
    return np.asarray(array, np.float32)


def wanted(q: Array, k: Array, v: Array) -> Array:
    total: Array = np.zeros((len(q), v.shape[1]), np.float32)
    for start in range(0, len(k), 16):
        scores: Array = np.matmul(wide(q), np.transpose(wide(k[start : start + 16])))
        weighed: Array = np.matmul(wide(scores.astype(ml_dtypes.bfloat16)), wide(v[start : start + 16]))
        total = np.add(0.5 * total, weighed)
    return total


def loop_of(module: Module) -> For:
    """The loop of those who multiply."""
    return next(op for op in module.walk() if isinstance(op, For) and any(isinstance(o, Wgmma) for o in op.body.ops))


@pytest.mark.parametrize("keys", [0, 16, 32, 144])
@pytest.mark.parametrize("rotated", [True, False])
def test_any_number_of_turns(keys: int, rotated: bool) -> None:
    passes = f"{'rotate-loops,' if rotated else ''}{SYNCHRONISED}"
    module = run_passes(passes, program())
    random = np.random.default_rng(keys)
    sizes = ((80, 64), (keys, 64), (keys, 8))
    operands: list[Array] = [random.integers(-2, 3, size).astype(ml_dtypes.bfloat16) for size in sizes]
    for seed in (None, 0, 1):
        (found,) = emulate(module.entry, operands, seed=seed).results
        np.testing.assert_allclose(found, wanted(*operands), rtol=1e-2, atol=1e-2)


def test_scores_wait_for_themselves_alone() -> None:
    body = loop_of(run_passes("rotate-loops", program())).body
    assert [op.groups for op in body.ops if isinstance(op, WgmmaWait)] == [1, 0]
    first, second = (op for op in body.ops if isinstance(op, Wgmma))
    assert first.a.type != second.a.type
    assert second.a in body.arguments


def test_a_known_number_of_turns_needs_no_branch() -> None:
    known = program().replace("tile.for(%start, %4,", "tile.for(%start, %5,")
    assert known != program()
    module = run_passes("rotate-loops", known)
    assert not any(isinstance(op, If) for op in module.walk())
    assert any(isinstance(op, If) for op in run_passes("rotate-loops", program()).walk())


def test_it_is_said_once() -> None:
    context = PassContext()
    RotateLoops().run(parse_module(program()), context)
    assert [remark.text for remark in context.remarks] == ["begun before the product of the turn before is done"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # no wait in front of the second product: its operand is there already
        ("gpu.mbarrier_wait(%full_values, %stage_3, %parity_3)", ""),
        # the first product stays in flight anyway
        ("gpu.wgmma_wait([%scores]) {groups = 0}", "gpu.wgmma_wait([%scores]) {groups = 1}"),
        # a third group of products
        ("gpu.wgmma_commit()\n        %14", "gpu.wgmma_commit()\n        gpu.wgmma_commit()\n        %14"),
    ],
    ids=["no wait", "in flight", "three groups"],
)
def test_else_loops_stay_as_they_are(old: str, new: str) -> None:
    changed = program().replace(old, new)
    assert changed != program()
    before = len(loop_of(parse_module(changed)).body.ops)
    assert len(loop_of(run_passes("rotate-loops", changed)).body.ops) == before
