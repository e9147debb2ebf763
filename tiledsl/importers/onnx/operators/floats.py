"""Narrow floats are computed with in f32, and rounded once."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiledsl.ir.dtypes import compute_dtype


def in_floats(formula: Callable[..., Any], x: Any, *others: Any) -> Any:
    """A formula of floats in the type in which arithmetic is carried out; the dtype of `x`."""
    wide = compute_dtype(x.dtype)
    return formula(*(each.to(wide) for each in (x, *others))).to(x.dtype)


def narrowed(formula: Callable[..., Any], x: Any, *others: Any) -> Any:
    """The same, of integers too: they stay what they are."""
    return in_floats(formula, x, *others) if x.dtype.is_float else formula(x, *others)
