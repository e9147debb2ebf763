"""How wide tiles in shared memory are accessed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.layouts.shared_layouts import MATRICES, Access, Method, access_turns, vector_elements
from tiledsl.support.powers_of_two import power_of_two_in

SMALL_BYTES = 1024
"""Of shared memory, for whose sake no buffer shares its place with another one: that would cost a barrier."""


def whole_vector(
    layout: RegisterLayout, shared: SharedLayout, shape: Sequence[int], dtype: DType, places: Sequence[int]
) -> int:
    """The widest vector of an access that is all inside of the buffer or all outside."""
    return math.gcd(vector_elements(layout, shared, shape, dtype, places), shape[shared.order[-1]])


def aligned_vector(vector: int, offset: Value) -> int:
    """The vector with which a tile can be read that starts at `offset` along the axis that counts fastest."""
    return math.gcd(vector, int(offset.op.value)) if isinstance(offset.op, ops.Constant) else 1


def matrix_method(
    layout: RegisterLayout, shared: SharedLayout, shape: tuple[int, ...], dtype: DType, places: tuple[int, ...]
) -> Method:
    """By matrices where elements of 16 bits lie as accumulators have them, turned or not: one instruction for 8 of each
    thread; else by plain accesses."""
    if dtype.bits != 16:
        return "plain"
    for method in MATRICES:
        if access_turns(Access(layout, places, method=method), shared, shape, dtype) is not None:
            return method
    return "plain"


def plain_access(layout: RegisterLayout, places: tuple[int, ...], dtype: DType) -> Access:
    """An access by loads or stores as wide as the layout's slots allow."""
    last = layout.slot_digits[-1] if layout.slot_digits else None
    run = power_of_two_in(last.size) if last is not None and last.stride == 1 else 1
    return Access(layout, places, vector=min(run, max(1, 16 // dtype.bytes)))


def static_shape(value: Value) -> tuple[int, ...]:
    """The shape of a tile or buffer in GPU form."""
    return tuple(dim for dim in value.shape if isinstance(dim, int))


def shared_layout(buffer: Value) -> SharedLayout:
    """The layout of a buffer."""
    layout = buffer.tile.layout
    assert isinstance(layout, SharedLayout)
    return layout


def staged_layout(layout: SharedLayout) -> SharedLayout:
    """The layout of a buffer of several stages, each of them in `layout`; the stage is its first axis."""
    return replace(layout, order=(0, *(axis + 1 for axis in layout.order)))
