"""Kernels near a plain product: an operand that is computed, or that something else reads too."""

from __future__ import annotations

from tiledsl import tile


@tile.kernel
def normed_product(x: tile.Tensor, scale: tile.Tensor, gain: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    """(x * scale[:, None] * gain) @ w: the rows of x are normed on their way into the product."""
    M, K = x.shape
    K, N = w.shape
    c = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        factor = scale[m][:, None]
        for k in tile.range(K):
            left = tile.cast(x[m, k], tile.f32) * factor * gain[k]
            acc = tile.dot(tile.cast(left, x.dtype), w[k, n], acc)
        c[m, n] = acc
    return c


@tile.kernel
def narrow_product(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """a @ b, where the elements of a are narrower than those of b."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), b.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(tile.cast(a[m, k], b.dtype), b[k, n], acc)
        c[m, n] = acc
    return c


@tile.kernel
def exponential_operand(a: tile.Tensor, beside: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """exp(a - beside) @ b: what is 0 beyond the end of K does not stay 0."""
    M, K = a.shape
    M, K = beside.shape
    K, N = b.shape
    c = tile.empty((M, N), b.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            left = tile.exp(tile.cast(a[m, k], tile.f32) - tile.cast(beside[m, k], tile.f32))
            acc = tile.dot(tile.cast(left, b.dtype), b[k, n], acc)
        c[m, n] = acc
    return c


@tile.kernel
def rms_normed_product(x: tile.Tensor, gain: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    """(x / rms(x) * gain) @ w: the squares are summed while what is multiplied goes by."""
    M, K = x.shape
    K, N = w.shape
    K = gain.shape[0]
    c = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        squares = tile.zeros(m, tile.f32)
        for k in tile.range(K):
            wide = tile.cast(x[m, k], tile.f32)
            squares += tile.sum(wide * wide, axis=1)
            acc = tile.dot(tile.cast(wide * gain[k], x.dtype), w[k, n], acc)
        c[m, n] = acc * tile.rsqrt(squares / K + 1e-5)[:, None]
    return c


@tile.kernel
def product_and_sums(a: tile.Tensor, b: tile.Tensor, zero: tile.Tensor) -> tile.Tensor:
    """a @ (b - zero): the product less the sums of the rows of a times what stands for zero in each column of b."""
    M, K = a.shape
    K, N = b.shape
    N = zero.shape[0]
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        total = tile.zeros(m, tile.f32)
        for k in tile.range(K):
            left = a[m, k]
            acc = tile.dot(left, b[k, n], acc)
            total += tile.sum(tile.cast(left, tile.f32), axis=1)
        c[m, n] = acc - total[:, None] * zero[n]
    return c


@tile.kernel
def gated_normed_products(x: tile.Tensor, scale: tile.Tensor, b: tile.Tensor, c: tile.Tensor) -> tile.Tensor:
    """silu(y @ b) * (y @ c) of y = x * scale[:, None]: two products that take one computed operand."""
    M, K = x.shape
    K, N = b.shape
    K, N = c.shape
    out = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        first = tile.zeros((m, n), tile.f32)
        second = tile.zeros((m, n), tile.f32)
        factor = scale[m][:, None]
        for k in tile.range(K):
            left = tile.cast(tile.cast(x[m, k], tile.f32) * factor, x.dtype)
            first = tile.dot(left, b[k, n], first)
            second = tile.dot(left, c[k, n], second)
        out[m, n] = tile.silu(first) * second
    return out


@tile.kernel
def dequantised_product(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """a @ b, where the elements of b are narrower than those of a."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], tile.cast(b[k, n], a.dtype), acc)
        c[m, n] = acc
    return c


@tile.kernel
def linear_attention(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor) -> tile.Tensor:
    """Causal attention without a softmax, some rows at a time: what came before is in one matrix for each head."""
    H, T, D = q.shape
    H, T, D = k.shape
    H, T, E = v.shape
    out = tile.empty((H, T, E), q.dtype)
    for h, e in tile.grid(H, E, block=(1, tile.auto)):
        state = tile.zeros((D, e), tile.f32)
        for t in tile.range(T):
            keys = k[h, t, :]
            values = v[h, t, e]
            queries = q[h, t, :]
            rows = t.index
            scores = tile.dot(queries, keys.mT)
            scores = tile.where(rows[:, None] >= rows, scores, 0.0)
            mine = tile.dot(tile.cast(scores, v.dtype), values)
            out[h, t, e] = tile.dot(queries, tile.cast(state, q.dtype), mine)
            state = tile.dot(keys.mT, values, state)
    return out


@tile.kernel
def scaled_attention(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, scale: tile.constexpr) -> tile.Tensor:
    """softmax(q * scale @ k.mT) @ v, where queries are scaled before."""
    H, Q, D = q.shape
    H, K, D = k.shape
    H, K, D = v.shape
    out = tile.empty((H, Q, D), q.dtype)
    for h, i in tile.grid(H, Q, block=(1, tile.auto)):
        queries = tile.cast(tile.cast(q[h, i, :], tile.f32) * scale, q.dtype)
        top = tile.full(i, -1e30)
        total = tile.zeros(i)
        acc = tile.zeros((i, D))
        for j in tile.range(K):
            scores = tile.dot(queries, k[h, j, :].mT)
            higher = tile.maximum(top, tile.max(scores, axis=1))
            p = tile.exp2(scores - higher[:, None])
            rescale = tile.exp2(top - higher)
            total = total * rescale + tile.sum(p, axis=1)
            acc = tile.dot(p.to(v.dtype), v[h, j, :], acc * rescale[:, None])
            top = higher
        out[h, i, :] = acc / total[:, None]
    return out


@tile.kernel
def normed_rows_product(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    """(x / rms(x)) @ w of whole rows, in no loop."""
    M, K = x.shape
    K, N = w.shape
    c = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        wide = tile.cast(x[m, :], tile.f32)
        factor = tile.rsqrt(tile.sum(wide * wide, axis=1) / K + 1e-5)
        c[m, n] = tile.dot(tile.cast(wide * factor[:, None], x.dtype), w[:, n])
    return c


@tile.kernel
def twice_read_product(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    """(x / rms(x)) @ w of rows that are read twice: once for their norm, then by the product."""
    M, K = x.shape
    K, N = w.shape
    c = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        squares = tile.zeros(m, tile.f32)
        for j in tile.range(K):
            part = tile.cast(x[m, j], tile.f32)
            squares += tile.sum(part * part, axis=1)
        factor = tile.rsqrt(squares / K + 1e-5)[:, None]
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(tile.cast(tile.cast(x[m, k], tile.f32) * factor, x.dtype), w[k, n], acc)
        c[m, n] = acc
    return c
