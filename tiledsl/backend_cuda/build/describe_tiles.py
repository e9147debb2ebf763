"""The tiles of GPU IR that people want to know of: what is loaded, staged, folded and multiplied, and where it lives.

What is computed elementwise has the layout of what it is computed from, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.types import Shape, TileType, format_shape
from tiledsl.runtime.programs.variant_report import TileReport

_SHOWN = (gpu.Load, gpu.Buffer, gpu.Read, gpu.Reduce, gpu.Scan, gpu.Sort, gpu.Mma, gpu.Convert, gpu.Atomic)


def tile_reports(module: Module) -> tuple[TileReport, ...]:
    """Each kind of tile once, in the order of the program."""
    found: dict[TileReport, None] = {}
    for op in module.walk():
        if isinstance(op, _SHOWN):
            found.update(dict.fromkeys(_of_op(op)))
    return tuple(found)


def _of_op(op: Op) -> Iterator[TileReport]:
    for value in op.results:
        type_ = value.type
        if not isinstance(type_, TileType) or not type_.shape or type_.layout is None:
            continue
        source = " ".join(op.location.source.split()) or (f"%{value.name}" if value.name else op.name)
        text = f"{type_.dtype}{format_shape(type_.shape)}"
        match type_.layout:
            case RegisterLayout() as layout:
                takes = f"{layout.slots} per thread"
                yield TileReport(op.location.line, source, text, "registers", takes, str(layout))
            case SharedLayout() as layout:
                if not _is_scratch(value):
                    takes = f"{layout.bytes(_numbers(type_.shape), type_.dtype) / 1024:.4g} KiB"
                    yield TileReport(op.location.line, source, text, "shared", takes, str(layout))


def _numbers(shape: Shape) -> list[int]:
    return [size for size in shape if isinstance(size, int)]


def _is_scratch(value: Value) -> bool:
    """Whether a buffer is only what threads of a fold meet in."""
    return bool(value.users) and all(isinstance(user, (gpu.Reduce, gpu.Scan)) for user in value.users)
