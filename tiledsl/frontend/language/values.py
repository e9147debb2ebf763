"""What a kernel's values can do, for readers and type checkers: tensors and tiles; and the markers of the language.

The classes are never instantiated. Inside of a kernel the compiler gives their operators and methods a meaning;
these declarations document it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, Union

import numpy as np

from tiledsl.ir.dtypes import DType
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

if TYPE_CHECKING:
    # For type checkers an annotation `BM: tile.constexpr = 64` says nothing about the type.
    constexpr: TypeAlias = Any
else:

    class constexpr:  # noqa: N801 - a word of the language
        """Marks a parameter that is known at compile time: `def gemm(a, b, BM: tile.constexpr = tile.auto)`.

        Its argument may be a number, a bool, a string, a dtype, None or a tuple of these. Each value is its own
        specialisation.
        """


class Auto:
    """The type of `tile.auto`."""

    def __repr__(self) -> str:
        return "tile.auto"


auto: Any = Auto()
"""Stands for "the compiler chooses", as a block size or as the default of a tunable parameter."""


@dataclass(frozen=True)
class MemoryLevel:
    """Where a tile lives: `tile.register` or `tile.shared`."""

    name: str

    def __repr__(self) -> str:
        return f"tile.{self.name}"


register = MemoryLevel("register")
"""The level of tiles in registers."""
shared = MemoryLevel("shared")
"""The level of tiles in shared memory (cache-resident scratch on a CPU)."""


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of a tensor that is not there yet, for `compile` and `trace`.

    An axis is an int (known), a string (a named size: equal names are equal sizes) or None (unknown).
    """

    shape: tuple[int | str | None, ...]
    dtype: DType


def spec(shape: Sequence[int | str | None], dtype: DType) -> TensorSpec:
    """A stand-in for an array: `tile.spec(("M", 128), tile.f32)`. See `TensorSpec` for what an axis can be."""
    return TensorSpec(tuple(shape), dtype)


def kernel_only(name: str, instead: str) -> NoReturn:
    """Raises the error for a word of the language that plain Python called, located at that call."""
    fail("outside-kernel", caller_location(), name=name, instead=instead)


class Tile:
    """A block of values inside of a kernel; a scalar is a tile of rank 0.

    Operators follow NumPy: elementwise with broadcasting, NumPy's result dtypes with weak Python scalars, `@` is
    `tile.dot`. `//` and `%` round down; an integer divided by zero gives 0. Subscripts are slices, `None`, `...`,
    ints and run-time scalars.
    """

    shape: tuple[Any, ...]
    """Sizes of the axes; usable wherever a shape is."""
    dtype: DType
    ndim: int
    size: Any
    """The number of elements."""
    T: Tile
    """All axes reversed."""
    mT: Tile  # noqa: N815 - NumPy's name
    """The last two axes swapped."""

    def to(self, dtype: DType) -> Tile:
        """Converted to `dtype`: floats round to nearest even, floats to ints truncate."""
        kernel_only("Tile.to", "astype of a NumPy array")

    def reshape(self, *shape: Any) -> Tile:
        """The same elements in row-major order. Takes a tuple or ints; one of them may be -1."""
        kernel_only("Tile.reshape", "a NumPy array")

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tile:
        """See `tile.sum`; so for the other reductions."""
        kernel_only("Tile.sum", "a NumPy array")

    prod = max = min = any = all = mean = sum

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tile:
        """See `tile.argmax`."""
        kernel_only("Tile.argmax", "a NumPy array")

    argmin = argmax

    def cumsum(self, axis: int | None = None, reverse: bool = False) -> Tile:
        """See `tile.cumsum`."""
        kernel_only("Tile.cumsum", "a NumPy array")

    def __getitem__(self, subscript: Any) -> Tile:
        kernel_only("Tile[...]", "a NumPy array")

    def __add__(self, other: TileLike) -> Tile:
        kernel_only("Tile operator", "a NumPy array")

    def __neg__(self) -> Tile:
        kernel_only("Tile operator", "a NumPy array")

    def __eq__(self, other: TileLike) -> Tile:  # pyright: ignore[reportIncompatibleMethodOverride] - elementwise, as NumPy's
        kernel_only("Tile operator", "a NumPy array")

    def __ne__(self, other: TileLike) -> Tile:  # pyright: ignore[reportIncompatibleMethodOverride] - elementwise, as NumPy's
        kernel_only("Tile operator", "a NumPy array")

    def __bool__(self) -> bool:
        kernel_only("truth of a Tile", "a NumPy array")

    def __index__(self) -> int:
        kernel_only("range over a Tile", "a NumPy array")

    def __float__(self) -> float:
        kernel_only("float of a Tile", "a NumPy array")

    __int__ = __index__

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __add__
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __add__
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __add__
    __lt__ = __le__ = __gt__ = __ge__ = __add__
    __invert__ = __pos__ = __abs__ = __neg__

    if TYPE_CHECKING:
        # For type checkers a call of a kernel gives what its function is annotated with. In truth it is an array of the
        # caller's library, which NumPy and PyTorch take.
        def __array__(self, dtype: Any = None, /) -> np.ndarray[Any, np.dtype[Any]]: ...
        def __len__(self) -> int: ...


class Tensor(Tile):
    """A whole tensor in global memory: a parameter, or what `tile.empty` makes. Formulas compute with it like a tile.

    A subscript selects a tile: one entry per axis, each a block of an axis (`m`, or shifted: `m + 1`), a scalar, `:`,
    a slice between sizes known at compile time, or an int tile (gather, scatter); `None` adds an axis, missing
    entries are `:`. Read as a value it is loaded (what lies outside reads 0, see `tile.load`); assigned to, it is
    stored, cast to the tensor's dtype (what lies outside is dropped).
    """

    shape: tuple[Any, ...]
    """Sizes of the axes. `M, K = a.shape` names them; naming one again asserts that both are equal."""
    T: Tensor  # pyright: ignore[reportIncompatibleVariableOverride] - both are only declared
    """A view with all axes reversed."""
    mT: Tensor  # noqa: N815 - NumPy's name # pyright: ignore[reportIncompatibleVariableOverride]
    """A view with the last two axes swapped."""

    def __getitem__(self, subscript: Any) -> Tile:
        kernel_only("Tensor[...]", "a NumPy array")

    def __setitem__(self, subscript: Any, value: TileLike) -> None:
        kernel_only("Tensor[...]", "a NumPy array")

    if TYPE_CHECKING:
        # What a call gives has the methods of its library (`.cpu()`, `.copy()`).
        def __getattr__(self, name: str) -> Any: ...


TileLike: TypeAlias = Union[Tile, int, float, bool]
"""What most functions of the language take: a tile, a scalar, or a Python number."""
