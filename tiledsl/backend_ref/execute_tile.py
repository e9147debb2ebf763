"""Runs TILE functions with NumPy: the oracle that every pass and back end is compared with.

Slow and literal. Every op's result is checked against its declared type, and promises that passes make
(`in_bounds`, extents) are checked too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

import numpy as np

from tiledsl.backend_ref import control, folding, memory, philox
from tiledsl.backend_ref.arguments import Argument, bind_arguments
from tiledsl.backend_ref.execution import (
    AxisBlock,
    BlockChooser,
    Execution,
    Executor,
    Program,
    RuntimeValue,
    small_blocks,
)
from tiledsl.backend_ref.scalar_functions import Array, apply, cast, constant
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Function, Op
from tiledsl.ir.symbolic import evaluate
from tiledsl.support.errors import fail


def execute(
    function: Function,
    arguments: Sequence[Argument],
    *,
    blocks: BlockChooser | None = None,
    output: Callable[[str], None] = print,
    order: random.Random | None = None,
    chosen: Callable[[list[Program]], Iterable[Program]] | None = None,
) -> tuple[Array, ...]:
    """Runs a function of the TILE vocabulary, in any of its forms, and gives the tensors that it returns.

    `arguments` are NumPy arrays for tensors and numbers for scalars, in the order of the parameters; arrays that are
    stored to are changed in place. `blocks` chooses block sizes that are not fixed (small by default), `output` takes
    each line of `tile.print`, and `order` shuffles the programs of every grid; `chosen` says which of them are run.

    Raises TileTypeError or TileShapeError for arguments that do not fit, TileRuntimeError for a failed `tile.assert`.
    """
    sizes, values = bind_arguments(function, arguments)
    task = f"running `{function.name}` op by op"
    execution = Execution(
        EXECUTORS, sizes, blocks or small_blocks, output, order, chosen, symbols=dict(sizes), task=task
    )
    with np.errstate(all="ignore"):
        return execution.run(function.body, values)


def _constant(execution: Execution, op: tile_ops.Constant) -> tuple[RuntimeValue, ...]:
    return (constant(op.value, op.dtype),)


def _size(execution: Execution, op: tile_ops.Size) -> tuple[RuntimeValue, ...]:
    return (np.asarray(evaluate(op.value, execution.symbols), np.int64),)


def _arange(execution: Execution, op: tile_ops.Arange) -> tuple[RuntimeValue, ...]:
    return (np.arange(evaluate(op.extent, execution.symbols), dtype=np.int64),)


def _coordinates(execution: Execution, op: tile_ops.Coordinates) -> tuple[RuntimeValue, ...]:
    start, extent = execution.axis(op.axis)
    return (np.arange(start, start + extent, dtype=np.int64),)


def _start(execution: Execution, op: tile_ops.Start) -> tuple[RuntimeValue, ...]:
    return (np.asarray(execution.axis(op.axis).start, np.int64),)


def _extent(execution: Execution, op: tile_ops.Extent) -> tuple[RuntimeValue, ...]:
    return (np.asarray(execution.axis(op.axis).extent, np.int64),)


def _shift(execution: Execution, op: tile_ops.Shift) -> tuple[RuntimeValue, ...]:
    start, extent = execution.axis(op.axis)
    return (AxisBlock(start + execution.integer(op.offset), extent),)


def _map(execution: Execution, op: tile_ops.Map) -> tuple[RuntimeValue, ...]:
    return (apply(op.fn, *map(execution.array, op.inputs)),)


def _cast(execution: Execution, op: tile_ops.Cast) -> tuple[RuntimeValue, ...]:
    return (cast(execution.array(op.source), op.dtype),)


def _broadcast(execution: Execution, op: tile_ops.Broadcast) -> tuple[RuntimeValue, ...]:
    return (np.broadcast_to(execution.array(op.source), execution.shape(op.shape)),)


def _reshape(execution: Execution, op: tile_ops.Reshape) -> tuple[RuntimeValue, ...]:
    return (np.reshape(execution.array(op.source), execution.shape(op.shape)),)


def _transpose(execution: Execution, op: tile_ops.Transpose) -> tuple[RuntimeValue, ...]:
    return (np.transpose(execution.array(op.source), op.permutation),)


def _stack(execution: Execution, op: tile_ops.Stack) -> tuple[RuntimeValue, ...]:
    return (np.stack([execution.array(source) for source in op.sources], axis=op.axis),)


def _random(execution: Execution, op: tile_ops.Random) -> tuple[RuntimeValue, ...]:
    return (philox.DRAWS[op.fn](execution.array(op.seed), execution.array(op.offsets)),)


def _print(execution: Execution, op: tile_ops.Print) -> tuple[RuntimeValue, ...]:
    parts = [str(execution.values[v]) for v in op.values]
    execution.output(" ".join([op.text, *parts] if op.text else parts))
    return ()


def _assert(execution: Execution, op: tile_ops.Assert) -> tuple[RuntimeValue, ...]:
    condition = execution.array(op.condition)
    if not condition.all():
        fail_assertion(execution, op, condition)
    return ()


def fail_assertion(execution: Execution, op: tile_ops.Assert, condition: Array) -> NoReturn:
    """Raises the TileRuntimeError of a `tile.assert` whose condition is not true everywhere."""
    program = "in program " + ", ".join(execution.coordinates) if execution.coordinates else "outside of any grid"
    notes: list[str] = []
    if condition.ndim:
        first = [int(i) for i in np.argwhere(~condition)[0]]
        notes.append(f"{np.count_nonzero(~condition)} of {condition.size} elements are false, the first at {first}")
    text = op.text or "the condition is false"
    fail("assertion-failed", op.location, notes=notes, text=text, program=program)


EXECUTORS: dict[type[Op], Executor] = {
    tile_ops.Grid: control.grid,
    tile_ops.Range: control.range_,
    tile_ops.For: control.for_,
    tile_ops.While: control.while_,
    tile_ops.If: control.if_,
    tile_ops.Constant: _constant,
    tile_ops.Size: _size,
    tile_ops.Arange: _arange,
    tile_ops.Coordinates: _coordinates,
    tile_ops.Start: _start,
    tile_ops.Extent: _extent,
    tile_ops.Shift: _shift,
    tile_ops.Empty: memory.empty,
    tile_ops.Load: memory.load,
    tile_ops.Store: memory.store,
    tile_ops.Atomic: memory.atomic,
    tile_ops.Extract: memory.extract,
    tile_ops.Map: _map,
    tile_ops.Cast: _cast,
    tile_ops.Broadcast: _broadcast,
    tile_ops.Reshape: _reshape,
    tile_ops.Transpose: _transpose,
    tile_ops.Stack: _stack,
    tile_ops.Dot: folding.dot,
    tile_ops.Reduce: folding.reduce,
    tile_ops.Scan: folding.scan,
    tile_ops.Sort: folding.sort,
    tile_ops.Random: _random,
    tile_ops.Print: _print,
    tile_ops.Assert: _assert,
}
"""How each op runs. Terminators are not here: `Execution.run` takes their operands."""
