"""Prints the seconds of the first call of the GEMM kernel in this process: `python -m benchmarks.first_call`.

`import tiledsl` and the arrays are not part of it; `TILEDSL_CACHE_DIR` decides what the disk cache has.
"""

import time

import numpy as np

from gemm import gemm


def main() -> None:
    a, b = np.ones((512, 512), np.float32), np.ones((512, 512), np.float32)
    start = time.perf_counter()
    c = gemm(a, b)
    seconds = time.perf_counter() - start
    assert (c == 512).all()
    print(seconds)


if __name__ == "__main__":
    main()
