"""Kernels as people use them. The only part that knows front end, passes, back ends and runtime together."""

from tiledsl.api.kernels.kernel import Kernel, kernel
from tiledsl.api.programs.compiled import CompiledKernel

__all__ = ["CompiledKernel", "Kernel", "kernel"]
