"""A variant as `explain()` shows it."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.backend_cuda.build.variant import Variant
from tiledsl.backend_cuda.frame.kernel_code import KernelCode
from tiledsl.ir.layouts.layout import WARP
from tiledsl.passes.gpu.plans.describe_plan import plan_words
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.runtime.programs.artifact import Note
from tiledsl.runtime.programs.variant_report import FunctionReport, VariantReport

REGISTERS_AT_ONCE = 256
"""Registers are given to a warp in pieces of this many."""
BLOCK_OVERHEAD_BYTES = 1024
"""Shared memory that every resident block takes beyond its own."""


def report_variant(variant: Variant, machine: GpuMachine, tensors: Sequence[str]) -> VariantReport:
    """What people may want to know of a variant. `tensors`: names of the function's tensors, parameters first."""
    notes = [Note(r.pass_name, r.location.file, r.location.line, r.text) for r in variant.remarks]
    return VariantReport(
        plan=str(variant.plan),
        words=tuple(plan_words(variant.plan, tensors)),
        functions=tuple(_function(kernel, variant, machine) for kernel in variant.program.kernels),
        tiles=variant.tiles,
        notes=tuple(dict.fromkeys(notes)),
        left=variant.notes,
    )


def _function(kernel: KernelCode, variant: Variant, machine: GpuMachine) -> FunctionReport:
    measured = variant.resources[kernel.name]
    resident, limit = resident_blocks(kernel.threads, measured["registers"], kernel.shared_bytes, machine)
    return FunctionReport(
        name=kernel.name,
        programs=kernel.programs,
        threads=kernel.threads,
        cluster=kernel.cluster,
        registers=measured["registers"],
        spilled_bytes=measured["spills"],
        shared_bytes=kernel.shared_bytes,
        resident_blocks=resident,
        resident_limit=limit,
    )


def resident_blocks(threads: int, registers: int, shared_bytes: int, machine: GpuMachine) -> tuple[int, str]:
    """How many blocks of a kernel a multiprocessor runs at once, and what keeps it from running more.

    `registers` are per thread, `shared_bytes` per block.
    """
    warps = -(-threads // WARP)
    of_warp = -(-max(1, registers) * WARP // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
    room = {
        "threads": machine.max_threads_per_multiprocessor // (warps * WARP),
        "blocks": machine.max_blocks_per_multiprocessor,
        "registers": machine.registers // of_warp // warps,
        "shared memory": machine.shared_bytes_per_multiprocessor // (shared_bytes + BLOCK_OVERHEAD_BYTES),
    }
    limit = min(room, key=lambda name: room[name])
    return room[limit], limit
