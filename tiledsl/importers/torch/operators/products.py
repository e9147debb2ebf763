"""Products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.torch.register import aten
from tiledsl.ops.checks import as_tensor


@aten("linear")
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    x, weight = as_tensor(x), as_tensor(weight)
    if weight.ndim == 1:
        y = matmul(x, weight)
        return y if bias is None else y + bias
    return ops.linear(x, weight, bias)


@aten("matmul")
@aten("mm")
@aten("bmm")
@aten("mv")
@aten("linalg_matmul")
def matmul(a: Any, b: Any) -> Any:
    a, b = as_tensor(a), as_tensor(b)
    if not a.dtype.is_float:
        return (tile.dot(a, b) if a.dtype.bits <= 8 else wide_product(a, b)).to(a.dtype)
    return a @ b


def wide_product(a: Any, b: Any) -> Any:
    """A product of integers for which there is no matrix instruction: a sum of products."""
    if a.ndim == 1:
        return tile.sum(a[..., None] * b, axis=-2)
    if b.ndim == 1:
        return tile.sum(a * b, axis=-1)
    return tile.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)


@aten("dot")
@aten("vdot")
def dot(a: Any, b: Any) -> Any:
    return tile.sum(as_tensor(a) * as_tensor(b)).to(as_tensor(a).dtype)


def _accumulated(start: Any, product: Any, beta: Any, alpha: Any, dtype: Any) -> Any:
    """beta * start + alpha * product, rounded once; a beta of 0 hides whatever `start` holds."""
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product.to(dtype)
    start = as_tensor(start).to(product.dtype)
    return (product + (start if beta == 1 else start * beta)).to(dtype)


def _product(a: Any, b: Any) -> Any:
    """The product as it is accumulated."""
    return tile.dot(a, b) if a.dtype.is_float or a.dtype.bits <= 8 else wide_product(a, b)


@aten("addmm")
@aten("addmv")
@aten("baddbmm")
def addmm(start: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    a, b = as_tensor(a), as_tensor(b)
    return _accumulated(start, _product(a, b), beta, alpha, a.dtype)


@aten("addbmm")
def addbmm(start: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    a, b = as_tensor(a), as_tensor(b)
    return _accumulated(start, tile.sum(_product(a, b), axis=0), beta, alpha, a.dtype)


@aten("addr")
def addr(start: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    a, b = as_tensor(a), as_tensor(b)
    return _accumulated(start, a[:, None] * b, beta, alpha, as_tensor(start).dtype)


@aten("outer")
@aten("ger")
def outer(a: Any, b: Any) -> Any:
    return as_tensor(a)[:, None] * as_tensor(b)


@aten("_trilinear")
def trilinear(
    a: Any, b: Any, c: Any, expand1: Sequence[int], expand2: Sequence[int], expand3: Sequence[int],
    sumdim: Sequence[int], unroll_dim: int = 1,
) -> Any:  # fmt: skip
    """sum(a * b * c) over `sumdim`, where each tensor lacks the axes of its `expand`: what `nn.Bilinear` becomes."""
    axes = ascii_lowercase[: as_tensor(a).ndim + len(expand1)]
    of_a, of_b, of_c, kept = (
        [axis for number, axis in enumerate(axes) if number not in without]
        for without in (expand1, expand2, expand3, sumdim)
    )
    between = [axis for axis in axes if axis in {*of_a, *of_b} & {*of_c, *kept}]
    pair = tile.einsum(f"{' '.join(of_a)}, {' '.join(of_b)} -> {' '.join(between)}", a, b)
    return tile.einsum(f"{' '.join(between)}, {' '.join(of_c)} -> {' '.join(kept)}", pair, c)
