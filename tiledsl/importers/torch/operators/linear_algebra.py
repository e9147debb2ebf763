"""Inverses, solutions, determinants and Cholesky factors of small matrices.

A loop over the rows, in which each step is elementwise: n steps of n² elements. A matrix that is singular, or not
positive definite, is no error: what it gives is infinite or not a number.
"""

from __future__ import annotations

from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.torch.register import aten
from tiledsl.ops.checks import as_tensor, widened
from tiledsl.ops.loops import scan


def _batched(x: Any) -> Any:
    """Matrices [..., n, m] as [B, n, m], as they are computed with."""
    x = widened(as_tensor(x))
    return x.reshape((-1, *x.shape[-2:])) if x.ndim > 2 else x[None]


def _row(x: Any, at: Any) -> Any:
    """Row `at`, a number or one for each matrix, of [B, n, m], as [B, m]."""
    here = tile.arange(x.shape[1]) == (at if not as_tensor(at).ndim else at[:, None])
    return tile.sum(tile.where(here[..., None], x, 0.0), axis=1)


def _reduced(whole: Any) -> tuple[Any, Any, Any]:
    """[A | B] of [B, n, n + m] brought to [1 | A⁻¹ B] by Gauss and Jordan, with the largest pivot of each column.

    Gives it, the signs of the determinants and the logarithms of their sizes.
    """
    batch, n, width = whole.shape
    rows = tile.arange(n)

    def step(carry: Any, k: Any) -> Any:
        w, sign, size = carry
        column = tile.sum(tile.where(tile.arange(width) == k, w, 0.0), axis=2)
        best = tile.argmax(tile.where(rows >= k, tile.abs(column), -1.0), axis=1)
        pivot_row, other = _row(w, best), _row(w, k)
        pivot = tile.sum(tile.where(tile.arange(width) == k, pivot_row, 0.0), axis=1)
        swapped = tile.where((rows == best[:, None])[..., None], other[:, None, :], w)
        factor = tile.sum(tile.where(tile.arange(width) == k, swapped, 0.0), axis=2)
        scaled = pivot_row / pivot[:, None]
        left = swapped - factor[..., None] * scaled[:, None, :]
        w = tile.where((rows == k)[:, None], scaled[:, None, :], left)
        sign = sign * tile.where(best == k, 1.0, -1.0).to(sign.dtype) * tile.where(pivot < 0, -1.0, 1.0).to(sign.dtype)
        sign = tile.where(pivot == 0, 0.0, sign).to(sign.dtype)
        return (w.to(whole.dtype), sign, size + tile.log(tile.abs(pivot))), k

    start = (whole, tile.ones((batch,), whole.dtype), tile.zeros((batch,), whole.dtype))
    (w, sign, size), _ = scan(step, start, rows)
    return w, sign, size


@aten("linalg_inv")
@aten("inverse")
def inverse(x: Any) -> Any:
    x = as_tensor(x)
    a = _batched(x)
    n = a.shape[-1]
    one = tile.broadcast_to(ops.eye(n).to(a.dtype), a.shape)
    return _reduced(tile.concat([a, one], axis=2))[0][:, :, n:].reshape(x.shape).to(x.dtype)


@aten("linalg_solve")
def solve(a: Any, b: Any, *, left: bool = True) -> Any:
    """`b` may be vectors, as many as there are matrices."""
    a, b = as_tensor(a), as_tensor(b)
    if b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]):
        return solve(a, b[..., None], left=left)[..., 0]
    if not left:
        return solve(a.mT, b.mT).mT
    lead = _lead(a, b)
    wide = [tile.broadcast_to(v, (*lead, *v.shape[-2:])) for v in (a, b)]
    whole = tile.concat([_batched(v) for v in wide], axis=2)
    found = _reduced(whole)[0][:, :, a.shape[-1] :]
    return found.reshape((*lead, *found.shape[-2:])).to(b.dtype)


def _lead(a: Any, b: Any) -> tuple[Any, ...]:
    """The axes in front of two matrices, broadcast together."""
    longer, shorter = sorted((a.shape[:-2], b.shape[:-2]), key=len, reverse=True)
    shorter = (1,) * (len(longer) - len(shorter)) + shorter
    return tuple(m if n == 1 else n for n, m in zip(longer, shorter))


@aten("linalg_slogdet")
@aten("slogdet")
def slogdet(x: Any) -> Any:
    """The signs of determinants and the logarithms of their sizes: 0 and -inf of those that are singular."""
    x = as_tensor(x)
    _, sign, size = _reduced(_batched(x))
    sign = tile.where(sign == sign, sign, 0.0)
    size = tile.where(sign == 0, tile.full((), float("-inf"), size.dtype), size)
    return sign.reshape(x.shape[:-2]).to(x.dtype), size.reshape(x.shape[:-2]).to(x.dtype)


@aten("linalg_det")
@aten("det")
def det(x: Any) -> Any:
    sign, size = slogdet(widened(as_tensor(x)))
    return (sign * tile.exp(size)).to(as_tensor(x).dtype)


@aten("logdet")
def logdet(x: Any) -> Any:
    sign, size = slogdet(x)
    return tile.where(sign < 0, tile.full((), float("nan"), size.dtype), size)


@aten("linalg_cholesky")
def linalg_cholesky(x: Any, *, upper: bool = False) -> Any:
    """L of x = L Lᵀ, of which only the lower triangle is read; `upper`: Lᵀ, of the upper one."""
    x = as_tensor(x)
    a = _batched(x)
    a = a.mT if upper else a
    rows = tile.arange(a.shape[1])

    def step(carry: Any, k: Any) -> Any:
        rest, found = carry
        column = tile.sum(tile.where(rows == k, rest, 0.0), axis=2)
        pivot = tile.sum(tile.where(rows == k, column, 0.0), axis=1)
        scaled = tile.where(rows >= k, column / tile.sqrt(pivot)[:, None], 0.0)
        rest = rest - scaled[:, :, None] * scaled[:, None, :]
        return (rest.to(a.dtype), tile.where(rows == k, scaled[:, :, None], found).to(a.dtype)), k

    (_, found), _ = scan(step, (a, tile.zeros(a.shape, a.dtype)), rows)
    return (found.mT if upper else found).reshape(x.shape).to(x.dtype)


@aten("cholesky")
def cholesky(x: Any, upper: bool = False) -> Any:
    return linalg_cholesky(x, upper=upper)


@aten("linalg_solve_triangular")
def solve_triangular(a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """By substitution, row by row; the other triangle of `a` is not read."""
    a, b = as_tensor(a), as_tensor(b)
    if not left:
        return solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    lead = _lead(a, b)
    wide, given = (_batched(tile.broadcast_to(v, (*lead, *v.shape[-2:]))) for v in (a, b))
    rows = tile.arange(wide.shape[1])

    def step(rest: Any, k: Any) -> Any:
        column = tile.sum(tile.where(rows == k, wide, 0.0), axis=2)
        found = _row(rest, k)
        if not unitriangular:
            found = found / tile.sum(tile.where(rows == k, column, 0.0), axis=1)[:, None]
        later = rows < k if upper else rows > k
        rest = rest - tile.where(later, column, 0.0)[..., None] * found[:, None, :]
        return rest.to(given.dtype), found.to(given.dtype)

    _, found = scan(step, given, rows, reverse=upper)
    return tile.transpose(found, (1, 0, 2)).reshape((*lead, *b.shape[-2:])).to(b.dtype)


@aten("cholesky_solve")
def cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    """x of L Lᵀ x = b."""
    factor = as_tensor(factor)
    lower = factor.mT if upper else factor
    return solve_triangular(lower.mT, solve_triangular(lower, b, upper=False), upper=True)
