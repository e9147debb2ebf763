"""Arithmetic, functions of each element, and activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.torch.promotion import float_result, floats, named, promoted, result_dtype
from tiledsl.importers.torch.register import aten
from tiledsl.ir.dtypes import bool_
from tiledsl.ops.checks import as_tensor, refuse, widened

# Arithmetic


@aten("add", "Tensor", "Scalar")
def add(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    x, y = promoted(x, y)
    return x + (y if alpha == 1 else y * alpha)


@aten("sub", "Tensor", "Scalar")
def sub(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    x, y = promoted(x, y)
    return x - (y if alpha == 1 else y * alpha)


@aten("rsub", "Tensor", "Scalar")
def rsub(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    return sub(y, x, alpha=alpha)


@aten("mul", "Tensor", "Scalar")
def mul(x: Any, y: Any) -> Any:
    x, y = promoted(x, y)
    return x * y


@aten("true_divide", "Tensor", "Scalar")
@aten("div", "Tensor", "Scalar", "Tensor_mode", "Scalar_mode")
def div(x: Any, y: Any, *, rounding_mode: Any = None) -> Any:
    if rounding_mode is None:
        x, y = floats(x, y)
        return x / y
    if rounding_mode == "floor":
        return floor_divide(x, y)
    x, y = promoted(x, y)
    if as_tensor(x).dtype.is_float:
        return trunc(x / y)
    quotient = tile.abs(x) // abs(y)
    return tile.where((x < 0) != (y < 0), -quotient, quotient)


@aten("floor_divide", "default", "Scalar")
def floor_divide(x: Any, y: Any) -> Any:
    x, y = promoted(x, y)
    return x // y


@aten("remainder", "Tensor", "Scalar", "Scalar_Tensor")
def remainder(x: Any, y: Any) -> Any:
    x, y = promoted(x, y)
    return x % y


@aten("fmod", "Tensor", "Scalar")
def fmod(x: Any, y: Any) -> Any:
    """The remainder with the sign of what is divided."""
    x, y = promoted(x, y)
    rest = tile.abs(x) % abs(y)
    return tile.where(x < 0, -rest, rest)


@aten("pow", "Tensor_Tensor", "Tensor_Scalar", "Scalar")
def power(x: Any, y: Any) -> Any:
    x, y = promoted(x, y)
    return x**y


@aten("ldexp", "Tensor")
def ldexp(x: Any, exponent: Any) -> Any:
    x, exponent = floats(x, exponent)
    return x * tile.exp2(exponent)


@aten("maximum")
@aten("max", "other")
def maximum(x: Any, y: Any) -> Any:
    return tile.maximum(*promoted(x, y))


@aten("minimum")
@aten("min", "other")
def minimum(x: Any, y: Any) -> Any:
    return tile.minimum(*promoted(x, y))


@aten("fmax")
def fmax(x: Any, y: Any) -> Any:
    """The larger one, NaN only if both are."""
    x, y = promoted(x, y)
    return tile.where(x != x, y, tile.where(y != y, x, tile.maximum(x, y)))


@aten("fmin")
def fmin(x: Any, y: Any) -> Any:
    x, y = promoted(x, y)
    return tile.where(x != x, y, tile.where(y != y, x, tile.minimum(x, y)))


@aten("clamp", "default", "Tensor")
@aten("clip", "default", "Tensor")
def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    dtype = result_dtype(*(v for v in (x, low, high) if v is not None))
    y: Any = as_tensor(x).to(dtype)
    if low is not None:
        y = tile.maximum(y, promoted(y, low)[1])
    if high is not None:
        y = tile.minimum(y, promoted(y, high)[1])
    return y


@aten("clamp_min", "default", "Tensor")
def clamp_min(x: Any, low: Any) -> Any:
    return clamp(x, low)


@aten("clamp_max", "default", "Tensor")
def clamp_max(x: Any, high: Any) -> Any:
    return clamp(x, None, high)


@aten("addcmul")
def addcmul(x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    x, a, b = promoted(x, a, b)
    return x + (a * b if value == 1 else a * b * value)


@aten("addcdiv")
def addcdiv(x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    x, a, b = floats(x, a, b)
    return x + (a / b if value == 1 else a / b * value)


@aten("lerp", "Tensor", "Scalar")
def lerp(x: Any, end: Any, weight: Any) -> Any:
    """From whichever end is nearer, so that both ends are met exactly."""
    x, end, weight = promoted(x, end, weight)
    step = end - x
    if isinstance(weight, (int, float)):
        return x + weight * step if abs(weight) < 0.5 else end - step * (1 - weight)
    return tile.where(tile.abs(weight) < 0.5, x + weight * step, end - step * (1 - weight))


# Functions of one element

_FLOATS: dict[str, Callable[[Any], Any]] = {
    "exp": tile.exp, "exp2": tile.exp2, "log": tile.log, "log2": tile.log2, "sqrt": tile.sqrt, "rsqrt": tile.rsqrt,
    "sin": tile.sin, "cos": tile.cos, "tanh": tile.tanh, "sigmoid": tile.sigmoid, "erf": tile.erf,
    "reciprocal": lambda x: 1.0 / x,
}  # fmt: skip
"""Functions that give floats for integers too."""


def _of_floats(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def formula(x: Any) -> Any:
        return fn(floats(x)[0])

    return formula


for _name, _fn in _FLOATS.items():
    aten(_name)(_of_floats(_fn))


def _rounding(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def formula(x: Any) -> Any:
        x = as_tensor(x)
        return fn(x) if x.dtype.is_float else x

    return formula


for _name, _fn in {"floor": tile.floor, "ceil": tile.ceil}.items():
    aten(_name)(_rounding(_fn))


@aten("round", "default", "decimals")
def round_(x: Any, *, decimals: int = 0) -> Any:
    x = as_tensor(x)
    if not x.dtype.is_float:
        return x
    if decimals == 0:
        return tile.round(x)
    scale = 10.0 ** abs(decimals)
    return tile.round(x * scale) / scale if decimals > 0 else tile.round(x / scale) * scale


@aten("trunc")
@aten("fix")
def trunc(x: Any) -> Any:
    x = as_tensor(x)
    return tile.where(x < 0, tile.ceil(x), tile.floor(x)) if x.dtype.is_float else x


@aten("frac")
def frac(x: Any) -> Any:
    return x - trunc(x)


@aten("neg")
def neg(x: Any) -> Any:
    return -as_tensor(x)


@aten("abs")
def absolute(x: Any) -> Any:
    return tile.abs(x)


@aten("sign")
@aten("sgn")
def sign(x: Any) -> Any:
    x = as_tensor(x)
    if x.dtype == bool_:
        return x
    return tile.where(x != x, 0, (x > 0).to(x.dtype) - (x < 0).to(x.dtype))


@aten("positive")
@aten("alias")
@aten("detach")
@aten("clone")
@aten("contiguous")
@aten("lift_fresh_copy")
@aten("lift_fresh")
@aten("detach_")
@aten("view_as_real_copy")
@aten("_conj")
@aten("conj")
@aten("conj_physical")
@aten("resolve_conj")
@aten("resolve_neg")
@aten("real")
def same(x: Any) -> Any:
    return as_tensor(x)


@aten("square")
def square(x: Any) -> Any:
    x = as_tensor(x)
    return x * x


# Conversions


@aten("_to_copy")
def to_copy(x: Any, *, dtype: Any = None) -> Any:
    x = as_tensor(x)
    if dtype is None:
        return x
    wanted = named(dtype)
    return x if wanted == x.dtype else x != 0 if wanted == bool_ else x.to(wanted)


@aten("prims::convert_element_type")
def convert_element_type(x: Any, dtype: Any) -> Any:
    return to_copy(x, dtype=dtype)


@aten("to", "dtype")
def to_dtype(x: Any, dtype: Any, *_: Any) -> Any:
    return to_copy(x, dtype=dtype)


@aten("to", "dtype_layout")
def to_dtype_layout(x: Any, *, dtype: Any = None, copy: bool = False) -> Any:
    return to_copy(x, dtype=dtype)


@aten("to", "device")
def to_device(x: Any, device: Any, dtype: Any, *_: Any) -> Any:
    return to_copy(x, dtype=dtype)


@aten("type_as")
@aten("to", "other")
def type_as(x: Any, other: Any, *_: Any) -> Any:
    return to_copy(x, dtype=as_tensor(other).dtype)


# Activations


@aten("relu")
def relu(x: Any) -> Any:
    return ops.relu(x)


@aten("gelu")
def gelu(x: Any, *, approximate: str = "none") -> Any:
    return ops.gelu(x, approximate)


@aten("silu")
def silu(x: Any) -> Any:
    return ops.silu(x)


@aten("hardtanh")
def hardtanh(x: Any, low: Any = -1, high: Any = 1) -> Any:
    return clamp(x, low, high)


@aten("relu6")
def relu6(x: Any) -> Any:
    return clamp(x, 0, 6)


@aten("leaky_relu")
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    return ops.leaky_relu(x, negative_slope)


@aten("elu")
def elu(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    x = as_tensor(x)
    wide = widened(x)
    below = tile.exp(tile.minimum(wide, 0.0) * input_scale) - 1.0
    return (tile.where(wide > 0, wide, below * alpha) * scale).to(x.dtype)


@aten("hardswish")
def hardswish(x: Any) -> Any:
    return ops.hardswish(x)


@aten("hardsigmoid")
def hardsigmoid(x: Any) -> Any:
    x = as_tensor(x)
    return (tile.clip(widened(x) + 3.0, 0.0, 6.0) / 6.0).to(x.dtype)


@aten("softplus")
def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    return ops.softplus(x, float(beta), float(threshold))


@aten("mish")
def mish(x: Any) -> Any:
    return ops.mish(x)


@aten("prelu")
@aten("_prelu_kernel")
def prelu(x: Any, weight: Any) -> Any:
    x, weight = as_tensor(x), as_tensor(weight)
    if weight.ndim == 1 and weight.shape[0] != 1 and x.ndim > 1:
        weight = weight.reshape((1, weight.shape[0], *(1,) * (x.ndim - 2)))
    elif weight.ndim == 1:
        weight = weight.reshape((1,) * x.ndim)
    return tile.where(x > 0, x, x * weight)


@aten("threshold")
def threshold(x: Any, threshold: Any, value: Any) -> Any:
    x = as_tensor(x)
    return tile.where(x <= threshold, tile.full((), value, x.dtype), x)


@aten("threshold_backward")
def threshold_backward(grad: Any, x: Any, threshold: Any) -> Any:
    return tile.where(as_tensor(x) <= threshold, tile.full((), 0, as_tensor(grad).dtype), grad)


@aten("rrelu_with_noise_backward")
def rrelu_backward(
    grad: Any, x: Any, noise: Any, lower: float, upper: float, training: bool, self_is_result: bool
) -> Any:
    """By the slopes that were drawn, in training; else by their mean."""
    if training and upper - lower > 1e-6:
        return grad * noise
    return tile.where(as_tensor(x) > 0, grad, as_tensor(grad) * ((lower + upper) / 2))


@aten("rrelu_with_noise")
def rrelu_with_noise(
    x: Any, noise: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Any:
    """In evaluation, by the mean of the slopes."""
    if training:
        refuse("torch-training", name="rrelu", detail=f"slopes from {lower:.3g} to {upper:.3g}")
    return ops.leaky_relu(x, (lower + upper) / 2)


@aten("rrelu_with_noise_functional")
def rrelu_with_noise_functional(x: Any, noise: Any, *options: Any) -> Any:
    return rrelu_with_noise(x, noise, *options), as_tensor(noise)


@aten("glu")
def glu(x: Any, dim: int = -1) -> Any:
    a, b = tile.split(x, 2, axis=dim)
    return a * tile.sigmoid(b)


@aten("dropout")
@aten("feature_dropout")
@aten("alpha_dropout")
def dropout(x: Any, p: float, train: bool) -> Any:
    """In evaluation. In training it draws PyTorch's random numbers, which are its own."""
    if train and p:
        refuse("torch-training", name="dropout", detail=f"p={p}")
    return as_tensor(x)


@aten("native_dropout")
def native_dropout(x: Any, p: float, train: bool) -> Any:
    y = dropout(x, p, train)
    return y, tile.ones(y.shape, bool_)


@aten("xlogy", "Tensor", "Scalar_Self", "Scalar_Other")
@aten("special_xlogy", "default", "self_scalar", "other_scalar")
def xlogy(x: Any, y: Any) -> Any:
    x, y = floats(x, y)
    return tile.where((x == 0) & (y == y), 0.0, x * tile.log(y))


@aten("hypot")
def hypot(x: Any, y: Any) -> Any:
    x, y = floats(x, y)
    wide = (widened(as_tensor(x)), widened(as_tensor(y)))
    return tile.sqrt(wide[0] * wide[0] + wide[1] * wide[1]).to(float_result(x, y))
