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
