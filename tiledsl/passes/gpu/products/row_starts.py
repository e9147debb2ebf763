"""At multiples of how many bytes that begins which a load reads of rows: where rows begin, and from where on they are
read.

tile.load(%x, [%m, %k])                        rows of 16 bytes' multiples, blocks of 64 elements of f16: 16
tile.load(%x, [%m, %shifted_by_2])             the same from two elements on: 4
tile.load(%x, [%m, slice(N, 2 * N)])           16 where N is a multiple of 8

TMA takes no less than 16 (`ir/gpu/tensor_maps.py`). Threads that copy take 4 and 8 too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Index, Value
from tiledsl.ir.gpu.tensor_maps import UNIT_BYTES
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import AxisType, Slice, Whole
from tiledsl.passes.gpu.layouts.infer_layouts import tensor_of
from tiledsl.passes.gpu.products.divisors import divisor, first_divisor


def row_start(load: ops.Load, alignment: int, multiple: Callable[[Dim], int]) -> int:
    """`alignment`: the bytes that every row of the tensor starts at a multiple of. `multiple`: a number that a size is
    known to be a multiple of. A block whose size is not said yet is taken for one of whole pieces of 16 bytes."""
    tensor = tensor_of(load)
    if tensor.unit is None:
        return alignment
    return math.gcd(alignment, _first(load.indices[tensor.unit], multiple) * tensor.dtype.bytes)


def of_copy(start: int) -> int:
    """The same where a tensor was copied before, to rows that TMA can take: it has to, as threads copy from tensors."""
    return start if start % UNIT_BYTES == 0 else 1


def _first(index: Index, multiple: Callable[[Dim], int]) -> int:
    """A number that the first coordinate of a subscript is a multiple of; 0 for 0."""
    match index:
        case Whole():
            return 0
        case Slice(start=int(start)):
            return start
        case Slice(start=start):
            return multiple(start)
        case Value(type=AxisType()):
            return first_divisor(index, multiple, open_block=0)
        case Value():
            return divisor(index, multiple, open_block=0)
