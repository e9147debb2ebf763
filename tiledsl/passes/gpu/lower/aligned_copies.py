"""Copies of tensors whose rows TMA cannot take: before the grid that reads them, to rows that start at multiples of 16
bytes, or at lines of the cache.

    %b: tensor<bf16, [K, N], unit=1>, rows of 4095 elements

    %b_copy = tile.empty() {shape = [K, floordiv(N + 7, 8) * 8], dtype = bf16, scratch = true}
    gpu.launch([%K, %N_up]) {blocks = [32, 256], threads = 256} body(%row, %column) {
      %part = gpu.load(%b, [%row, %column], [%rows, %columns]) {masked = [0, 1], layout = local(8, 4) * spatial(4, 64)}
      gpu.store(%b_copy, [%row, %column], %part, [%rows, %columns_up])
    }

Neighbouring threads copy neighbouring elements, as wide as rows allow. What a row has more is 0. The axis that counts
fastest comes last in the copy; the others stay in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.symbolic import ceildiv
from tiledsl.ir.types import TensorType, scalar
from tiledsl.passes.gpu.layouts.access_layouts import access_layout
from tiledsl.passes.gpu.lower.lowering import Lowering

COPYING_THREADS = 256
COPIED_BYTES = 16384
"""Of a block."""
ROW_BYTES = 512
"""Of each row in a block."""
AnyItem = TypeVar("AnyItem")


@dataclass(frozen=True)
class AlignedCopy:
    """A copy of a tensor; its axis i is axis `order[i]` of the tensor."""

    tensor: Value
    order: tuple[int, ...]

    def ordered(self, items: Sequence[AnyItem]) -> list[AnyItem]:
        """What there is for each axis of the tensor, in the order of the copy's axes."""
        return [items[axis] for axis in self.order]


def copy_rows(state: Lowering, tensor: Value, alignment: int, target: int) -> AlignedCopy:
    """Emits the copy of a tensor of the TILE program, at the function's level. `alignment`: the bytes that each of its
    rows starts at a multiple of; `target`: the same of the copy."""
    source = state.tensors[tensor]
    type_ = source.type
    assert isinstance(type_, TensorType)
    assert type_.unit is not None
    dtype, unit = type_.dtype, type_.unit
    order = (*(axis for axis in range(len(type_.shape)) if axis != unit), unit)
    granule = target // dtype.bytes
    shape = [type_.shape[axis] for axis in order]
    shape[-1] = ceildiv(shape[-1], granule) * granule
    copy = state.emit(
        ops.Empty, name=f"{tensor.name}_copy", shape=tuple(shape), dtype=dtype, scratch=True
    ).result  # fmt: skip
    columns = ROW_BYTES // dtype.bytes
    block = (COPIED_BYTES // ROW_BYTES, columns)
    vector = max(1, min(alignment // dtype.bytes, state.size_multiple(type_.shape[unit])))
    layout = access_layout(block, (0, 1), COPYING_THREADS, vector, dtype.bytes)
    stops = [state.size(dim) for dim in shape]
    ends = [state.size(type_.shape[axis]) for axis in order]
    body = Block([(scalar(i64), f"{tensor.name}_at") for _ in shape])
    with state.scope(body):
        starts = list(body.arguments)
        axes = (*(-1 for _ in shape[2:]), 0, 1)

        def extents(stops_: Sequence[Value]) -> list[Value]:
            left = [state.arithmetic("sub", stop, start) for stop, start in zip(stops_[-2:], starts[-2:])]
            return [state.builder.map("minimum", one, state.constant(size)) for one, size in zip(left, block)]

        by_axis = dict(zip(order, zip(starts, axes)))
        read = [by_axis[axis] for axis in range(len(order))]
        part = state.emit(
            gpu.Load, name=f"{tensor.name}_part", tensor=source, indices=[start for start, _ in read],
            extents=extents(ends), other=None, axes=tuple(axis for _, axis in read), masked=(0, 1), vector=vector,
            shape=block, layout=layout,
        ).result  # fmt: skip
        state.emit(
            gpu.Store, tensor=copy, indices=starts, value=part, extents=extents(stops), axes=axes, masked=(0, 1),
            vector=vector,
        )  # fmt: skip
        state.emit(ops.Yield)
    state.emit(gpu.Launch, stops=stops, blocks=(*(1 for _ in shape[2:]), *block), threads=COPYING_THREADS, body=body)
    return AlignedCopy(copy, order)
