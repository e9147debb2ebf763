"""Compiles one Triton kernel in a fresh process and prints the seconds as JSON: arguments NAME ARCH."""

# Triton has no types that a checker could use (see typings/):
# pyright: basic, reportMissingModuleSource=false

from __future__ import annotations

import json
import sys
import time

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks.gpu.peers import triton_kernels

POINTERS = {"x": "*bf16", "y": "*bf16", "z": "*bf16", "a": "*bf16", "b": "*bf16", "c": "*bf16"}
KERNELS = {
    "add": (triton_kernels._add, {"BLOCK": 4096}, {"num_warps": 8}),
    "GEMM": (
        triton_kernels._matmul,
        {"bn": 1, "BM": 128, "BN": 256, "BK": 64, "GROUP": 8},
        {"num_warps": 8, "num_stages": 3},
    ),
}


def main() -> None:
    name, arch = sys.argv[1:]
    kernel, constants, options = KERNELS[name]
    signature = {
        argument: "constexpr" if argument in constants else POINTERS.get(argument, "i32")
        for argument in kernel.arg_names
    }
    target = GPUTarget("cuda", int(arch.removeprefix("sm_").rstrip("a")), 32)
    divisible = {(i,): [["tt.divisibility", 16]] for i, a in enumerate(kernel.arg_names) if a not in constants}
    start = time.perf_counter()
    source = ASTSource(kernel, signature, constants, divisible)
    triton.compile(source, target=target, options=options)
    print(json.dumps({"seconds": time.perf_counter() - start, "parts": {}}))


if __name__ == "__main__":
    main()
