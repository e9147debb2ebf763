"""The result of a product of planes: where it is not finite, it is made once more, of what the planes were made of.

    %scaled = %acc * 2**-32
    %sum = tile.if(any(%scaled is not finite)) {rare} then() {
      for k in tile.range(K, block=1): acc = fma(a[m, k], b[k, n], acc)
    } otherwise() { %scaled }

Planes of infinities, NaN and of what is larger than 2**112 have no sum that is finite; nor has what overflows on the
way. Threads add up in f32, one product after the other: slowly, and as f32 has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tiledsl.ir import graph_ops as graph
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import f32, i64
from tiledsl.ir.types import BlockSize
from tiledsl.passes.graph.analysis.axes import Axis
from tiledsl.passes.graph.kernels.group_tiles import GroupTiles, Scope


def finite_or_exact(program: GroupTiles, op: graph.Contract, a: Value, b: Value, total: Value) -> Value:
    """`total`, the sum of the products of planes, as what it stands for."""
    build = program.builder
    scaled = build.map("mul", total, build.constant(ops.PLANES_SCALE, f32))
    finite = build.map("lt", build.map("abs", scaled), build.constant(math.inf, f32))
    axes = tuple(range(len(total.shape)))
    wrong = build.emit(ops.Reduce, sources=[build.map("not", finite)], axes=axes, fn="or").result
    then, otherwise = Block(), Block()
    streams = [axis for axis in program.axes.reduced[op] if axis in program.treatments.streamed]
    with Scope(program, then):
        zeros = build.broadcast(build.constant(0.0, f32), total.shape)
        build.emit(ops.Yield, values=[_summed(program, op, a, b, zeros, streams)])
    with Scope(program, otherwise):
        build.emit(ops.Yield, values=[scaled])
    return build.emit(ops.If, condition=wrong, rare=True, then=then, otherwise=otherwise).results[0]


def _summed(
    program: GroupTiles, op: graph.Contract, a: Value, b: Value, total: Value, streams: Sequence[Axis]
) -> Value:
    """`total` and the products along these axes, one coordinate after the other."""
    build = program.builder
    if not streams:
        out = program.tile_axes(op.result)
        left, right = (program.spread(program.tile(value), program.tile_axes(value), out) for value in (a, b))
        return build.map("fma", left, right, total)
    axis, *inner = streams
    body = Block()
    program.open(body, axis, single=True)
    before = body.add_argument(total.type, "exact")
    with Scope(program, body):
        build.emit(ops.Yield, values=[_summed(program, op, a, b, before, inner)])
    loop = build.emit(
        ops.Range, start=build.constant(0, i64), stop=build.size(program.sizes[axis]), initial=[total],
        blocks=(BlockSize.fixed(1),), body=body,
    )  # fmt: skip
    del program.blocks[axis]
    return loop.results[0]
