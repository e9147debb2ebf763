"""The words of the language that only formulas of whole tensors have: they put tensors together and take them apart.

Each is a stub, as in `language/math.py`. In tile form a kernel subscripts its tensors instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl.frontend.language.active_trace import word
from tiledsl.frontend.language.values import TileLike, kernel_only
from tiledsl.ir.dtypes import DType


@word
def concat(tensors: Sequence[Any], axis: int = 0) -> Any:
    """The tensors one after the other along `axis`; their other axes are equal, their dtypes promoted."""
    kernel_only("concat", "numpy.concatenate")


@word
def interleave(tensors: Sequence[Any], axis: int = 0) -> Any:
    """The tensors' elements in turns along `axis`: the first of each, then the second of each. The first tensors may
    have one element more along it; their other axes are equal, their dtypes promoted."""
    kernel_only("interleave", "a slice with steps for each: `y[0::2] = a`")


@word
def stack(tensors: Sequence[Any], axis: int = 0) -> Any:
    """Tensors, or tiles, of one shape along a new axis, which is axis `axis` of the result.

    What threads exchange goes through tiles side by side: `whole = tile.stack((a, b), axis=1)`, then `whole[:, :, i]`.
    """
    kernel_only("stack", "numpy.stack")


@word
def split(x: Any, parts: Any, axis: int = 0) -> Any:
    """A tuple of the parts of `x` along `axis`: `parts` equal ones, or of the sizes that a tuple `parts` lists."""
    kernel_only("split", "numpy.split")


@word
def pad(x: Any, widths: Any, value: float = 0) -> Any:
    """`x` with `value` around it. `widths` is one int, one pair (before, after), or a pair for each axis."""
    kernel_only("pad", "numpy.pad")


@word
def take(x: Any, indices: Any, axis: int = 0) -> Any:
    """The slices of `x` at `indices`, a tensor of ints whose axes take the place of `axis`; outside are zeros."""
    kernel_only("take", "numpy.take")


@word
def window(x: Any, sizes: Any, axes: Any, strides: Any = 1, dilations: Any = 1) -> Any:
    """Every window of `x` that slides over `axes`: those become the windows' positions; the windows' own axes come
    at the end.

    `sizes` (elements of a window), `strides` (from one window to the next) and `dilations` (from one element to the
    next) are ints, or tuples with one for each axis. An image `[N, C, H, W]` with `sizes=3, axes=(2, 3)` gives
    `[N, C, H - 2, W - 2, 3, 3]`. Nothing is copied: what reads the windows reads the tensor.
    """
    kernel_only("window", "numpy.lib.stride_tricks.sliding_window_view")


@word
def einsum(formula: str, a: Any, b: TileLike, *, dtype: DType | None = None, precision: str = "ieee") -> Any:
    """The product of two tensors, summed over the axes that the result does not have.

    `formula` names axes by letters, as NumPy's: `"bik,bkj->bij"`, or by words: `"rows k, k columns -> rows columns"`.
    Each axis is in at least two of the three. `dtype` and `precision` are those of `tile.dot`.
    """
    kernel_only("einsum", "numpy.einsum")
