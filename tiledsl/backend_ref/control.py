"""Grids, loops and branches in the reference executor."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tiledsl.backend_ref.execution import AxisBlock, Execution, RuntimeValue, blocks_between
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.tile_ops import For, Grid, If, Range, While
from tiledsl.support.errors import fail


def grid(execution: Execution, op: Grid) -> tuple[RuntimeValue, ...]:
    """One program after the other, in row-major order or shuffled."""
    axes: list[list[AxisBlock]] = []
    for position, (stop, size) in enumerate(zip(op.stops, op.blocks)):
        axes.append(blocks_between(0, execution.integer(stop), execution.block_size(op, position, size)))
    programs = list(itertools.product(*axes))
    if execution.order is not None:
        execution.order.shuffle(programs)
    outer = execution.coordinates
    for program in programs if execution.chosen is None else execution.chosen(programs):
        execution.begin_program(op, outer + _program_coordinates(op.body.arguments, program), len(programs))
        arguments = [execution.enter_block(op, a, b) for a, b in zip(op.body.arguments, program)]
        execution.run(op.body, arguments)
    execution.coordinates = outer
    return ()


def _program_coordinates(arguments: Sequence[Value], program: Sequence[AxisBlock]) -> list[str]:
    """`m = 0:8`, or `m = 3` for a block of one."""
    return [
        f"{argument.name} = {start}" if extent == 1 else f"{argument.name} = {start}:{start + extent}"
        for argument, (start, extent) in zip(arguments, program)
    ]


def range_(execution: Execution, op: Range) -> tuple[RuntimeValue, ...]:
    carried = _initial(execution, op)
    size = execution.block_size(op, 0, op.blocks[0])
    for block in blocks_between(execution.integer(op.start), execution.integer(op.stop), size):
        carried = execution.run(op.body, (execution.enter_block(op, op.body.arguments[0], block), *carried))
    return carried


def for_(execution: Execution, op: For) -> tuple[RuntimeValue, ...]:
    carried = _initial(execution, op)
    step = execution.integer(op.step)
    if step == 0:
        fail("reference-step", op.location)
    dtype = to_numpy(op.body.arguments[0].dtype)
    for index in range(execution.integer(op.start), execution.integer(op.stop), step):
        carried = execution.run(op.body, (np.asarray(index, dtype), *carried))
    return carried


def while_(execution: Execution, op: While) -> tuple[RuntimeValue, ...]:
    carried = _initial(execution, op)
    while bool(execution.run(op.condition, carried)[0]):
        carried = execution.run(op.body, carried)
    return carried


def if_(execution: Execution, op: If) -> tuple[RuntimeValue, ...]:
    return execution.run(op.then if bool(execution.array(op.condition)) else op.otherwise, ())


def _initial(execution: Execution, op: Range | For | While) -> tuple[RuntimeValue, ...]:
    return tuple(execution.values[v] for v in op.initial)
