"""The time of a matrix product under a tiling, predicted from the figures of the machine.

    launch + fill + max(loop + results, memory, power)

The loop is as slow as the slowest of what a multiprocessor does at once: multiplying, moving shared memory, taking
bytes from L2, waiting for copies that the ring is too short to hide. Tiles come in whole rounds, so the busiest
multiprocessor counts; memory and power are shared, so all the work counts. Terms and figures are in docs/tiling.md.
"""

from __future__ import annotations

from math import sqrt

from tiledsl.passes.gpu.promoted_sums import PROMOTED_DEPTH
from tiledsl.passes.gpu.warpgroup_tilings import (
    STEP_BYTES,
    WARPGROUP_ROWS,
    Product,
    Tiling,
    rows_to_load,
    stage_bytes,
    sums_bytes,
)
from tiledsl.passes.gpu_machine import GpuMachine

STEP_CLOCKS = 16
"""Clocks between the products of two steps: a wait, a fence."""
ALONE_CLOCKS = 60
"""Clocks that a step takes at least beside its products: the way from a full stage to the next wait."""
SETUP_CLOCKS = 500
"""From a block's first instruction to its first copy: barriers, tensor maps."""
CLUSTER_CLOCKS = 350
"""Blocks of a cluster wait for each other, at the start and at the end."""
BESIDE_OTHERS = 1.005
"""What is made beside other tiles of a multiprocessor gets in their way a little: it has to gain more than that."""
IN_SHARES = 1.2
"""Blocks that share a loop have to gain more than that, as long as the way in which they add up has not been measured,
and other predictions are a tenth off."""
TURN_CLOCKS = 60
"""From the last product of a tile to the first one of another consumer's, where they take turns."""
RESULT_CLOCKS = 350
"""From the last product to its first conversion, and barriers around the staged result."""
DRAIN_CLOCKS = 600
"""From the last copy of a result to the end of its block."""
RESULT_INSTRUCTIONS = 1.5
"""Of threads, for each element of a result."""
FOLD_CLOCKS = 150
"""For warpgroups to fold a value for each row together: a write, a barrier, a read (not measured)."""
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
CACHED_SHARE = 0.45
"""Of L2, what can be counted on to be still there."""
OUTSIDE = 2
"""Rows of a box that are outside of the tensor are no cheaper, but take so many times longer beside."""
LINE_BYTES = 128
BETWEEN_LINES = 1.6
"""Of the cost of a row of a box, where rows do not start at lines of the cache."""
RASTERS = (1, 2, 4, 8, 16)


def greatest(*times: float) -> float:
    """A little above the greatest: what goes on at once is never hidden in full."""
    total = 0.0
    for time in times:
        square = time * time
        square *= square
        total += square * square
    return sqrt(sqrt(sqrt(total)))


class ProductCosts:
    """Predicts tilings of one product. Raises ValueError where the speeds of the machine are not known."""

    def __init__(self, product: Product, machine: GpuMachine) -> None:
        self.product = product
        self.machine = machine
        self.speeds = machine.speeds
        self.rate = machine.speeds.products_of(max(product.a_bytes, product.b_bytes))
        self.memory_bytes = machine.copied_bytes_per_second / machine.speeds.clock
        self.cached = CACHED_SHARE * machine.l2_bytes
        self.power_clocks = (
            product.batches
            * product.m
            * product.n
            * product.k
            / (self.rate * machine.multiprocessors * machine.speeds.power_limit)
        )
        self._steps: dict[tuple[int, ...], tuple[float, float, float, float]] = {}
        self._rasters: dict[tuple[int, ...], tuple[int, float]] = {}

    def seconds(self, tiling: Tiling) -> float:
        """The predicted time of a call."""
        product, machine, speeds = self.product, self.machine, self.speeds
        rows, columns, depth, schedule, _, _, stages, side, splits, resident, programs = tiling[:11]
        cluster = tiling.cluster
        tiles = -(-product.m // (rows * side)) * -(-product.n // (columns * tiling.across)) * product.batches
        steps = -(-product.k // (depth * splits))
        blocks = tiles * cluster
        usable = machine.multiprocessors_in_clusters(cluster)
        busiest = -(-tiles // programs) * resident if programs else -(-blocks // usable)
        rounds = -(-busiest // resident)
        active = min(usable, blocks)
        # one step of one block
        products, shared, bytes_, copied = self._step(tiling)
        each = min(speeds.l2_bytes_each, speeds.l2_bytes / active)
        work = greatest(products, shared, bytes_ / each, copied) + STEP_CLOCKS
        moved = self.traffic(tiling)[1]
        share = min(1.0, moved / (bytes_ * blocks * steps))
        latency = speeds.latency + (speeds.memory_latency - speeds.latency) * share
        transfer = stage_bytes(product, rows, columns, depth) / speeds.l2_bytes_each
        alone = max((latency + transfer) / (stages - 1), products + ALONE_CLOCKS)
        waited = alone * max(0, steps * rounds - stages * (1 if programs else rounds))
        loop = greatest(work * steps * busiest, waited)
        # around the loop
        result = self._result(rows * columns, splits, sums_bytes(product, rows, columns)) + self._folds(tiling)
        drain = DRAIN_CLOCKS + rows * columns // splits * product.out_bytes / STORED_BYTES
        fill = SETUP_CLOCKS + speeds.memory_latency + transfer
        if cluster > 1:
            fill += CLUSTER_CLOCKS
            drain += CLUSTER_CLOCKS * (side * tiling.across > 1)
        if resident > 1:
            around = result + drain + (rounds - 1) * (result + fill * (not programs)) / resident
        elif schedule == "pingpong":
            around = result + drain + (TURN_CLOCKS + max(0.0, result - work * steps)) * (rounds - 1)
        elif programs:
            around = result * rounds + drain
        else:
            around = (result + drain) * rounds + fill * (rounds - 1)
        memory = (moved + self._written) / self.memory_bytes
        apart = BESIDE_OTHERS if resident > 1 or schedule == "pingpong" else IN_SHARES if splits > 1 else 1
        return speeds.launch + apart * (fill + greatest(loop + around, memory, self.power_clocks)) / speeds.clock

    @property
    def _written(self) -> float:
        product = self.product
        return product.batches * product.m * product.n * (product.out_bytes + product.epilogue_bytes)

    def _step(self, tiling: Tiling) -> tuple[float, float, float, float]:
        """Clocks of products and of shared memory in one step of one block, the bytes that come from L2 for it, and the
        clocks in which threads copy what TMA does not."""
        rows, columns, depth, _, _, column_groups, _, side = tiling[:8]
        key = (rows, columns, depth, column_groups, side, tiling.across)
        found = self._steps.get(key)
        if found is None:
            product, speeds = self.product, self.speeds
            products = rows * columns * depth / self.rate
            if product.promoted:
                products += rows * columns * depth / PROMOTED_DEPTH / speeds.instructions
            element = max(product.a_bytes, product.b_bytes)
            instructions = rows // WARPGROUP_ROWS * column_groups * depth * element // STEP_BYTES
            read = instructions * (WARPGROUP_ROWS * product.beside + columns // column_groups) * STEP_BYTES
            shared = (read + stage_bytes(product, rows, columns, depth)) / speeds.shared_bytes
            loaded = rows_to_load(product, rows, side)
            beyond = OUTSIDE * max(0, loaded - product.m)
            of_a = (loaded + beyond) * product.a_bytes / tiling.across
            bytes_ = (of_a + columns * product.b_bytes / side) * depth
            lengths = (product.k if product.a_k_major else product.m, product.k if product.b_k_major else product.n)
            if any(length * element % LINE_BYTES for length in lengths):
                bytes_ *= BETWEEN_LINES  # each row of a box is of two lines
            copied = sum(
                size * depth * bytes_each / (width * COPIES)
                for size, bytes_each, width in (
                    (rows, product.a_bytes, product.a_copied), (columns, product.b_bytes, product.b_copied)
                )
                if width
            )  # fmt: skip
            found = self._steps[key] = (products, shared, bytes_, copied)
        return found

    def _folds(self, tiling: Tiling) -> float:
        """Clocks in which those who share a row tell each other what they made of their parts of it."""
        among_warps = tiling.column_groups > 1 or tiling.across > 1
        clocks = FOLD_CLOCKS * among_warps + CLUSTER_FOLD_CLOCKS * (tiling.across > 1)
        return self.product.folds * clocks

    def _result(self, elements: int, splits: int, sums: int) -> float:
        """Clocks from the last product of a tile until its block may go on to the next. `sums`: bytes that blocks which
        share a loop have for each other, and for themselves."""
        product, speeds = self.product, self.speeds
        clocks = RESULT_CLOCKS + elements * (RESULT_INSTRUCTIONS + product.epilogue_work) / speeds.instructions
        clocks += elements * product.epilogue_bytes / speeds.shared_bytes  # they have come before
        if splits > 1:
            clocks += REDUCE_CLOCKS + sums * (splits - 1) / splits / speeds.peer_bytes
            elements //= splits
        elif product.tma_store:
            return clocks + elements * product.out_bytes / speeds.shared_bytes
        return clocks + elements * product.out_bytes / PLAIN_STORED_BYTES

    def traffic(self, tiling: Tiling) -> tuple[int, float]:
        """The rows of blocks to walk together, and the bytes of operands that then come from memory."""
        at_once = tiling.programs or (self.machine.multiprocessors * tiling.resident // tiling.cluster)
        key = (tiling.rows * tiling.side, tiling.columns * tiling.across, at_once)
        found = self._rasters.get(key)
        if found is None:
            found = self._rasters[key] = self._best_raster(*key)
        return found

    def _best_raster(self, rows: int, columns: int, at_once: int) -> tuple[int, float]:
        product = self.product
        a = product.m * product.k * product.a_bytes
        b = product.k * product.n * product.b_bytes
        if a + b <= self.cached:
            return 1, (a + b) * product.batches
        down, across = -(-product.m // rows), -(-product.n // columns)
        rounds = -(-down * across // at_once)
        best, least = 1, float("inf")
        for raster in RASTERS:
            band = min(raster, down)
            of_a = a
            if band * rows * product.k * product.a_bytes > self.cached:
                of_a *= min(rounds, -(-across * band // at_once))
            of_b = b
            if b > self.cached:
                of_b *= min(rounds, -(-down // band))
            if of_a + of_b < least:
                best, least = raster, of_a + of_b
            if raster >= down:
                break
        return best, float(least) * product.batches
