"""Audits of kernels, formulas and modules: cliffs are seen without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from tiledsl import TileUnsupportedError, ops, tile
from tiledsl.cli.main import main


@tile.kernel
def softmax(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        e = tile.exp(x[m, :] - tile.max(x[m, :], axis=1, keepdims=True))
        y[m, :] = e / tile.sum(e, axis=1, keepdims=True)
    return y


@tile.kernel
def normalised_again(x: tile.Tensor) -> tile.Tensor:
    """Reads a whole row for each block of it."""
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N, block=(1, 64)):
        y[m, n] = x[m, n] / tile.sum(x[m, :], axis=0)
    return y


@tile.kernel
def formula(x: tile.Tensor, w: tile.Tensor) -> tile.Tile:
    return tile.softmax(x @ w, axis=-1)


HALF = tile.spec((4096, 4096), tile.f16)


def test_a_kernel_that_moves_what_it_must() -> None:
    audit = softmax.audit(HALF)
    (row,) = audit.kernels
    assert audit.must_bytes == row.kernel.moved_bytes == row.kernel.memory_bytes == 2 * 2 * 4096**2
    assert row.kernel.tensor_core_share is None
    assert row.kernel.bound == "memory"
    assert audit.ratio < 1.2
    assert "64 MiB" in str(audit)


def test_what_is_read_again_and_again_shows() -> None:
    audit = normalised_again.audit(HALF)
    (row,) = audit.kernels
    assert row.kernel.must_bytes == 2 * 2 * 4096**2
    assert row.kernel.moved_bytes == (2 + 64) * 2 * 4096**2
    assert audit.ratio > 3


def test_sizes_that_specs_leave_open_are_guessed() -> None:
    assert softmax.audit(tile.spec(("M", 4096), tile.f16)).predicted > 0


def test_a_formula_and_a_module() -> None:
    audit = formula.audit(HALF, HALF)
    module = tiledsl.fuse(tiledsl.trace(formula, HALF, HALF)).build()
    assert [k.kernel.name.rpartition("_")[2] for k in module.audit().kernels] == [
        k.kernel.name.rpartition("_")[2] for k in audit.kernels
    ]
    assert audit.tensor_core_share == 1
    assert audit.multiply_adds == 4096**3
    assert audit.must_bytes == 3 * 2 * 4096**2
    assert audit.predicted > audit.floor


def test_launches_of_weights_alone_are_apart() -> None:
    weights = np.zeros((64, 64, 3, 3), np.float16)
    image = tile.spec((8, 64, 28, 28), tile.f16)

    def alone(x: Any) -> Any:
        return ops.conv2d(x, weights, padding=1)

    def both(x: Any, w: Any) -> Any:
        return ops.conv2d(x, w, padding=1)

    graph = tiledsl.trace(alone, image)
    audit = tiledsl.fuse(graph).audit("sm_90")
    count, seconds = audit.once
    assert count == 1
    assert 1e-6 < seconds < 1e-5
    assert "1 launch depends on weights alone, run before the first call" in " ".join(str(audit).split())
    given = tiledsl.fuse(tiledsl.trace(both, image, weights)).audit("sm_90")
    assert given.once == (0, 0.0)
    assert len(given.kernels) == len(audit.kernels) + 1


def test_of_a_table_only_what_is_gathered_must_move() -> None:
    rows, table = tile.spec((1024,), tile.i32), tile.spec((128 * 1024, 512), tile.f16)
    audit = tiledsl.fuse(tiledsl.trace(tiledsl.ops.embedding, rows, table)).audit()
    assert audit.must_bytes == 1024 * (4 + 2 * 512 * 2)
    assert audit.predicted >= audit.floor


def test_products_without_matrix_instructions_show() -> None:
    small, large = (tile.spec((size, size), tile.f32) for size in (128, 1024))
    assert formula.audit(small, small).tensor_core_share == 0
    assert formula.audit(large, large).tensor_core_share == 1  # by planes


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_100"])
def test_machines_that_nobody_measured(arch: str) -> None:
    audit = formula.audit(HALF, HALF, arch=arch)
    assert audit.ratio >= 1
    assert f"predicted for {arch}, from what its maker states" in str(audit)


def test_only_what_has_a_cost() -> None:
    with pytest.raises(TileUnsupportedError, match="`softmax` cannot be audited for `reference`"):
        softmax.audit(HALF, arch="reference")


def test_the_cpu_has_one() -> None:
    audit = softmax.audit(HALF, arch="cpu")
    assert audit.predicted > audit.floor > 0
    assert audit.tensor_core_share is None


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "doubled.py"
    text = "from tiledsl import tile\n\n\n@tile.kernel\ndef doubled(x):\n    return x * 2\n"
    file.write_text(text, encoding="utf-8")
    assert main(["audit", f"{file}:doubled", "--spec", "f16[4096,4096]"]) == 0
    head, names, row = capsys.readouterr().out.strip().splitlines()
    assert head.startswith("doubled, predicted for sm_90")
    assert names.split()[:2] == ["kernel", "runs"]
    assert "64 MiB" in row
