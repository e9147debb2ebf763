"""Products with what a fused group does to their results, as tile programs: what graphs are lowered to.

One product or two that share their left operand, a bias along rows, an activation, another tensor beside, and a layer
norm of the rows of the result. In comments, M rows, N columns, K that is added up.
"""

from __future__ import annotations

from tiledsl import tile


@tile.kernel
def linear_gelu(a: tile.Tensor, b: tile.Tensor, bias: tile.Tensor, form: tile.constexpr) -> tile.Tensor:
    """gelu(a @ b + bias), by tanh or by erf."""
    M, K = a.shape
    K, N = b.shape
    N = bias.shape[0]
    out = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        x = acc + bias[n]
        if form == "tanh":
            y = 0.5 * x * (1.0 + tile.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
        else:
            y = 0.5 * x * (1.0 + tile.erf(x * 0.7071067811865476))
        out[m, n] = y
    return out


@tile.kernel
def linear_residual(a: tile.Tensor, b: tile.Tensor, bias: tile.Tensor, beside: tile.Tensor) -> tile.Tensor:
    """a @ b + bias + beside[M, N]."""
    M, K = a.shape
    K, N = b.shape
    N = bias.shape[0]
    M, N = beside.shape
    out = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        out[m, n] = acc + bias[n] + beside[m, n]
    return out


@tile.kernel
def linear_of_two(a: tile.Tensor, b: tile.Tensor, beside: tile.Tensor) -> tile.Tensor:
    """relu(0.5 (a @ b) + 2 beside): what is beside is computed before it meets the product."""
    M, K = a.shape
    K, N = b.shape
    M, N = beside.shape
    out = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        out[m, n] = tile.maximum(acc * 0.5 + beside[m, n].to(tile.f32) * 2, 0)
    return out


@tile.kernel
def turned_product(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """(2 a @ b).T"""
    M, K = a.shape
    K, N = b.shape
    out = tile.empty((N, M), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        out[n, m] = (acc * 2).T
    return out


@tile.kernel
def gated_products(a: tile.Tensor, b: tile.Tensor, c: tile.Tensor) -> tile.Tensor:
    """silu(a @ b) * (a @ c): two products that share what is on their left."""
    M, K = a.shape
    K, N = b.shape
    K, N = c.shape
    out = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        first = tile.zeros((m, n), tile.f32)
        second = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            first = tile.dot(a[m, k], b[k, n], first)
            second = tile.dot(a[m, k], c[k, n], second)
        out[m, n] = tile.silu(first) * second
    return out


@tile.kernel
def linear_layer_norm(
    a: tile.Tensor, b: tile.Tensor, bias: tile.Tensor, beside: tile.Tensor, scale: tile.Tensor, shift: tile.Tensor
) -> tile.Tensor:
    """Layer norm of the rows of a @ b + bias + beside."""
    M, K = a.shape
    K, N = b.shape
    N = bias.shape[0]
    M, N = beside.shape
    N = scale.shape[0]
    N = shift.shape[0]
    out = tile.empty((M, N), a.dtype)
    for m in tile.grid(M):
        acc = tile.zeros((m, N), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, :], acc)
        h = acc + bias[:] + beside[m, :]
        mean = tile.sum(h, axis=1, keepdims=True) / N
        d = h - mean
        var = tile.sum(d * d, axis=1, keepdims=True) / N
        out[m, :] = d * tile.rsqrt(var + 1e-12) * scale[:] + shift[:]
    return out


@tile.kernel
def short_heads(qkv: tile.Tensor, heads: tile.constexpr, depth: tile.constexpr) -> tile.Tensor:
    """Attention of queries, keys and values that stand in one array [B, S, 3, H, D]; gives [B, S, H, D]."""
    B, S, _, H, D = qkv.shape
    out = tile.empty((B, S, H, D), qkv.dtype)
    scale = depth**-0.5
    for b, h, i in tile.grid(B, H, S, block=(1, 1, tile.auto)):
        top = tile.full(i, -1e30)
        total = tile.zeros(i)
        acc = tile.zeros((i, D))
        for j in tile.range(S):
            scores = tile.dot(qkv[b, i, 0, h, :], qkv[b, j, 1, h, :].mT) * scale
            higher = tile.maximum(top, tile.max(scores, axis=1))
            p = tile.exp(scores - higher[:, None])
            alpha = tile.exp(top - higher)
            total = total * alpha + tile.sum(p, axis=1)
            acc = tile.dot(p.to(qkv.dtype), qkv[b, j, 2, h, :], acc * alpha[:, None])
            top = higher
        out[b, i, h, :] = acc / total[:, None]
    return out


@tile.kernel
def masked_heads(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, mask: tile.Tensor) -> tile.Tensor:
    """softmax(q @ k.mT / sqrt(D) + mask[b, keys]) @ v for q, k, v [B, S, H, D]; gives [B, S, H, D]."""
    B, S, H, D = q.shape
    B, T, H, D = k.shape
    B, T, H, D = v.shape
    B, T = mask.shape
    out = tile.empty((B, S, H, D), q.dtype)
    scale = D**-0.5
    for b, h, i in tile.grid(B, H, S, block=(1, 1, tile.auto)):
        top = tile.full(i, -1e30)
        total = tile.zeros(i)
        acc = tile.zeros((i, D))
        for j in tile.range(T):
            scores = tile.dot(q[b, i, h, :], k[b, j, h, :].mT) * scale + mask[b, j]
            higher = tile.maximum(top, tile.max(scores, axis=1))
            p = tile.exp(scores - higher[:, None])
            alpha = tile.exp(top - higher)
            total = total * alpha + tile.sum(p, axis=1)
            acc = tile.dot(p.to(v.dtype), v[b, j, h, :], acc * alpha[:, None])
            top = higher
        out[b, i, h, :] = acc / total[:, None]
    return out
