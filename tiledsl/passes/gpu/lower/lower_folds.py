"""Lowers reductions, scans and sorts: padding becomes neutral, then threads fold together.

%s = tile.reduce([%x]) {axes = [1], fn = add}   =>   %p = gpu.pad(%x, [%N], %zero) {axes = [1]}
                                                     %s = gpu.reduce([%p], %scratch) {axes = [1], fn = add}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import DType, bool_, i64, u8
from tiledsl.ir.fold_identities import fold_identity, most
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.fold_plans import fold_scratch_bytes
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.layouts.scan_plans import plan_scan, runs_layout, suits_scan
from tiledsl.ir.layouts.sort_plans import plan_sort, sort_layout
from tiledsl.ir.types import scalar
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.support.powers_of_two import power_of_two_in

Fold = ops.Reduce | ops.Scan


def lower_reduce(state: Lowering, op: ops.Reduce) -> None:
    """A reduction in the layout of its source."""
    layout = state.layout(op.sources[0])
    sources, combiner = _without_padding(state, op, layout, op.axes)
    dtypes = [i64 if op.fn in ("argmax", "argmin") else v.dtype for v in sources]
    if op.fn in ("argmax", "argmin"):
        dtypes = [*dtypes, sources[0].dtype]
    scratch = fold_scratch(state, layout, op.axes, dtypes, op.fn)
    fields: dict[str, Any] = {} if combiner is None else {"combiner": combiner}
    folded = state.emit(
        gpu.Reduce, name=[v.name for v in op.results], sources=sources, buffer=scratch, axes=op.axes, fn=op.fn,
        keepdims=op.keepdims, **fields,
    )  # fmt: skip
    valid = folded.results[len(op.results) :]
    for old, new in zip(op.results, folded.results):
        if valid:  # of nothing a fold by a combiner gives 0
            zero = state.constant(fold_identity("add", new.dtype), new.dtype)
            inputs = (valid[0], new, zero)
            new = state.emit(ops.Map, types=[new.tile], name=new.name, fn="where", inputs=inputs).result
        state.define(old, new)


def lower_scan(state: Lowering, op: ops.Scan) -> None:
    """A scan in the layout of its source if threads stand along the axis in order there; else the tile is moved."""
    own = state.inference.of(op.sources[0])
    layout = scan_layout(state, state.capacities.shape(op.sources[0].shape), op.axis)
    if own is not None and suits_scan(own, op.axis, state.grid.threads):
        layout = own
    # padding stands after everything else: it matters only to a scan from the end
    axes = (op.axis,) if op.reverse else ()
    sources, combiner = _without_padding(state, op, layout, axes)
    plan = plan_scan(layout, op.axis, state.grid.threads)
    size = 0 if plan is None else plan.scratch_bytes([v.dtype for v in sources])
    scratch = state.buffer((size,), u8, SharedLayout((0,)), "scratch") if size else None
    fields: dict[str, Any] = {} if combiner is None else {"combiner": combiner}
    scanned = state.emit(
        gpu.Scan, name=[v.name for v in op.results], sources=sources, buffer=scratch, axis=op.axis, fn=op.fn,
        reverse=op.reverse, **fields,
    )  # fmt: skip
    for old, new in zip(op.results, scanned.results):
        state.define(old, new)


def lower_sort(state: Lowering, op: ops.Sort) -> None:
    """A sort, in the layout of its source where threads have runs of it; else the tile is moved."""
    own, shape = state.inference.of(op.source), state.capacities.shape(op.source.shape)
    layout = sort_layout(shape, op.axis, state.grid.threads, state.grid.cluster, op.source.dtype.bytes)
    if own is not None and plan_sort(own, op.axis, state.grid.threads) is not None:
        layout = own
    source = state.padded(
        state.tile(op.source, layout), op.source.shape, most(op.source.dtype), (op.axis,), op.source.name
    )
    plan = plan_sort(layout, op.axis, state.grid.threads)
    size = 0 if plan is None else plan.scratch_bytes(op.source.dtype, state.grid.threads)
    scratch = state.buffer((size,), u8, SharedLayout((0,)), "scratch") if size else None
    found = state.emit(gpu.Sort, name=op.result.name, source=source, buffer=scratch, axis=op.axis)
    state.define(op.result, found.result)


def scan_layout(state: Lowering, shape: Sequence[int], axis: int) -> RegisterLayout:
    """Slots innermost, then lanes, then warps along the axis; what is left of the threads along the others."""
    along = min(power_of_two_in(shape[axis]), power_of_two_in(state.grid.threads))
    return runs_layout(shape, axis, along, state.threads // along)


def fold_scratch(
    state: Lowering, layout: RegisterLayout, axes: Sequence[int], dtypes: Sequence[DType], fn: str = "argmax"
) -> Value | None:
    """The buffer that a fold by `fn` needs, if it needs one."""
    size = fold_scratch_bytes(layout, tuple(axes), tuple(dtypes), state.grid.threads, fn)
    return state.buffer((size,), u8, SharedLayout((0,)), "scratch") if size else None


def _without_padding(
    state: Lowering, op: Fold, layout: RegisterLayout, axes: Sequence[int]
) -> tuple[list[Value], Block | None]:
    """The sources with padding that folds to nothing, and the combiner, if there is one."""
    sources = [state.tile(v, layout) for v in op.sources]
    shape = op.sources[0].shape
    if not op.has_body("combiner"):
        (source,) = sources
        return [state.padded(source, shape, fold_identity(op.fn, source.dtype), axes, source.name)], None
    combiner = op.combiner.clone({})
    ragged = state.ragged(shape, axes)
    return _with_validity(state, sources, combiner, ragged, layout) if ragged else (sources, combiner)


def _with_validity(
    state: Lowering,
    sources: list[Value],
    combiner: Block,
    ragged: Sequence[tuple[int, Value]],
    layout: RegisterLayout,
) -> tuple[list[Value], Block]:
    """For a combiner that nobody knows a neutral element of: each element says whether it is there.

    # combine((x, x_valid), (y, y_valid)) => (both ? combine(x, y) : x_valid ? x : y, x_valid or y_valid)
    """
    truth, fallacy = state.constant(True, bool_), state.constant(False, bool_)
    everywhere = state.filled(truth, layout)
    axes, extents = tuple(axis for axis, _ in ragged), [extent for _, extent in ragged]
    valid = state.emit(gpu.Pad, name="valid", source=everywhere, extents=extents, fill=fallacy, axes=axes).result
    return [*sources, valid], _valid_combiner(state, combiner, [v.dtype for v in sources])


def _valid_combiner(state: Lowering, combiner: Block, dtypes: Sequence[DType]) -> Block:
    types = [*map(scalar, dtypes), scalar(bool_)]
    block = Block([(type_, "") for type_ in (*types, *types)])
    left, right = block.arguments[: len(types)], block.arguments[len(types) :]
    with state.builder.inside(block):
        values: dict[Value, Value] = dict(zip(combiner.arguments, (*left[:-1], *right[:-1])))
        folded: list[Value] = []
        for op in combiner.ops:
            if isinstance(op, ops.Yield):
                folded = [values.get(v, v) for v in op.values]
            else:
                block.append(op.clone(values))
        build = state.builder
        both, either = build.map("and", left[-1], right[-1]), build.map("or", left[-1], right[-1])
        kept = [
            build.map("where", both, together, build.map("where", left[-1], one, other))
            for together, one, other in zip(folded, left, right)
        ]
        state.emit(ops.Yield, values=[*kept, either])
    return block
