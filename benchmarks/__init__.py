"""Benchmarks. The kernels that they measure are those of the examples.

Importing this package sets how many threads both sides may use: NumPy's BLAS reads it once, when NumPy is imported.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
THREADS = 2

if "numpy" not in sys.modules:  # else it is too late, and a program that only reads results goes on as it was
    for _variable in ("TILEDSL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_variable] = str(THREADS)
sys.path.insert(0, str(ROOT / "examples"))
