"""From a TILE module to machine code: one variant for each plan, through the gate."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tiledsl.backend_cuda.build.cubin import Cubin
from tiledsl.backend_cuda.build.describe_tiles import tile_reports
from tiledsl.backend_cuda.build.gate import FEW_SPILLED, SOME_SPILLED, refusals
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.build.variant import Variant
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.backend_cuda.frame.kernel_code import CudaSource
from tiledsl.ir.core import Module
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_pipeline
from tiledsl.support.errors import TileResourceError
from tiledsl.support.options import LOG

PRINTF_STACK_BYTES = 64
"""What a call of printf takes of local memory, without any spill."""


def compile_variant(module: Module, arch: str, plans: Sequence[Plan]) -> Variant:
    """Code for the first of the plans that passes the gate; if none does, for the first that compiles at all. One that
    spills some registers is used where the next one is refused too.

    `module` is in form `tile-placed`. Raises TileError where no plan can be compiled.
    """
    notes: list[str] = []
    first: Variant | None = None
    usable: Variant | None = None
    failure: TileResourceError | None = None
    for plan in plans:
        started = time.perf_counter()
        try:
            variant = _compile(module, arch, plan, notes)
        except TileResourceError as error:
            if usable is not None:
                return usable
            failure = failure or error
            notes.append(f"plan ({plan}) was left: {str(error).strip().splitlines()[0]}")
            continue
        stack = PRINTF_STACK_BYTES if "printf" in variant.source else 0
        refused = refusals(variant.machine_code, stack)
        seconds = time.perf_counter() - started
        LOG.debug("%s compiled for %s in %.3f s with plan (%s)", module.entry.name, arch, seconds, plan)
        if not refused:
            return variant
        if usable is not None:
            return usable
        first = first or variant
        if not refusals(variant.machine_code, stack, SOME_SPILLED):
            usable = variant
        notes += [f"plan ({plan}) was left: {reason}" for reason in refused]
    if usable is not None:
        return usable
    if first is None:
        assert failure is not None, "there was no plan"
        raise failure
    return first


def _compile(module: Module, arch: str, plan: Plan, notes: Sequence[str]) -> Variant:
    context = PassContext()
    lowered = PassManager(gpu_pipeline(plan, arch), between=False).run(module, context)
    source, cubin = _with_room(lowered, arch, plan)
    remarks = tuple(dict.fromkeys(context.remarks))
    return Variant(plan, source, cubin, print_module(lowered), tuple(notes), remarks, tile_reports(lowered))


def sources_by(module: Module, arch: str, plan: Plan) -> list[str]:
    """The CUDA C that a plan may come to (`_with_room` says which), written and not compiled. Raises TileError."""
    lowered = PassManager(gpu_pipeline(plan, arch), between=False).run(module, PassContext())
    capability = gpu_machine(arch).capability
    return [emit_program(lowered, capability, chained=plan.chained, fewer=fewer).text for fewer in (0, 1)]


def _with_room(lowered: Module, arch: str, plan: Plan) -> tuple[CudaSource, Cubin]:
    """CUDA C and its machine code. Where threads spill because a multiprocessor is to have room for many blocks of
    them, it is made for one block less: that costs less than another plan."""
    function, capability = lowered.entry, gpu_machine(arch).capability

    def made(fewer: int) -> tuple[CudaSource, Cubin]:
        source = emit_program(lowered, capability, chained=plan.chained, fewer=fewer)
        if fewer and source.text == first[0].text:
            return first
        return source, compile_cubin(source.text, arch, function.name, [function.location])

    first = made(0)
    if not any(kernel.spill_store_bytes > FEW_SPILLED for kernel in first[1].kernels):
        return first
    second = made(1)
    spilled = [sum(kernel.spill_store_bytes for kernel in cubin.kernels) for _, cubin in (first, second)]
    return second if spilled[1] < spilled[0] else first
