"""What scalars that are made of constants come to, nearly: `64**-0.5`, which each back end rounds in its own way."""

from __future__ import annotations

import math

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import f32, f64


def approximate_number(scalar: Value) -> float | None:
    """What a scalar comes to that is made of constants; None if it is made of more, or by other functions."""
    match scalar.op:
        case ops.Constant() if not isinstance(scalar.op.value, str):
            return float(scalar.op.value)
        case ops.Cast() if scalar.dtype in (f32, f64):
            return approximate_number(scalar.op.source)
        case ops.Map() if scalar.dtype in (f32, f64):
            numbers = [number for number in map(approximate_number, scalar.op.inputs) if number is not None]
            return _applied(scalar.op.fn, numbers) if len(numbers) == len(scalar.op.inputs) else None
        case _:
            return None


def _applied(fn: str, numbers: list[float]) -> float | None:
    """A scalar function; None for those that are left to the run."""
    try:
        match fn, numbers:
            case "mul", [a, b]:
                return a * b
            case "div", [a, b]:
                return a / b
            case "pow", [a, b]:
                return math.pow(a, b)
            case "sqrt", [a]:
                return math.sqrt(a)
            case _:
                return None
    except (ArithmeticError, ValueError):
        return None
