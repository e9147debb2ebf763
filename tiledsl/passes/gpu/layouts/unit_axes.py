"""Layouts across ops that only add, drop or repeat axes of size 1."""

from __future__ import annotations

from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.types import Shape


def broadcast_source_layout(layout: RegisterLayout, source: Shape) -> RegisterLayout:
    """The layout in which a tile of shape `source` is repeated to one in `layout` without moving anything."""
    new = len(layout.shape) - len(source)
    result = layout.reduced(list(range(new))) if new else layout
    units = [axis for axis, size in enumerate(source) if size == 1 and result.shape[axis] != 1]
    return result.reduced(units, keepdims=True) if units else result


def reshaped_layout(layout: RegisterLayout, source: Shape, target: Shape) -> RegisterLayout | None:
    """The layout of a reshape of `source` (which is in `layout`) that only adds or drops axes of size 1; else None."""
    if [d for d in source if d != 1] != [d for d in target if d != 1]:
        return None
    units = [axis for axis, dim in enumerate(source) if dim == 1]
    result = layout.reduced(units) if units else layout
    for axis, dim in enumerate(target):
        if dim == 1:
            result = result.expanded(axis)
    return result
