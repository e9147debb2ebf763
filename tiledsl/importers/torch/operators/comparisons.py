"""Comparisons, logic, bits and choices between elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from tiledsl import tile
from tiledsl.importers.torch.promotion import promoted
from tiledsl.importers.torch.register import aten
from tiledsl.ir.dtypes import bool_
from tiledsl.ops.checks import as_tensor


def _compares(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def formula(x: Any, y: Any) -> Any:
        return fn(*promoted(x, y))

    return formula


_operator: Any = operator  # its functions are declared with parts left open
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    aten(_name, "Tensor", "Scalar")(_compares(getattr(_operator, _name)))


def truth(x: Any) -> Any:
    """Whether each element differs from 0."""
    x = as_tensor(x)
    return x if x.dtype == bool_ else x != 0


@aten("logical_and")
def logical_and(x: Any, y: Any) -> Any:
    return truth(x) & truth(y)


@aten("logical_or")
def logical_or(x: Any, y: Any) -> Any:
    return truth(x) | truth(y)


@aten("logical_xor")
def logical_xor(x: Any, y: Any) -> Any:
    return truth(x) ^ truth(y)


@aten("logical_not")
def logical_not(x: Any) -> Any:
    return ~truth(x)


def _bits(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def formula(x: Any, y: Any) -> Any:
        return fn(*promoted(x, y))

    return formula


for _word, _fn in {"and": _operator.and_, "or": _operator.or_, "xor": _operator.xor}.items():
    _formula = _bits(_fn)
    aten(f"bitwise_{_word}", "Tensor", "Scalar", "Scalar_Tensor")(_formula)
    aten(f"__{_word}__", "Tensor", "Scalar")(_formula)


@aten("bitwise_not")
def bitwise_not(x: Any) -> Any:
    return ~as_tensor(x)


@aten("bitwise_left_shift", "Tensor", "Tensor_Scalar", "Scalar_Tensor")
@aten("__lshift__", "Tensor", "Scalar")
def left_shift(x: Any, y: Any) -> Any:
    x, y = promoted(x, y)
    return as_tensor(x) << y


@aten("bitwise_right_shift", "Tensor", "Tensor_Scalar", "Scalar_Tensor")
@aten("__rshift__", "Tensor", "Scalar")
def right_shift(x: Any, y: Any) -> Any:
    x, y = promoted(x, y)
    return as_tensor(x) >> y


@aten("where", "self", "ScalarSelf", "ScalarOther", "Scalar")
def where(condition: Any, x: Any, y: Any) -> Any:
    x, y = promoted(x, y)
    return tile.where(truth(condition), x, y)


@aten("masked_fill", "Scalar", "Tensor")
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    x = as_tensor(x)
    filling = as_tensor(value).to(x.dtype) if not isinstance(value, (bool, int, float)) else value
    if isinstance(filling, float) and not x.dtype.is_float:
        filling = int(filling)
    return tile.where(truth(mask), filling, x).to(x.dtype)


@aten("isnan")
def isnan(x: Any) -> Any:
    x = as_tensor(x)
    return x != x


@aten("isinf")
def isinf(x: Any) -> Any:
    x = as_tensor(x)
    return tile.abs(x) == math.inf if x.dtype.is_float else tile.zeros(x.shape, bool_)


@aten("isfinite")
def isfinite(x: Any) -> Any:
    x = as_tensor(x)
    return tile.abs(x) < math.inf if x.dtype.is_float else tile.ones(x.shape, bool_)


@aten("isposinf")
def isposinf(x: Any) -> Any:
    x = as_tensor(x)
    return x == math.inf if x.dtype.is_float else tile.zeros(x.shape, bool_)


@aten("isneginf")
def isneginf(x: Any) -> Any:
    x = as_tensor(x)
    return x == -math.inf if x.dtype.is_float else tile.zeros(x.shape, bool_)
