"""What a kernel is predicted to cost: bytes to and from memory, operations, a launch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Op
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.tile_ops import tensor_type
from tiledsl.passes.graph.kernel_plan import KernelPlan
from tiledsl.passes.graph.shapes import bytes_of, sizes_of, volume


@dataclass(frozen=True)
class Rates:
    """Of a target: bytes per second of memory, multiply-adds per second of products, by bits of an operand, simple
    operations per second, and seconds to start a kernel."""

    memory: float
    products: float
    operations: float
    launch: float
    slots: int
    """Kernels of fewer programs than this leave a part of the target idle."""


CPU_RATES = Rates(memory=12e9, products=60e9, operations=8e9, launch=4e-6, slots=2)
GPU_RATES = Rates(memory=4.0e12, products=3.3e14, operations=1.5e13, launch=2.5e-6, slots=132)


def rates_of(arch: str) -> Rates:
    """The rates of `cpu`, `reference` or a GPU architecture."""
    return GPU_RATES if arch.startswith("sm_") else CPU_RATES


@dataclass(frozen=True)
class Price:
    """Predicted seconds, and bytes that are read and written in memory, each once."""

    seconds: float
    bytes: int


def price(plan: KernelPlan, arch: str) -> Price:
    """The price of a group as one kernel."""
    rates = rates_of(arch)
    function, inputs = plan.outlined.function, plan.outlined.inputs
    moved = sum(map(bytes_of, dict.fromkeys(inputs))) + sum(map(bytes_of, plan.outlined.outputs))
    work = sum(_operations(op) for op in function.body.ops)
    products = sum(_multiply_adds(op) for op in function.body.ops)
    memory = moved / rates.memory
    compute = work / rates.operations + products / rates.products * _width(function.body.ops)
    rows = math.prod(axis.size for axis in plan.schedule.grid)
    idle = 1.0
    if plan.schedule.whole and products:
        # a row of a product that is folded is one program's: few rows keep few cores busy
        idle = max(1.0, rates.slots / max(1.0, rows / 64))
        idle = min(idle, 3.0)
    return Price(rates.launch + max(memory, compute * idle), moved)


def unfused(plan: KernelPlan, arch: str) -> Price:
    """The price of a group's ops as a kernel each."""
    rates = rates_of(arch)
    seconds, total = 0.0, 0
    for op in plan.outlined.function.body.ops:
        if isinstance(op, (ops.Map, ops.Cast, ops.Reduce, ops.Contract, ops.Gather)):
            moved = sum(bytes_of(v) for v in dict.fromkeys((*op.operands, *op.results)))
            total += moved
            compute = _operations(op) / rates.operations + _multiply_adds(op) / rates.products * _width([op])
            seconds += rates.launch + max(moved / rates.memory, compute)
    return Price(seconds, total)


def _operations(op: Op) -> int:
    match op:
        case ops.Map():
            return volume(op.result) * SCALAR_FUNCTIONS[op.fn].cost
        case ops.Reduce():
            return volume(op.source)
        case _:
            return 0


def _multiply_adds(op: Op) -> int:
    if not isinstance(op, ops.Contract):
        return 0
    a, b, _ = op.axis_names()
    sizes = {**dict(zip(a, sizes_of(op.a))), **dict(zip(b, sizes_of(op.b)))}
    return math.prod(sizes.values())


def _width(all_ops: list[Op]) -> float:
    """How much slower products are than those of 16 bits: the widest operand says it."""
    bits = [tensor_type(op.a).dtype.bits for op in all_ops if isinstance(op, ops.Contract)]
    return max((b / 16 if b <= 16 else b / 4 for b in bits), default=1.0)
