"""Which fold, and which running fold, a tile goes into.

%e = tile.map([%x]) {fn = exp}                  the fold of %x and of %e is the one below
%s = tile.reduce([%e]) {axes = [1], fn = add}
"""

from __future__ import annotations

from collections.abc import Iterator

from tiledsl.ir.core import Op, Value
from tiledsl.ir.tile_ops import Cast, Map, Reduce, Scan

LOOKED_AT = 64
"""Tiles that a fold is looked for behind: programs that are written out have thousands, and no fold near."""


def fold_of(value: Value) -> Reduce | None:
    """A fold of a tile, as it is or after elementwise ops; None if there is none."""
    return next((op for op in _readers(value) if isinstance(op, Reduce)), None)


def scan_of(value: Value) -> Scan | None:
    """The same for a running fold."""
    return next((op for op in _readers(value) if isinstance(op, Scan)), None)


def _readers(value: Value) -> Iterator[Op]:
    seen, work = {value}, [value]
    while work and len(seen) < LOOKED_AT:
        for user in work.pop().users:
            yield user
            if isinstance(user, (Cast, Map)) and user.result not in seen:
                seen.add(user.result)
                work.append(user.result)
