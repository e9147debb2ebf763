"""Whole programs in the GPU executor, against plain NumPy, and every op runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.compare import assert_close
from tests.support.gpu_code.gpu_programs import ADD, run_gpu
from tiledsl.backend_ref.emulator.ops.executors import CONCURRENT, EXECUTORS
from tiledsl.ir.core import OPS
from tiledsl.ir.gpu.async_ops import Role
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.ir.tile_ops import Empty, Yield

F32 = npt.NDArray[np.float32]
NOT_IN_GPU_FORM = {
    "tile.grid", "tile.range", "tile.arange", "tile.index", "tile.start", "tile.extent", "tile.shift", "tile.load",
    "tile.store", "tile.atomic", "tile.extract", "tile.dot", "tile.reduce", "tile.scan", "tile.sort", "tile.stack",
    "tile.yield", "tile.return",
}  # fmt: skip


def numbers(*shape: int, seed: int = 0) -> F32:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_every_op_runs() -> None:
    levels = {op for name, op in OPS.items() if name.startswith(("gpu.", "tile.")) and name not in NOT_IN_GPU_FORM}
    assert {*EXECUTORS, *CONCURRENT, Launch, Role, Empty} == levels | {Yield}


@pytest.mark.parametrize("shape", [(32, 64), (1, 4), (100, 132), (0, 8)])
def test_add(shape: tuple[int, int]) -> None:
    x, y = numbers(*shape), numbers(*shape, seed=1)
    (z,) = run_gpu(ADD, x, y)
    assert_close(z, x + y)
