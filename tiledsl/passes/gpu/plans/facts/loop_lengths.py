"""How long a loop of a grid is where its ends are no sizes: `range(part * L, minimum(part * L + L, K))`."""

from __future__ import annotations

from collections.abc import Mapping

from tiledsl.ir import tile_ops as ops
from tiledsl.passes.analysis.sizes import BlockDefinition, blocks_of
from tiledsl.passes.nest.evaluate_scalars import GuessedScalars, Place, ScalarValues


def length_of_first_or_last(grid: ops.Grid, loop: BlockDefinition, sizes: Mapping[str, int]) -> int | None:
    """How many coordinates the loop goes through in the first program of the grid or in the last one, whichever has
    more; None where neither is known. `sizes`: all that the grid speaks of, by symbol."""
    found: list[int] = []
    for last in (False, True):
        places = {b.argument: _place(b, sizes, last=last) for b in blocks_of(grid)}
        length = length_between_ends(loop, GuessedScalars(sizes, places))
        if length is not None:
            found.append(length)
    return max(1, *found) if found else None


def length_between_ends(loop: BlockDefinition, values: ScalarValues) -> int | None:
    """From the start of a loop to its end; None where one of them is not known."""
    assert isinstance(loop.op, ops.Range)
    start, stop = values.of(loop.op.start), values.of(loop.op.stop)
    return None if start is None or stop is None else stop - start


def _place(block: BlockDefinition, sizes: Mapping[str, int], *, last: bool) -> Place:
    total = GuessedScalars(sizes, {}).of(block.stop)
    return Place(total - 1 if last and total else 0, 1)
