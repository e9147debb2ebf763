"""Reductions, scans and dot products in the reference executor.

Sums and products of floats are taken in f64 and rounded once, which is as close as any order of the accumulator's
additions gets. So results differ from a back end's by its rounding only.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tiledsl.backend_ref.execution import Execution
from tiledsl.backend_ref.scalar_functions import FUNCTIONS, Array, cast, constant, element_type
from tiledsl.ir.core import Block
from tiledsl.ir.fold_identities import fold_identity
from tiledsl.ir.gpu import gpu_ops
from tiledsl.ir.tile_ops import PLANES, Cast, Constant, Dot, Map, Reduce, Scan, Size, Sort, Yield

FOLDS: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}
_ELEMENTWISE = (Map, Cast, Constant, Size, Yield)
"""The ops that do for arrays of any shape what they do for scalars."""


def reduce(execution: Execution, op: Reduce) -> tuple[Array, ...]:
    """`argmax`, `argmin` and `custom` of nothing give 0."""
    return fold_tiles(execution, op, [execution.array(v) for v in op.sources])


def fold_tiles(execution: Execution, op: Reduce | gpu_ops.Reduce, sources: Sequence[Array]) -> tuple[Array, ...]:
    """What a reduction gives for these sources."""
    if op.fn == "custom":
        (axis,) = op.axes
        folded = _fold_custom(execution, op.combiner, sources, axis)
        return tuple(np.expand_dims(x, axis) for x in folded) if op.keepdims else folded
    return (fold(sources[0], op.fn, op.axes, op.keepdims),)


def fold(source: Array, fn: str, axes: Sequence[int], keepdims: bool) -> Array:
    """The fold by `fn`, a row of REDUCTIONS other than `custom`; the result has the dtype of the source, or is i64."""
    if fn in ("argmax", "argmin"):
        (axis,) = axes
        return _extreme_position(source, axis, fn == "argmax", keepdims)
    wide, dtype = _widen(source), element_type(source)
    start = constant(fold_identity(fn, dtype), dtype).astype(wide.dtype)
    result = FOLDS[fn].reduce(wide, axis=tuple(axes), dtype=wide.dtype, keepdims=keepdims, initial=start)
    return cast(np.asarray(result), dtype)


def scan(execution: Execution, op: Scan) -> tuple[Array, ...]:
    return scan_tiles(execution, op, [execution.array(v) for v in op.sources])


def scan_tiles(execution: Execution, op: Scan | gpu_ops.Scan, sources: Sequence[Array]) -> tuple[Array, ...]:
    """What a scan gives for these sources."""
    if op.fn != "custom":
        return (running_fold(sources[0], op.fn, op.axis, op.reverse),)
    if op.reverse:
        sources = [np.flip(x, op.axis) for x in sources]
    results = _scan_custom(execution, op.combiner, sources, op.axis)
    return tuple(np.flip(x, op.axis) for x in results) if op.reverse else results


def sort(execution: Execution, op: Sort) -> tuple[Array, ...]:
    """Elements along an axis in order."""
    return (np.sort(execution.array(op.source), axis=op.axis),)


def dot(execution: Execution, op: Dot) -> tuple[Array, ...]:
    """Floats: products and sums in f64 (exact for narrow operands), rounded once. `tf32` and planes are granted full
    precision; of what planes have no finite sum, as f32 has infinities, the result is no number either.

    Integers: modulo 2**64, then wrapped to `dtype`.
    """
    a, b = execution.array(op.a), execution.array(op.b)
    if op.precision == "planes":
        a, b = (x.astype(np.float64).sum(axis=0) for x in (a, b))
    elif op.precision == "split":
        planes = [FUNCTIONS[f"plane_{number + 1}"] for number in range(PLANES)]
        a, b = (np.sum([plane(x).astype(np.float64) for plane in planes], axis=0) for x in (a, b))
    wide = np.float64 if op.a.dtype.is_float or op.dtype.is_float else np.int64
    total = np.matmul(a.astype(wide), b.astype(wide))
    if op.acc is not None:
        total = total + execution.array(op.acc).astype(wide)
    return (cast(np.asarray(total), op.dtype),)


def running_fold(source: Array, fn: str, axis: int, reverse: bool) -> Array:
    """The scan by `fn`, a row of SCANS other than `custom`."""
    wide = _widen(np.flip(source, axis) if reverse else source)
    result = cast(FOLDS[fn].accumulate(wide, axis=axis, dtype=wide.dtype), element_type(source))
    return np.flip(result, axis) if reverse else result


def _widen(source: Array) -> Array:
    return source.astype(np.float64) if element_type(source).is_float else source


def _extreme_position(source: Array, axis: int, largest: bool, keepdims: bool) -> Array:
    """The first position of the extremum, as i64; the first NaN if there is one."""
    if source.shape[axis] == 0:
        kept = [1 if i == axis else n for i, n in enumerate(source.shape) if keepdims or i != axis]
        return np.zeros(kept, np.int64)
    search = np.argmax if largest else np.argmin
    return np.asarray(search(_widen(source), axis=axis, keepdims=keepdims), np.int64)


def _fold_custom(execution: Execution, combiner: Block, sources: Sequence[Array], axis: int) -> tuple[Array, ...]:
    if sources[0].shape[axis] == 0:
        return tuple(np.zeros(np.delete(x.shape, axis), x.dtype) for x in sources)
    slices = _slices(sources, axis)
    folded = slices[0]
    for following in slices[1:]:
        folded = _combine(execution, combiner, folded, following)
    return folded


def _scan_custom(execution: Execution, combiner: Block, sources: Sequence[Array], axis: int) -> tuple[Array, ...]:
    if sources[0].shape[axis] == 0:
        return tuple(sources)
    slices = _slices(sources, axis)
    running = [slices[0]]
    for following in slices[1:]:
        running.append(_combine(execution, combiner, running[-1], following))
    return tuple(np.stack(column, axis) for column in zip(*running))


def _slices(sources: Sequence[Array], axis: int) -> list[tuple[Array, ...]]:
    """For each coordinate of the axis, the slice of every source."""
    moved = [np.moveaxis(x, axis, 0) for x in sources]
    return [tuple(np.asarray(x[i]) for x in moved) for i in range(moved[0].shape[0])]


def _combine(
    execution: Execution, combiner: Block, left: tuple[Array, ...], right: tuple[Array, ...]
) -> tuple[Array, ...]:
    """The combiner, which is written for scalars, on each element of slices of one shape."""
    shape = left[0].shape
    if all(isinstance(op, _ELEMENTWISE) for op in combiner.ops):
        results = execution.run(combiner, (*left, *right), vectorised=True)
        return tuple(np.broadcast_to(x, shape) for x in results)
    combined = tuple(np.empty_like(x) for x in left)
    for index in itertools.product(*map(range, shape)):
        elements = [np.asarray(x[index]) for x in (*left, *right)]
        for target, result in zip(combined, execution.run(combiner, elements)):
            target[index] = result
    return combined
