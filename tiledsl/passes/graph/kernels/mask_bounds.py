"""Which blocks of a stream masks leave anything of.

    s = where(iota_j + b <= iota_i + a, scores, -inf)          max(s, j), sum(exp(s - m), j) ...

A block of i ends at `start + extent`, so keys from `start + extent + a - b` on are hidden from all of it: the loop over
j ends there. A mask the other way round (`iota_j + b > iota_i + a`, a sliding window) tells where it begins.

What is folded is its fold's neutral element outside of the limits: -inf for a maximum, 0 for a sum, and for a product 0
in one of the operands. Nothing is computed there, so what a 0 would meet, inf and NaN too, is hidden with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Union

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Number, Value
from tiledsl.ir.dtypes import bool_
from tiledsl.ir.fold_identities import identity
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.graph.analysis.online_rules import is_constant, times_positive
from tiledsl.passes.graph.kernels.index_limits import DEEPEST, IndexLimits, Limits, bare


def limits_of_folds(folds: Sequence[Union[ops.Reduce, ops.Contract]], indices: IndexLimits) -> Limits:
    """Where folds over the axis of `indices` are given anything that changes one of them."""
    moving = {fold.result for fold in folds}
    return reduce(Limits.any, (_Shown(indices, moving).of_fold(fold) for fold in folds))


class _Shown:
    """Limits outside of which values are one number. `moving`: folds that are carried in terms of finite numbers."""

    def __init__(self, indices: IndexLimits, moving: set[Value]) -> None:
        self.indices = indices
        self.moving = moving
        self.depth = 0
        self._known: dict[tuple[Value, Number], Limits] = {}

    def of_fold(self, fold: ops.Reduce | ops.Contract) -> Limits:
        if isinstance(fold, ops.Contract):
            return self.of(fold.a, 0).both(self.of(fold.b, 0))
        if fold.fn in ("argmax", "argmin"):
            return Limits()
        return self.of(fold.source, identity(fold.fn, tensor_type(fold.source).dtype, followed=False))

    def of(self, value: Value, number: Number) -> Limits:
        """Outside of these `value` is that number."""
        value = bare(value)
        key = (value, number)
        if key not in self._known:
            self.depth += 1
            self._known[key] = Limits() if self.depth > DEEPEST else self._of(value, number)
            self.depth -= 1
        return self._known[key]

    def _of(self, value: Value, number: Number) -> Limits:
        op = value.op
        match op:
            case ops.Map(fn="where"):
                return self._where(op, number)
            case ops.Map() | ops.Cast() if tensor_type(value).dtype == bool_:
                return self.indices.where(value, holds=not number)
            case ops.Map():
                return self._map(op, number)
            case ops.Cast() if number == 0 or (op.dtype.is_float and op.dtype.bits >= 16):
                return self.of(op.source, number)
            case _:
                return Limits()

    def _where(self, op: ops.Map, number: Number) -> Limits:
        mask, yes, no = op.inputs
        parts = [
            self.indices.where(mask, holds).both(self.of(value, number))
            for value, holds in ((yes, True), (no, False))
            if not is_constant(bare(value), number)
        ]
        return reduce(Limits.any, parts) if parts else Limits()

    def _map(self, op: ops.Map, number: Number) -> Limits:
        match op.fn:
            case "exp" | "exp2" if number == 0:
                return self.of(op.inputs[0], -math.inf)
            case "neg" if number in (0, math.inf, -math.inf):
                return self.of(op.inputs[0], -number)
            case "sub" if number == -math.inf and self._is_finite(op.inputs[1]):
                return self.of(op.inputs[0], number)
            case "add" if number == -math.inf:
                return self.of(op.inputs[0], number).both(self.of(op.inputs[1], number))
            case "mul" if number == 0:
                return self.of(op.inputs[0], number).both(self.of(op.inputs[1], number))
            case "mul" if number == -math.inf and (scaled := times_positive(op)) is not None:
                return self.of(scaled[0], number)
            case "div" if number == 0:
                return self.of(op.inputs[0], number)
            case _:
                return Limits()

    def _is_finite(self, value: Value) -> bool:
        """Whether a value is at least a fold of the same loop, perhaps scaled: that starts from a finite number."""
        value = bare(value)
        op = value.op
        while isinstance(op, ops.Map) and (scaled := times_positive(op)) is not None:
            value = bare(scaled[0])
            op = value.op
        if isinstance(op, ops.Map) and op.fn == "maximum":
            return any(self._is_finite(side) for side in op.inputs)
        return value in self.moving
