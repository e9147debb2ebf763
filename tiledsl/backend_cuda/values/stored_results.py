"""Results of folds that only go to memory.

%s = gpu.reduce([%x], %scratch) {axes = [0], fn = add}      every warp could fold what all warps wrote down,
%h = tile.cast(%s) {dtype = f16}                            but one replica of %h is stored: the first warps fold,
gpu.store(%y, [%n], %h, [%size])                            the others have nothing to do
"""

from __future__ import annotations

from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu.gpu_ops import Reduce, Store
from tiledsl.ir.tile_ops import Cast, Map


def is_only_stored(op: Reduce) -> bool:
    """Whether what a fold gives, as it is or after elementwise ops, is stored behind it, and nobody else reads it."""
    results = list(op.results)
    return all(value.shape for value in results) and all(_is_stored(value, op) for value in results)


def _is_stored(value: Value, fold: Op) -> bool:
    pending, seen = [value], {value}
    while pending:
        current = pending.pop()
        for user in current.users:
            if user.parent is not fold.parent:
                return False
            match user:
                case Store() if user.value is current and current not in (*user.indices, *user.extents):
                    pass
                case Map() | Cast() if user.result.shape and user.result.layout == current.layout:
                    if user.result not in seen:
                        seen.add(user.result)
                        pending.append(user.result)
                case _:
                    return False
    return True
