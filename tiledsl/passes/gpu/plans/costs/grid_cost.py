"""What a grid costs on a GPU with given blocks: time by resource, from the counts of its nest and the machine's speeds.

    gemm 4096^3 in 128 x 256 blocks         l2 118 us, products 200 us, memory 24 us
    y[m] = sum(x[m, :]), one row a program  memory 14 us, all else less

Every program of a launch is taken for the average one. What goes on at once hides behind the slowest resource; what
programs wait for one after the other comes on top.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import f64
from tiledsl.ir.symbolic import Dim, symbol_name
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import AxisType, Shape, Whole
from tiledsl.passes.gpu.layouts.capacities import rounded
from tiledsl.passes.gpu.plan import WRITTEN_OUT, WRITTEN_OUT_WORDS, GridPlan, joined_turns, joined_waits
from tiledsl.passes.gpu.plans.costs.access_steps import (
    computed_share,
    fast_axis,
    is_at_positions,
    is_joined_field,
    is_of_rows,
    is_side_by_side,
    reads_windows,
    share_of_records,
    step_along,
    unit_axis,
)
from tiledsl.passes.gpu.plans.costs.element_accesses import (
    ACCESS_INSTRUCTIONS,
    LINE_BYTES,
    WARP,
    access_instructions,
    goes_down,
    lines_of_table,
    straddled,
    touched_lines,
)
from tiledsl.passes.gpu.plans.costs.exchanges import (
    clocks_of_turns,
    exchange_instructions,
    sort_instructions,
    stack_instructions,
    stacked_bytes,
)
from tiledsl.passes.gpu.plans.costs.held_tiles import BESIDE, MOST_LIVE_WORDS, HeldTiles, live_words
from tiledsl.passes.gpu.plans.costs.product_work import ProductWork
from tiledsl.passes.gpu.plans.costs.resource_times import ResourceTimes
from tiledsl.passes.gpu.plans.costs.run_ahead import LoadsAhead, loads_ahead, phases, registers
from tiledsl.passes.gpu.plans.costs.shared_windows import SharedWindows
from tiledsl.passes.gpu.plans.facts.joined_loads import joined_loads
from tiledsl.passes.gpu.plans.facts.operation_units import UnitCounts, units_of
from tiledsl.passes.gpu.plans.facts.private_tables import PrivateTable, private_tables
from tiledsl.passes.gpu.plans.product_plans.thread_cost import COMPUTED_BETWEEN_WAITS, ENOUGH_WARPS, HELD, WORD_BYTES
from tiledsl.passes.gpu.plans.product_plans.warpgroup_cost import CACHED_SHARE, CLUSTER_CLOCKS, CLUSTER_FOLD_CLOCKS
from tiledsl.passes.gpu.products.load_parts import whole_of
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.nest.access_places import Places, places_of
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import Access, Elementwise, LoopNest, NestDot, NestLoop, kept
from tiledsl.support.powers_of_two import power_of_two_from, power_of_two_in, power_of_two_up_to

WIDEST = 16
"""Bytes that a thread accesses at most."""
SECTOR_BYTES = 32
"""What memory and L2 move at least."""
LOADS_AHEAD = 4
"""Loads of a thread that are under way at once, where a program does not say."""
MEMORY_EACH = 40
"""Bytes of memory that a multiprocessor takes in, for each clock: not measured by itself."""
PART_OF_LINE = 0.06
"""Of the bytes of a run that is half a line, by how much longer memory takes for them than for whole lines, of which
others ask for the rest at their time; three times that for a quarter. Measured: columns of f16 in strips of 64 bytes
1.03 to 1.07 of the time of 128, of 32 bytes 1.17 to 1.3."""
LINE_CLOCKS = 2
"""Clocks of a multiprocessor for each line of memory that it takes in from L2."""
TOUCH_CLOCKS = 1
"""The same for each line that an access of a warp touches, where others have brought it to L1."""
UPDATES = 40
"""Sectors that L2 updates atomically in a clock, each by neighbours at once. From whole programs on an H200: histograms
of 65536 places, gradients of an embedding, sums of messages of a graph."""
EXTREMES = 2
"""By how much longer the least or greatest of floats takes."""
PRIVATE_UPDATES = 4
"""Elements of a table in shared memory that a multiprocessor updates in a clock: not measured. A warp that updates
other banks each takes 4 clocks or so, random places of 256 three to four times as long."""
TABLE_CLOCKS = 2000
"""In which a program fills its tables, reads them at its end and adds them: latencies that nothing hides."""
COMBINE_INSTRUCTIONS = 5
"""Of a thread, for each update of a table of its program: the place, whether it is within, the update."""
UPDATE_CLOCKS = 96
"""Clocks between two such updates of one sector: 16 histograms of 256 bins, 5 million updates."""
IN_L1 = 1 << 14
"""Bytes of a table that is looked up, which the blocks of a multiprocessor keep in L1."""
START_CLOCKS = 2.1
"""Of the device, for each block that starts: one after the other."""
SPILL_INSTRUCTIONS = 8
"""Of a thread, for each register that it lacks: tiles that are there at once are used more than once each."""
SHARED_INSTRUCTIONS = 2
"""Of a thread, for each element that it takes from shared memory, or puts there, by itself."""
WINDOW_INSTRUCTIONS = 10
"""Of a thread, for each access beside windows that overlap, and of these: all are at constant distances. Counted: 8 to
11."""
WEIGHT_INSTRUCTIONS = 4
"""The same for each element of the weights that windows meet, one by one: an access, and its place in a word."""
NEAR_BYTES = 16
"""Of a line, that threads side by side have of what is looked up at positions that are computed in floats: a warp
touches 8 lines or so of f32. Measured: an image warped by a flow of 3 pixels, 10."""
SHORT_ROW = 128
"""Elements below which an axis that a tile has whole is padded by much of itself."""
LARGE = 1024
"""Threads of a multiprocessor that are counted on."""
FEW_BLOCKS = 2
"""Blocks of a multiprocessor that do not hide each other's times."""
ROUNDING = 1e-9
"""By which sums of times may differ for the order in which they are added."""
NEAR_SHARE = 0.125
"""Of L2, how far apart elements lie that programs of about the same time ask for."""
FMA_SHARE = 0.62
"""Of the rate of single multiply-adds, what products of threads reach: their operands come from shared memory."""


class GridCost:
    """The cost of one grid of a function."""

    def __init__(
        self,
        nest: LoopNest,
        grid: GridPlan,
        blocks: Mapping[str, int],
        sizes: Mapping[str, int],
        machine: GpuMachine,
        alignment: Mapping[Value, int] | None = None,
        steps: Mapping[Value, int] | None = None,
        counts: WorkCounts | None = None,
    ) -> None:
        """`sizes`: every symbol but those of blocks; `blocks`: by symbol, those that the program leaves open.
        `alignment`: the bytes that every row of a tensor starts at a multiple of; 16 for those that are not there.
        `steps`: how far apart neighbours lie in tensors that are read by whole runs for their sake.
        `counts`: those of the nest at these sizes and blocks, if there are any yet."""
        self.alignment = alignment or {}
        self._steps = steps or {}
        self.nest, self.grid, self.machine = nest, grid, machine
        self.speeds = machine.speeds
        self.counts = counts or WorkCounts(nest, sizes, blocks)
        self._runs: dict[Access, int] = {}
        self._widths: dict[Access, float] = {}

    @cached_property
    def _tables(self) -> dict[Op, PrivateTable]:
        """Those of programs, by the atomics that go there."""
        found = private_tables(self.nest.grid, self.counts.sizes) if self.grid.private else []
        return {table.op: table for table in found}

    @cached_property
    def programs(self) -> int:
        """Blocks of the plan: each is one CTA, or one turn of a persistent one."""
        return max(1, self.counts.programs)

    @property
    def started(self) -> int:
        """Blocks that are launched."""
        return (min(self.grid.programs, self.programs) if self.grid.programs else self.programs) * self.grid.cluster

    @cached_property
    def resident(self) -> int:
        """Programs that a multiprocessor runs at once: by threads, by registers of sums and of loops."""
        machine, grid = self.machine, self.grid
        if grid.roles:
            return grid.resident
        threads = grid.threads_of_tile
        found = min(machine.max_blocks_per_multiprocessor, LARGE // threads)
        if self.nest.dots:
            bytes_ = max(math.prod(map(self._room, dot.op.result.shape)) * dot.op.dtype.bytes for dot in self.nest.dots)
            bytes_ *= grid.groups
            if grid.groups > 1:  # what is loaded a turn before, and what is computed of
                bytes_ += int(2 * sum(self._turn_bytes.values()))
            found = min(found, machine.registers // (bytes_ // WORD_BYTES + HELD * threads))
        elif self.nest.loops and not grid.programs:
            held = registers(self.nest, grid, self.counts) + sum(map(self._windows.words, self.nest.accesses))
            found = min(found, int(machine.registers / (threads * held)))
        elif self.nest.live:
            found = min(found, int(machine.registers / (threads * (BESIDE + self._live_words))))
        else:
            found = min(found, self._whole_blocks)
        if self._ahead is not None:
            taken = grid.stages * self._ahead.turn_bytes + machine.block_bytes
            found = min(found, machine.shared_bytes_per_multiprocessor // taken)
        stacked = stacked_bytes(self.nest, self._room)
        if stacked:
            found = min(found, machine.shared_bytes_per_multiprocessor // (stacked + machine.block_bytes))
        return max(1, found)

    @cached_property
    def _whole_blocks(self) -> int:
        """Blocks that a multiprocessor has registers for, of those that load all they need first, and hold it."""
        held = self._held.blocks(self.machine)
        if not self._is_elementwise or self.nest.loops:
            return held
        loads = [access for access in self.nest.accesses if access.is_read and access.shape]
        each = self._largest / (self.grid.threads_of_tile * self.grid.cluster)
        words = sum(
            min(each, math.prod(map(self._room, access.shape))) * access.tensor.dtype.bytes / WORD_BYTES
            for access in loads
        )
        return max(1, min(held, int(self.machine.registers / (self.grid.threads_of_tile * (BESIDE + words)))))

    @cached_property
    def _live_words(self) -> float:
        """Registers of a thread for all tiles that are there at once, of a long program without loops."""
        return live_words(self.nest, self.grid, lambda shape: math.prod(map(self._room, shape)))

    @cached_property
    def _spilled(self) -> float:
        """Of these, what has to be put into memory and brought back, of all threads."""
        threads = self.programs * self.grid.threads * self.grid.cluster
        return threads * max(0.0, self._live_words - MOST_LIVE_WORDS)

    @cached_property
    def _ahead(self) -> LoadsAhead | None:
        """What a loop copies ahead, stage by stage."""
        return loads_ahead(self.nest, self.grid, self.counts) if self.grid.stages > 1 else None

    @cached_property
    def _folds_across(self) -> bool:
        """Whether large blocks, or clusters, fold columns that lie side by side in memory: all of a multiprocessor
        begin and end together, so that no load hides what they compute and tell each other."""
        if self.grid.roles or self.grid.programs or self.nest.loops:
            return False
        if self.grid.cluster == 1 and self.resident > FEW_BLOCKS:
            return False
        return any(len(fold.sources[0].shape) - 1 not in fold.axes for fold in self._whole_folds)

    @property
    def _exposed(self) -> float:
        """The share that no other program hides where columns are folded: of large blocks and clusters all."""
        large = self.grid.cluster > 1 or self.grid.threads_of_tile * FEW_BLOCKS >= LARGE
        return float(self._folds_across) / (1 if large else self.resident)

    @cached_property
    def _held(self) -> HeldTiles:
        return HeldTiles(self.nest, self.grid, self.counts, self._room, self._width)

    @property
    def _alone(self) -> float:
        """The share of loading or computing that no other program hides: of one program that holds rows all of it."""
        blocks = self.resident if self.nest.stacked else self._held.blocks(self.machine)
        return 1 / blocks if blocks <= FEW_BLOCKS and not self._folds_across else 0.0

    @cached_property
    def _whole_folds(self) -> list[ops.Reduce]:
        """Those of the largest tiles, not of what other folds left."""
        folds = [(self.counts.computed(w).number, w.op) for w in self.nest.elementwise if isinstance(w.op, ops.Reduce)]
        most = max((number for number, _ in folds), default=0)
        return [op for number, op in folds if 2 * number > most]

    @cached_property
    def waves(self) -> float:
        """How often all multiprocessors are full of blocks."""
        return self.programs * self.grid.cluster / (self.machine.multiprocessors * self.resident)

    @cached_property
    def busy(self) -> float:
        """Multiprocessors that work, on average over the time that the grid takes: the last wave is not full."""
        waves, blocks = self.waves, self.programs * self.grid.cluster
        return self.machine.multiprocessors * min(1.0, waves / math.ceil(waves) if waves > 1 else self._spread(blocks))

    def _spread(self, blocks: int) -> float:
        """Of a single wave: multiprocessors share out the blocks evenly."""
        each = math.ceil(blocks / self.machine.multiprocessors)
        return blocks / (each * self.machine.multiprocessors)

    def moved_bytes(self, access: Access) -> float:
        """Bytes that an access moves, whenever it is made. Programs that go through many blocks load once what is the
        same for all of them."""
        table = self._tables.get(access.op)
        if table is not None:  # each program adds its table at its end
            return float(self.started * table.elements * access.tensor.dtype.bytes)
        once = 1.0
        if self.grid.programs and not self.grid.roles and not access.loops and not access.moved_by and access.is_read:
            once = min(1.0, self.grid.programs / self.programs)
        return once * self.counts.moved(access).number * access.tensor.dtype.bytes

    def sector_bytes(self, access: Access) -> float:
        """The same in whole sectors: a run of neighbours that is shorter than one costs all of it."""
        run, moved = self._run_bytes(access), share_of_records(access) * self.moved_bytes(access)
        whole = moved * (-(-run // SECTOR_BYTES) * SECTOR_BYTES / run if run else 1.0)
        table = self._table_bytes(access)
        return whole if table is None else min(whole, max(moved, self.started * table))

    def _table_bytes(self, access: Access) -> float | None:
        """Bytes of a tensor that is looked up element by element, if it stays in L1: blocks bring it there once."""
        at_once = isinstance(access.op, ops.Atomic)  # which L2 updates
        if at_once or not access.gathers or not access.shape or step_along(access, unit_axis(access)) is not None:
            return None
        table = self.counts.distinct(access) * access.tensor.dtype.bytes
        return table if table <= IN_L1 else None

    def _run_bytes(self, access: Access) -> int:
        """How many bytes of a tile lie next to each other in memory, or near, at least where rows begin."""
        if access.op in self._tables:
            return LINE_BYTES
        if access not in self._runs:
            self._runs[access] = self._counted_run(access)
        return self._runs[access]

    def _counted_run(self, access: Access) -> int:
        element, unit = access.tensor.dtype.bytes, unit_axis(access)
        if not access.shape:
            return SECTOR_BYTES
        if step_along(access, unit) is None and not is_side_by_side(access, unit):
            return max(element, NEAR_BYTES) if is_at_positions(access, unit) else element
        length = -(-self.counts.number(access.shape[fast_axis(access)]) // access.repeats)
        size = self.counts.number(access.tensor.shape[unit])
        if length >= size and len(access.shape) > 1:
            together = self._bytes_together(access)
            whole = SECTOR_BYTES * max(1, length * element // SECTOR_BYTES)
            return whole if together >= LINE_BYTES else max(element, int(together))
        return max(element, length * element)

    def _goes_on(self, access: Access) -> bool:
        """Whether a tile has whole rows of a tensor that go on into each other, for a line at least."""
        return self._has_rows(access) and self._bytes_together(access) >= LINE_BYTES

    def _bytes_together(self, access: Access) -> float:
        """Of whole rows that lie one behind the other: a tile x[m, :, n, :] has as many as a block of n."""
        unit = unit_axis(access)
        row = self.counts.number(access.tensor.shape[unit]) * access.tensor.dtype.bytes
        return row * self._rows_together(access, unit)

    def _rows_together(self, access: Access, unit: int) -> float:
        rows = 1.0
        for place in range(unit - 1, -1, -1):
            index, size = access.op.indices[place], self.counts.number(access.tensor.shape[place])
            if isinstance(index, Whole):
                rows *= size
                continue
            if isinstance(index, Value) and isinstance(index.type, AxisType):
                return rows * min(size, self.counts.number(index.type.extent))
            break
        return rows

    @cached_property
    def read_bytes(self) -> float:
        """Bytes that loads ask for."""
        return sum(self.moved_bytes(access) for access in self._brought if access.is_read)

    @cached_property
    def _brought(self) -> list[Access]:
        """All accesses but those of what a role gets with what another load brings."""
        every = self.nest.accesses
        if not self.grid.roles:
            return list(every)
        return [one for one in every if not isinstance(one.op, ops.Load) or whole_of(one.op) is one.op]

    @cached_property
    def written_bytes(self) -> float:
        """Bytes that stores and atomics write."""
        return sum(self.moved_bytes(access) for access in self.nest.accesses if not access.is_read)

    @cached_property
    def memory_bytes(self) -> float:
        """What of all that comes from memory, or goes there, and is not in L2 from before."""
        by_tensor: dict[tuple[Value, bool], list[Access]] = {}
        for access in self._brought:
            by_tensor.setdefault((access.op.tensor, access.is_read), []).append(access)
        return sum(min(self._of_all(every), self._most_of(*key)) for key, every in by_tensor.items())

    def _of_all(self, every: Sequence[Access]) -> float:
        """Of accesses of one tensor. What reads ask for that are alike but for a few rows comes once: it is in L2 when
        the others ask for it."""
        if len(every) == 1 or not every[0].is_read:
            return sum(map(self._from_memory, every))
        sizes = [self.counts.number(dim) for dim in every[0].tensor.shape]
        element = every[0].tensor.dtype.bytes
        near = NEAR_SHARE * self.machine.l2_bytes / element
        groups: list[tuple[Places, list[float]]] = []
        for access in every:
            places, moved = places_of(access, self.counts.number), self._from_memory(access)
            beside = None if access.gathers else _beside(places, groups, sizes, near)
            if beside is None:
                groups.append((places, [moved]))
            else:
                beside.append(moved)
        whole = math.prod(sizes) * element
        return sum(min(sum(moved), max(*moved, whole)) if len(moved) > 1 else moved[0] for _, moved in groups)

    def _most_of(self, tensor: Value, is_read: bool) -> float:
        """Bytes of a tensor that move at most: one that fits L2 moves once, however many accesses speak of it; what
        the grid has written itself need not come again."""
        size = math.prod(map(self.counts.number, tensor_type(tensor).shape)) * tensor_type(tensor).dtype.bytes
        if size > CACHED_SHARE * self.machine.l2_bytes:
            return math.inf
        return 0.0 if is_read and tensor in self._written else size

    @cached_property
    def _written(self) -> frozenset[Value]:
        return frozenset(access.op.tensor for access in self.nest.accesses if not access.is_read)

    def _from_memory(self, access: Access) -> float:
        """What comes from memory, or goes there: with fields whole records."""
        return share_of_records(access) * self._asked_of_memory(access)

    def _asked_of_memory(self, access: Access) -> float:
        """Parts of sectors that one program leaves are taken by its neighbours, while the sector is in L2."""
        moved = self.sector_bytes(access) if access.gathers else self.moved_bytes(access)
        distinct = self.touched_bytes(access)
        is_cached = distinct <= CACHED_SHARE * self.machine.l2_bytes or (self.grid.roles and reads_windows(access))
        if not access.is_read or is_cached:
            return distinct
        asked = moved / self._shared_by(access) / self._slides(access)
        if access.gathers and access.shape:  # of what is looked up anywhere in it, a part is in L2
            whole = math.prod(map(self.counts.number, access.tensor.shape)) * access.tensor.dtype.bytes
            asked *= 1 - CACHED_SHARE * self.machine.l2_bytes / max(distinct, whole)
        return max(distinct, asked)

    def _slides(self, access: Access) -> float:
        """How often a program asks for about the same elements, turn after turn: windows go on one by one."""
        turns = 1.0
        for loop in access.loops:
            if loop.definition is not None and loop.axis in access.moved_by and self._goes_one_by_one(loop):
                turns *= max(1.0, self._turns_of(loop))
        return turns

    def _goes_one_by_one(self, loop: NestLoop) -> bool:
        """Whether the turns of a loop are written out, or are a few of one coordinate each."""
        block = None if loop.definition is None else loop.definition.block
        if block is None or block.kind != "fixed" or block.size != 1 or self.nest.dots:
            return False
        return self._turns_of(loop) <= WRITTEN_OUT

    def _turns_of(self, loop: NestLoop) -> float:
        """Turns of a loop each time that it is come to."""
        before = self.counts.turns(loop.outer[-1]).number if loop.outer else self.programs
        return self.counts.turns(loop).number / max(1.0, before)

    def _replicas(self, access: Access) -> float:
        """How many threads ask for the same element: threads are a power of two, parts of a block may be fewer."""
        if self._is_flat(access):
            return 1.0
        vector = self._width(access) / access.tensor.dtype.bytes * access.repeats
        parts = math.prod(power_of_two_in(self._room(dim)) for dim in access.shape)
        return max(1.0, self.grid.threads_of_tile * self.grid.cluster * vector / parts)

    def _is_flat(self, access: Access) -> bool:
        """Whether rows move as one run, by way of shared memory."""
        return self.grid.flat and is_of_rows(access)

    def _access_instructions(self, access: Access) -> float:
        """Those of threads beyond the ends of axes move nothing, but are instructions as well."""
        if access.op in self._tables:
            return COMBINE_INSTRUCTIONS * self.moved_bytes(access) / access.tensor.dtype.bytes
        if self._is_flat(access):
            moved = self.moved_bytes(access)
            return ACCESS_INSTRUCTIONS * moved / WIDEST + SHARED_INSTRUCTIONS * moved / access.tensor.dtype.bytes
        made, moved, width = self._replicas(access), self.moved_bytes(access), self._width(access)
        if self._windows.of(access) is not None:
            return WINDOW_INSTRUCTIONS * self._windows.share(access) * moved / width
        if access.shape and self._windows.any:
            by_elements = width <= access.tensor.dtype.bytes < WIDEST // 2
            return (WEIGHT_INSTRUCTIONS if by_elements else WINDOW_INSTRUCTIONS) * made * moved / width
        if access.shape and not access.loops:
            of_blocks = [dim for dim in access.shape if symbol_name(dim) in self.counts.axis_of]
            whole = [self.counts.number(dim) for dim in access.shape if dim not in of_blocks]
            padded = [power_of_two_from(size) if size < SHORT_ROW else size for size in whole]
            room = math.prod((*map(self._room, of_blocks), *padded)) * self.programs * access.tensor.dtype.bytes
            made = max(made, room * self.counts.blocks_inside(access) / access.repeats / max(1.0, moved))
        return access_instructions(access, width, self.counts.axis_of) * made * moved / width

    def _room(self, dim: Dim) -> int:
        """The elements of a tile's axis, with what pads them; whole axes are padded so that threads can share them."""
        rooms = self.counts.rooms
        if dim not in rooms:
            number, is_block = max(1, self.counts.number(dim)), symbol_name(dim) in self.counts.axis_of
            rooms[dim] = rounded(number) if is_block else power_of_two_from(number)
        return rooms[dim]

    def _shared_by(self, access: Access) -> float:
        """How many programs of a wave ask for the same elements at about the same time."""
        lengths = [-(-self.counts.total(axis) // self.counts.block_sizes[axis]) for axis in self.nest.axis_values]
        at_once = min(self.programs, self.machine.multiprocessors * self.resident)
        wave = [1] * len(lengths)
        order = list(reversed(range(len(lengths))))
        if self.grid.raster > 1 and len(order) > 1:
            wave[order[1]] = min(self.grid.raster, lengths[order[1]], at_once)
            at_once = max(1, at_once // wave[order[1]])
        for place in order:
            taken = min(at_once, max(1, lengths[place] // wave[place]))
            wave[place] *= taken
            at_once = max(1, at_once // taken)
        repeated = set(access.repeated_by)
        turns = math.prod(
            max(1.0, self.counts.turns(loop).number / self.programs) for loop in access.loops if loop.axis in repeated
        )
        shared = math.prod(count for axis, count in zip(self.nest.axis_values, wave) if axis in repeated)
        for axis, among in access.chosen:  # neighbours choose the same place, as rows that are sorted by it do
            if axis in self.nest.axis_values:
                number = self.nest.axis_values.index(axis)
                shared *= max(1.0, min(wave[number], lengths[number] / max(1, self.counts.number(among))))
        return turns * shared

    @cached_property
    def work(self) -> UnitCounts:
        """Operations of threads, by unit."""
        total = UnitCounts()
        for work in self.nest.elementwise:
            number = self._windows.share_of(work.op) * computed_share(work) * self.counts.computed(work).number
            total += _units(work, self.machine.capability).times(self._repeated(work.shape) * number)
        for dot in self.nest.dots:
            if self.products.instruction(dot) == "fma":
                number = self.counts.multiplied(dot).number / FMA_SHARE
                total += UnitCounts(doubles=number) if dot.op.dtype == f64 else UnitCounts(arithmetic=number)
            if dot.op.precision == "split":
                total += UnitCounts(arithmetic=ops.SPLIT_INSTRUCTIONS * self._elements_split(dot))
        total += UnitCounts(arithmetic=SPILL_INSTRUCTIONS * self._spilled)
        total += UnitCounts(arithmetic=COMBINE_INSTRUCTIONS * self._private_updates)
        total += UnitCounts(arithmetic=sort_instructions(self.nest, self.grid, self.counts, self._room))
        total += UnitCounts(arithmetic=stack_instructions(self.nest, self.grid, self.counts, self._room))
        if not self.grid.roles:  # else one thread loads whole boxes
            total += UnitCounts(arithmetic=sum(map(self._access_instructions, self.nest.accesses)))
            total += UnitCounts(
                arithmetic=exchange_instructions(self.nest, self.grid, self.counts, self._room, self._run_of_thread)
            )
        if self._windows.any:
            return total.times(self._padding * self._windows.repeated)
        return total.times(self._held.padding)

    def _repeated(self, shape: Shape) -> float:
        """How many threads compute the same element, where programs have fewer than threads."""
        if not shape or not self._is_elementwise:
            return 1.0
        parts = math.prod(power_of_two_in(self._room(dim)) for dim in shape)
        return max(1.0, self.grid.threads_of_tile * self.grid.cluster / parts)

    @cached_property
    def _is_elementwise(self) -> bool:
        """Whether threads meet for nothing, so that each has its elements to itself."""
        grid = self.grid
        meets = any(isinstance(work.op, (ops.Reduce, ops.Scan, ops.Sort)) for work in self.nest.elementwise)
        meets = meets or bool(self.nest.stacked)
        return not (meets or self.nest.dots or self.nest.slid or grid.roles or grid.programs or grid.flat)

    @cached_property
    def _each(self) -> float:
        """The elements that a thread has of the largest tile that is accessed, if all threads are to have some."""
        if not self._is_elementwise:
            return math.inf
        return power_of_two_up_to(max(1, self._largest // (self.grid.threads_of_tile * self.grid.cluster)))

    @cached_property
    def _largest(self) -> int:
        """The elements of the largest tile that is accessed."""
        return max((math.prod(map(self._room, access.shape)) for access in self.nest.accesses), default=1)

    def _elements_split(self, dot: NestDot) -> float:
        """Elements of operands that threads make planes of: all warps that read one by themselves, but right ones of
        warpgroups once for all."""
        rows, columns = self._room(dot.op.a.shape[-2]), self._room(dot.op.b.shape[-1])
        down, across = (1, self.grid.warps[1]) if self.grid.roles else self.grid.warps
        single = self.counts.multiplied(dot).number / ops.products_for_one(dot.op)
        return single * (across / columns + down / rows)

    @cached_property
    def _windows(self) -> SharedWindows:
        return SharedWindows(self.nest, self.grid, self._room, self._turns_of, self._width)

    @property
    def _padding(self) -> float:
        """Threads beyond the ends of axes compute as others do."""
        axes = [(self.counts.total(axis), self.counts.block_sizes[axis]) for axis in self.nest.axis_values]
        return math.prod(-(-total // block) * block / max(1, total) for total, block in axes)

    @cached_property
    def products(self) -> ProductWork:
        """What the products of the grid take."""
        return ProductWork(self.nest.dots, self.counts, self.machine, bool(self.grid.roles))

    def takes_longer(self, limit: float) -> bool:
        """Whether it is seen of one resource that all together take more than so many seconds: no more is counted
        then. False tells nothing."""
        limit *= 1 + ROUNDING
        return self._waiting > limit or self._of_memory > limit

    @cached_property
    def _of_memory(self) -> float:
        """Seconds that memory takes."""
        speeds, busy = self.speeds, max(self.busy, 1.0)
        fastest = self.machine.copied_bytes_per_second
        if not self.grid.roles:  # a ring of stages keeps enough under way
            fastest = min(fastest, self._in_flight * busy / self._latency, MEMORY_EACH * busy * speeds.clock)
        seconds = (self.memory_bytes + self._parts_of_lines) / fastest
        return max(seconds, self._turn_by_turn / busy) if self._loaded_by_turns else seconds

    @cached_property
    def _loaded_by_turns(self) -> list[Access]:
        """Loads into registers in the loops of products that all threads of a block make: they are asked for one turn
        before, since only what products read as it is waits in a ring."""
        if self.grid.roles or not self.nest.dots:
            return []
        loads = [a for a in self.nest.accesses if a.is_read and a.loops and a.shape and isinstance(a.op, ops.Load)]
        return [a for a in loads if a.op.result.tile.level == "register"]

    @property
    def _turn_by_turn(self) -> float:
        """Seconds in which one multiprocessor alone would bring these from memory, a latency for each turn."""
        brought = sum(map(self._from_memory, self._loaded_by_turns))
        under_way = sum(bytes_ * self._turns_ahead(access) for access, bytes_ in self._turn_bytes.items())
        return brought / max(1.0, under_way * self._at_once) * self._latency

    @cached_property
    def _turn_bytes(self) -> dict[Access, float]:
        """Bytes that one block loads by each of these for a turn."""
        turns = {a: max(1.0, self.counts.turns(a.loops[-1]).number) for a in self._loaded_by_turns}
        return {access: self.moved_bytes(access) / number for access, number in turns.items()}

    def _turns_ahead(self, access: Access) -> int:
        """How many turns before one of these is asked for: what each thread has its own part of waits in stages."""
        return max(1, self.grid.stages - 1) if access.repeats == 1 else 1

    @property
    def _at_once(self) -> float:
        """Programs that a multiprocessor runs at once, on average over those that have one."""
        return max(1.0, min(float(self.resident), self.programs / self.machine.multiprocessors))

    @property
    def _parts_of_lines(self) -> float:
        """What memory could bring in the time that is lost where programs read parts of lines."""
        if self.nest.dots or self.grid.roles:
            return 0.0
        parts = [a for a in self.nest.accesses if a.is_read and not a.gathers and a.shape and not self._has_rows(a)]
        runs = [(a, self._run_bytes(a)) for a in parts]
        return sum(PART_OF_LINE * (LINE_BYTES / run - 1) * self._from_memory(a) for a, run in runs if run < LINE_BYTES)

    def _has_rows(self, access: Access) -> bool:
        """Whether a tile has whole rows of a tensor, which go on into each other."""
        length = self.counts.number(access.shape[fast_axis(access)])
        return length >= self.counts.number(access.tensor.shape[unit_axis(access)])

    @cached_property
    def times(self) -> ResourceTimes:
        """Seconds by resource."""
        speeds, busy = self.speeds, max(self.busy, 1.0)
        l2 = sum(self.sector_bytes(access) * self._windows.of_block(access) for access in self._brought)
        each = min(speeds.l2_bytes_each, speeds.l2_bytes / busy)
        return ResourceTimes(
            memory=self._of_memory,
            lines=self._line_clocks() / busy / speeds.clock,
            updates=self._update_clocks / speeds.clock,
            l2=l2 / (each * busy) / speeds.clock,
            products=self.products.clocks / (busy * speeds.power_limit) / speeds.clock,
            arithmetic=self._arithmetic_clocks / busy / speeds.clock,
            special=self.work.special / (speeds.exponentials * busy) / speeds.clock,
            starting=self.started * START_CLOCKS / speeds.clock,
            waiting=self._waiting,
            exposed=self._exposed,
            alone=self._alone,
        )

    @property
    def _update_clocks(self) -> float:
        """Of L2, for atomic updates: elements side by side are one update, and those of one sector wait for each
        other."""
        clocks = 0.0
        for access in self.nest.accesses:
            if isinstance(access.op, ops.Atomic):
                updates = self.moved_bytes(access) / min(SECTOR_BYTES, self._run_bytes(access))
                sectors = max(1.0, self.counts.distinct(access) * access.tensor.dtype.bytes / SECTOR_BYTES)
                slowly = access.op.fn in ("max", "min") and access.tensor.dtype.is_float
                clocks += updates * (EXTREMES if slowly else 1) / min(UPDATES, sectors / UPDATE_CLOCKS)
        if self._tables:
            clocks += TABLE_CLOCKS + self._private_updates / (PRIVATE_UPDATES * max(self.busy, 1.0))
        return clocks

    @property
    def _private_updates(self) -> float:
        """Elements that programs update in tables of their own."""
        return sum(self.counts.moved(access).number for access in self.nest.accesses if access.op in self._tables)

    @property
    def _arithmetic_clocks(self) -> float:
        """Of one multiprocessor: f64 has pipes of its own, but takes turns of the same schedulers."""
        issued = (self.work.arithmetic + self.work.doubles) / self.speeds.instructions
        if self.nest.loops and not self.grid.roles:  # few warps, each of which waits for what it computed last
            warps = self._at_once * self.grid.threads_of_tile / WARP
            issued *= (COMPUTED_BETWEEN_WAITS if self._loaded_by_turns else 1.0) / min(1.0, warps / ENOUGH_WARPS)
        return max(issued, self.work.doubles / self.speeds.doubles)

    def _width(self, access: Access) -> float:
        """Bytes that a thread accesses at a time."""
        if access not in self._widths:
            self._widths[access] = self._widest(access)
        return self._widths[access]

    def _widest(self, access: Access) -> float:
        if self._is_flat(access) or is_joined_field(access):
            return WIDEST
        if access.is_read and access.op.tensor in self._steps:
            return max(access.tensor.dtype.bytes, WIDEST // self._steps[access.op.tensor])
        if access.shape and step_along(access, unit_axis(access)) != 1:
            return access.tensor.dtype.bytes
        aligned = self.alignment.get(access.op.tensor, WIDEST)
        if self._each * access.tensor.dtype.bytes < WIDEST and access.shape:
            aligned = min(aligned, self._each * access.tensor.dtype.bytes)
        if access.repeats > 1:  # a run of a thread has so many slots
            return min(WIDEST / access.repeats, aligned, self._run_bytes(access))
        return max(access.tensor.dtype.bytes, min(WIDEST, aligned, self._run_bytes(access)))

    def _line_clocks(self) -> float:
        """What accesses of threads take for the lines that they touch; boxes of TMA go another way, but not what is
        written one element at a time across memory."""
        if self.grid.roles:
            written = [a for a in self.nest.accesses if not a.is_read and a.shape and not a.gathers]
            return sum(self._lines(a) for a in written if step_along(a, unit_axis(a)) != 1)
        rank = max((len(access.shape) for access in self.nest.accesses), default=0)
        # of what is repeated along an axis, copies are asked for by the same warp
        copies = {
            access: self._replicas(access) if len(access.shape) == rank else self._warps_that_ask(access)
            for access in self.nest.accesses
        }
        return sum(copies[a] * self._lines(a) * self._touched(a) for a in self.nest.accesses)

    def _warps_that_ask(self, access: Access) -> float:
        """How many warps ask for the same lines of what all rows of a larger tile have: each for itself, where it reads
        them element by element from memory."""
        if not access.shape or access.gathers or step_along(access, unit_axis(access)) in (None, 1):
            return 1.0
        (*before, last) = max((a.shape for a in self.nest.accesses), key=len)
        if access.shape[-1] != last:
            return 1.0
        rows = math.prod(self._room(dim) for dim in before if dim not in access.shape)
        return max(1.0, min(self.grid.threads_of_tile / WARP, rows))

    def _touched(self, access: Access) -> float:
        """Of what windows that overlap ask for, the first time comes from L2, all else is in L1."""
        if self._windows.of(access) is None:
            return 1.0
        again = self._windows.share(access) - self._windows.of_block(access)
        return self._windows.of_block(access) + max(0.0, again) * TOUCH_CLOCKS / LINE_CLOCKS

    def _lines(self, access: Access) -> float:
        """A thread that goes by elements has the neighbours of what it accesses next: its lines stay in L1."""
        moved, element = self.moved_bytes(access), access.tensor.dtype.bytes
        step = step_along(access, unit_axis(access)) if access.shape else 1
        if step is None or step == 1:
            table = self._table_bytes(access)
            if table is not None:
                return TOUCH_CLOCKS * moved / element * lines_of_table(table)
            clocks = TOUCH_CLOCKS if step is None and access.gathers else LINE_CLOCKS
            run = self._run_bytes(access)
            from_l2 = clocks * moved / min(LINE_BYTES, run)
            if step is None and run > element:  # one by one: a warp touches a line at least
                from_l2 = max(from_l2, TOUCH_CLOCKS * moved / element / WARP)
            if not self._by_elements(access):
                return max(from_l2, self._pieces(access, run))
            beside = run
            if goes_down(access, self.counts.axis_of):  # what lies behind a row is another turn of the same thread
                fast = self.counts.number(access.shape[fast_axis(access)])
                size = self.counts.number(access.tensor.shape[unit_axis(access)])
                beside = min(run, element * min(fast, size))
            return max(from_l2 * straddled(run, element), TOUCH_CLOCKS * moved * touched_lines(beside, element))
        if access.is_read and access.op.tensor in self._steps:
            return LINE_CLOCKS * self._steps[access.op.tensor] * moved / LINE_BYTES
        apart = WIDEST * step  # bytes from thread to thread
        return max(LINE_CLOCKS * step * moved / LINE_BYTES, TOUCH_CLOCKS * moved / element * min(1, apart / LINE_BYTES))

    def _pieces(self, access: Access, run: int) -> float:
        """Clocks for the lines that a warp touches where runs are short, and threads take theirs of 16 bytes piece by
        piece: each piece touches all lines again."""
        width = self._width(access)
        if width >= WIDEST or run >= LINE_BYTES or len(access.shape) < 2 or self._goes_on(access):
            return 0.0
        return TOUCH_CLOCKS * self.moved_bytes(access) / width / max(1, math.ceil(run / WIDEST))

    def _run_of_thread(self, access: Access) -> float:
        """Bytes side by side that a thread has of a row."""
        return access.tensor.dtype.bytes if self._by_elements(access) else WIDEST

    def _by_elements(self, access: Access) -> bool:
        """Whether threads go by elements because rows begin anywhere, and lie side by side: not in short rows that a
        tile has whole, which go on into each other."""
        element = access.tensor.dtype.bytes
        if access.repeats > 1 or not access.shape or self._width(access) > element:
            return False
        if step_along(access, unit_axis(access)) != 1:
            return False
        fast = access.shape[fast_axis(access)]
        return symbol_name(fast) in self.counts.axis_of or self.counts.number(fast) >= SHORT_ROW

    @property
    def _latency(self) -> float:
        """Seconds until what is asked for in memory is there."""
        return self.speeds.memory_latency / self.speeds.clock

    @property
    def _in_flight(self) -> float:
        """Bytes that one multiprocessor has asked for at a time."""
        if self._ahead is not None:
            return self._at_once * (self.grid.stages - 1) * self._ahead.turn_bytes
        reads = [access for access in self.nest.accesses if access.is_read]
        if self.nest.live:  # of its registers a good part is for what is on its way
            each = sum(self._width(access) for access in reads)
            return self._at_once * min(self.grid.threads, self._threads_with_elements) * each / 2
        widest = max((min(16, self._run_bytes(access)) for access in reads), default=16)
        return self._at_once * self.grid.threads * widest * max(LOADS_AHEAD, self.grid.stages)

    @property
    def _threads_with_elements(self) -> float:
        """Threads of a program that have an element of the largest tile to themselves."""
        return min(self.grid.threads * self.grid.cluster, self._largest)

    @cached_property
    def _waiting(self) -> float:
        """Turns of loops that load, one after the other: each waits, unless stages or other programs fill the time."""
        turns = 0.0
        for loop in self.nest.loops:
            if any(access.is_read and access.loops and access.loops[-1] is loop for access in self.nest.accesses):
                turns += self.counts.turns(loop).number / self.programs / self._together(loop)
        waves = math.ceil(self.waves)
        met = 2 * CLUSTER_CLOCKS if self.grid.cluster > 1 else 0
        if self.grid.cluster > 1 and self._folds_across:
            met += CLUSTER_FOLD_CLOCKS * len(self._whole_folds)
        met += clocks_of_turns(self.nest, self.grid, self.counts, self._room)
        if self.grid.stages > 1:
            return waves * (met + (1 + turns / self.grid.stages) * self.speeds.latency) / self.speeds.clock
        turns *= phases(self.nest)
        # nothing is under way while a turn is computed: what it loads takes its time as well
        moved = self.read_bytes / self.programs / self.speeds.l2_bytes_each if turns else 0.0
        return waves * (met + (1 + turns) * self.speeds.memory_latency + moved) / self.speeds.clock

    def _together(self, loop: NestLoop) -> float:
        """Turns whose loads are under way together: of loops that are written out, as registers allow."""
        together = 1.0
        read = [access for access in self.nest.accesses if access.is_read and loop in access.loops]
        elements = sum(math.prod(map(self._room, a.shape)) * self._replicas(a) * a.tensor.dtype.bytes for a in read)
        words = max(1.0, elements / 4 / (self.grid.threads_of_tile * self.grid.cluster))
        for one in reversed((*loop.outer, loop)):
            if self._windows.together(one):
                together *= max(1.0, self._turns_of(one))
                continue
            if not self._goes_one_by_one(one) or together * self._turns_of(one) * words > WRITTEN_OUT_WORDS:
                break
            together *= max(1.0, self._turns_of(one))
        return together if together > 1 else self._joined(loop)

    def _joined(self, loop: NestLoop) -> float:
        """Turns of a long loop that load together (`join-turns`)."""
        if self.grid.roles or self._turns_of(loop) <= WRITTEN_OUT:
            return 1.0
        loads = joined_loads(loop.op, self._written)
        if not loads:
            return 1.0
        words = sum(self._loaded_words(a) for a in self.nest.accesses if a.op in loads)
        turns = round(self._turns_of(loop))
        return turns / joined_waits(turns, joined_turns(words, self.grid.threads))

    def _loaded_words(self, access: Access) -> float:
        """Registers of a thread that one load fills."""
        elements = math.prod(map(self._room, access.shape)) * self._replicas(access)
        return max(1.0, elements * access.tensor.dtype.bytes / 4 / (self.grid.threads_of_tile * self.grid.cluster))

    def touched_bytes(self, access: Access) -> float:
        """Bytes of the tensor that an access touches, each once, as far as is known."""
        return min(self.moved_bytes(access), self.counts.distinct(access) * access.tensor.dtype.bytes)

    @cached_property
    def least_seconds(self) -> float:
        """What no plan of this grid goes below: each access moves what it touches, once."""
        touched: dict[tuple[Value, bool], float] = {}
        for access in self.nest.accesses:
            key = (access.op.tensor, access.is_read)
            whole = math.prod(map(self.counts.number, access.tensor.shape)) * access.tensor.dtype.bytes
            touched[key] = min(touched.get(key, 0.0) + self.touched_bytes(access), whole)
        return sum(touched.values()) / self.machine.copied_bytes_per_second


@kept
def _units(work: Elementwise, capability: int) -> UnitCounts:
    return units_of(work.op, capability, accurate=work.is_accurate)


def _beside(
    places: Places, groups: Sequence[tuple[Places, list[float]]], sizes: Sequence[float], near: float
) -> list[float] | None:
    """What those accesses move that are alike but for so few elements."""
    for other, moved in groups:
        if other.bases == places.bases and other.apart(places, sizes) <= near:
            return moved
    return None
