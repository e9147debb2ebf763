"""Compiles one kernel in a fresh process and prints the seconds as JSON: arguments NAME ARCH."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from benchmarks.gpu import kernels
from tiledsl import Kernel, tile

SPECS: dict[str, tuple[Kernel, list[tuple[int, ...]]]] = {
    "GEMM bf16": (kernels.gemm, [(4096, 4096), (4096, 4096)]),
    "add bf16": (kernels.vector_add, [(2**28,), (2**28,)]),
    "swiglu bf16": (kernels.swiglu, [(8192, 8192), (8192, 8192)]),
    "softmax bf16": (kernels.softmax, [(8192, 4096)]),
}


def main() -> None:
    name, arch = sys.argv[1:]
    kernel, shapes = SPECS[name]
    specs = [tile.spec(shape, tile.bf16) for shape in shapes]
    start = time.perf_counter()
    compiled: Any = kernel.compile(*specs, arch=arch)
    if not compiled.cubin:
        raise RuntimeError("no cubin came of it")
    seconds = time.perf_counter() - start
    parts: dict[str, float] = dict(getattr(compiled, "compile_seconds", {}))
    print(json.dumps({"seconds": seconds, "parts": parts}))


if __name__ == "__main__":
    main()
