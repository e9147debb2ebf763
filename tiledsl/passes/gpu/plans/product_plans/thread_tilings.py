"""Tilings for products by threads that are all alike: they copy operands, and multiply by `mma.sync` or one by one.

    tile -> depth -> stages

One decision after the other gives the options that a product leaves it and the machine has room for; what it refuses,
it refuses with a reason; `thread_cost.py` ranks what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from tiledsl.passes.gpu.layouts.capacities import ROOM_DEPTH, ROOM_DEPTH_OF_BYTES
from tiledsl.passes.gpu.plans.product_plans.thread_cost import (
    FRAGMENT,
    MOST_REGISTERS,
    ThreadNest,
    ThreadTiling,
    bytes_ahead,
    in_registers,
    registers_of,
    resident_blocks,
    stage_bytes,
    sums_of,
    thread_seconds,
)
from tiledsl.passes.gpu.products.operand_runs import MOST_BYTES_OF_RUNS
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.support.powers_of_two import power_of_two_from, power_of_two_up_to

PARTS = ((16, 16), (16, 32), (16, 64), (32, 16), (32, 32), (32, 64), (64, 32), (64, 64))
"""Of a tile, that one warp multiplies by matrix instructions: more rows and columns read less for each product."""
WARPS = ((1, 2), (2, 1), (1, 4), (2, 2), (4, 1), (2, 4), (4, 2))
"""How warps share a tile."""
GROUPS = (2, 4, 8)
"""Of warps that share a loop, each with sums of its own: as blocks are few."""
GROUPED_WARPS = ((1, 1), *WARPS[:2], (1, 3), (1, 7))
"""How the warps of each of them share a tile: also so that blocks of odd width are one for each multiprocessor."""
MOST_GROUPED = 16
"""Warps of a block in groups."""
FEW_WARPS = 8
"""Of a multiprocessor, in one group each: more keep it busy by themselves."""
PLAIN_TILES = (
    (128, 128, (8, 1)), (64, 64, (4, 1)), (32, 32, (4, 1)), (16, 16, (2, 1)),
    (64, 128, (4, 1)), (128, 64, (4, 1)), (32, 256, (4, 1)), (256, 32, (4, 1)), (32, 128, (4, 1)), (128, 32, (4, 1)),
    (16, 256, (4, 1)), (256, 16, (4, 1)), (16, 128, (2, 1)), (128, 16, (2, 1)),
)  # fmt: skip
"""Tiles and warps without matrix instructions: what the layouts of threads for single multiply-adds divide. Long ones
are for products with few columns, or few rows: threads have 32 or 64 sums there too."""
DEPTH_BYTES = (64, 128)
"""Of a row of a stage: a half or a whole of a row of the swizzle."""
RUN_DEPTH_BYTES = (256, 512)
"""The same where what is multiplied is computed in registers of fewer bytes, 16 of which a thread loads at once."""
WHOLE_DEPTH_BYTES = (32, 64, 128)
PLAIN_DEPTH = 16
LANES = 4
"""Of a warp, that have neighbouring runs of a row."""
STAGES = (2, 3, 4)
MOST_PLANS = 12
"""That are kept, each of another tile."""
WHOLE_ROWS = (16, 32, 64)
WHOLE_WARPS = ((1, 4), (1, 8), (1, 16), (2, 4))
"""How many whole rows a block has, and how warps share them."""
PLAIN_WHOLE_ROWS = (8, 16, 32)
PLAIN_WHOLE_WARPS = ((8, 1), (16, 1))
WHOLE_ROW_SUMS = 96
"""Registers of a thread that hold sums there; half as many without matrix instructions."""
WHOLE_ROW_UNIT = 16
HELD_UNIT = 256
"""What rows that warps hold have room for a multiple of: 8 elements for each thread."""


class Refusal(NamedTuple):
    """A tiling as far as it was decided, and why there is none like it."""

    tiling: ThreadTiling
    reason: str


@dataclass
class ThreadSearch:
    """What decisions know. `refused` lists what was refused, if anybody asks for it."""

    nest: ThreadNest
    machine: GpuMachine
    refused: list[Refusal] | None = field(default=None)

    def refuse(self, tiling: ThreadTiling, reason: str) -> None:
        """Notes why a tiling is left out."""
        if self.refused is not None:
            self.refused.append(Refusal(tiling, reason))

    def tilings(self) -> list[ThreadTiling]:
        """All that fit the machine, and may make sense for the sizes."""
        found: list[ThreadTiling] = [ThreadTiling(0, 0)]
        for decision in DECISIONS:
            found = [option for tiling in found for option in decision(self, tiling)]
        return found

    def ranked(self) -> Sequence[tuple[float, ThreadTiling]]:
        """The same with predicted seconds, the fastest first."""
        return _ranked(self.nest, self.machine) if self.refused is None else self.priced()

    def priced(self) -> tuple[tuple[float, ThreadTiling], ...]:
        """What `ranked` gives, made anew: what is refused is noted."""
        return tuple(sorted((thread_seconds(self.nest, one, self.machine), one) for one in self.tilings()))


@lru_cache(maxsize=256)
def _ranked(nest: ThreadNest, machine: GpuMachine) -> tuple[tuple[float, ThreadTiling], ...]:
    """Kept, since one product is planned with this and that around it."""
    return ThreadSearch(nest, machine).priced()


def tiles(search: ThreadSearch, tiling: ThreadTiling) -> Iterator[ThreadTiling]:
    """Tiles that are no larger than the product, and whose sums and operands threads can hold."""
    nest = search.nest
    if nest.whole:
        yield from _whole_rows(search, tiling)
        return
    choices = [(down * rows, across * columns, (down, across)) for rows, columns in PARTS for down, across in WARPS]
    least = (FRAGMENT, FRAGMENT)
    for rows, columns, warps in PLAIN_TILES if nest.plain else choices:
        option = tiling._replace(rows=rows, columns=columns, warps=warps)
        most = (max(least[0], power_of_two_from(nest.rows)), max(least[1], power_of_two_from(nest.columns)))
        if not nest.plain and (rows > most[0] * warps[0] or columns > most[1]):
            continue  # warps would have nothing but padding
        held, sums = registers_of(nest, option), sums_of(nest, option)
        if held > MOST_REGISTERS:
            search.refuse(option, f"a thread would hold {held} registers, and has room for {MOST_REGISTERS}")
            continue
        if sums > MOST_SUMS:
            search.refuse(option, f"a thread would hold {sums} registers of sums, and has room for {MOST_SUMS}")
            continue
        yield option
    if nest.alone:
        yield from _in_groups(search, tiling)


def _in_groups(search: ThreadSearch, tiling: ThreadTiling) -> Iterator[ThreadTiling]:
    """Tiles whose loops groups of warps share, where one group for each would leave multiprocessors idle."""
    nest, machine = search.nest, search.machine
    most = max(FRAGMENT, power_of_two_from(nest.rows)), max(FRAGMENT, power_of_two_from(nest.columns))
    for rows, columns in PARTS:
        for down, across in GROUPED_WARPS:
            option = tiling._replace(rows=down * rows, columns=across * columns, warps=(down, across))
            if option.rows > most[0] * down or option.columns > most[1]:
                continue  # warps would have nothing but padding
            blocks = -(-nest.rows // option.rows) * -(-nest.columns // option.columns) * nest.batches
            if blocks * down * across >= FEW_WARPS * machine.multiprocessors or sums_of(nest, option) > MOST_SUMS:
                continue
            for groups in GROUPS:
                if down * across * groups <= MOST_GROUPED:
                    yield option._replace(groups=groups)


def _whole_rows(search: ThreadSearch, tiling: ThreadTiling) -> Iterator[ThreadTiling]:
    """Rows that something is folded along: warps have parts of each, or threads without matrix instructions."""
    nest = search.nest
    most = WHOLE_ROW_SUMS // 2 if nest.plain else WHOLE_ROW_SUMS
    for rows in PLAIN_WHOLE_ROWS if nest.plain else WHOLE_ROWS:
        for warps in PLAIN_WHOLE_WARPS if nest.plain else WHOLE_WARPS:
            option = tiling._replace(rows=rows, columns=nest.columns, warps=warps)
            sums = sums_of(nest, option)
            if sums > most:
                search.refuse(option, f"a thread would hold {sums} registers of sums, and has room for {most}")
            elif nest.columns % (warps[1] * 8) or (not nest.plain and rows < FRAGMENT * warps[0]):
                search.refuse(option, f"{warps[1]} warps do not share {nest.columns} columns in eights")
            else:
                yield option


def depths(search: ThreadSearch, tiling: ThreadTiling) -> Iterator[ThreadTiling]:
    """How much of the sum a turn brings."""
    nest = search.nest
    least = ROOM_DEPTH if nest.bytes > 1 else ROOM_DEPTH_OF_BYTES
    longest = max(least, power_of_two_from(nest.depth))
    rows = WHOLE_DEPTH_BYTES if nest.whole else DEPTH_BYTES
    if in_registers(nest, tiling._replace(depth=longest, groups=1)) is not None:
        rows = (*rows, *RUN_DEPTH_BYTES)
    each = [power_of_two_up_to(max(1, row // nest.bytes // nest.together)) for row in rows]
    every = [PLAIN_DEPTH] if nest.plain and not nest.whole else [min(longest, max(least, one)) for one in each]
    # lanes of a group load whole runs too
    shortest = LANES * nest.computed.run if tiling.groups > 1 and nest.computed is not None else 0
    for depth in dict.fromkeys(one for one in every if one >= shortest):
        option = tiling._replace(depth=depth * tiling.groups)
        ahead = bytes_ahead(nest, option)
        if ahead > MOST_BYTES_OF_RUNS:
            reason = f"a thread would ask for {ahead:.0f} bytes a turn before, and has room for {MOST_BYTES_OF_RUNS}"
            search.refuse(option, reason)
        elif option.depth <= longest or tiling.groups == 1:
            yield option


def stages(search: ThreadSearch, tiling: ThreadTiling) -> Iterator[ThreadTiling]:
    """How many turns are under way, as far as shared memory has room."""
    nest, machine = search.nest, search.machine
    turns = -(-nest.depth // tiling.depth)
    for count in (1,) if turns == 1 else STAGES:
        option = tiling._replace(stages=count)
        asked = stage_bytes(nest, option) * count + OTHER_SHARED
        if asked > machine.shared_bytes_per_block:
            search.refuse(option, f"it asks for {asked} bytes of shared memory, of {machine.shared_bytes_per_block}")
        elif count <= max(2, turns):
            if resident_blocks(nest, option, machine):
                yield option
            else:
                search.refuse(option, "a multiprocessor has no registers for a block")


DECISIONS = (tiles, depths, stages)
"""In the order in which they are made."""
MOST_SUMS = 128
"""Registers of a thread."""
OTHER_SHARED = 2048
"""Bytes of shared memory for what is folded and for barriers."""
