"""Where the tiles of a kernel for a GPU lie: their layouts by name, read off its GPU IR, to be looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tiledsl.ir.core import Module, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu.async_ops import Mbarriers
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.drawings import register_drawing, shared_drawing
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.types import TileType


@dataclass(frozen=True)
class TileLayout:
    """Where the elements of one tile are. `str()` is a picture as text, notebooks show a drawing.

    `shape` has room for the largest block; the first axis of a buffer with several stages counts them.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    layout: RegisterLayout | SharedLayout

    @property
    def level(self) -> str:
        """`register` or `shared`."""
        return "register" if isinstance(self.layout, RegisterLayout) else "shared"

    def __str__(self) -> str:
        if isinstance(self.layout, RegisterLayout):
            return self.layout.show()
        return self.layout.show(self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.dtype}{list(self.shape)}, {self.level}, {self.layout}>"

    def _repr_svg_(self) -> str:
        if isinstance(self.layout, RegisterLayout):
            return register_drawing(self.layout)
        return shared_drawing(self.layout, self.shape, self.dtype)


def tile_layouts(gpu_ir: str) -> dict[str, TileLayout]:
    """The layouts of the tiles that have a name, in the order of the IR; not those of barriers.

    A variable that is carried through a loop has several values there; one that lies as an earlier one is left out.
    """
    found: dict[str, TileLayout] = {}
    seen: set[tuple[str, TileType]] = set()
    for value in _values(parse_module(gpu_ir)):
        type_, full = value.type, value.name or ""
        variable = re.sub(r"_\d+$", "", full)
        if not isinstance(type_, TileType) or type_.layout is None or not variable or (variable, type_) in seen:
            continue
        seen.add((variable, type_))
        name = full if variable in found else variable
        found[name] = TileLayout(name, type_.dtype, _numbers(type_), type_.layout)
    return found


def _numbers(type_: TileType) -> tuple[int, ...]:
    """The shape of a tile that has a layout."""
    shape = tuple(extent for extent in type_.shape if isinstance(extent, int))
    assert len(shape) == len(type_.shape), f"{type_} has a layout, and so numbers for a shape"
    return shape


def _values(module: Module) -> Iterator[Value]:
    for op in module.walk():
        for block in op.bodies.values():
            yield from block.arguments
        if not isinstance(op, Mbarriers):
            yield from op.results
