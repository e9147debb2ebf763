"""Between which numbers the integers of a graph lie, as far as coordinates and constants tell.

iota(4096) // 2           0 to 2047
minimum(iota(8) + 1, 7)   1 to 7
cast(x: u8) to i64        0 to 255
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, bool_, i32, i64
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.support.follow import follow

Span = tuple[int, int]
"""The least and the greatest number, both included."""
_LIMIT = 1 << 62
"""Beyond which numbers might wrap."""


def index_span(value: Value) -> Span | None:
    """Between which numbers all elements of a tensor of integers lie; None where that is not known."""
    return follow(_span, value)


def _span(value: Value) -> Generator[Value, Span | None, Span | None]:
    op = value.op
    match op:
        case ops.Iota():
            return 0, max(0, sizes_of(op.result)[op.axis] - 1)
        case ops.Constant() if tensor_type(value).dtype.is_integer:
            return int(op.value), int(op.value)
        case ops.Size() if isinstance(op.value, int):
            return op.value, op.value
        case ops.Cast() if not tensor_type(value).dtype.is_float and not tensor_type(op.source).dtype.is_float:
            found = (yield op.source) or _all_of(tensor_type(op.source).dtype)
            limits = _all_of(tensor_type(value).dtype)
            return found if limits[0] <= found[0] <= found[1] <= limits[1] else None
        case ops.Broadcast() | ops.Reshape() | ops.Transpose():
            return (yield op.operands[0])
        case ops.Map() if tensor_type(value).dtype in (i32, i64) and op.fn in _RULES:
            left, right = (yield op.inputs[0]), (yield op.inputs[1])
            found = None if left is None or right is None else _RULES[op.fn](left, right)
            return _within(found, tensor_type(value).dtype)
        case ops.Map(fn="where") if tensor_type(value).dtype in (i32, i64):
            left, right = (yield op.inputs[1]), (yield op.inputs[2])
            return None if left is None or right is None else (min(left[0], right[0]), max(left[1], right[1]))
        case ops.Map(fn="abs" | "neg") if tensor_type(value).dtype in (i32, i64):
            found = yield op.inputs[0]
            found = None if found is None else _mirrored(found) if op.fn == "neg" else _size(found)
            return _within(found, tensor_type(value).dtype)
        case _:
            return None


def _all_of(dtype: DType) -> Span:
    """The least and the greatest number that a type has."""
    if dtype == bool_:
        return 0, 1
    if dtype.name.startswith("u"):
        return 0, (1 << dtype.bits) - 1
    return -(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1


def _within(span: Span | None, dtype: DType) -> Span | None:
    """A span that integers of a dtype have room for; None for another one."""
    limit = _LIMIT if dtype == i64 else 1 << 31
    return span if span is not None and -limit < span[0] <= span[1] < limit else None


def _mirrored(span: Span) -> Span:
    return -span[1], -span[0]


def _size(span: Span) -> Span:
    return max(0, span[0], -span[1]), max(-span[0], span[1])


def _product(left: Span, right: Span) -> Span:
    corners = [a * b for a in left for b in right]
    return min(corners), max(corners)


def _quotient(left: Span, right: Span) -> Span | None:
    divisor = right[0]
    return (left[0] // divisor, left[1] // divisor) if divisor == right[1] > 0 else None


def _remainder(left: Span, right: Span) -> Span | None:
    return (0, right[1] - 1) if right[0] > 0 else None


_RULES: dict[str, Callable[[Span, Span], Span | None]] = {
    "add": lambda left, right: (left[0] + right[0], left[1] + right[1]),
    "sub": lambda left, right: (left[0] - right[1], left[1] - right[0]),
    "mul": _product,
    "floordiv": _quotient,
    "mod": _remainder,
    "minimum": lambda left, right: (min(left[0], right[0]), min(left[1], right[1])),
    "maximum": lambda left, right: (max(left[0], right[0]), max(left[1], right[1])),
}
