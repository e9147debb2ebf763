"""Plans for short rows that begin anywhere: whole ones of packed tensors move as one run, and few lanes hold each.

    softmax of f16[M, 49]     by elements, 8 lanes for a row:  64 loads and 64 stores of 2 bytes for 8 rows of a thread
                              as one run, 2 lanes for a row:   4 loads and 4 stores of 16 bytes for a row of a thread,
                                                               and 50 accesses of shared memory

Rows whose starts allow accesses of more than four bytes are left alone, and so are grids that loop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.layouts.layout import WARP
from tiledsl.ir.symbolic import Dim, evaluate, symbols_of
from tiledsl.ir.types import AxisType, Shape, TensorType
from tiledsl.passes.analysis.sizes import blocks_of
from tiledsl.passes.gpu.layouts.infer_layouts import is_rows
from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.support.powers_of_two import power_of_two_from, power_of_two_in, power_of_two_up_to

NARROW = 4
"""Bytes of an access, up to which rows had better move as one run."""
HELD = 64
"""Elements of a row that a thread holds at most."""
LONGEST = 1024
"""Elements of a row, beyond which lanes side by side are as good."""
THREADS = 128
WIDEST = 16
"""Bytes of an access."""
BANK_BYTES = 4
"""Of shared memory: what lies next to each other in one bank."""
MOST_BYTES = 32768
"""Of a tile in shared memory."""


def flat_rows(
    grid: ops.Grid,
    accesses: Sequence[ops.Load | ops.Store],
    sizes: Mapping[str, int],
    alignment: Mapping[Value, int],
    packed: Mapping[Value, int],
    machine: GpuMachine,
) -> Plan | None:
    """The plan; None where rows are none that move so. `sizes`: those that are known; `alignment` and `packed` by
    tensor, as a `Plan` has them."""
    arguments = grid.body.arguments
    if len(arguments) != 1 or not isinstance(arguments[0].type, AxisType) or grid.blocks[0].kind == "fixed":
        return None
    if any(isinstance(op, (ops.Range, ops.For, ops.While, ops.If)) for op in grid.body.ops):
        return None
    extent = str(arguments[0].type.extent)
    tiles = [op for op in accesses if _is_tile(op, extent)]
    if not tiles or not all(is_rows(op) and packed.get(op.tensor, 0) > NARROW for op in tiles):
        return None
    lengths = {_length(op, sizes) for op in tiles}
    length = max(lengths, key=lambda one: one or 0)
    if None in lengths or length is None or not 1 < length <= LONGEST:
        return None
    if min(_narrow_bytes(op, sizes, alignment) for op in tiles) > NARROW:
        return None
    # rows of odd halves of a word begin in the middle of one: lanes of two of them would meet in a bank
    narrow = min(_dtype_bytes(op) for op in tiles)
    least = BANK_BYTES // math.gcd(BANK_BYTES, length * narrow)
    lanes = max(least, power_of_two_from(-(-length // HELD)))
    each = max(1, power_of_two_up_to(max(1, HELD // 2 // length)))
    (whole,) = blocks_of(grid)
    total = None if whole.total is None else _size(whole.total, sizes)
    most = min(WARP, THREADS * narrow // WIDEST)  # blocks begin at multiples of 16 bytes
    while 2 * lanes <= most and each == 1 and total is not None and total * lanes < machine.multiprocessors * THREADS:
        lanes *= 2  # few rows: a block for each multiprocessor
    rows, widest = THREADS // lanes * each, max(_dtype_bytes(op) for op in tiles)
    while rows > 1 and rows * length * widest > MOST_BYTES:
        rows //= 2
    names = sorted({name for op in tiles for dim in _shape(op)[1:] for name in symbols_of(dim)})
    return Plan(
        (GridPlan(THREADS, row_threads=lanes, flat=True),), blocks=((extent, rows),),
        sizes=tuple((name, sizes[name]) for name in names),
    )  # fmt: skip


def _shape(op: ops.Load | ops.Store) -> Shape:
    return op.value.shape if isinstance(op, ops.Store) else op.result.shape


def _is_tile(op: ops.Load | ops.Store, extent: str) -> bool:
    """Whether rows of the grid's block are accessed, not a number of each or what is the same for all."""
    shape = _shape(op)
    return len(shape) > 1 and any(extent in symbols_of(dim) for dim in shape)


def _length(op: ops.Load | ops.Store, sizes: Mapping[str, int]) -> int | None:
    """The elements of a row, if they are known."""
    found = [_size(dim, sizes) for dim in _shape(op)[1:]]
    return None if None in found else math.prod(size for size in found if size is not None)


def _size(dim: Dim, sizes: Mapping[str, int]) -> int | None:
    return evaluate(dim, sizes) if symbols_of(dim) <= sizes.keys() else None


def _dtype_bytes(op: ops.Load | ops.Store) -> int:
    assert isinstance(op.tensor.type, TensorType)
    return op.tensor.type.dtype.bytes


def _narrow_bytes(op: ops.Load | ops.Store, sizes: Mapping[str, int], alignment: Mapping[Value, int]) -> int:
    """What a thread accesses at once where rows are accessed one by one."""
    last = _size(_shape(op)[-1], sizes) or 1
    return min(alignment.get(op.tensor, 16), power_of_two_in(last) * _dtype_bytes(op))
