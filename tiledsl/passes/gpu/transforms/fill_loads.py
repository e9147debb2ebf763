"""What lies beyond an extent is loaded as what the folds of it want there, instead of being put there for each fold.

    %row = gpu.load(%x, [%m, %0], [%N])        {masked = [1]}       %row = gpu.load(%x, ..., [%N], %least)
    %all = gpu.pad(%row, [%N], %least)         {axes = [1]}
    %top = gpu.reduce([%all], ...)             {fn = max}           %top = gpu.reduce([%row], ...)
    %far = tile.map([%row, %tops])             {fn = sub}      =>   %far = tile.map([%row, %tops])
    %p = tile.map([%far])                      {fn = exp2}          %p = tile.map([%far])
    %q = gpu.pad(%p, [%N], %zero)              {axes = [1]}
    %sum = gpu.reduce([%q], ...)               {fn = add}           %sum = gpu.reduce([%p], ...)

`%least` is -inf. A load gives the same for all that is masked, for nothing; a pad is a selection for each element. Of
the fills that pads of a load ask for, the one is taken that leaves the fewest of them. What is made of padding is known
where operations make one number of it. Less the largest element of its own row, -inf stays what it is, but where that
is -inf or NaN: then all of the row is NaN, and so are its sums and extrema, whatever the padding is.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.dtypes import bf16, f16, f32, f64
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.async_ops import Role
from tiledsl.ir.types import scalar
from tiledsl.ir.verifier import Form
from tiledsl.passes.manager import PassContext

FLOATS = (f16, bf16, f32, f64)
"""Those that have infinities."""
FILLS = (0.0, -math.inf, math.inf)
SPREADS_NAN = ("add", "mul", "max", "min")
"""Folds that NaN in any element makes NaN."""
FOLLOWED = (ops.Cast, ops.Map, ops.Broadcast, ops.Reshape, gpu.Pad, gpu.Reduce, gpu.Scan, gpu.Store)
"""What may become of a load whose padding changes: nobody reads what comes of it there."""


@dataclass(frozen=True)
class Padding:
    """What a tile is beyond extents, by axis. `or_nan`: or NaN, where all of the same row is NaN."""

    fill: float
    extents: Mapping[int, Value]
    or_nan: bool = False


@dataclass(frozen=True)
class FillLoads:
    """Leaves out pads of what is loaded so, in launches whose threads all do the same."""

    name: ClassVar[str] = "fill-loads"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU

    def run(self, module: Module, context: PassContext) -> Module:
        for op in list(module.walk()):
            if isinstance(op, gpu.Launch):
                inside = list(op.walk())
                if not any(isinstance(o, Role) for o in inside):
                    _fill(inside)
        return module


def _fill(inside: list[Op]) -> None:
    chosen: dict[gpu.Load, float] = {}
    for load in inside:
        if isinstance(load, gpu.Load) and _may_change(load):
            spared = {fill: len(_known_pads(inside, {**chosen, load: fill})) for fill in FILLS}
            best = max(FILLS, key=spared.__getitem__)  # the first of those that are as good
            if spared[best] > spared[0.0]:
                chosen[load] = best
    known = _known_pads(inside, chosen)
    for load, fill in chosen.items():
        block = load.parent
        assert block is not None
        dtype = load.result.dtype
        constant = ops.Constant(load.location, types=[scalar(dtype)], value=fill, dtype=dtype)
        block.insert_before(load, constant)
        load.set_field("other", constant.result)
    for pad in known:
        pad.result.replace_with(pad.source)
        pad.erase()


def _may_change(load: gpu.Load) -> bool:
    """Whether what a load gives is padded, and nothing else sees what it gives where it is masked."""
    plain = load.shape and load.other is None and not load.checked and load.masked and load.step == 1
    if not plain or load.result.dtype not in FLOATS:
        return False
    padded, seen, work = False, set[Value](), [load.result]
    while work:
        value = work.pop()
        for user in value.users:
            if not isinstance(user, FOLLOWED) or (isinstance(user, gpu.Store) and user.value is not value):
                return False
            padded |= isinstance(user, gpu.Pad)
            fresh = [v for v in user.results if v.shape and v not in seen]
            seen.update(fresh)
            work += fresh
    return padded


def _known_pads(inside: list[Op], chosen: Mapping[gpu.Load, float]) -> list[gpu.Pad]:
    """Pads that put what is there already."""
    known: dict[Value, Padding] = {}
    found: list[gpu.Pad] = []
    for op in inside:
        padding: Padding | None = None
        match op:
            case gpu.Load() if op.shape and op.masked and op.step == 1:
                fill = chosen.get(op, 0.0 if op.other is None else _number(op.other))
                padding = None if fill is None else Padding(fill, dict(zip(op.masked, op.extents)))
            case ops.Cast() if op.source in known:
                kept = known[op.source].fill == 0 or (op.source.dtype in FLOATS and op.dtype in FLOATS)
                padding = known[op.source] if kept and op.result.shape else None
            case ops.Map() if op.result.shape and op.result.dtype in FLOATS:
                padding = _of_map(op, known)
            case gpu.Pad():
                if _is_there(op, known.get(op.source)):
                    found.append(op)
                    padding = known[op.source]
            case _:
                continue
        if padding is not None:
            known[op.results[0]] = padding
    return found


def _is_there(pad: gpu.Pad, padding: Padding | None) -> bool:
    fill = pad.fill.op
    if padding is None or not isinstance(fill, ops.Constant) or fill.value != padding.fill:
        return False
    if padding.or_nan and not all(isinstance(u, gpu.Reduce) and u.fn in SPREADS_NAN for u in pad.result.users):
        return False
    return all(padding.extents.get(axis) is extent for axis, extent in zip(pad.axes, pad.extents))


def _of_map(op: ops.Map, known: Mapping[Value, Padding]) -> Padding | None:
    """What an operation makes of the padding of its operands."""
    if op.fn == "sub" and op.inputs[0] in known and known[op.inputs[0]].fill == -math.inf:
        axes = _top_axes(op.inputs[1], op.inputs[0])
        extents = {axis: extent for axis, extent in known[op.inputs[0]].extents.items() if axis in axes}
        if extents:
            return Padding(-math.inf, extents, or_nan=True)
    tiles = op.inputs[1:] if op.fn == "where" else op.inputs
    found = [known[v] for v in tiles if v in known]
    function = FUNCTIONS.get(op.fn)
    if function is None or not found or not all(v in known or _number(v) is not None for v in tiles):
        return None
    common = {axis: e for axis, e in found[0].extents.items() if all(p.extents.get(axis) is e for p in found)}
    or_nan = any(padding.or_nan for padding in found)
    if not common or (or_nan and op.fn not in ("exp", "exp2", "mul", "add", "sub", "neg")):
        return None
    numbers = [known[v].fill if v in known else _number(v) for v in tiles]
    fill = function(*(number for number in numbers if number is not None))
    return None if math.isnan(fill) else Padding(fill, common, or_nan)


def _number(value: Value) -> float | None:
    """A scalar that is known, or a tile of it."""
    while isinstance(value.op, ops.Broadcast):
        value = value.op.source
    op = value.op
    known = isinstance(op, ops.Constant) and not isinstance(op.value, (bool, str))
    return float(op.value) if known and isinstance(op, ops.Constant) else None


def _top_axes(subtracted: Value, tile: Value) -> tuple[int, ...]:
    """The axes of rows of a tile whose largest elements are subtracted from it, both scaled by the same positive
    numbers; none where something else is."""
    value, scales = _unscaled(subtracted)
    base, others = _unscaled(tile)
    fold = value.op
    if not isinstance(fold, gpu.Reduce) or fold.fn != "max" or len(fold.sources) != 1 or scales != others:
        return ()
    same = _bare(fold.sources[0]) is _bare(base)
    return fold.axes if same and _stays_in_rows(subtracted, fold.axes) else ()


def _stays_in_rows(value: Value, axes: Sequence[int]) -> bool:
    """Whether what is repeated is the same along all of these axes, and not along others."""
    while value.op is not None and not isinstance(value.op, gpu.Reduce):
        if isinstance(value.op, ops.Broadcast):
            shape, source = value.shape, (1,) * (len(value.shape) - len(value.op.source.shape)) + value.op.source.shape
            if source != tuple(1 if axis in axes else size for axis, size in enumerate(shape)):
                return False
        value = value.op.operands[0]
    return True


def _unscaled(value: Value) -> tuple[Value, list[float]]:
    """What is scaled, looked at through what only repeats it, and by what."""
    scales: list[float] = []
    while True:
        match value.op:
            case ops.Broadcast() | ops.Reshape():
                value = value.op.source
            case ops.Map(fn="mul"):
                number = _number(value.op.inputs[1])
                if number is None or not 0 < number < math.inf:
                    return value, scales
                value, scales = value.op.inputs[0], [*scales, number]
            case _:
                return value, scales


def _bare(value: Value) -> Value:
    while isinstance(value.op, gpu.Pad):
        value = value.op.source
    return value


def _exponential(x: float) -> float:
    return 0.0 if x == -math.inf else 1.0 if x == 0 else math.inf if x == math.inf else math.nan


def _negative(x: float) -> float:
    return -x


def _either(a: float, b: float) -> float:
    return a if a == b else math.nan


FUNCTIONS: dict[str, Callable[..., float]] = {
    "mul": operator.mul, "add": operator.add, "sub": operator.sub, "neg": _negative, "abs": math.fabs,
    "exp": _exponential, "exp2": _exponential, "where": _either, "maximum": max, "minimum": min,
}  # fmt: skip
"""What comes of numbers that are known; NaN where it is not known, or depends on rounding."""
