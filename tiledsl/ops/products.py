"""Products of matrices."""

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, float_dtype, refuse_rank, refuse_shapes, require_float


@tile.kernel
def matmul(a: Any, b: Any) -> Any:
    """C[..., M, N] = A[..., M, K] @ B[..., K, N]; leading axes broadcast, a vector has no M (or no N), as in NumPy.

    Summed in f32 for narrow floats (f64 for f64, i32 for 8-bit integers), and rounded once to the common dtype of the
    operands. Raises TileShapeError if the sizes do not fit.
    """
    return as_tensor(a) @ as_tensor(b)


@tile.kernel
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """y[..., N] = sum over k of x[..., k] * weight[n, k], plus bias[n].

    `x` is [..., K], `weight` [N, K] (PyTorch's layout, [out, in]), `bias` [N]. All floats. The sum and the addition of
    the bias are in f32 for narrow floats, rounded once to the dtype of `x`. Raises TileShapeError if sizes differ.
    """
    x, weight = as_tensor(x), as_tensor(weight)
    require_float("ops.linear", x)
    require_float("ops.linear", weight)
    if weight.ndim != 2:
        refuse_rank("ops.linear", weight, "[out, in]", "give a weight of rank 2; `ops.matmul` has other forms")
    if not x.ndim or x.shape[-1] != weight.shape[1]:
        reason = "the last axis of the one is summed with the last axis of the other"
        refuse_shapes("ops.linear", x, weight, reason, "give a weight of shape [out, in]: of [in, out] pass `w.T`")
    y = tile.dot(x, weight.mT)
    if bias is not None:
        bias = as_tensor(bias)
        if bias.shape != (weight.shape[0],):
            refuse_shapes("ops.linear", bias, weight, "there is one bias for each row of the weight", "give it [out]")
        y = y + bias.to(y.dtype)
    return y.to(float_dtype(x))
