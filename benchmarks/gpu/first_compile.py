"""Compiles one kernel in a fresh process and prints the seconds as JSON: arguments NAME ARCH."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from benchmarks.gpu import kernels
from tiledsl import Kernel, tile

HEADS = (64, 4096, 128)
SPECS: dict[str, tuple[Kernel, list[tuple[int, ...]], dict[str, object]]] = {
    "GEMM bf16": (kernels.gemm, [(4096, 4096), (4096, 4096)], {}),
    "attention bf16": (kernels.attention, [HEADS] * 3, {}),
    "attention bf16 causal": (kernels.attention, [HEADS] * 3, {"causal": True}),
    "add bf16": (kernels.vector_add, [(2**28,), (2**28,)], {}),
    "swiglu bf16": (kernels.swiglu, [(8192, 8192), (8192, 8192)], {}),
    "softmax bf16": (kernels.softmax, [(8192, 4096)], {}),
}
"""By name: a kernel, the shapes of its tensors, its constants."""


def main() -> None:
    name, arch = sys.argv[1:]
    kernel, shapes, constants = SPECS[name]
    specs = [tile.spec(shape, tile.bf16) for shape in shapes]
    start = time.perf_counter()
    compiled: Any = kernel.compile(*specs, arch=arch, **constants)
    if not compiled.cubin:
        raise RuntimeError("no cubin came of it")
    seconds = time.perf_counter() - start
    parts: dict[str, float] = dict(getattr(compiled, "compile_seconds", {}))
    print(json.dumps({"seconds": seconds, "parts": parts}))


if __name__ == "__main__":
    main()
