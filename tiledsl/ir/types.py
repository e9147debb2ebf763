"""The types of IR values: tensors in global memory, tiles (scalars are tiles of rank 0) and blocks of an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, Union

from tiledsl.ir.dtypes import DType
from tiledsl.ir.symbolic import Dim

if TYPE_CHECKING:
    from tiledsl.ir.layouts.buffer_layout import SharedLayout
    from tiledsl.ir.layouts.layout import RegisterLayout

Level = Literal["register", "shared"]
Shape: TypeAlias = tuple[Dim, ...]


def format_shape(shape: Shape) -> str:
    """`[M, 2 * K, 16]`"""
    return "[" + ", ".join(map(str, shape)) + "]"


@dataclass(frozen=True)
class TensorType:
    """A tensor in global memory. `unit` is the axis whose stride is known to be one element, if any.

    Text: `tensor<f32, [M, K], unit=1>`.
    """

    dtype: DType
    shape: Shape
    unit: int | None = None

    def __str__(self) -> str:
        unit = "" if self.unit is None else f", unit={self.unit}"
        return f"tensor<{self.dtype}, {format_shape(self.shape)}{unit}>"


@dataclass(frozen=True)
class TileType:
    """A tile at a memory level (None until levels are placed). Rank 0 is a scalar and needs no level.

    In GPU form a tile has room for its largest block: its shape is known, and `layout` says which thread holds what, or
    how a buffer lies in shared memory.

    Text: `tile<f32, [m, n], register>`, `tile<f32, [16, 8], register, local(2, 1) * spatial(8, 4) * local(1, 2)>`; a
    scalar is just `f32`.
    """

    dtype: DType
    shape: Shape
    level: Level | None = None
    layout: RegisterLayout | SharedLayout | None = None

    def __str__(self) -> str:
        if not self.shape:
            return str(self.dtype)
        level = "" if self.level is None else f", {self.level}"
        layout = "" if self.layout is None else f", {self.layout}"
        return f"tile<{self.dtype}, {format_shape(self.shape)}{level}{layout}>"


@dataclass(frozen=True)
class AxisType:
    """One program's block of an axis: a run of consecutive coordinates. `extent` is how many there are in this block.

    The extent of an inferred or ragged block is a symbol that the enclosing `tile.grid` or `tile.range` declares.
    Text: `axis<m>`.
    """

    extent: Dim

    def __str__(self) -> str:
        return f"axis<{self.extent}>"


Type: TypeAlias = Union[TensorType, TileType, AxisType]


def same_but_level(a: Type, b: Type) -> bool:
    """Whether two types agree in all but the memory level and the layout, which inference knows nothing of."""
    if isinstance(a, TileType) and isinstance(b, TileType):
        return a.dtype == b.dtype and a.shape == b.shape
    return a == b


def scalar(dtype: DType) -> TileType:
    """The type of a scalar."""
    return TileType(dtype, ())


@dataclass(frozen=True)
class BlockSize:
    """The block size of one axis: not yet chosen, a contract, or a limit within which the launch chooses.

    Text: `auto`, `128`, `upto(1008, 14)`: any multiple of 14 up to 1008.
    A program means the same whatever its block sizes are: a block at the edge of its axis is short, never padded.
    """

    kind: Literal["auto", "fixed", "upto"]
    size: int = 0
    unit: int = 1

    @staticmethod
    def auto() -> BlockSize:
        return BlockSize("auto")

    @staticmethod
    def fixed(size: int) -> BlockSize:
        return BlockSize("fixed", size)

    @staticmethod
    def upto(size: int, unit: int = 1) -> BlockSize:
        return BlockSize("upto", size, unit)

    def __str__(self) -> str:
        match self.kind:
            case "auto":
                return "auto"
            case "fixed":
                return str(self.size)
            case "upto":
                return f"upto({self.size}, {self.unit})"


@dataclass(frozen=True)
class Slice:
    """A subscript `start:stop` with bounds known from sizes alone."""

    start: Dim
    stop: Dim

    def __str__(self) -> str:
        return f"{self.start}:{self.stop}"


@dataclass(frozen=True)
class Whole:
    """The subscript `:`."""

    def __str__(self) -> str:
        return ":"


WHOLE = Whole()
