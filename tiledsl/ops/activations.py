"""Activations: functions of each element. Narrow floats are computed in f32 and rounded once.

All take a tensor of any shape and give one of the same shape. The dtype is that of floats; integers become the float
that NumPy gives for them. Raises TileTypeError for arguments that are not what they can be.
"""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, axis_of, float_dtype, refuse_option, refuse_rank, refuse_shapes, widened


@tile.kernel
def relu(x: Any) -> Any:
    """max(x, 0), for integers too."""
    return tile.relu(x)


@tile.kernel
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    """x where x > 0, else negative_slope * x."""
    x = as_tensor(x)
    wide = widened(x)
    return tile.where(wide > 0, wide, wide * negative_slope).to(float_dtype(x))


@tile.kernel
def elu(x: Any, alpha: float = 1.0) -> Any:
    """x where x > 0, else alpha * (exp(x) - 1)."""
    x = as_tensor(x)
    wide = widened(x)
    below = tile.exp(tile.minimum(wide, 0.0)) - 1.0
    return tile.where(wide > 0, wide, below * alpha).to(float_dtype(x))


@tile.kernel
def gelu(x: Any, approximate: str = "none") -> Any:
    """x * P(X <= x) of a normal X: x * (1 + erf(x / sqrt(2))) / 2.

    `approximate="tanh"`: x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2.
    """
    if approximate not in ("none", "tanh"):
        refuse_option("ops.gelu", "approximate", approximate, '"none" or "tanh"', 'use "none" for the exact one')
    if approximate == "none":
        return tile.gelu(x)
    x = as_tensor(x)
    wide = widened(x)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide)
    return (0.5 * wide * (1.0 + tile.tanh(inner))).to(float_dtype(x))


@tile.kernel
def silu(x: Any) -> Any:
    """x * sigmoid(x), also called swish."""
    return tile.silu(x)


@tile.kernel
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return tile.sigmoid(x)


@tile.kernel
def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return tile.tanh(x)


@tile.kernel
def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""
    if beta == 0:
        refuse_option("ops.softplus", "beta", beta, "another number than 0", "use 1.0")
    x = as_tensor(x)
    wide = widened(x)
    scaled = wide * beta
    soft = tile.log(1.0 + tile.exp(tile.minimum(scaled, threshold))) / beta
    return tile.where(scaled > threshold, wide, soft).to(float_dtype(x))


@tile.kernel
def hardswish(x: Any) -> Any:
    """x * min(max(x + 3, 0), 6) / 6."""
    x = as_tensor(x)
    wide = widened(x)
    return (wide * tile.clip(wide + 3.0, 0.0, 6.0) / 6.0).to(float_dtype(x))


@tile.kernel
def relu6(x: Any) -> Any:
    """min(max(x, 0), 6), for integers too."""
    return tile.clip(as_tensor(x), 0, 6)


@tile.kernel
def hardtanh(x: Any, low: float = -1.0, high: float = 1.0) -> Any:
    """min(max(x, low), high), for integers too."""
    return tile.clip(as_tensor(x), low, high)


@tile.kernel
def hardsigmoid(x: Any, alpha: float = 1 / 6, beta: float = 0.5) -> Any:
    """min(max(alpha * x + beta, 0), 1)."""
    x = as_tensor(x)
    return tile.clip(widened(x) * alpha + beta, 0.0, 1.0).to(float_dtype(x))


@tile.kernel
def mish(x: Any) -> Any:
    """x * tanh(log(1 + exp(x)))."""
    x = as_tensor(x)
    wide = widened(x)
    # with e = exp(x), tanh(log(1 + e)) is n / (n + 2) for n = e * (e + 2)
    e = tile.exp(tile.minimum(wide, 20.0))
    n = e * (e + 2.0)
    return (wide * (n / (n + 2.0))).to(float_dtype(x))


@tile.kernel
def selu(x: Any, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Any:
    """gamma * x where x > 0, else gamma * alpha * (exp(x) - 1)."""
    x = as_tensor(x)
    wide = widened(x)
    below = tile.expm1(tile.minimum(wide, 0.0)) * alpha
    return (tile.where(wide > 0, wide, below) * gamma).to(float_dtype(x))


@tile.kernel
def celu(x: Any, alpha: float = 1.0) -> Any:
    """x where x > 0, else alpha * (exp(x / alpha) - 1)."""
    if alpha == 0:
        refuse_option("ops.celu", "alpha", alpha, "another number than 0", "use 1.0")
    x = as_tensor(x)
    wide = widened(x)
    below = tile.expm1(tile.minimum(wide, 0.0) / alpha) * alpha
    return tile.where(wide > 0, wide, below).to(float_dtype(x))


@tile.kernel
def prelu(x: Any, weight: Any, axis: int = 1) -> Any:
    """x where x > 0, else weight * x: one weight, one for each element of an axis, or what broadcasts to `x`."""
    x, weight = as_tensor(x), as_tensor(weight)
    slope = widened(weight)
    if weight.ndim == 1 and x.ndim > 1 and weight.shape[0] != 1:
        at = axis_of("ops.prelu", x, axis)
        if weight.shape[0] != x.shape[at]:
            refuse_shapes("ops.prelu", weight, x, f"there is one weight for each element of axis {axis}", "say `axis=`")
        slope = slope.reshape(tuple(-1 if i == at else 1 for i in range(x.ndim)))
    elif weight.ndim == 1 and weight.shape[0] == 1:
        slope = slope.reshape(())
    wide = widened(x)
    return tile.where(wide > 0, wide, wide * slope).to(float_dtype(x))


@tile.kernel
def softsign(x: Any) -> Any:
    """x / (1 + |x|)."""
    x = as_tensor(x)
    wide = widened(x)
    return (wide / (1.0 + tile.abs(wide))).to(float_dtype(x))


@tile.kernel
def softshrink(x: Any, lambd: float = 0.5, bias: Any = None) -> Any:
    """x moved towards 0 by `bias` (default `lambd`) where |x| > lambd, else 0."""
    x = as_tensor(x)
    wide = widened(x)
    by = lambd if bias is None else bias
    y = tile.where(wide > lambd, wide - by, tile.where(wide < -lambd, wide + by, wide * 0.0))
    return y.to(float_dtype(x))


@tile.kernel
def hardshrink(x: Any, lambd: float = 0.5) -> Any:
    """x where |x| > lambd, else 0."""
    x = as_tensor(x)
    return tile.where((x >= -lambd) & (x <= lambd), 0, x).to(float_dtype(x))


@tile.kernel
def tanhshrink(x: Any) -> Any:
    """x - tanh(x)."""
    x = as_tensor(x)
    wide = widened(x)
    return (wide - tile.tanh(wide)).to(float_dtype(x))


@tile.kernel
def logsigmoid(x: Any) -> Any:
    """log(1 / (1 + exp(-x))), without overflow."""
    x = as_tensor(x)
    wide = widened(x)
    return (tile.minimum(wide, 0.0) - tile.log1p(tile.exp(-tile.abs(wide)))).to(float_dtype(x))


@tile.kernel
def threshold(x: Any, threshold: float, value: float = 0.0) -> Any:
    """x where x > threshold, else `value`."""
    x = as_tensor(x)
    return tile.where(x > threshold, x, as_tensor(value).to(x.dtype))


@tile.kernel
def glu(x: Any, axis: int = -1) -> Any:
    """a * sigmoid(b), where `x` is a and b behind each other along `axis`. Raises TileShapeError for an odd size."""
    x = as_tensor(x)
    at = axis_of("ops.glu", x, axis)
    if isinstance(x.shape[at], int) and x.shape[at] % 2:
        refuse_rank("ops.glu", x, f"one whose axis {axis} has two halves", "give it an even size")
    first, second = tile.split(x, 2, axis=at)
    return (widened(first) * tile.sigmoid(widened(second))).to(float_dtype(x))


@tile.kernel
def swiglu(x: Any, gate: Any = None, axis: int = -1) -> Any:
    """silu(gate) * x, the product of a gated MLP; both of one shape.

    Without `gate`, `x` has both behind each other along `axis`, the gate first: the result is half as long there.
    Raises TileShapeError if the shapes differ, or the axis does not have two halves.
    """
    x = as_tensor(x)
    if gate is None:
        at = axis_of("ops.swiglu", x, axis)
        size = x.shape[at]
        if isinstance(size, int) and size % 2:
            refuse_rank("ops.swiglu", x, f"one whose axis {axis} has two halves", "pass gate and x as two tensors")
        gate, x = tile.split(x, 2, axis=at)
    gate = as_tensor(gate)
    if gate.shape != x.shape:
        refuse_shapes("ops.swiglu", x, gate, "they are multiplied elementwise", "give both one shape")
    return (tile.silu(widened(gate)) * widened(x)).to(float_dtype(x))
