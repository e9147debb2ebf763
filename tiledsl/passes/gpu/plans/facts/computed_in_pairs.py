"""Which elementwise ops are computed for two elements of f16 at once (`backend_cuda/values/pairs_of_halves.py`).

%a = cast(%q) : f32      %q: i8, or nibbles       one conversion for two,
%b = cast(%s) : f32      %s: f16                  nothing,
%c = mul(%a, %b) : f32                            one product for two,
%d = cast(%c) : f16                               nothing
"""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import f16, f32

WHOLE = 2048
"""Integers up to here are f16."""
OF_BYTES = {"i8": 128, "u8": 255}
OF_NIBBLES = {"i8": 8, "u8": 15}
"""The largest that there are."""
DEEPEST = 3
"""Sums of sums of integers are looked at no deeper."""
ROUNDED_ONCE = ("add", "sub", "mul")
"""Of two f16, these are rounded to the same f16 whether they are rounded to f32 before or not."""


def is_computed_in_pairs(op: Op) -> bool:
    """Whether an op is one of those between integers or f16 and the f16 that are made of them by way of f32."""
    last = _narrowed(op)
    return last is not None and last.result.shape != () and op in _made_of(last)


def _narrowed(op: Op) -> ops.Cast | None:
    """The conversion to f16 that an op's result alone ends in."""
    for _ in range(DEEPEST + 2):
        if not isinstance(op, (ops.Cast, ops.Map)) or len(op.result.users) != 1:
            break
        if isinstance(op, ops.Cast) and op.dtype == f16:
            return op
        op = next(iter(op.result.users))
    return op if isinstance(op, ops.Cast) and op.dtype == f16 else None


def _made_of(last: ops.Cast) -> set[Op]:
    """What a conversion to f16 is computed of in pairs, and itself; nothing where that cannot be."""
    seen = set[Op]([last])
    source = last.source.op
    if isinstance(source, ops.Map) and source.fn in ROUNDED_ONCE:
        seen.add(source)
        found = all(_largest(value, seen, DEEPEST) is not None for value in source.inputs)
    else:
        found = _largest(last.source, seen, DEEPEST) is not None
    return seen if found else set()


def _largest(value: Value, seen: set[Op], deep: int) -> float | None:
    """How large integers may be, infinity for other f16; None for a tile that has other elements."""
    op = value.op
    match op:
        case ops.Cast() if op.dtype == f32 and op.source.dtype == f16:
            seen.add(op)
            return float("inf")
        case ops.Cast() if op.dtype in (f16, f32) and op.source.dtype.name in OF_BYTES:
            seen.add(op)
            nibble = op.source.op
            if isinstance(nibble, ops.Map) and nibble.fn == "nibble":
                seen.add(nibble)
                return OF_NIBBLES[op.source.dtype.name]
            return OF_BYTES[op.source.dtype.name]
        case ops.Map(fn="add" | "sub") if deep:
            parts = [_largest(one, seen, deep - 1) for one in op.inputs]
            seen.add(op)
            bounds = [part for part in parts if part is not None]
            return sum(bounds) if len(bounds) == len(parts) and sum(bounds) <= WHOLE else None
        case _:
            return None
