"""Whether programs take their tiles from a counter in memory: a decision, and how long the loops of all tiles are then.

Tiles with the longest loops come first, and whoever is free takes the next one. So programs end within one short tile
of each other, whatever the loops are, and each begins once; with a fixed order the longest share counts, and where the
hardware gives out tiles, each begins anew. The counter is filled before, which takes a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import heapreplace

from tiledsl.passes.gpu.plans.product_plans.search import Search
from tiledsl.passes.gpu.plans.product_plans.tilings import Tiling

FILL_SECONDS = 1.0e-6
"""For the kernel that fills the counter, which the one behind it begins beside (not measured)."""
ASKED_CLOCKS = 1000
"""From asking the counter to the number in a slot (not measured). Those who multiply have what is in the ring till
then."""
MOST_COUNTED = 8192
"""Of more tiles it is not counted who takes which: they even out."""


class TileCounter:
    """Tiles of programs that go on: a fixed share of them, or from a counter."""

    name = "counter"

    def options(self, search: Search, tiling: Tiling) -> Iterator[Tiling]:
        """Both, where loops of tiles are of unlike lengths: others end alike anyway."""
        yield tiling
        lengths = next((one for one in search.nest.lengths if one.rows == tiling.rows), None)
        if not tiling.programs or lengths is None or len(set(lengths.lengths)) == 1:
            return
        option = tiling._replace(counted=True)
        if tiling.roles == "pingpong":
            search.refuse(option, "consumers in turn know the tiles of their program from the start")
        elif tiling.cluster > 1:
            search.refuse(option, "the blocks of a cluster would have to be told alike what a counter gave")
        else:
            yield option


def turns_from_counter(turns: Sequence[int], heads: float, tiling: Tiling, each: float) -> float:
    """Turns of the program that ends last, those that its tiles take around their loops left out.

    `turns`: those of the tiles of one head, in the order in which they are taken; each stands for `heads` of them.
    `each`: what a tile takes beside its loop, in turns.
    """
    tiles = len(turns) * heads
    if tiles <= MOST_COUNTED and heads == int(heads):
        end = _last_end(tuple(turns), int(heads), tiling.raster, tiling.programs, each)
        return end - each * tiles / tiling.programs
    return sum(turns) * heads / tiling.programs + turns[-1]


@lru_cache(maxsize=256)
def _last_end(turns: tuple[int, ...], heads: int, together: int, programs: int, each: float) -> float:
    """When the last program is done, where each takes the next tile once it is free."""
    ends = [0.0] * programs
    for first in range(0, heads, together):
        beside = min(together, heads - first)
        for length in turns:
            for _ in range(beside):
                heapreplace(ends, ends[0] + length + each)
    return max(ends)
