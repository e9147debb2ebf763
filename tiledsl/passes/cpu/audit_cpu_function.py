"""What a program for a CPU moves, and how long it is predicted to take, beside the least that it could.

gemm 1000^3 f32    must 11.4 MiB, moves 19.1 MiB, products; predicted 12.0 ms, floor 10.4 ms: 1.2
"""

from __future__ import annotations

from collections.abc import Mapping

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Function
from tiledsl.ir.dtypes import f32
from tiledsl.passes.cpu.grid_work import collect_work
from tiledsl.passes.cpu.plan_launch import plan_launch
from tiledsl.passes.machine import CpuMachine
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.kernel_audit import KernelAudit, guessed_sizes, must_bytes
from tiledsl.passes.nest.loop_nest import loop_nest


def audit_cpu_function(function: Function, machine: CpuMachine, sizes: Mapping[str, int]) -> KernelAudit:
    """The audit of a function in form `tile-tiled`, on all cores of a machine. Sizes that are not given are guessed."""
    known, speeds = {**guessed_sizes(function), **sizes}, machine.speeds
    nests = [loop_nest(op) for op in function.body.ops if isinstance(op, ops.Grid)]
    launch = plan_launch([collect_work(nest) for nest in nests], machine, known, machine.cores)
    grids = [(nest, WorkCounts(nest, known, launch.blocks)) for nest in nests]
    moved = [(access, counts.moved(access)) for nest, counts in grids for access in nest.accesses]
    moved_bytes = sum(amount.number * access.tensor.dtype.bytes for access, amount in moved)
    multiplied = sum(counts.multiplied(dot).number for nest, counts in grids for dot in nest.dots)
    must = must_bytes(function, grids)
    products = multiplied / (machine.cores * machine.lanes(f32) * speeds.clock)
    return KernelAudit(
        name=function.name,
        location=function.location,
        plan=str(launch),
        must_bytes=must,
        moved_bytes=moved_bytes,
        memory_bytes=moved_bytes,
        multiply_adds=multiplied,
        tensor_core_share=None,
        predicted=speeds.launch + launch.seconds,
        floor=speeds.launch + max(products, must / machine.copied_bytes_per_second),
        products_floor=products,
        bound=next(iter(launch.times.shares), "launch"),
        exact=all(amount.exact for _, amount in moved),
        by_warpgroups=False,
    )
