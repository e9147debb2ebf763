"""Emits a program in GPU form as CUDA C: one function for each `gpu.launch`, and for each effect between launches.

A function is named after the program; of several, the second is `softmax_1`. Its parameters are those that it needs.
Scalars of the function's level are computed in each kernel that uses them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.backend_cuda.emit.emit_programs import emit_launch, emit_single
from tiledsl.backend_cuda.emit.emit_table import emit_block, emit_op
from tiledsl.backend_cuda.frame.declare_parameters import declared_parameters
from tiledsl.backend_cuda.frame.kernel_code import CudaSource, KernelCode
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import Names, function_of, kernel_of, of_program
from tiledsl.backend_cuda.frame.overlap_kernels import Overlap, overlaps_of, tensors_written_by
from tiledsl.backend_cuda.frame.program_frame import ProgramFrame
from tiledsl.backend_cuda.functions.tma_functions import TENSOR_MAP
from tiledsl.backend_cuda.values.coarse_values import coarse_values
from tiledsl.backend_cuda.values.written_again import blocks_at_once
from tiledsl.ir.core import Module, Op
from tiledsl.ir.gpu.async_ops import Role, TmaLoad, Wgmma
from tiledsl.ir.gpu.gpu_ops import Copy, Launch, Load, Write
from tiledsl.ir.tile_ops import Empty


def emit_program(module: Module, capability: int, *, chained: bool = False, fewer: int = 0) -> CudaSource:
    """CUDA C for the entry function of a module in GPU form, for an architecture of that capability (90 for sm_90).

    `chained`: the program is one of a chain (`overlap_kernels.py`). `fewer`: of the blocks that a multiprocessor is to
    have registers for, how many it may do without (`written_again.py`).
    """
    function = module.entry
    program = ProgramFrame(function, capability)
    names = Names()
    kernels: list[KernelCode] = []
    texts: list[str] = []
    phases = phases_of(function.body.ops)
    for phase, overlap in zip(phases, overlaps_of(function.body.ops, phases, capability, chained)):
        name = kernel_of(names.fresh(of_program(function.name)))
        code, text = _emit_kernel(program, name, phase, overlap, fewer)
        kernels.append(code)
        texts.append(text)
    types = [TENSOR_MAP] if program.maps else []
    text = "\n".join([*types, program.preamble.text(), *texts])
    return CudaSource(text, tuple(kernels), tuple(program.assertions), tuple(program.maps), program.scratch)


def phases_of(ops: Sequence[Op]) -> list[list[Op]]:
    """What becomes a kernel each: launches, fills of new tensors, and runs of other effects between them."""
    phases: list[list[Op]] = []
    run: list[Op] = []
    for op in ops:
        if isinstance(op, (Launch, Empty)):
            if run:
                phases.append(run)
                run = []
            if isinstance(op, Launch) or op.fill is not None:
                phases.append([op])
        elif op.effect == "write" or (op.effect == "control" and any(o.effect == "write" for o in op.walk())):
            run.append(op)
    return [*phases, run] if run else phases


def _emit_kernel(
    program: ProgramFrame, name: str, phase: list[Op], overlap: Overlap, fewer: int
) -> tuple[KernelCode, str]:
    first = phase[0]
    launch = first if isinstance(first, Launch) else None
    threads, cluster = (launch.threads, launch.cluster) if launch else (256, 1) if isinstance(first, Empty) else (1, 1)
    frame = KernelFrame(program, threads, cluster, tensors_written_by(phase), emit_op, overlap)
    if overlap.releases:
        frame.line(f"{frame.use('let_next_begin')}();")
    if launch:
        frame.coarse = coarse_values(launch.body)
        reads = (op for op in launch.body.walk() if isinstance(op, (Load, Copy, TmaLoad)))
        frame.reads_what_it_writes = any(op.tensor in frame.written for op in reads)
        frame.writes_to_blocks = any(isinstance(op, Write) and op.block >= 0 for op in launch.body.walk())
    programs = emit_launch(frame, launch, emit_block) if launch else emit_single(frame, phase, emit_op)
    frame.wait_at_end()
    declared = declared_parameters(frame.parameters, frame.program.tensors, frame.written)
    clusters = f"__cluster_dims__({cluster}, 1, 1) " if cluster > 1 else ""
    alone = f", {launch.resident}" if launch and _has_a_multiprocessor(launch) else ""
    at_once = blocks_at_once(threads, frame.held_words) - fewer if frame.recomputes and not alone else 1
    alone = f", {at_once}" if at_once > 1 else alone
    head = f'extern "C" __global__ void {clusters}__launch_bounds__({threads}{alone}) {function_of(name)}('
    joined = ", ".join(text for _, text in declared)
    if len(head) + len(joined) > 118:
        joined = "\n    " + ",\n    ".join(text for _, text in declared)
    lines = [f"{head}{joined}) {{", *frame.entry.lines, *frame.writer.lines, "}", ""]
    shared = launch.shared_bytes if launch else 0
    parameters = tuple(parameter for parameter, _ in declared)
    code = KernelCode(
        name, programs, threads, cluster, shared, parameters, overlap.begins_early, overlap.waits_first
    )  # fmt: skip
    return code, "\n".join(lines)


def _has_a_multiprocessor(launch: Launch) -> bool:
    """Whether its blocks may take all registers of one: they have roles, or products by warpgroups, which need them."""
    return any(isinstance(op, (Role, Wgmma)) for op in launch.body.walk())
