"""The words of the language that compute: elementwise functions, products, reductions, scans, shapes.

Each is a stub: it documents the word and types it; inside of a kernel the compiler gives it its meaning.
Elementwise functions broadcast and promote as NumPy's; functions marked *float* turn integers into the float that
NumPy gives (f16 for 8 bits, f32 for 16, f64 above). Narrow floats (f16, bf16, f8) are computed in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiledsl.frontend.language.active_trace import word
from tiledsl.frontend.language.values import Tile, TileLike, kernel_only
from tiledsl.ir.dtypes import DType

Axes = Any
"""An int, a tuple of ints, or None for all axes. Negative axes count from the end."""


@word
def dot(
    a: TileLike, b: TileLike, acc: TileLike | None = None, *, dtype: DType | None = None, precision: str = "ieee"
) -> Tile:
    """`acc + a @ b` over the last axis of `a` and the one before the last of `b`; leading axes are batches.

    Shapes `[..., M, K]` and `[..., K, N]` give `[..., M, N]`. Accumulates, and gives, f32 for f16, bf16, f8 and f32
    operands, f64 for f64, i32 for i8 and u8, unless `dtype` says otherwise. `precision="tf32"` lets a GPU round f32
    operands. Sums of f8 products are f32 sums, for which a GPU whose instructions keep fewer digits (14 bits on sm_90)
    adds them up anew every 128 elements of K; `precision="fast"` leaves that out. Vectors take an axis first:
    `a[None, :]`.
    """
    kernel_only("dot", "numpy.matmul")


@word
def where(condition: TileLike, x: TileLike, y: TileLike) -> Tile:
    """`x` where `condition` holds, else `y`, elementwise."""
    kernel_only("where", "numpy.where")


@word
def exp(x: TileLike) -> Tile:
    """e to the power of `x`. *float*"""
    kernel_only("exp", "numpy.exp")


@word
def exp2(x: TileLike) -> Tile:
    """2 to the power of `x`. *float*"""
    kernel_only("exp2", "numpy.exp2")


@word
def log(x: TileLike) -> Tile:
    """The natural logarithm. *float*"""
    kernel_only("log", "numpy.log")


@word
def log2(x: TileLike) -> Tile:
    """The logarithm to base 2. *float*"""
    kernel_only("log2", "numpy.log2")


@word
def sqrt(x: TileLike) -> Tile:
    """The square root. *float*"""
    kernel_only("sqrt", "numpy.sqrt")


@word
def rsqrt(x: TileLike) -> Tile:
    """1 / sqrt(x). *float*"""
    kernel_only("rsqrt", "1 / numpy.sqrt")


@word
def tanh(x: TileLike) -> Tile:
    """The hyperbolic tangent. *float*"""
    kernel_only("tanh", "numpy.tanh")


@word
def sigmoid(x: TileLike) -> Tile:
    """1 / (1 + exp(-x)). *float*"""
    kernel_only("sigmoid", "1 / (1 + numpy.exp(-x))")


@word
def erf(x: TileLike) -> Tile:
    """The error function. *float*"""
    kernel_only("erf", "math.erf")


@word
def sin(x: TileLike) -> Tile:
    """The sine of `x` in radians. *float*"""
    kernel_only("sin", "numpy.sin")


@word
def cos(x: TileLike) -> Tile:
    """The cosine of `x` in radians. *float*"""
    kernel_only("cos", "numpy.cos")


@word
def gelu(x: TileLike) -> Tile:
    """x * Phi(x) with the exact error function. *float*"""
    kernel_only("gelu", "a NumPy formula")


@word
def silu(x: TileLike) -> Tile:
    """x * sigmoid(x). *float*"""
    kernel_only("silu", "a NumPy formula")


@word
def relu(x: TileLike) -> Tile:
    """max(x, 0); keeps the dtype."""
    kernel_only("relu", "numpy.maximum")


@word
def abs(x: TileLike) -> Tile:
    """The absolute value; keeps the dtype."""
    kernel_only("abs", "numpy.abs")


@word
def floor(x: TileLike) -> Tile:
    """Rounds down; keeps the dtype."""
    kernel_only("floor", "numpy.floor")


@word
def ceil(x: TileLike) -> Tile:
    """Rounds up; keeps the dtype."""
    kernel_only("ceil", "numpy.ceil")


@word
def round(x: TileLike) -> Tile:
    """Rounds to the nearest integer, half to even; keeps the dtype."""
    kernel_only("round", "numpy.round")


@word
def pow(x: TileLike, y: TileLike) -> Tile:
    """`x ** y`."""
    kernel_only("pow", "numpy.power")


@word
def minimum(x: TileLike, y: TileLike) -> Tile:
    """The smaller of two, elementwise; NaN if either is NaN."""
    kernel_only("minimum", "numpy.minimum")


@word
def maximum(x: TileLike, y: TileLike) -> Tile:
    """The larger of two, elementwise; NaN if either is NaN."""
    kernel_only("maximum", "numpy.maximum")


@word
def clip(x: TileLike, low: TileLike, high: TileLike) -> Tile:
    """`x` limited to [low, high]."""
    kernel_only("clip", "numpy.clip")


@word
def fma(x: TileLike, y: TileLike, z: TileLike) -> Tile:
    """`x * y + z`, rounded once. *float*"""
    kernel_only("fma", "x * y + z")


@word
def nibble(x: TileLike, i: TileLike) -> Tile:
    """The low 4 bits of `x` where `i` is even, the next 4 where it is odd: 0 to 15, or -8 to 7 of a signed dtype, which
    is that of the two. `nibble(w[n, k // 2], k % 2)` unpacks integers of 4 bits. *integer*"""
    kernel_only("nibble", "x >> 4 * (i & 1) & 15")


@word
def float_bits(x: TileLike) -> Tile:
    """The 32 bits of an f32 as a u32: sign, exponent, mantissa. Of NaN those of some NaN. *f32*"""
    kernel_only("float_bits", "x.view(numpy.uint32)")


@word
def cast(x: TileLike, dtype: DType) -> Tile:
    """`x` converted to `dtype`, as `x.to(dtype)`: floats round to nearest even, floats to ints truncate."""
    kernel_only("cast", "astype")


@word
def softmax(x: TileLike, axis: int = -1) -> Tile:
    """exp(x - max(x)) / sum(exp(x - max(x))) along `axis` of the tile. *float*"""
    kernel_only("softmax", "a NumPy formula")


@word
def sum(x: TileLike, axis: Axes = None, keepdims: bool = False) -> Tile:
    """The sum. Integers and bools sum in i64 (u64 for unsigned), as NumPy's; narrow floats in f32, rounded once.

    Folds over `axis`, an int or a tuple; None means all axes and gives a scalar. `keepdims` keeps them with size 1.
    """
    kernel_only("sum", "numpy.sum")


@word
def mean(x: TileLike, axis: Axes = None, keepdims: bool = False) -> Tile:
    """The sum divided by the number of elements: f64 for integers; narrow floats in f32, rounded once.

    Folds over `axis`, an int or a tuple; None means all axes and gives a scalar. `keepdims` keeps them with size 1.
    """
    kernel_only("mean", "numpy.mean")


@word
def prod(x: TileLike, axis: Axes = None, keepdims: bool = False) -> Tile:
    """The product; dtypes as in `tile.sum`.

    Folds over `axis`, an int or a tuple; None means all axes and gives a scalar. `keepdims` keeps them with size 1.
    """
    kernel_only("prod", "numpy.prod")


@word
def max(x: TileLike, axis: Axes = None, keepdims: bool = False) -> Tile:
    """The largest element; NaN if any is NaN.

    Folds over `axis`, an int or a tuple; None means all axes and gives a scalar. `keepdims` keeps them with size 1.
    """
    kernel_only("max", "numpy.max")


@word
def min(x: TileLike, axis: Axes = None, keepdims: bool = False) -> Tile:
    """The smallest element; NaN if any is NaN.

    Folds over `axis`, an int or a tuple; None means all axes and gives a scalar. `keepdims` keeps them with size 1.
    """
    kernel_only("min", "numpy.min")


@word
def any(x: TileLike, axis: Axes = None, keepdims: bool = False) -> Tile:
    """Whether any element is true (not 0). Gives bool.

    Folds over `axis`, an int or a tuple; None means all axes and gives a scalar. `keepdims` keeps them with size 1.
    """
    kernel_only("any", "numpy.any")


@word
def all(x: TileLike, axis: Axes = None, keepdims: bool = False) -> Tile:
    """Whether all elements are true (not 0). Gives bool.

    Folds over `axis`, an int or a tuple; None means all axes and gives a scalar. `keepdims` keeps them with size 1.
    """
    kernel_only("all", "numpy.all")


@word
def argmax(x: TileLike, axis: int | None = None, keepdims: bool = False) -> Tile:
    """The index (i64, within the tile) of the largest element along `axis`, the first one where several are.

    NaN counts as the largest. None means the index in the flattened tile.
    """
    kernel_only("argmax", "numpy.argmax")


@word
def argmin(x: TileLike, axis: int | None = None, keepdims: bool = False) -> Tile:
    """The index (i64, within the tile) of the smallest element along `axis`, the first one where several are.

    NaN counts as the smallest. None means the index in the flattened tile.
    """
    kernel_only("argmin", "numpy.argmin")


@word
def reduce(x: Any, axis: int, fn: Callable[..., Any], keepdims: bool = False) -> Any:
    """Folds along `axis` with `fn`, an associative `@tile.func` of two scalars (or a function as `tile.maximum`).

    `x` may be a tuple of tiles of one shape: `fn` takes all left scalars, then all right ones, and returns a tuple.
    The order of the fold is free.
    """
    kernel_only("reduce", "functools.reduce")


@word
def cumsum(x: TileLike, axis: int | None = None, reverse: bool = False) -> Tile:
    """The running sum along `axis` (may be left out for rank 1), from the end if `reverse`; dtypes as in `tile.sum`."""
    kernel_only("cumsum", "numpy.cumsum")


@word
def sort(x: TileLike, axis: int = -1) -> Tile:
    """The elements of a tile of integers in order along `axis`, the smallest first.

    Of a block, its own elements are sorted: give the axis a block of a fixed size, or take it whole. Floats, places,
    and axes that are too long for a tile: `ops.sort`.
    """
    kernel_only("sort", "tiledsl.ops.sort")


@word
def scan(x: Any, axis: int, fn: Callable[..., Any], reverse: bool = False) -> Any:
    """The running fold along `axis` with `fn`, inclusive, from the end if `reverse`; otherwise as `tile.reduce`."""
    kernel_only("scan", "itertools.accumulate")


@word
def reshape(x: TileLike, shape: Any) -> Tile:
    """The same elements in row-major order under another shape of the same size; one axis may be -1."""
    kernel_only("reshape", "numpy.reshape")


@word
def transpose(x: TileLike, axes: tuple[int, ...] | None = None) -> Tile:
    """Axis i of the result is axis `axes[i]` of `x`; None reverses the axes."""
    kernel_only("transpose", "numpy.transpose")


@word
def broadcast_to(x: TileLike, shape: Any) -> Tile:
    """`x` repeated along axes of size 1 and new leading axes."""
    kernel_only("broadcast_to", "numpy.broadcast_to")
