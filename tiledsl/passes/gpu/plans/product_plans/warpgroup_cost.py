"""The time of a grid with products under a tiling, predicted from the figures of the machine.

    launch + fill + max(loop + results, memory, power)

The loop is as slow as the slowest of what a multiprocessor does at once: multiplying, moving shared memory, taking
bytes from L2, computing, waiting for copies that the ring is too short to hide. Tiles come in whole rounds, so the
busiest multiprocessor counts; memory and power are shared, so all the work counts. Terms and figures are in
docs/tiling.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from math import sqrt
from operator import add
from typing import NamedTuple

from tiledsl.ir.gpu.tensor_maps import LINE_BYTES
from tiledsl.passes.gpu.layouts.select_wgmma import APART_COLUMNS
from tiledsl.passes.gpu.plans.product_plans.footprint import rows_to_load, stage_bytes, stream_bytes, sums_bytes
from tiledsl.passes.gpu.plans.product_plans.product_nest import ProductDot, ProductNest, Stream
from tiledsl.passes.gpu.plans.product_plans.thread_cost import COMPUTED_BETWEEN_WAITS
from tiledsl.passes.gpu.plans.product_plans.tile_counter import (
    ASKED_CLOCKS,
    FILL_SECONDS,
    MOST_COUNTED,
    turns_from_counter,
)
from tiledsl.passes.gpu.plans.product_plans.tilings import STEP_BYTES, WARPGROUP_ROWS, Tiling
from tiledsl.passes.gpu.products.promoted_sums import PROMOTED_DEPTH
from tiledsl.passes.gpu_machine import GpuMachine

STEP_CLOCKS = 16
"""Clocks between the products of two steps: a wait, a fence."""
COMPUTING_CLOCKS = 100
"""The same where a loop computes as well: more waits, and folds across the four threads of a row."""
ALONE_CLOCKS = 60
"""Clocks that a step takes at least beside its products: the way from a full stage to the next wait."""
SETUP_CLOCKS = 500
"""From a block's first instruction to its first copy: barriers, tensor maps."""
CLUSTER_CLOCKS = 350
"""Blocks of a cluster wait for each other, at the start and at the end."""
TAKING_TURNS = 1.03
"""How many times as long consumers in turn take: seven plans for five products of few rounds took 1.03 to 1.24 of what
was predicted, those of the same products whose consumers share a tile 0.97 to 1.06."""
BESIDE_OTHERS = 1.005
"""What is made beside other tiles of a multiprocessor gets in their way a little: it has to gain more than that."""
IN_SHARES = 1.2
"""What blocks that share a loop take longer than is predicted otherwise: 45 plans for six products took 1.06 of their
prediction without this, those of most memory 1.2; none was as fast as the best plan whose blocks share no loop."""
UNEVEN = 1.01
"""Blocks of products back to back take unlike times; all wait for the slowest one, if each program has a fixed share of
them."""
TURN_CLOCKS = 60
"""From the last product of a tile to the first one of another consumer's, where they take turns."""
RESULT_CLOCKS = 350
"""From the last product to its first conversion, and barriers around the staged result."""
BACK_TO_BACK_ENDS_CLOCKS = 1800
"""What the first and the last turn of a loop of products back to back take more than others: their products and what is
computed of them wait for each other."""
DRAIN_CLOCKS = 600
"""From the last copy of a result to the end of its block."""
RESULT_INSTRUCTIONS = 1.5
"""Of threads, for each element of a result."""
LOOP_INSTRUCTIONS = 1.4
"""What a loop issues for each instruction that is counted: moves, waits, conversions of pairs, predicates."""
EXPOSED = {1: 0.9, 2: 0.36, 3: 0.268}
"""The share of what a loop computes that no products hide, by consumers that have rows of their own."""
MASKED = 0.45
"""What masks add to what a turn computes, as a share."""
FOLD_CLOCKS = 150
"""For warpgroups to fold a value for each row together: a write, a barrier, a read (not measured)."""
EXCHANGES = 2
"""In a turn of products back to back, where warpgroups share rows: the extremum, and left operands, each of which takes
about as long as a fold (not measured)."""
IN_EACH_OTHERS_WAY = 0.85
"""Of the products of a turn whose scores and sums are made by roles of their own, what they take longer because the
other role multiplies at the same time: 128 turns of 64 latent keys for 64 heads took 259 us on an H100, 3400 clocks
each, of which products have 2176 and a stage's load 1800."""
BROUGHT_AHEAD = 256
"""Bytes of a row that a load brings to L2, of which turns take one part after the other: the first of them waits for
memory."""
CLUSTER_FOLD_CLOCKS = 1200
"""For blocks of a cluster (not measured): the way there, and whoever comes last."""
STORED_BYTES = 32
"""Per clock, that a multiprocessor copies out by TMA."""
PLAIN_STORED_BYTES = 12
"""Per clock, that its threads store themselves."""
COPIES = 8
"""Of threads that load, per clock, of 4 or 8 bytes each."""
REDUCE_CLOCKS = 1500
"""To write parts of a sum, for a copy to another block to begin and to come, and to read them (not measured: half as
much again as the estimate, as is the rate of such copies)."""
NOT_AHEAD = 1.5
"""Stages that are no time ahead: the one that is read, and half of the one that is given back. 192 x 8192 x 8192 in
tiles of 192 x 64 took 56 us with 3 stages of 128, 42 with 6 of 64."""
ASKED_AGAIN = 0.5
"""Of the time that memory takes to bring something, what it takes longer where other blocks ask for it at the same
time, and it does not stay in L2: 192 x 8192 x 8192 took 67 us where three blocks read the weights, 42 where one did."""
IN_STEP = 1.22
"""How many times as long memory takes for blocks of a cluster that share an operand, as both have to have room for what
comes: in 56 plans for five deep products 1.14, beside 46 of single blocks, and in 9 plans for five others (on an H100)
1.07 to 1.1 more. 512 x 256 x 16384 took 14.3 us by two blocks of 64 x 64 each, 10.5 by such blocks alone."""
SENT_TO_SEVERAL = 48
"""Bytes that a multiprocessor takes in per clock where blocks side by side bring some of it for each other: each stage
waits until all of them have room for it. 1200 x 648 x 5632 took 29.0 us by two blocks of 64 x 112 each, 20.4 by such
blocks alone, which ask L2 for half as much again; so in 46 plans for eleven products."""
WALKED = 1.03
"""How many times as long memory takes where programs go from tile to tile: 64 x 28672 x 8192 took 130 us by programs,
125 by blocks of one tile each, of 64 x 64 to 64 x 256."""
BROUGHT_AGAIN = 0.2
"""The same of what loops of products back to back read again because it did not stay in L2, beside what they hide:
causal attention of 128 heads of 2048 x 128 took 246 us by 32 heads at a time, 268 by 64; of 64 heads of 4096 x 128 429
by 8, 449 by 32."""
LONG_LOOP = 32
"""Turns of a loop after which blocks that began together are no more at the same place."""
SHARED_SHARE = 0.9
"""Of what shared memory takes for all that instructions and copies ask of it: 8192 x 4096 x 4096 in tiles of 128 x 128
took 575 clocks a step, of 640 in all."""
CACHED_SHARE = 0.45
"""Of L2, what can be counted on to be still there."""
OUTSIDE = 2
"""Rows of a box that are outside of the tensor are no cheaper, but take so many times longer beside: 1328 x 752 x 5696
took 36.0 us by tiles of 128 x 64, 80 rows of the last of which were outside, and 22.6 by tiles of 64 x 128. Last blocks
begin earlier since then, and have none, unless there are fewer rows than one has."""
NARROW_BYTES, SPAN_BYTES = 32, 128
"""Of a row of a box: the narrowest and the widest swizzle."""
BETWEEN_LINES = 0.9
"""Of the cost of a row of a box, what it costs more if it starts within a line of the cache, but with a sector: two
lines are asked for. 1152 x 880 x 5376 and 1184 x 1584 x 5632 took as long by tiles of 144 x 64, 128 x 64 and 240 x 64
as if such rows were 1.4 to 1.9 times as many bytes; 2400 x 3424 x 1088 as if they were 1.9 times as many."""
BETWEEN_SECTORS = 1.6
"""The same of rows that start within a sector, and ask for one more: 1000^3 took 11.6 us where seven of eight rows do,
as if they brought 2.6 times as many bytes."""
SECTOR_BYTES = 32
COPIED_BETWEEN_LINES = 0.6
"""The same where threads copy such rows, piece by piece."""
RASTERS = (1, 2, 4, 8, 16)
MOST_BESIDE = 8
"""Rows of tiles that go beside each other for the sake of what they read together, if memory has as much to do either
way: of ten, 2184 x 3208 x 3200 took 76.3 us so and 65.7 otherwise."""


def greatest(*times: float) -> float:
    """A little above the greatest: what goes on at once is never hidden in full."""
    total = 0.0
    for time in times:
        square = time * time
        square *= square
        total += square * square
    return sqrt(sqrt(sqrt(total)))


def between_lines(stream: Stream) -> float:
    """What rows of a box cost that start within lines of the cache, of those that start with them. Rows of windows have
    a rate of their own."""
    if stream.windows:
        return 1.0
    if stream.row_start % LINE_BYTES == 0:
        return 1.0
    if stream.copied:
        return 1 + COPIED_BETWEEN_LINES * (1 - stream.row_start / LINE_BYTES)
    return 1 + (BETWEEN_LINES if stream.row_start % SECTOR_BYTES == 0 else BETWEEN_SECTORS)


class Rows(NamedTuple):
    """So many rows of a box of windows, each of so many bytes, of which some are beyond a pixel."""

    number: float
    bytes: int
    outside: float


class Step(NamedTuple):
    """What one turn of a block's loop takes: clocks of products, of shared memory, of threads that copy and of those
    that compute; the rows of windows that TMA brings, and the bytes that come from L2."""

    products: float
    shared: float
    copied: float
    computed: float
    windows: tuple[Rows, ...]
    bytes: float


class WarpgroupCost:
    """Predicts tilings of one grid. Raises ValueError where the speeds of the machine are not known."""

    def __init__(self, nest: ProductNest, machine: GpuMachine) -> None:
        self.nest, self.machine = nest, machine
        self.speeds = machine.speeds
        self.memory_bytes = machine.copied_bytes_per_second / machine.speeds.clock
        self.cached = CACHED_SHARE * machine.l2_bytes
        self.lengths = {one.rows: one for one in nest.lengths}
        self._steps: dict[tuple[int, ...], Step] = {}
        self._rasters: dict[tuple[int, ...], tuple[int, float]] = {}

    def seconds(self, tiling: Tiling) -> float:
        """The predicted time of a call."""
        nest, machine, speeds = self.nest, self.machine, self.speeds
        stages, resident, programs, cluster = tiling.stages, tiling.resident, tiling.programs, tiling.cluster
        tiles = tiling.tiles(nest)
        blocks = tiles * cluster
        usable = machine.multiprocessors_in_clusters(cluster)
        busiest = -(-tiles // programs) * resident if programs else -(-blocks // usable)
        rounds = -(-busiest // resident)
        # one step of one block
        step = self.step(tiling)
        each = min(speeds.l2_bytes_each, speeds.l2_bytes / min(usable, blocks))
        share = min(usable, blocks) / machine.multiprocessors
        windows = sum(rows.number * speeds.row_of_windows(rows.bytes, rows.outside, share) for rows in step.windows)
        sent = stage_bytes(nest, tiling) / SENT_TO_SEVERAL if tiling.side > 1 else 0.0
        taken = step.products, step.shared, step.bytes / each, step.copied, step.computed, windows
        work = max(greatest(*taken), sent)
        if tiling.apart:
            work = self._turn_apart(tiling, work)
        else:
            work += EXPOSED[tiling.consumers // tiling.column_groups] * step.computed
            work += COMPUTING_CLOCKS if nest.computes else STEP_CLOCKS
        work = max(work, self._asked_clocks(tiling, step))
        if nest.back_to_back and tiling.column_groups > 1 and not tiling.apart:
            work += EXCHANGES * FOLD_CLOCKS
        result = self._result(tiling) + self._folds(tiling)
        if tiling.counted:
            result += max(0.0, ASKED_CLOCKS - stages * work)
        every, busy = self._turns(tiling, tiles, busiest, result / work)
        moved = self.traffic(tiling)[1]
        share = min(1.0, moved / max(1.0, step.bytes * every * cluster))
        latency = speeds.latency + (speeds.memory_latency - speeds.latency) * share
        transfer = stage_bytes(nest, tiling) / speeds.l2_bytes_each
        alone = max((latency + transfer) / max(1.0, stages - NOT_AHEAD), step.products + ALONE_CLOCKS)
        waited = alone * max(0.0, busy / resident - stages * (1 if programs else rounds))
        loop = greatest(work * busy, waited)
        if nest.masked and nest.back_to_back:
            turns = -(-tiling.rows // max(1, tiling.depth)) + 1
            loop += MASKED * step.computed * turns * blocks / machine.multiprocessors
        # around the loop
        out = tiling.rows * tiling.columns * nest.parallel_products if not nest.back_to_back else 0
        drain = DRAIN_CLOCKS + out // tiling.splits * nest.out_bytes / nest.parallel_products / STORED_BYTES
        fill = SETUP_CLOCKS + speeds.memory_latency + transfer
        if cluster > 1:
            fill += CLUSTER_CLOCKS
            drain += CLUSTER_CLOCKS * (tiling.side * tiling.across > 1)
        if resident > 1:
            around = result + drain + (rounds - 1) * (result + fill * (not programs)) / resident
        elif tiling.roles == "pingpong":
            around = result + drain + (TURN_CLOCKS + max(0.0, result - work * busy / rounds)) * (rounds - 1)
        elif programs:
            around = result * (tiles / programs if tiling.counted else rounds) + drain
        elif nest.back_to_back:
            around = (result + fill) * rounds + drain - fill
        else:
            around = (result + drain) * rounds + fill * (rounds - 1)
        in_step = IN_STEP if tiling.side * tiling.across > 1 and not nest.back_to_back else 1.0
        in_step *= WALKED if programs and not nest.back_to_back else 1.0
        memory = (moved * self.asked_again(tiling) * in_step + self._written) / self.memory_bytes
        if nest.back_to_back:
            loop += BROUGHT_AGAIN * max(0.0, moved - self._held) / self.memory_bytes
        power = self._power(tiling, every)
        apart = BESIDE_OTHERS if resident > 1 else 1.0
        apart = TAKING_TURNS if tiling.roles == "pingpong" and not nest.back_to_back else apart
        apart = IN_SHARES if tiling.splits > 1 else apart
        before = speeds.launch + FILL_SECONDS * tiling.counted
        return before + apart * (fill + greatest(loop + around, memory, power)) / speeds.clock

    # Loops

    def _turn_apart(self, tiling: Tiling, work: float) -> float:
        """Clocks of a turn where scores and sums are made by roles of their own, which all share `work`: each role does
        one thing after the other, and a stage is loaded, read by both, and loaded again."""
        nest, speeds = self.nest, self.speeds
        scores = sum(self._product(dot, tiling) for dot in nest.dots if dot.in_loop and not dot.sums_loop)
        sums = sum(self._product(dot, tiling) for dot in nest.dots if dot.in_loop and dot.sums_loop)
        columns = {dot.columns for dot in nest.dots if dot.sums_loop}
        computed = {True: 0.0, False: 0.0}
        for one in nest.work:
            lanes = tiling.elements(one.sides)
            clocks = greatest(
                one.special / speeds.exponentials, LOOP_INSTRUCTIONS * one.instructions / speeds.instructions
            )
            computed[bool(columns.intersection(one.sides))] += lanes * clocks
        products = scores + sums
        scores += computed[False] + COMPUTING_CLOCKS + FOLD_CLOCKS
        sums += computed[True] + COMPUTING_CLOCKS
        loaded = speeds.latency + stage_bytes(nest, tiling) / speeds.l2_bytes_each
        held = loaded + scores + sums + IN_EACH_OTHERS_WAY * products
        return greatest(work, scores, sums, held / tiling.stages)

    def _asked_clocks(self, tiling: Tiling, step: Step) -> float:
        """Clocks of a turn whose operands threads compute of what they load themselves: that is asked for a turn
        before, and put together at its end; then it is computed. Consumers that take turns wait at the same time."""
        asked, speeds = self.nest.asked, self.speeds
        if not asked:
            return 0.0
        first = min(1.0, asked * tiling.depth / BROUGHT_AHEAD)
        latency = speeds.latency + (speeds.memory_latency - speeds.latency) * first
        at_once = tiling.resident * (tiling.consumers if tiling.roles == "pingpong" else 1)
        return latency / at_once + COMPUTED_BETWEEN_WAITS * step.computed + COMPUTING_CLOCKS

    def _turns(self, tiling: Tiling, tiles: int, busiest: int, around: float) -> tuple[float, float]:
        """Turns of the loops of all tiles, and of the multiprocessor that has most. `around`: what a tile takes beside
        its loop, in turns."""
        depth = tiling.depth * tiling.splits
        if self.nest.loop is None:
            return float(tiles), float(busiest)
        if 0 in self.lengths or tiling.rows not in self.lengths:
            (length, *_) = next(iter(self.lengths.values())).lengths
            steps = -(-length // depth)
            uneven = UNEVEN if self.nest.back_to_back and tiling.programs else 1.0
            return float(steps * tiles), steps * busiest * uneven
        found = self.lengths[tiling.rows]
        turns = [-(-length // depth) for length in found.lengths]
        heads = max(1, tiles // max(1, round(len(turns) * found.weight)))
        every = sum(turns) * found.weight * heads
        longest_first = tuple(reversed(turns)) if self.nest.grows else tuple(turns)
        if tiling.counted:
            return every, turns_from_counter(longest_first, found.weight * heads, tiling, around)
        multiprocessors = self.machine.multiprocessors
        busy = max(float(max(turns)), every / multiprocessors + depth / tiling.rows)
        if tiling.programs and tiles <= MOST_COUNTED and found.weight == 1:
            busy = most_turns(longest_first, heads, tiling.raster, tiling.programs)
        return every, busy * (UNEVEN if tiling.programs else 1.0)

    def step(self, tiling: Tiling) -> Step:
        """One turn of the loop; all there is, where products stand in none."""
        key = (tiling.rows, tiling.columns, tiling.depth, tiling.row_groups, tiling.column_groups, tiling.side,
               tiling.across, tiling.apart)  # fmt: skip
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self._step(tiling)
        return found

    def _step(self, tiling: Tiling) -> Step:
        nest, speeds = self.nest, self.speeds
        dots = [dot for dot in nest.dots if dot.in_loop or nest.loop is None]
        streams = [stream for stream in nest.streams if stream.in_loop or nest.loop is None]
        products = sum(self._product(dot, tiling) for dot in dots)
        read = sum(self._read(dot, tiling) for dot in dots)
        written = sum(stream_bytes(stream, tiling) for stream in streams)
        bytes_ = sum(self._taken(stream, tiling) * between_lines(stream) for stream in streams)
        copied = sum(stream_bytes(s, tiling) / (s.copied * COPIES) for s in streams if s.copied)
        computed = sum(
            tiling.elements(one.sides)
            * greatest(one.special / speeds.exponentials, LOOP_INSTRUCTIONS * one.instructions / speeds.instructions)
            for one in nest.work
        )
        shared = SHARED_SHARE * (read + written) / speeds.shared_bytes
        windows = tuple(self._brought(stream, tiling) for stream in streams if stream.windows)
        return Step(products, shared, copied, computed, windows, bytes_)

    def _brought(self, stream: Stream, tiling: Tiling) -> Rows:
        """Rows of windows: some rows of boxes each, the last of which may end beyond a pixel."""
        pixel, depth = stream.windows, tiling.depth * stream.bytes
        whole = -(-pixel // NARROW_BYTES) * NARROW_BYTES
        span = math.gcd(whole, depth, SPAN_BYTES)
        rows = stream_bytes(stream, tiling) / span
        return Rows(rows, span, (whole - pixel) * span / whole)

    def _product(self, dot: ProductDot, tiling: Tiling) -> float:
        elements = tiling.rows_of(dot.rows) * tiling.length(dot.columns) * tiling.length(dot.depth)
        clocks = dot.times * elements / self.speeds.products_of(dot.bytes)
        return clocks + (elements / PROMOTED_DEPTH / self.speeds.instructions if dot.promoted else 0.0)

    @staticmethod
    def _read(dot: ProductDot, tiling: Tiling) -> float:
        """Bytes of shared memory that the instructions of a product read."""
        groups, left = tiling.column_groups, WARPGROUP_ROWS if dot.left_loaded else 0
        if tiling.apart:  # sums take what another role has written
            groups = -(-tiling.length(dot.columns) // APART_COLUMNS) if dot.sums_loop else 1
            left = WARPGROUP_ROWS
        instructions = tiling.rows_of(dot.rows) // WARPGROUP_ROWS * groups
        instructions *= dot.times * tiling.length(dot.depth) * dot.bytes // STEP_BYTES
        return instructions * (left + tiling.length(dot.columns) // groups) * STEP_BYTES

    def _taken(self, stream: Stream, tiling: Tiling) -> float:
        """Bytes that come to one block for a tile: rows outside of the tensor take longer, neighbours share."""
        bytes_ = float(stream_bytes(stream, tiling))
        if not stream.is_left or self.nest.back_to_back or stream.windows or stream.run:  # nothing is asked for beyond
            return bytes_ / (tiling.side if not stream.is_left else 1)
        loaded = rows_to_load(self.nest, tiling)
        beyond = OUTSIDE * min(loaded, max(0, loaded * tiling.side - self.nest.rows))  # of the last block of a cluster
        return bytes_ * (loaded + beyond) / tiling.rows / tiling.across

    def _power(self, tiling: Tiling, turns: float) -> float:
        """Clocks in which the device has power for all products."""
        speeds = self.speeds
        clocks = 0.0
        for dot in self.nest.dots:
            if self.nest.back_to_back:
                elements = dot.times * tiling.rows_of(dot.rows) * tiling.length(dot.columns) * tiling.length(dot.depth)
                clocks += elements * (turns if dot.in_loop else tiling.tiles(self.nest)) / speeds.products_of(dot.bytes)
            else:
                elements = dot.times * dot.rows.size * dot.columns.size * dot.depth.size
                clocks += elements * self._batches / speeds.products_of(dot.bytes)
        return clocks / (self.machine.multiprocessors * speeds.power_limit)

    @property
    def _batches(self) -> int:
        count = 1
        for axis in self.nest.axes:
            count *= axis.size if axis.kind == "whole" else 1
        return count

    # Around the loop

    def _folds(self, tiling: Tiling) -> float:
        """Clocks in which those who share a row tell each other what they made of their parts of it."""
        among_warps = tiling.column_groups > 1 or tiling.across > 1
        clocks = FOLD_CLOCKS * among_warps + CLUSTER_FOLD_CLOCKS * (tiling.across > 1)
        return self.nest.epilogue.folds * clocks

    def _result(self, tiling: Tiling) -> float:
        """Clocks from the last product of a tile until its block may go on to the next."""
        nest, speeds = self.nest, self.speeds
        if nest.back_to_back:
            elements = sum(tiling.elements(result.sides) for result in nest.results)
            bytes_ = sum(tiling.elements(result.sides) * result.bytes for result in nest.results)
            clocks = RESULT_CLOCKS + BACK_TO_BACK_ENDS_CLOCKS
            clocks += elements * (RESULT_INSTRUCTIONS + nest.epilogue.instructions) / speeds.instructions
            return clocks + bytes_ / (speeds.shared_bytes if nest.tma_store else PLAIN_STORED_BYTES)
        elements = tiling.rows * tiling.columns
        work = RESULT_INSTRUCTIONS * nest.parallel_products + nest.epilogue.instructions
        clocks = RESULT_CLOCKS + elements * work / speeds.instructions
        clocks += elements * nest.epilogue.beside_bytes / speeds.shared_bytes  # they have come before
        if tiling.splits > 1:
            sums = sums_bytes(nest, tiling)
            clocks += REDUCE_CLOCKS + sums * (tiling.splits - 1) / tiling.splits / speeds.peer_bytes
            elements //= tiling.splits
        elif nest.tma_store:
            return clocks + elements * nest.out_bytes / speeds.shared_bytes
        return clocks + elements * nest.out_bytes / PLAIN_STORED_BYTES

    # Memory

    @property
    def _held(self) -> int:
        """Bytes of all operands."""
        return sum(stream.held * stream.bytes for stream in self.nest.streams)

    @property
    def _written(self) -> float:
        nest = self.nest
        columns = nest.columns or 1
        if nest.back_to_back:
            stored = (math.prod(side.size for side in result.sides) * result.bytes for result in nest.results)
            return self._batches * sum(stored)
        return self._batches * nest.rows * columns * (nest.out_bytes + nest.epilogue.beside_bytes)

    def traffic(self, tiling: Tiling) -> tuple[int, float]:
        """How many of the last axis but one to walk together, and the bytes of operands that then come from memory."""
        at_once = self._at_once(tiling)
        rows, columns, _ = tiling.block
        key = (rows, columns, at_once, tiling.raster if self.nest.grows else 0)
        found = self._rasters.get(key)
        if found is None:
            rasters = (tiling.raster,) if self.nest.grows else RASTERS
            found = self._rasters[key] = self._best_raster(tiling, at_once, rasters)
        return found

    def asked_again(self, tiling: Tiling) -> float:
        """How many times as long memory takes to bring operands where several blocks ask for the same ones, and fall
        out of step in long loops. What blocks read at the same time has to stay in L2 until the last has asked for it:
        of many batches those at hand, but all parts of a sum that is split, however short the loop of each."""
        nest = self.nest
        if nest.back_to_back or nest.loop is None:
            return 1.0
        is_long = nest.loop.size >= LONG_LOOP * tiling.depth * tiling.splits
        counts = [tiling.blocks_along(axis) for axis in nest.axes]
        share = min(1.0, self._at_once(tiling) / math.prod(counts))
        total = alive = again = 0.0
        for stream in nest.streams:
            batches = math.prod(counts[axis] for axis in stream.moved_by if axis < len(counts) - 2)
            asking = math.prod(count for axis, count in enumerate(counts) if axis not in stream.moved_by)
            asking = -(-asking // (tiling.side if not stream.is_left else 1))
            bytes_ = stream.held * stream.bytes
            total += bytes_
            alive += bytes_ * min(1.0, math.ceil(batches * share) / batches)
            again += bytes_ * (asking > 1 and (is_long or batches > 1))
        return 1.0 + (ASKED_AGAIN * again / total if alive > self.cached else 0.0)

    def _at_once(self, tiling: Tiling) -> int:
        """How many tiles are made at the same time."""
        return tiling.programs or self.machine.multiprocessors * tiling.resident // tiling.cluster

    def _best_raster(self, tiling: Tiling, at_once: int, rasters: tuple[int, ...]) -> tuple[int, float]:
        axes = self.nest.axes
        counts = [tiling.blocks_along(axis) for axis in axes]
        last, second = len(counts) - 1, len(counts) - 2
        across, down = counts[last] if counts else 1, counts[second] if second >= 0 else 1
        batches = 1
        for count in counts[:second] if second > 0 else ():
            batches *= count
        streams: dict[tuple[bool, bool, int], float] = {}
        for stream in self.nest.streams:
            key = (last in stream.moved_by, second in stream.moved_by, stream.among)
            shared = batches if any(axis < second for axis in stream.moved_by) else 1
            streams[key] = streams.get(key, 0.0) + stream.held * stream.bytes / shared
        whole = sum(streams.values())
        beside = rasters[0] if len(rasters) == 1 else _rows_beside(streams, across, down)
        if whole <= self.cached:
            return beside, whole * batches
        rounds = -(-down * across // at_once)
        share = self._share_of_loops(tiling)
        best, least = beside, float("inf")
        for raster in dict.fromkeys((beside, *rasters)):
            band = min(raster, down)
            moved = 0.0
            for (by_last, by_second, among), bytes_ in streams.items():
                again = 1
                if among and by_last and bytes_ / among > self.cached / 2:
                    again = min(rounds, -(-down // (among * band)))  # of each place that blocks choose among
                elif by_second and not by_last and bytes_ * band / down > self.cached:
                    again = min(rounds, -(-across * band // at_once))
                elif by_last and not by_second and bytes_ > self.cached:
                    again = min(rounds, -(-down // band))
                moved += bytes_ * max(1.0, again * share)
            if moved < least:
                best, least = raster, moved
        return best, least * batches

    def _share_of_loops(self, tiling: Tiling) -> float:
        """How long the loop of a block is on average, as a share of the longest there can be."""
        found = self.lengths.get(tiling.rows)
        if found is None or self.nest.loop is None:
            return 1.0
        return sum(found.lengths) / max(1, len(found.lengths) * self.nest.loop.size)


def _rows_beside(streams: Mapping[tuple[bool, bool, int], float], across: int, down: int) -> int:
    """How many blocks of the last axis but one go beside each other, so that blocks that read the same of the larger
    operand begin one after the other: its lines come from memory once. 200 x 5120 x 5120 in tiles of 64 x 160 took
    43.7 us with all columns of a row first, 30.4 with four rows at a time; 192 x 8192 x 8192 in tiles of 64 x 64
    110 and 77.6; 777 x 4096 x 4096 in tiles of 128 x 240 57.5 and 44.6."""
    by_columns = sum(bytes_ for (by_last, by_second, _), bytes_ in streams.items() if by_last and not by_second)
    by_rows = sum(bytes_ for (by_last, by_second, _), bytes_ in streams.items() if by_second and not by_last)
    if across == 1 or down > MOST_BESIDE or by_columns <= by_rows:
        return 1
    return next(raster for raster in RASTERS if raster >= down)


@lru_cache(maxsize=256)
def most_turns(turns: tuple[int, ...], heads: int, together: int, programs: int) -> float:
    """Of the program that has most turns, where blocks of so many heads are given out back and forth. `turns`: those of
    the blocks of one head, in their order."""
    order: list[int] = []
    for first in range(0, heads, together):
        beside = min(together, heads - first)
        order += [length for length in turns for _ in range(beside)]
    sums = [0] * programs
    for number in range(0, len(order), programs):
        turn = order[number : number + programs]
        turn += [0] * (programs - len(turn))
        sums = list(map(add, sums, reversed(turn) if number // programs % 2 else turn))
    return float(max(sums))
