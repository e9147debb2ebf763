"""Whether code is worth running: what the assembler reports of a kernel that its plan did not mean to have.

A plan that fills more registers than there are still compiles and still computes the right values, but slowly. It is
better to take the next plan, so whoever compiles asks here first.
"""

from __future__ import annotations

import re

from tiledsl.backend_cuda.build.cubin import Cubin, KernelResources

# The assembler's findings on wgmma, each of which makes it wait for every product before the next: C7508 and its like.
# Not C7519, by which some versions say that they have put a `wgmma.fence` more: it waits for no product.
_SERIALISED = re.compile(r"\((C75(?!19)\d\d)\) (?:Potential Performance Loss: )?([^\n]*)")


FEW_SPILLED = 16
"""Bytes that each thread may write for want of registers, and read twice: four registers, mostly once for each tile."""
SOME_SPILLED = 64
"""The same of code that is used if that of the next plan is no better."""

STACK_UNIT = 8
"""What stacks come in multiples of, in bytes."""


def refusals(cubin: Cubin, allowed_stack_bytes: int = 0, spilled: int = FEW_SPILLED) -> list[str]:
    """Why the code should not be used, one sentence each, for `explain()`; nothing if it is good.

    A stack of up to `allowed_stack_bytes` per thread is let pass: `printf` and the trigonometry of f64 have one. So are
    a few `spilled` bytes: another plan costs more than some moves do.
    """
    found: list[str] = []
    for kernel in cubin.kernels:
        found += _of_kernel(kernel, allowed_stack_bytes, spilled)
    for code, text in dict.fromkeys(_SERIALISED.findall(cubin.log)):
        found.append(f"the assembler reports {code}: {text.strip()}")
    return found


def _of_kernel(kernel: KernelResources, allowed_stack_bytes: int, spilled: int) -> list[str]:
    written, read = kernel.spill_store_bytes, kernel.spill_load_bytes
    if written > spilled or read > 2 * spilled:
        return [
            f"kernel `{kernel.name}` spills registers: {written} bytes written and {read} read per thread, with"
            f" {kernel.registers} registers"
        ]
    if kernel.stack_bytes > allowed_stack_bytes + -(-written // STACK_UNIT) * STACK_UNIT:
        return [f"kernel `{kernel.name}` keeps {kernel.stack_bytes} bytes per thread in local memory"]
    return []
