"""How a sum of squares around a mean goes on, block by block (the rule `Moments` of online_rules).

for k in tile.range(K):
    mean = sum(x[m, k]) / k.size
    squares += sum((x[m, k] - mean)^2) + (mean - total / k.start)^2 * k.start * k.size / (k.start + k.size)
    total += sum(x[m, k])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import AxisType


class Counts(NamedTuple):
    """How many elements of a fold came before a block, and how many are in it."""

    before: Value
    here: Value


def counts_of(build: Builder, streams: Sequence[tuple[Value, Dim]], whole: Sequence[Dim]) -> Counts:
    """The counts for a block of each streamed axis (the last one is the innermost loop's) and axes that are whole."""
    before, here = build.constant(0, i64), build.constant(1, i64)
    for block, size in streams:
        single = not isinstance(block.type, AxisType)
        start = block if single else build.emit(ops.Start, axis=block).result
        before = build.map("add", build.map("mul", before, build.size(size)), start)
        if not single:
            here = build.emit(ops.Extent, axis=block).result
    for size in whole:
        before, here = build.map("mul", before, build.size(size)), build.map("mul", here, build.size(size))
    return Counts(before, here)


def squares_after(
    build: Builder,
    source: Value,
    over: tuple[int, ...],
    spread: Callable[[Value], Value],
    counts: Counts,
    total: Value,
    squares: Value,
) -> Value:
    """The squares after a block `source`, which is folded `over` axes; `total` and `squares` are those before it.

    `spread` repeats what is folded along the block.
    """
    dtype: DType = source.dtype
    n_a, n_b = (build.cast(count, dtype) for count in counts)

    def summed(tile: Value) -> Value:
        return build.emit(ops.Reduce, sources=[tile], axes=over, fn="add").result if over else tile

    mean = build.map("div", summed(source), n_b)
    centred = build.map("sub", source, spread(mean))
    some = build.map("maximum", n_a, build.constant(1.0, dtype))
    delta = build.map("sub", mean, build.map("div", total, some))
    weight = build.map("div", build.map("mul", n_a, n_b), build.map("add", n_a, n_b))
    apart = build.map("mul", build.map("mul", delta, delta), weight)
    return build.map("add", squares, build.map("add", summed(build.map("mul", centred, centred)), apart))
