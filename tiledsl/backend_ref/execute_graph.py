"""Runs GRAPH functions with NumPy: the oracle of fusion. Each op's result is checked against its declared type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tiledsl.backend_ref import philox
from tiledsl.backend_ref.arguments import Argument, bind_arguments
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.backend_ref.execution import MANY_ELEMENTS, Execution, Executor, large_blocks, small_blocks
from tiledsl.backend_ref.folding import fold, running_fold
from tiledsl.backend_ref.scalar_functions import Array, apply, cast, constant, element_type
from tiledsl.ir import graph_ops
from tiledsl.ir.core import Function, Module, Op
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.symbolic import evaluate
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import is_tile_function


def execute_graph(
    function: Function,
    arguments: Sequence[Argument],
    module: Module | None = None,
    *,
    output: Callable[[str], None] = print,
) -> tuple[Array, ...]:
    """Runs a function of the GRAPH vocabulary and gives the tensors that it returns; arguments are not changed.

    `arguments` are NumPy arrays, in the order of the parameters. `module` holds the functions that are called, if any.
    Raises TileTypeError or TileShapeError for arguments that do not fit.
    """
    sizes, values = bind_arguments(function, arguments)
    executors = {**EXECUTORS, graph_ops.Call: partial(_call, module), graph_ops.Loop: partial(_loop, module)}
    execution = Execution(executors, sizes, small_blocks, output, None, symbols=dict(sizes))
    with np.errstate(all="ignore"):
        return execution.run(function.body, values)


def _call(module: Module | None, execution: Execution, op: graph_ops.Call) -> tuple[Array, ...]:
    assert module is not None, f"@{op.callee} is called, but no module is given"
    callee = module.function(op.callee)
    inputs: list[Array] = [np.array(execution.array(v)) for v in op.inputs]
    if is_tile_function(callee):
        many = max((array.size for array in inputs), default=0) >= MANY_ELEMENTS
        return execute(callee, inputs, blocks=large_blocks if many else small_blocks, output=execution.output)
    return execute_graph(callee, inputs, module, output=execution.output)


def _loop(module: Module | None, execution: Execution, op: graph_ops.Loop) -> tuple[Array, ...]:
    assert module is not None, f"@{op.callee} is called, but no module is given"
    step = module.function(op.callee)
    carried, sequences, shared = (
        [np.array(execution.array(v)) for v in values] for values in (op.initial, op.sequences, op.shared)
    )
    stacked = [
        np.empty(execution.shape(tensor_type(v).shape), to_numpy(tensor_type(v).dtype))
        for v in op.results[len(carried) :]
    ]
    count = evaluate(op.count, execution.symbols)
    for t in reversed(range(count)) if op.reverse else range(count):
        elements = [np.asarray(sequence[t]) for sequence in sequences]
        results = execute_graph(step, [*carried, *elements, *shared], module, output=execution.output)
        carried = list(results[: len(carried)])
        for whole, element in zip(stacked, results[len(carried) :]):
            whole[t] = element
    return (*carried, *stacked)


def _constant(execution: Execution, op: graph_ops.Constant) -> tuple[Array, ...]:
    return (constant(op.value, op.dtype),)


def _serial(execution: Execution, op: graph_ops.Serial) -> tuple[Array, ...]:
    return tuple(execution.array(v) for v in op.values)


def _size(execution: Execution, op: graph_ops.Size) -> tuple[Array, ...]:
    return (np.asarray(evaluate(op.value, execution.symbols), np.int64),)


def _iota(execution: Execution, op: graph_ops.Iota) -> tuple[Array, ...]:
    shape = execution.shape(op.shape)
    along = [1] * len(shape)
    along[op.axis] = shape[op.axis]
    coordinates = np.reshape(np.arange(shape[op.axis], dtype=np.int64), along)
    return (np.broadcast_to(coordinates, shape),)


def _map(execution: Execution, op: graph_ops.Map) -> tuple[Array, ...]:
    return (apply(op.fn, *map(execution.array, op.inputs)),)


def _cast(execution: Execution, op: graph_ops.Cast) -> tuple[Array, ...]:
    return (cast(execution.array(op.source), op.dtype),)


def _reduce(execution: Execution, op: graph_ops.Reduce) -> tuple[Array, ...]:
    return (fold(execution.array(op.source), op.fn, op.axes, op.keepdims),)


def _scan(execution: Execution, op: graph_ops.Scan) -> tuple[Array, ...]:
    return (running_fold(execution.array(op.source), op.fn, op.axis, op.reverse),)


def _random(execution: Execution, op: graph_ops.Random) -> tuple[Array, ...]:
    return (philox.DRAWS[op.fn](execution.array(op.seed), execution.array(op.offsets)),)


def _contract(execution: Execution, op: graph_ops.Contract) -> tuple[Array, ...]:
    """Floats: products and sums in f64, rounded once. Integers: modulo 2**64, then wrapped to the result's dtype."""
    a, b, result = op.axis_names()
    left, right = execution.array(op.a), execution.array(op.b)
    if op.precision == "planes":
        left, right = (x.astype(np.float64).sum(axis=0) * 2.0**-16 for x in (left, right))
        a, b = a[1:], b[1:]
    letters = {name: chr(ord("a") + i) for i, name in enumerate(dict.fromkeys([*a, *b]))}
    formula = ",".join("".join(letters[n] for n in axes) for axes in (a, b)) + "->"
    formula += "".join(letters[n] for n in result)
    wide = np.float64 if element_type(left).is_float or op.dtype.is_float else np.int64
    total = cast(_sums_of_products(formula, left.astype(wide), right.astype(wide)), op.dtype)
    if op.exact_a is not None and op.exact_b is not None and not np.isfinite(total).all():
        first, second = (execution.array(value).astype(np.float64) for value in (op.exact_a, op.exact_b))
        total = np.where(np.isfinite(total), total, cast(_sums_of_products(formula, first, second), op.dtype))
    return (total,)


LARGE = 1 << 36
"""Elements of two operands, multiplied, from which products of matrices are far faster than a loop."""


def _sums_of_products(formula: str, left: Array, right: Array) -> Array:
    by_matrices = left.size * right.size >= LARGE
    return np.asarray(np.einsum(formula, left, right, optimize="greedy" if by_matrices else False))


def _transpose(execution: Execution, op: graph_ops.Transpose) -> tuple[Array, ...]:
    return (np.transpose(execution.array(op.source), op.permutation),)


def _reshape(execution: Execution, op: graph_ops.Reshape) -> tuple[Array, ...]:
    return (np.reshape(execution.array(op.source), execution.shape(op.shape)),)


def _broadcast(execution: Execution, op: graph_ops.Broadcast) -> tuple[Array, ...]:
    return (np.broadcast_to(execution.array(op.source), execution.shape(op.shape)),)


def _slice(execution: Execution, op: graph_ops.Slice) -> tuple[Array, ...]:
    starts, stops = execution.shape(op.starts), execution.shape(op.stops)
    return (execution.array(op.source)[tuple(map(slice, starts, stops, op.steps))],)


def _pad(execution: Execution, op: graph_ops.Pad) -> tuple[Array, ...]:
    source = execution.array(op.source)
    low, high = execution.shape(op.low), execution.shape(op.high)
    source = source[tuple(slice(max(0, -a), n - max(0, -b)) for a, n, b in zip(low, source.shape, high))]
    low, high = [max(0, a) for a in low], [max(0, b) for b in high]
    shape = [a + n + b for a, n, b in zip(low, source.shape, high)]
    padded = np.full(shape, constant(op.value, element_type(source)), source.dtype)
    padded[tuple(slice(a, a + n) for a, n in zip(low, source.shape))] = source
    return (padded,)


def _concat(execution: Execution, op: graph_ops.Concat) -> tuple[Array, ...]:
    return (np.concatenate([execution.array(v) for v in op.sources], op.axis),)


def _interleave(execution: Execution, op: graph_ops.Interleave) -> tuple[Array, ...]:
    sources = [execution.array(v) for v in op.sources]
    shape = list(sources[0].shape)
    shape[op.axis] = sum(source.shape[op.axis] for source in sources)
    out = np.empty(shape, sources[0].dtype)
    for number, source in enumerate(sources):
        out[(*[slice(None)] * op.axis, slice(number, None, len(sources)))] = source
    return (out,)


def _window(execution: Execution, op: graph_ops.Window) -> tuple[Array, ...]:
    source = execution.array(op.source)
    sizes = execution.shape(op.sizes)
    for axis, size, stride, dilation in zip(op.axes, sizes, op.strides, op.dilations):
        length: int = source.shape[axis]
        positions = -(-(length - (size - 1) * abs(dilation)) // stride)
        within = np.arange(size) * abs(dilation)
        coordinates = np.arange(positions)[:, np.newaxis] * stride + (within if dilation > 0 else within[::-1])
        # the axis becomes (positions, size); the latter goes to the end
        source = np.moveaxis(np.take(source, coordinates, axis), axis + 1, -1)
    return (source,)


def _gather(execution: Execution, op: graph_ops.Gather) -> tuple[Array, ...]:
    source, indices = execution.array(op.source), execution.array(op.indices)
    count = source.shape[op.axis]
    inside = (indices >= 0) & (indices < count)
    if count == 0:
        shape = (*source.shape[: op.axis], *indices.shape, *source.shape[op.axis + 1 :])
        return (np.zeros(shape, source.dtype),)
    taken = np.take(source, np.where(inside, indices, 0), op.axis)
    after = source.ndim - op.axis - 1
    inside = np.reshape(inside, (*indices.shape, *[1] * after))
    return (np.where(inside, taken, np.zeros((), source.dtype)),)


EXECUTORS: dict[type[Op], Executor] = {
    graph_ops.Constant: _constant,
    graph_ops.Size: _size,
    graph_ops.Serial: _serial,
    graph_ops.Iota: _iota,
    graph_ops.Map: _map,
    graph_ops.Cast: _cast,
    graph_ops.Reduce: _reduce,
    graph_ops.Scan: _scan,
    graph_ops.Random: _random,
    graph_ops.Contract: _contract,
    graph_ops.Transpose: _transpose,
    graph_ops.Reshape: _reshape,
    graph_ops.Broadcast: _broadcast,
    graph_ops.Slice: _slice,
    graph_ops.Pad: _pad,
    graph_ops.Concat: _concat,
    graph_ops.Interleave: _interleave,
    graph_ops.Window: _window,
    graph_ops.Gather: _gather,
}
"""How each op runs. Calls and loops need the module and are added for each execution; terminators are those of
`Execution.run`."""
