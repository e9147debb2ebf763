"""How far apart in memory neighbours of a tile lie, and which loads overlap."""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import AxisType
from tiledsl.passes.analysis.fields import are_joined, field_of, record_length
from tiledsl.passes.analysis.quotients import repeats
from tiledsl.passes.gpu.layouts.infer_layouts import access_order, is_rows
from tiledsl.passes.gpu.products.window_rows import window_rows
from tiledsl.passes.nest.loop_nest import Access, Elementwise, kept

RUN = 16
"""Slots of a thread side by side, of a load that gives neighbours one element."""
STRIDE = 2
"""Of a tensor none of whose axes has neighbours side by side, where a tile runs along the last one: a guess."""

NEAR = 2
"""Elements from one coordinate to the next, up to which a warp that asks for them one by one has each line once or
twice."""


def unit_axis(access: Access) -> int:
    """The axis of a tensor along which neighbours lie side by side, or near."""
    unit = access.tensor.unit
    return len(access.tensor.shape) - 1 if unit is None else unit


@kept
def reads_windows(access: Access) -> bool:
    """Whether rows of a load are positions of windows: those of neighbours, which go on together, overlap in L2."""
    return isinstance(access.op, ops.Load) and window_rows(access.op) is not None


@kept
def fast_axis(access: Access) -> int:
    """The axis of a tile along which neighbours lie side by side, or near."""
    return access_order(access.op)[-1]


@kept
def is_of_rows(access: Access) -> bool:
    """Whether an access is of whole rows, one behind the other, which may move as one run."""
    return not isinstance(access.op, ops.Atomic) and is_rows(access.op)


@kept
def computed_share(work: Elementwise) -> float:
    """For how many elements of its tile an op takes instructions: of a load that gives neighbours one element, those
    are converted once; the sign of bytes is of no account to who takes nibbles of them."""
    op = work.op
    if not isinstance(op, ops.Cast):
        return 1.0
    if all(isinstance(user, ops.Map) and user.fn == "nibble" for user in op.result.users):
        return 0.0 if op.source.dtype.bits == op.dtype.bits == 8 else 1.0
    loaded = op.source.op
    return 1 / min(RUN, repeats(loaded)) if isinstance(loaded, ops.Load) else 1.0


def fields_beside(op: ops.Load | ops.Store) -> frozenset[int]:
    """The fields of the same records that are accessed beside one."""
    found = {field_of(other) for other in op.tensor.users if isinstance(other, type(op)) and _is_beside(op, other)}
    return frozenset(number for number in found if number is not None)


def _is_beside(op: ops.Load | ops.Store, other: ops.Load | ops.Store) -> bool:
    return other.tensor is op.tensor and other.parent is op.parent and other.indices[:-1] == op.indices[:-1]


@kept
def is_joined_field(access: Access) -> bool:
    """Whether an access is of a field, and made together with others of its records (`join-fields`)."""
    op = access.op
    return isinstance(op, (ops.Load, ops.Store)) and field_of(op) is not None and are_joined(op, fields_beside(op))


@kept
def share_of_records(access: Access) -> float:
    """How many times as much moves with an access of a field as it asks for: whole records do."""
    op = access.op
    if not isinstance(op, (ops.Load, ops.Store)) or field_of(op) is None:
        return 1.0
    return record_length(op) / max(1, len(fields_beside(op)))


@kept
def step_along(access: Access, unit: int) -> int | None:
    """How far apart in memory neighbours of a tile are along that axis of its tensor, as a number of elements; None if
    that is anywhere."""
    if access.repeats > 1:
        return 1
    op = access.op
    if isinstance(op, (ops.Load, ops.Store)) and field_of(op) is not None:
        return 1 if is_joined_field(access) else record_length(op)
    index = access.op.indices[unit]
    apart = 1 if access.tensor.unit is not None else STRIDE
    if not isinstance(index, Value) or isinstance(index.type, AxisType):
        return apart
    factor = _factor(index) if index.shape else None
    return None if factor is None else apart * max(1, abs(factor))


@kept
def is_side_by_side(access: Access, unit: int) -> bool:
    """Whether coordinates that are computed are those of neighbours but for a few ends: clamped, reflected, or gone on
    with from the start; or nearly so, where they are a quotient (`resize`). They are asked for one by one, but share
    sectors."""
    index = access.op.indices[unit]
    if not access.shape or not isinstance(index, Value) or isinstance(index.type, AxisType) or not index.shape:
        return False
    growth = _growth(index, access.shape[fast_axis(access)])
    return growth is not None and 0 < abs(growth) <= NEAR


@kept
def is_at_positions(access: Access, unit: int) -> bool:
    """Whether coordinates are positions that are computed in floats: those of neighbours are near each other, as where
    an image is warped."""
    index = access.op.indices[unit]
    pending, seen = [index] if isinstance(index, Value) else [], set[Value]()
    while pending and isinstance(access.op, ops.Load):
        value = pending.pop()
        if value in seen or not isinstance(value.op, (ops.Map, ops.Cast, ops.Broadcast, ops.Reshape)):
            continue
        seen.add(value)
        if isinstance(value.op, ops.Cast) and value.op.source.dtype.is_float:
            return True
        pending += value.op.operands
    return False


def _growth(index: Value, along: Dim) -> float | None:
    """By how much coordinates that are computed grow from one to the next along an axis, on average but for a few ends.
    What is data, but the same all along it, does not grow: rows that are looked up whole."""
    if along not in index.shape:
        return 0.0
    op = index.op
    match op:
        case ops.Broadcast() | ops.Reshape() | ops.Cast():
            return _growth(op.source, along)
        case ops.Map(fn="where"):
            grown = [_growth(value, along) for value in op.inputs[1:]]
            if None in grown:
                return None
            first, last = (growth or 0.0 for growth in grown)
            return first if last in (0.0, first) else last if first == 0.0 else None
        case ops.Map() if op.fn in ("maximum", "minimum", "abs", "mod", "floordiv"):
            first, *others = op.inputs
            growth = _growth(first, along)
            divisor = others[0].op if op.fn == "floordiv" else None
            if growth is None or any(along in other.shape for other in others):
                return None
            if op.fn != "floordiv":
                return growth
            return growth / divisor.value if isinstance(divisor, ops.Constant) and divisor.value > 0 else None
        case ops.Map() if op.fn in ("add", "sub"):
            left, right = (_growth(value, along) for value in op.inputs)
            return None if left is None or right is None else left + right if op.fn == "add" else left - right
        case ops.Map() if op.fn == "mul" and any(isinstance(value.op, ops.Constant) for value in op.inputs):
            factor, other = sorted(op.inputs, key=lambda value: not isinstance(value.op, ops.Constant))
            growth = _growth(other, along)
            assert isinstance(factor.op, ops.Constant)
            return None if growth is None else growth * factor.op.value
        case _:
            return _factor(index)


def _factor(index: Value) -> int | None:
    """By how much coordinates that are computed grow from one to the next; None if they are data."""
    op = index.op
    match op:
        case ops.Coordinates() | ops.Arange():
            return 1
        case ops.Broadcast() | ops.Reshape() | ops.Cast():
            return _factor(op.source)
        case ops.Map() if op.fn in ("add", "sub", "mul") and len(op.inputs) == 2:
            left, right = (_factor(value) if value.shape else 0 for value in op.inputs)
            if left is None or right is None:
                return None
            if op.fn != "mul":
                return left + right if op.fn == "add" else left - right
            (first, second) = op.inputs
            if isinstance(second.op, ops.Constant):
                return left * int(second.op.value)
            return right * int(first.op.value) if isinstance(first.op, ops.Constant) else None
        case _:
            return None
