"""Grids with two products that feed on each other, as attention has them: what they multiply.

queries = q[h, i, :]                            rows i, as wide as a head
for j in tile.range(K):                         columns j, some keys at a time
    scores = tile.dot(queries, k[h, j, :].mT)
    ...                                         softmax, or whatever makes weights of scores
    acc = tile.dot(weights, v[h, j, :], acc)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import AxisType
from tiledsl.passes.analysis.sizes import BlockDefinition
from tiledsl.passes.gpu.attention_plans import Attention
from tiledsl.passes.gpu.block_walks import grows_along
from tiledsl.passes.gpu.infer_layouts import tensor_of, tile_axes
from tiledsl.passes.gpu.streamed_loads import source_load


class ChainedProducts(NamedTuple):
    """Two products: the blocks of their rows and of the columns between them, and their sizes."""

    rows: BlockDefinition
    columns: BlockDefinition
    sizes: Attention


def chained_products(
    grid: ops.Grid, blocks: Sequence[BlockDefinition], size_of: Callable[[Dim | None], int]
) -> ChainedProducts | None:
    """What a grid multiplies, if that is two products of one loop, the second one of what the first one gave."""
    dots = [op for op in grid.body.walk() if isinstance(op, ops.Dot)]
    if len(dots) != 2:
        return None
    first, second = dots
    queries, keys, values = source_load(first.a), source_load(first.b), source_load(second.b)
    loop = None if first.parent is None else first.parent.parent
    if queries is None or keys is None or values is None or source_load(second.a) is not None:
        return None
    if not isinstance(loop, ops.Range) or second.parent is not first.parent or queries.parent is not grid.body:
        return None
    by_extent = {b.argument.type.extent: b for b in blocks if isinstance(b.argument.type, AxisType)}
    rows, columns = by_extent.get(first.a.shape[-2]), by_extent.get(first.b.shape[-1])
    if rows is None or columns is None or rows.op is not grid or columns.op is not loop:
        return None
    if second.a.shape[-1] != first.b.shape[-1] or keys.parent is not loop.body or values.parent is not loop.body:
        return None
    others = [block for block in blocks if block.op is grid and block is not rows]
    heads = math.prod(-(-size_of(b.total) // (b.block.size if b.block.kind == "fixed" else 1)) for b in others)
    sizes = Attention(
        size_of(rows.total), size_of(_length(keys, columns.argument)), size_of(first.a.shape[-1]), heads,
        causal=grows_along(grid, rows.argument), bytes=first.a.dtype.bytes, value_dim=size_of(second.b.shape[-1]),
    )  # fmt: skip
    return ChainedProducts(rows, columns, sizes)


def _length(load: ops.Load, block: Value) -> Dim | None:
    """How long the axis of a tensor is that a block subscripts."""
    for axis, index in enumerate(load.indices):
        if index is block and tile_axes(load)[axis] >= 0:
            return tensor_of(load).shape[axis]
    return None
