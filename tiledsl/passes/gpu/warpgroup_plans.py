"""Enumerates the tilings of a matrix product for warpgroups, and ranks them by their predicted times.

A product of some size has one to three thousand tilings that fit the machine; none is measured.

>>> product_plans(Product(8192, 8192, 8192), gpu_machine("sm_90"))[0].tiling.block
(256, 256, 64)
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from tiledsl.passes.gpu.warpgroup_costs import ProductCosts
from tiledsl.passes.gpu.warpgroup_tilings import (
    Product,
    Tiling,
    accumulators,
    holds,
    stage_bytes,
    stages_that_fit,
    staging_bytes,
)
from tiledsl.passes.gpu_machine import GpuMachine

SHAPES = (
    ("cooperative", 64, 1, 1), ("cooperative", 128, 1, 1), ("cooperative", 128, 2, 1), ("cooperative", 192, 3, 1),
    ("cooperative", 256, 2, 1), ("cooperative", 64, 1, 2),
    ("pingpong", 64, 1, 1), ("pingpong", 128, 1, 1), ("pingpong", 192, 1, 1),
)  # fmt: skip
"""How consumers share a tile: schedule, rows, and how many of them along rows and columns."""
COLUMNS = tuple(range(16, 257, 16))
"""Multiples of 16: an instruction for 8 columns more is never worth it."""
COLUMNS_IN_SPANS = {2: (16, 32, 64, 128, 192, 256)}
"""Where an operand counts fastest along its columns, by the bytes of an element: whole rows of a swizzle."""
SPLITS = (2, 4, 8)
SPANS = (1, 2)
MOST_RESIDENT = 4
MOST_TILES = 48
"""For each multiprocessor: smaller tiles than that are not looked at."""
FEWEST_STEPS = 4
"""Of a split."""


class RankedTiling(NamedTuple):
    """A tiling with its predicted time."""

    seconds: float
    tiling: Tiling


def product_plans(product: Product, machine: GpuMachine) -> list[RankedTiling]:
    """The tilings that fit, the fastest by prediction first. Empty where the machine or the operands are not for it."""
    if not machine.has_warpgroups or machine.speeds is None or not _instructions_exist(product):
        return []
    costs = ProductCosts(product, machine)
    ranked = [RankedTiling(costs.seconds(tiling), tiling) for tiling in tilings(product, machine)]
    ranked.sort(key=itemgetter(0))
    return [RankedTiling(t, tiling._replace(raster=costs.traffic(tiling)[0])) for t, tiling in ranked]


def _instructions_exist(product: Product) -> bool:
    """Only elements of 16 bits may count fastest along rows or columns."""
    k_major = product.a_k_major and product.b_k_major
    return product.a_bytes == product.b_bytes and (k_major or product.a_bytes == 2)


def tilings(product: Product, machine: GpuMachine) -> Iterator[Tiling]:
    """The tilings that fit the machine, and may make sense for the size."""
    all_columns = COLUMNS if product.b_k_major else COLUMNS_IN_SPANS[product.b_bytes]
    for schedule, rows, row_groups, column_groups in SHAPES:
        if rows > 64 and rows - 64 >= product.m:
            continue
        groups = row_groups * column_groups
        consumers = 2 if schedule == "pingpong" else groups
        before = 0
        for columns in all_columns:
            across = -(-product.n // columns)
            if across == before:
                continue  # as many tiles, only larger
            before = across
            if columns // column_groups % 16 != 0:
                continue
            sums = accumulators(product, rows, columns, groups)
            tiles = -(-product.m // rows) * across * product.batches
            if tiles > MOST_TILES * machine.multiprocessors and rows * columns < 128 * 128:
                continue
            start = Tiling(rows, columns, 0, schedule, row_groups, column_groups)
            yield from _rings(product, machine, start, sums, consumers, tiles)


def _rings(
    product: Product, machine: GpuMachine, start: Tiling, sums: int, consumers: int, tiles: int
) -> Iterator[Tiling]:
    """With each depth of a step, and as many stages as fit when so many blocks share a multiprocessor."""
    rows, columns, _, schedule = start[:4]
    staging = staging_bytes(product, rows, columns, schedule)
    for spans in SPANS:
        depth = product.depth * spans
        if spans > 1 and product.k <= depth:
            break
        stage = stage_bytes(product, rows, columns, depth)
        for resident in range(1, MOST_RESIDENT + 1):
            stages = stages_that_fit(machine, stage, staging, resident)
            if stages < 2 or not holds(machine, sums, consumers, resident):
                break
            if resident > 1 and tiles <= (resident - 1) * machine.multiprocessors:
                break
            tiling = start._replace(depth=depth, stages=stages, resident=resident)
            yield from _clusters(product, machine, tiling, tiles)


def _clusters(product: Product, machine: GpuMachine, tiling: Tiling, tiles: int) -> Iterator[Tiling]:
    """Alone, side by side, or sharing the loop; one program for each tile, or programs that go through them."""
    multiprocessors, resident = machine.multiprocessors, tiling.resident
    pingpong = tiling.schedule == "pingpong"
    for side in (1, 2):
        if side == 2 and product.m <= tiling.rows:
            break
        programs = multiprocessors * resident // side
        if tiles > programs * side:
            yield tiling._replace(side=side, programs=programs)
        elif not pingpong:
            yield tiling._replace(side=side)
    if pingpong or tiles > multiprocessors or resident > 1:
        return
    for splits in SPLITS:
        if tiles * splits > 2 * multiprocessors or product.k < splits * FEWEST_STEPS * tiling.depth:
            break
        yield tiling._replace(splits=splits)
