"""GPU code to launch on a fake driver: its calling convention, and no code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl.backend_cuda.driver.loaded import LoadedKernels
from tiledsl.backend_cuda.frame.kernel_code import (
    Assertion,
    CudaSource,
    KernelCode,
    KernelParameter,
    ScratchCode,
    TensorMapCode,
)
from tiledsl.ir.symbolic import symbol
from tiledsl.support.location import Location

DEFINITION = Location(__file__, 1)
N: Any = symbol("N")
PARAMETERS = (
    KernelParameter("tensor", 0),
    KernelParameter("size", symbol="N"),
    KernelParameter("tensor", 1),
    KernelParameter("stride", 1, 0),
    KernelParameter("scalar", 1, symbol="bf16"),
    KernelParameter("scalar", 0, symbol="i32"),
)
FAILURE = KernelParameter("failure")


def code(name: str = "k", **fields: Any) -> KernelCode:
    """One CUDA function that runs a program for each of N."""
    plain: dict[str, Any] = {"programs": N, "threads": 128, "cluster": 1, "shared_bytes": 0, "parameters": PARAMETERS}
    return KernelCode(name=name, **(plain | fields))


def tensor_map(tensor: int = 0, **fields: Any) -> TensorMapCode:
    """Boxes of 64 x 32 elements of a tensor of N rows and 100 columns."""
    plain: dict[str, Any] = {"dtype": "bf16", "shape": (N, 100), "axes": (1, 0), "box": (64, 32), "swizzle": 128}
    return TensorMapCode(tensor=tensor, name=f"t{tensor}", **(plain | fields))


def loaded(
    *kernels: KernelCode,
    device: int = 0,
    name: str = "k",
    location: Location = DEFINITION,
    maps: Sequence[TensorMapCode] = (),
    scratch: Sequence[ScratchCode] = (),
) -> LoadedKernels:
    """The functions loaded, with one assertion."""
    assertions = (Assertion("all is well", location),)
    source = CudaSource("", kernels or (code(),), assertions, tuple(maps), tuple(scratch))
    return LoadedKernels(b"cubin", source, device, name=name, arch="sm_90", location=location)
