"""Tiles that are one scalar throughout."""

from __future__ import annotations

from tiledsl.ir.core import Number, Value
from tiledsl.ir.tile_ops import Broadcast, Constant
from tiledsl.passes.analysis.sizes import is_scalar


def number_of(value: Value) -> Number | None:
    """The constant that a scalar is, or that a tile is made of throughout."""
    source = splat_of(value)
    return source.op.value if source is not None and isinstance(source.op, Constant) else None


def splat_of(value: Value) -> Value | None:
    """The scalar that all elements of a tile are, or the scalar itself."""
    while not is_scalar(value):
        if not isinstance(value.op, Broadcast):
            return None
        value = value.op.source
    return value
