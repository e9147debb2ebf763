"""Enumerates the tilings of a matrix product for warpgroups, and ranks them by their predicted times.

A product of some size has one to three thousand tilings that fit the machine; none is measured.

>>> product_plans(Product(2048, 2048, 2048), gpu_machine("sm_90"))[0].tiling.block
(128, 256, 64)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from tiledsl.passes.gpu.warpgroup_costs import ProductCosts
from tiledsl.passes.gpu.warpgroup_tilings import (
    SECTOR_BYTES,
    SPAN_BYTES,
    STEP_BYTES,
    WARPGROUP,
    WARPGROUP_ROWS,
    Product,
    Tiling,
    accumulators,
    holds,
    lends_room,
    registers_beside,
    rows_to_load,
    stage_bytes,
    stages_that_fit,
    staging_bytes,
    sums_bytes,
)
from tiledsl.passes.gpu_machine import GpuMachine

SHAPES = (
    ("cooperative", 64, 1, 1), ("cooperative", 128, 1, 1), ("cooperative", 128, 2, 1), ("cooperative", 192, 3, 1),
    ("cooperative", 256, 2, 1), ("cooperative", 64, 1, 2),
    ("pingpong", 64, 1, 1), ("pingpong", 128, 1, 1), ("pingpong", 192, 1, 1),
)  # fmt: skip
"""How consumers share a tile: schedule, rows, and how many of them along rows and columns."""
WHOLE_ROWS = (*SHAPES, ("cooperative", 64, 1, 3))
"""The same where a tile has whole rows."""
COLUMNS = tuple(range(16, 257, 16))
"""Multiples of 16: an instruction for 8 columns more is never worth it."""
COLUMNS_IN_SPANS = (16, 32, 64, 128, 192, 256)
"""Where the right operand counts fastest along its columns: whole rows of a swizzle, of 16-bit elements."""
COLUMN_UNIT = 16
"""Whole rows have room for a multiple of so many columns."""
COLUMN_STEP = 8
MOST_COLUMNS = 256
"""Of an instruction, and of a box that TMA copies."""
SIDES = (1, 2)
"""Blocks of a cluster."""
ACROSS = (1, 2, 4, 8)
"""Blocks of a cluster that share whole rows."""
SPLITS = (2, 4, 8)
SPANS = (1, 2)
MOST_RESIDENT = 4
MOST_TILES, LARGE = 48, 128 * 128
"""With more tiles for each multiprocessor, those of fewer elements are not looked at."""
FEWEST_STAGES = 3
"""Of a ring: with two, every copy is waited for (measured: a tenth slower, and more)."""
FEWEST_STEPS = 4
"""Of a split."""


@dataclass(frozen=True)
class Families:
    """The kinds of tilings that there is a lowering for, beside cooperative ones."""

    pingpong: bool = False
    splits: bool = False
    resident: bool = False


MADE = Families(pingpong=True, resident=True)
"""What calls get. Shared loops are not among it: as they were measured last, they took longer than others."""
EVERY = Families(pingpong=True, splits=True, resident=True)


@dataclass(frozen=True)
class Contract:
    """What the program says: sizes of blocks (`rows` those of a cluster), stages. None: to be chosen."""

    rows: int | None = None
    columns: int | None = None
    depth: int | None = None
    stages: int | None = None


class RankedTiling(NamedTuple):
    """A tiling with its predicted time."""

    seconds: float
    tiling: Tiling


def product_plans(
    product: Product, machine: GpuMachine, contract: Contract = Contract(), families: Families = EVERY
) -> list[RankedTiling]:
    """The tilings that fit, the fastest by prediction first. Empty where the machine or the operands are not for it."""
    if not machine.has_warpgroups or not _instructions_exist(product):
        return []
    costs = ProductCosts(product, machine)
    found = _Enumeration(product, machine, contract, families).tilings()
    ranked = [RankedTiling(costs.seconds(tiling), tiling) for tiling in found]
    ranked.sort(key=itemgetter(0))
    return [RankedTiling(t, _completed(tiling, product, costs)) for t, tiling in ranked]


def _completed(tiling: Tiling, product: Product, costs: ProductCosts) -> Tiling:
    """With what follows from the other choices."""
    loaded = rows_to_load(product, tiling.rows, tiling.side)
    return tiling._replace(raster=costs.traffic(tiling)[0], loaded=loaded if loaded < tiling.rows else 0)


def _instructions_exist(product: Product) -> bool:
    """Only elements of 16 bits may count fastest along rows or columns."""
    k_major = product.a_k_major and product.b_k_major
    return product.a_bytes == product.b_bytes and (k_major or product.a_bytes == 2)


@dataclass(frozen=True)
class _Enumeration:
    product: Product
    machine: GpuMachine
    contract: Contract
    families: Families

    def tilings(self) -> Iterator[Tiling]:
        """The tilings that fit the machine, and may make sense for the size."""
        product, contract = self.product, self.contract
        for schedule, rows, row_groups, column_groups in WHOLE_ROWS if product.whole_rows else SHAPES:
            if schedule == "pingpong" and not self.families.pingpong:
                continue
            if contract.rows is None and rows > WARPGROUP_ROWS and rows - WARPGROUP_ROWS >= product.m:
                continue  # the last warpgroup would have nothing
            before = 0
            for columns in self._columns():
                across = -(-product.n // columns)
                if across == before or not self._divides(columns, column_groups):
                    continue  # as many tiles, only larger
                before = across
                tiles = -(-product.m // rows) * across * product.batches
                small = tiles > MOST_TILES * self.machine.multiprocessors and rows * columns < LARGE
                if small and contract.rows is None and contract.columns is None:
                    continue
                yield from self._rings(Tiling(rows, columns, 0, schedule, row_groups, column_groups), tiles)

    def _columns(self) -> tuple[int, ...]:
        beside = self.product.beside
        if self.product.whole_rows:
            whole = -(-self.product.n // COLUMN_UNIT) * COLUMN_UNIT
            return tuple(whole // across for across in ACROSS if across == 1 or self._is_shared(across))
        if self.contract.columns is not None:
            return (self.contract.columns * beside,) if self.contract.columns <= MOST_COLUMNS else ()
        every = COLUMNS if self.product.b_k_major else COLUMNS_IN_SPANS
        return tuple(columns * beside for columns in every if columns * beside <= MOST_COLUMNS)

    def _is_shared(self, across: int) -> bool:
        """Whether blocks of a cluster can share whole rows."""
        product = self.product
        alone = product.by_threads or product.number_of_a_row
        return product.n % (across * COLUMN_UNIT) == 0 and product.tma_store and not alone

    def _divides(self, columns: int, groups: int) -> bool:
        """Whether consumers can share these columns: no instruction ends within a row of a swizzle."""
        columns //= self.product.beside
        if columns % (groups * COLUMN_STEP) != 0:
            return False
        row = columns * self.product.b_bytes
        span = math.gcd(row, SPAN_BYTES)  # as wide as it can be
        return self.product.b_k_major or row // groups % span == 0

    def _depths(self) -> tuple[int, ...]:
        product, depth = self.product, self.contract.depth
        step = STEP_BYTES // product.a_bytes
        if depth is not None:
            return (depth,) if depth % step == 0 else ()
        return tuple(product.depth * spans for spans in SPANS if spans == 1 or product.k > product.depth)

    def _rings(self, start: Tiling, tiles: int) -> Iterator[Tiling]:
        """With each depth of a step, and the stages that fit when so many blocks share a multiprocessor."""
        product, machine = self.product, self.machine
        rows, columns, _, schedule, row_groups, column_groups = start[:6]
        staging = staging_bytes(product, rows, columns, schedule)
        sums = accumulators(product, rows, columns, row_groups * column_groups)
        held = sums + registers_beside(product, sums, columns // column_groups)
        for depth in self._depths():
            stage = stage_bytes(product, rows, columns, depth)
            for resident in range(1, MOST_RESIDENT + 1 if self.families.resident and not product.by_threads else 2):
                stages = stages_that_fit(machine, stage, staging, resident)
                at_once = min(MOST_COLUMNS, columns // (column_groups * product.beside))
                fits = holds(machine, held, at_once, start.consumers, resident)
                if not fits or stages < (self.contract.stages or FEWEST_STAGES):
                    break
                if resident > 1 and tiles <= (resident - 1) * machine.multiprocessors:
                    break
                stages = self.contract.stages or stages
                if stages > 1:
                    yield from self._clusters(start._replace(depth=depth, stages=stages, resident=resident), tiles)

    def _clusters(self, tiling: Tiling, tiles: int) -> Iterator[Tiling]:
        """Alone, side by side, or sharing the loop; one program for each tile, or programs that go through them."""
        multiprocessors, resident = self.machine.multiprocessors, tiling.resident
        wanted = self.contract.rows or 0
        pingpong = tiling.schedule == "pingpong"
        if self.product.whole_rows and tiling.columns < self.product.n:
            tiling = tiling._replace(across=-(-self.product.n // tiling.columns))
            programs = self.machine.multiprocessors_in_clusters(tiling.across) * resident // tiling.across
            if wanted not in (0, tiling.rows) or resident > 1:
                return
            if tiles > programs * tiling.across:
                yield tiling._replace(programs=programs)
            elif not pingpong:
                yield tiling
            return
        for side in SIDES:
            moved = self.product.staged and not self.product.tma_store
            if side > 1 and (moved or self.product.by_threads):
                continue  # what moves between threads, or what they copy, stays in one block
            if wanted not in (0, tiling.rows * side) or (side > 1 and self.product.m <= tiling.rows):
                continue
            programs = multiprocessors * resident // side
            if tiles > programs * side:
                yield tiling._replace(side=side, programs=programs)
            elif not pingpong:
                yield tiling._replace(side=side)
        if (
            not pingpong
            and resident == 1
            and not self.product.whole_rows
            and self.families.splits
            and wanted in (0, tiling.rows)
        ):
            yield from self._splits(tiling, tiles)

    def _splits(self, tiling: Tiling, tiles: int) -> Iterator[Tiling]:
        """Shared loops: blocks have whole sectors of columns each, and room for the sums of all."""
        product = self.product
        rows, columns, depth = tiling[:3]
        if tiling.column_groups > 1 or self.contract.depth is not None:
            return
        if product.by_threads:
            return
        sums = sums_bytes(product, rows, columns)
        stages = stages_that_fit(self.machine, stage_bytes(product, rows, columns, depth), sums, 1)
        if stages < (self.contract.stages or FEWEST_STAGES):
            return
        stages = self.contract.stages or stages
        if not lends_room(product, rows, columns, depth, stages):
            return
        for splits in SPLITS:
            if tiles * splits > 2 * self.machine.multiprocessors or product.k < splits * FEWEST_STEPS * depth:
                return
            whole = columns % (splits * COLUMN_STEP) == 0 and columns // splits * product.out_bytes % SECTOR_BYTES == 0
            if whole and rows * columns // splits >= tiling.consumers * WARPGROUP:
                yield tiling._replace(splits=splits, stages=stages)
