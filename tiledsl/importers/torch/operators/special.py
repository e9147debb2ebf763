"""Functions of single elements that take several steps, and distances."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.importers.torch.promotion import floats
from tiledsl.importers.torch.register import aten
from tiledsl.ops.checks import as_tensor, refuse_option, widened

_FLOATS = {
    "tan": tile.tan, "sinh": tile.sinh, "cosh": tile.cosh, "asin": tile.asin, "acos": tile.acos, "atan": tile.atan,
    "asinh": tile.asinh, "acosh": tile.acosh, "atanh": tile.atanh, "log1p": tile.log1p, "expm1": tile.expm1,
    "log10": tile.log10, "erfc": tile.erfc, "erfinv": tile.erfinv, "lgamma": tile.lgamma, "digamma": tile.digamma,
}  # fmt: skip
"""Functions that give floats for integers too."""


def _of_floats(fn: Any) -> Any:
    def formula(x: Any) -> Any:
        return fn(floats(x)[0])

    return formula


for _name, _fn in _FLOATS.items():
    aten(_name)(_of_floats(_fn))


@aten("atan2")
def atan2(y: Any, x: Any) -> Any:
    return tile.atan2(*floats(y, x))


@aten("logaddexp")
def logaddexp(x: Any, y: Any) -> Any:
    return tile.logaddexp(*floats(x, y))


@aten("logaddexp2")
def logaddexp2(x: Any, y: Any) -> Any:
    x, y = floats(x, y)
    high, low = tile.maximum(x, y), tile.minimum(x, y)
    return tile.where(high == low, high + 1.0, high + tile.log1p(tile.exp2(low - high)) * (1.0 / math.log(2)))


@aten("log_sigmoid_forward")
def log_sigmoid(x: Any) -> Any:
    """Also what its gradient reads on CPUs."""
    x = as_tensor(x)
    wide = widened(x)
    tail = tile.exp(-tile.abs(wide))
    return (tile.minimum(wide, 0.0) - tile.log1p(tail)).to(x.dtype), tail.to(x.dtype)


@aten("copysign", "Tensor", "Scalar")
def copysign(x: Any, y: Any) -> Any:
    return tile.copysign(*floats(x, y))


@aten("angle")
def angle(x: Any) -> Any:
    """Of real numbers: π for those below 0."""
    x = floats(x)[0]
    return tile.where(x != x, x, tile.where(x < 0, math.pi, 0.0)).to(x.dtype)


@aten("signbit")
def signbit(x: Any) -> Any:
    x = as_tensor(x)
    return tile.copysign(tile.ones(x.shape, x.dtype), x) < 0 if x.dtype.is_float else x < 0


@aten("_cdist_forward")
def cdist(a: Any, b: Any, p: float, mode: Any = None) -> Any:
    a, b = as_tensor(a), as_tensor(b)
    return _distance(tile.abs(a[..., :, None, :] - b[..., None, :, :]), p)


@aten("_pdist_forward")
def pdist(x: Any, p: float = 2) -> Any:
    """The distances of rows i and j > i, in the order of i and then of j."""
    x = as_tensor(x)
    pairs = [(i, j) for i in range(x.shape[0]) for j in range(i + 1, x.shape[0])]
    if len(pairs) > 4096:
        refuse_option("pdist", "x", f"{x.shape[0]} rows", "at most 90", "use cdist")
    if not pairs:
        return tile.zeros((0,), x.dtype)
    places = [tile.stack([as_tensor(pair[side]) for pair in pairs]) for side in (0, 1)]
    return _distance(tile.abs(tile.take(x, places[0]) - tile.take(x, places[1])), p)


def _distance(sizes: Any, p: float) -> Any:
    """The p-norm over the last axis."""
    if p == 0:
        return tile.sum((sizes != 0).to(sizes.dtype), axis=-1)
    if math.isinf(p):
        return tile.max(sizes, axis=-1)
    if p == 1:
        return tile.sum(sizes, axis=-1)
    if p == 2:
        return tile.sqrt(tile.sum(sizes * sizes, axis=-1))
    return tile.sum(sizes**p, axis=-1) ** (1.0 / p)
