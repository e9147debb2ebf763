"""How long the emulator takes for a tile of a GEMM."""

from __future__ import annotations

import time
import warnings

import ml_dtypes
import numpy as np

from benchmarks.figures import Figure
from gemm import gemm
from tiledsl import TileError, TilePerformanceWarning

M, N, K = 128, 128, 256
SEEDS = (None, 0, 1, 2)
MOST_PLANS = 12


def emulated_gemm() -> Figure:
    """The slowest run of all plans and some orders; each result is compared with NumPy's."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((M, K), (K, N)))
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    seconds: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilePerformanceWarning)
        for plan in range(MOST_PLANS):
            try:
                gemm.emulate(a, b, plan=plan)  # lowers it
            except TileError as error:
                if error.code != "emulate-plan":
                    raise
                break
            for seed in SEEDS:
                start = time.perf_counter()
                c = np.asarray(gemm.emulate(a, b, seed=seed, plan=plan), np.float32)
                seconds.append(time.perf_counter() - start)
                np.testing.assert_allclose(c, wanted, rtol=0.02, atol=0.2)
    detail = f"the slowest of {len(seconds)} runs, {len(seconds) // len(SEEDS)} plans; from {min(seconds):.2f} s"
    return Figure(f"emulator, GEMM {M}x{N}x{K}", max(seconds), "s", 5.0, detail)


CASES = {"emulator": emulated_gemm}
