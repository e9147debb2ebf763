"""Kernels as people use them. The only part that knows front end, passes, back ends and runtime together."""

from tiledsl.api.compiled import CompiledKernel
from tiledsl.api.kernel import Kernel, kernel

__all__ = ["CompiledKernel", "Kernel", "kernel"]
