"""The words of the language that make up a program: loops, tensors and tiles, memory, random numbers, effects.

Each is a stub: it documents the word and types it; inside of a kernel the compiler gives it its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiledsl.frontend.language.active_trace import word
from tiledsl.frontend.language.values import MemoryLevel, Tensor, Tile, TileLike, kernel_only
from tiledsl.ir.dtypes import DType, f32, i64

Shape = Any
"""An int, a size, a block of an axis, or a tuple of these."""


@word
def grid(*sizes: Any, block: Any = None) -> Iterator[Any]:
    """Parallel programs over axes of the given sizes: `for m, n in tile.grid(M, N):`.

    Each program gets one block of each axis: `m` subscripts tensors and stands in shapes; `m.index` are its
    coordinates (i64 tile of shape `(m,)`), `m.start` the first and `m.size` their number (fewer at the edge).
    `block` gives the sizes (an int for one axis, else a tuple); `tile.auto` or None leaves them to the compiler;
    an axis of block 1 is a plain integer. Programs run in any order, at the same time.
    """
    kernel_only("grid", "a loop of yours over NumPy slices")


@word
def range(start: Any, stop: Any = None, *, block: Any = None, num_stages: Any = None) -> Iterator[Any]:
    """A sequential loop over the blocks of one axis: `for k in tile.range(K):`, or `tile.range(lo, hi)`.

    Bounds may be run-time integers. `block` as in `tile.grid`; `num_stages` is the number of buffers for
    pipelined loads. Variables that lived before the loop are carried through it and keep their types.
    """
    kernel_only("range", "range")


@word
def load(source: Tile, other: TileLike | None = None, level: MemoryLevel | None = None) -> Tile:
    """Reads `source`, a subscripted tensor: `tile.load(x[m], other=-math.inf, level=tile.shared)`.

    `other` (0 unless told) is what lies outside of the tensor; `level` is a contract on where the tile lives.
    """
    kernel_only("load", "a NumPy subscript")


@word
def store(target: Tile, value: TileLike) -> None:
    """`tile.store(c[m, n], value)` is `c[m, n] = value`: cast to the tensor's dtype, broadcast; outside is dropped."""
    kernel_only("store", "a NumPy assignment")


@word
def empty(shape: Shape, dtype: DType = f32) -> Tensor:
    """A new tensor of that shape, not initialised; stands outside of `tile.grid`. Usually what the kernel returns."""
    kernel_only("empty", "numpy.empty")


@word
def zeros(shape: Shape, dtype: DType = f32) -> Any:
    """Zeros: a tile inside of `tile.grid`, a tensor outside of it."""
    kernel_only("zeros", "numpy.zeros")


@word
def ones(shape: Shape, dtype: DType = f32) -> Any:
    """Ones: a tile inside of `tile.grid`, a tensor outside of it."""
    kernel_only("ones", "numpy.ones")


@word
def full(shape: Shape, value: TileLike, dtype: DType | None = None) -> Any:
    """`value`, a number or scalar, everywhere: a tile inside of `tile.grid`, a tensor outside of it.

    Without `dtype`: that of `value`; f32 for a Python float, i64 for a Python int.
    """
    kernel_only("full", "numpy.full")


@word
def arange(start: Any, stop: Any = None, step: int = 1, dtype: DType = i64) -> Tile:
    """`0, 1, ... start-1`, or `start, start+step, ...` below `stop`, as a tile of rank 1.

    `tile.arange(m)` counts the elements of a block. The bounds are ints and sizes, for they make the shape.
    """
    kernel_only("arange", "numpy.arange")


@word
def rand(seed: TileLike, offsets: TileLike) -> Tile:
    """Uniform f32 in [0, 1) from Philox4x32-10, one number for each integer in `offsets`.

    The number depends on `seed` (an integer scalar) and the offset alone, not on blocks or threads.
    """
    kernel_only("rand", "numpy.random")


@word
def randn(seed: TileLike, offsets: TileLike) -> Tile:
    """Standard normal f32, otherwise as `tile.rand`."""
    kernel_only("randn", "numpy.random")


@word
def atomic_add(target: Tile, value: TileLike) -> Tile:
    """`tile.atomic_add(c[m], value)`: adds into a subscripted tensor, each element atomically; gives the old values.

    `value` is cast to the tensor's dtype and broadcast. What lies outside of the tensor is dropped.
    """
    kernel_only("atomic_add", "numpy.add.at")


@word
def atomic_max(target: Tile, value: TileLike) -> Tile:
    """The maximum, otherwise as `tile.atomic_add`."""
    kernel_only("atomic_max", "numpy.maximum.at")


@word
def atomic_min(target: Tile, value: TileLike) -> Tile:
    """The minimum, otherwise as `tile.atomic_add`."""
    kernel_only("atomic_min", "numpy.minimum.at")


@word
def atomic_and(target: Tile, value: TileLike) -> Tile:
    """Bitwise and of integers or bools, otherwise as `tile.atomic_add`."""
    kernel_only("atomic_and", "numpy.bitwise_and.at")


@word
def atomic_or(target: Tile, value: TileLike) -> Tile:
    """Bitwise or of integers or bools, otherwise as `tile.atomic_add`."""
    kernel_only("atomic_or", "numpy.bitwise_or.at")


@word
def atomic_xor(target: Tile, value: TileLike) -> Tile:
    """Bitwise exclusive or of integers or bools, otherwise as `tile.atomic_add`."""
    kernel_only("atomic_xor", "numpy.bitwise_xor.at")


@word
def atomic_exchange(target: Tile, value: TileLike) -> Tile:
    """Replaces each element atomically, otherwise as `tile.atomic_add`."""
    kernel_only("atomic_exchange", "a NumPy assignment")


@word
def print(*values: Any) -> None:
    """Prints while the kernel runs: `tile.print("row", m.start, x)`. Strings come first, then tiles and scalars."""
    kernel_only("print", "print")


@word
def assert_(condition: TileLike, message: str = "") -> None:
    """Fails the launch with `message` (TileRuntimeError) where any element of `condition` is false."""
    kernel_only("assert_", "assert")


@word
def static_assert(condition: bool, message: str = "") -> None:
    """Fails the compilation with `message` (TileTypeError) if `condition`, known at compile time, is false."""
    kernel_only("static_assert", "assert")
