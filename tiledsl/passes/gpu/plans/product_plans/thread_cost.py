"""The time of a product whose operands all threads of a block copy, read and multiply, by `mma.sync` or one by one.

    launch + rounds * (turns * max(work of all blocks of a multiprocessor, work of one + barrier, copies) + ends)

The work of a turn is what tensor cores, shared memory, L2 and the issue of instructions take, of which none hides the
others in full. Copies wait for a latency that the stages share. How many blocks a multiprocessor has at a time follows
from their registers and shared memory. All figures are the machine's, but for those below: fitted to 444 plans of six
shapes on one H200 (bf16), of which they predict each within 11 % (geometric mean), and choose plans within 4 % of the
fastest of each shape.
"""

from __future__ import annotations

from typing import NamedTuple

from tiledsl.ir.dtypes import bf16
from tiledsl.ir.gpu.matrix_instructions import fma_threads
from tiledsl.ir.tile_ops import PLANE_PAIRS, PLANES, SPLIT_INSTRUCTIONS
from tiledsl.passes.gpu_machine import GpuMachine

TOGETHER = 2.7
"""The order of the norm by which times of one turn make up a whole."""
BARRIER_CLOCKS = 60
"""Of a turn that no other block of the multiprocessor hides: a wait, a barrier, the first operands."""
COPY_CLOCKS = 200
"""What a copy by threads takes more than one by TMA."""
TURN_INSTRUCTIONS = 30
"""Of a warp, for each turn: addresses, waits, what counts."""
COPY_INSTRUCTIONS = 3
"""For each 16 bytes that a thread copies."""
READ_INSTRUCTIONS = 2
"""For each 16 bytes of operands that a thread reads."""
ENDS_CLOCKS = 3000
"""From the start of a block to its first product, and from its last one to its end."""
WORD_BYTES = 4
HELD = 40
"""Registers of a thread beside sums and operands: addresses, counters."""
LEAST_RUNS = 64
"""Bytes of a row of a turn, where each of four lanes has a run of what two instructions multiply."""
RUN_INSTRUCTIONS = 50
"""Of a warp, for each turn, where it also loads what it computes: addresses of 64 bits, places of scales."""
FRAGMENT = 16
"""Rows and columns of a warp's part of a tile, at least. Where there are no more of the other operand, a computed one
is multiplied as soon as a part of it is there."""
RUN_SHARE = 0.125
"""Of such a one, that is there at the same time."""
PIECE_WORDS = 4
"""Registers of what a thread loads at once, of a row that it holds: one more says where it lies, or whether it does."""
MOST_REGISTERS = 255
REGISTER_UNIT = 8
PLANE_BYTES = bf16.bytes
SPLIT_SHARE = 0.73
"""Of the speed that is predicted otherwise for products of planes that threads make as they read operands, what is
reached: products of 512 to 4096 took 1.19 to 1.41 times as long (H100)."""
SCHEDULERS = 4
"""Of a multiprocessor, each with warps of its own."""
COMPUTED_BETWEEN_WAITS = 1.6
"""How many times as long instructions take that all wait for what was asked for before, and that all wait for then: two
warps of a scheduler, of whose instructions most go to pipes of half the width. Weights of 4 bits and 256 rows, by
warpgroups: turns of 128 x 224 took 3100 clocks on an H200, of 256 x 112 half as deep 1440, with one factor for both. 16
rows in 4 parts took 22.8 us, 18.0 without, with zero points 26.1 and 21.9."""
ENOUGH_WARPS = 8
"""Of a multiprocessor, that issue an instruction of each scheduler in every clock, by turns."""
FMA_SHARE = 0.8
"""Of the multiply-adds that threads could issue, those that they do in a product."""


class ComputedOperand(NamedTuple):
    """What threads compute of what they load themselves, a turn before: the left operand, or the right one.

    `bytes`: that are loaded for each element; `instructions`: for each element. `run`: neighbours along the sum that a
    thread loads at once, and keeps in registers where each warp computes its own part (`operand_runs.py`). `in_ring`:
    whether what is loaded waits in stages too, where each thread finds its own again; packed elements do not.
    """

    is_left: bool
    bytes: float
    instructions: float
    run: int
    in_ring: bool


class ThreadNest(NamedTuple):
    """A product: how long its sides are, how many there are, and by what they are multiplied."""

    rows: int
    columns: int
    depth: int
    batches: int = 1
    """Matrices, each by blocks of its own."""
    together: int = 1
    """Matrices that a block multiplies at once."""
    beside: int = 1
    """Products with one left operand."""
    bytes: int = 2
    sum_bytes: int = 4
    step_bytes: int = 32
    """Of a row of an operand, that one instruction multiplies."""
    plain: bool = False
    """Whether threads multiply one by one."""
    whole: bool = False
    """Whether blocks have whole rows."""
    held: int = 0
    """Bytes of each row that threads hold before the loop, as what is folded is loaded whole."""
    held_beside: int = 0
    """Those of them that they hold beside sums."""
    planes: int = 1
    """Matrices that stand for an operand (`tile.dot` with planes)."""
    split: bool = False
    """Whether threads make planes of operands of f32 as they read them."""
    computed: ComputedOperand | None = None
    alone: bool = False
    """Whether nothing sees its sums before the loop has ended: groups of warps may share it."""
    made_of: tuple[int, int] = (1, 1)
    """Elements that the loop loads for each element of the left operand, and of the right one: more where these are
    folds."""

    @property
    def products(self) -> int:
        """Of matrices, that make one of operands."""
        return len(PLANE_PAIRS) if self.planes > 1 or self.split else 1

    @property
    def multiplied_bytes(self) -> int:
        """Of an element, as it is multiplied."""
        return PLANE_BYTES if self.split else self.bytes

    @property
    def staged_bytes(self) -> int:
        """Of each element of an operand, in a stage."""
        return self.bytes * self.together * self.planes


class ThreadTiling(NamedTuple):
    """The tile of a block, its warps along rows and columns, and its stages."""

    rows: int
    columns: int
    depth: int = 0
    warps: tuple[int, int] = (2, 2)
    stages: int = 0
    groups: int = 1
    """Of warps, each of which takes its part of a turn's depth, and has sums of its own."""

    @property
    def threads(self) -> int:
        return 32 * self.warps[0] * self.warps[1] * self.groups


def in_registers(nest: ThreadNest, tiling: ThreadTiling) -> ComputedOperand | None:
    """The operand that each warp computes for itself alone, and multiplies from registers."""
    computed = nest.computed
    if computed is None or not computed.run or tiling.warps[1 if computed.is_left else 0] > 1:
        return None
    return computed if tiling.depth // tiling.groups * nest.bytes >= LEAST_RUNS else None


def bytes_ahead(nest: ThreadNest, tiling: ThreadTiling) -> float:
    """Of a thread, that it asks for a turn before: what it computes an operand of, if that does not wait in stages."""
    computed = in_registers(nest, tiling)
    if computed is None or computed.in_ring:
        return 0.0
    side = tiling.rows // tiling.warps[0] if computed.is_left else tiling.columns // tiling.warps[1]
    return side * (tiling.depth // tiling.groups) * computed.bytes / 32


def stage_bytes(nest: ThreadNest, tiling: ThreadTiling) -> int:
    """Shared memory of one stage."""
    left, right = nest.made_of
    computed = in_registers(nest, tiling)
    if computed is not None:
        side, other = (tiling.rows, tiling.columns) if computed.is_left else (tiling.columns, tiling.rows)
        return int((other * nest.staged_bytes + side * computed.bytes * computed.in_ring) * tiling.depth)
    return (tiling.rows * left + tiling.columns * nest.beside * right) * tiling.depth * nest.staged_bytes


def sums_of(nest: ThreadNest, tiling: ThreadTiling) -> int:
    """Registers of a thread that hold sums; those of products of planes are parts of others."""
    elements = tiling.rows * tiling.columns * nest.beside * nest.together * (2 if nest.planes > 1 or nest.split else 1)
    return -(-elements * tiling.groups * nest.sum_bytes // WORD_BYTES // tiling.threads)


def registers_of(nest: ThreadNest, tiling: ThreadTiling) -> int:
    """Registers of a thread: sums and operands of two steps, or the rows that it holds before; all else."""
    rows, columns = tiling.rows // tiling.warps[0], tiling.columns // tiling.warps[1]
    if nest.plain:
        operands = (rows + columns) // 8 * nest.bytes // WORD_BYTES
    else:  # of one step along the sum, spread over a warp
        operands = (rows + columns) * nest.step_bytes // WORD_BYTES // 32
    if nest.split:  # as they are read, of two steps, and planes of one
        operands = operands * (2 * nest.bytes + PLANES * PLANE_BYTES) // (2 * PLANE_BYTES)
    beside = tiling.rows * nest.held_beside // WORD_BYTES // tiling.threads
    before = tiling.rows * nest.held * (PIECE_WORDS + 1) // PIECE_WORDS // WORD_BYTES // tiling.threads
    computed = in_registers(nest, tiling)
    if computed is not None:  # of this turn, and of the next; and as computed, all of it where several tiles take it
        side, other = (rows, columns) if computed.is_left else (columns, rows)
        held = nest.bytes * (1.0 if other > FRAGMENT else RUN_SHARE)
        loaded = computed.bytes * (1 if computed.in_ring else 2)
        beside += int(side * (tiling.depth // tiling.groups) * (loaded + held) / WORD_BYTES / 32)
    return max(sums_of(nest, tiling) + 2 * operands + beside, before) + HELD


def resident_blocks(nest: ThreadNest, tiling: ThreadTiling, machine: GpuMachine) -> int:
    """How many blocks a multiprocessor has at a time; 0 if there is no room for one."""
    registers = registers_of(nest, tiling)
    if registers > MOST_REGISTERS and in_registers(nest, tiling) is not None:
        return 0  # of the others it is known before their depth is chosen
    registers = min(MOST_REGISTERS, registers)
    registers = -(-registers // REGISTER_UNIT) * REGISTER_UNIT
    shared = stage_bytes(nest, tiling) * tiling.stages + machine.block_bytes
    return min(
        machine.shared_bytes_per_multiprocessor // shared,
        machine.registers // (registers * tiling.threads),
        machine.max_threads_per_multiprocessor // tiling.threads,
        machine.max_blocks_per_multiprocessor,
    )


def thread_seconds(nest: ThreadNest, tiling: ThreadTiling, machine: GpuMachine) -> float:
    """The predicted time of a call."""
    speeds = machine.speeds
    blocks = -(-nest.rows // tiling.rows) * -(-nest.columns // tiling.columns) * nest.batches
    each = -(-blocks // machine.multiprocessors)
    resident = max(1, min(each, resident_blocks(nest, tiling, machine)))
    taken = min(speeds.l2_bytes_each, speeds.l2_bytes / min(blocks, machine.multiprocessors))
    staged = stage_bytes(nest, tiling)
    latency = speeds.latency + COPY_CLOCKS
    copies = (latency + staged / speeds.l2_bytes_each) / max(1, tiling.stages - 1)
    turns = -(-nest.depth // tiling.depth)
    if nest.computed is not None:  # what it is computed of comes from memory
        ahead = max(1, tiling.stages - 1) if nest.computed.in_ring else 1
        copies = max(copies, speeds.memory_latency / ahead)

    def of_round(beside: int) -> float:
        work = beside * _turn_clocks(nest, tiling, machine, taken, beside * tiling.threads / 32)
        turn = together(max(work, work / beside + BARRIER_CLOCKS), copies + work * (tiling.stages < 2))
        return turns * turn + ENDS_CLOCKS + latency + beside * meeting_clocks(nest, tiling, machine)

    full, rest = divmod(each, resident)
    clocks = full * of_round(resident) + (of_round(rest) if rest else 0.0)
    sides = nest.rows * nest.depth + nest.depth * nest.columns * nest.beside + nest.rows * nest.columns * nest.beside
    moved = sides * nest.staged_bytes
    if nest.computed is not None:
        elements = nest.depth * (nest.rows if nest.computed.is_left else nest.columns * nest.beside)
        moved -= elements * (nest.staged_bytes - nest.computed.bytes)
    memory = moved * nest.batches / machine.copied_bytes_per_second
    return speeds.launch + together(clocks / speeds.clock, memory)


def _turn_clocks(nest: ThreadNest, tiling: ThreadTiling, machine: GpuMachine, taken: float, busy: float) -> float:
    """What one block's turn takes of a multiprocessor. `taken`: bytes from L2 in a clock. `busy`: warps of all blocks
    that it has at a time."""
    speeds, (down, across) = machine.speeds, tiling.warps
    columns = tiling.columns * nest.beside
    multiplied = tiling.rows * columns * tiling.depth * nest.together * nest.products
    single = speeds.doubles if nest.bytes > WORD_BYTES else speeds.instructions
    rate = single * FMA_SHARE if nest.plain else speeds.mma_of(nest.multiplied_bytes)
    rate *= min(1.0, busy / SCHEDULERS)
    staged = stage_bytes(nest, tiling)
    read = (tiling.rows * across + columns * down) * tiling.depth * nest.staged_bytes
    by_lanes = _read_by_lanes(nest, tiling) if nest.plain else READ_INSTRUCTIONS * read
    warps = down * across * tiling.groups
    instructions = COPY_INSTRUCTIONS * staged / 512 + by_lanes / 512 + TURN_INSTRUCTIONS * warps
    instructions += multiplied / (32 if nest.plain else 4096 // nest.multiplied_bytes)
    if nest.computed is not None:
        side = tiling.rows if nest.computed.is_left else columns
        alone = in_registers(nest, tiling) is not None
        instructions += nest.computed.instructions * side * tiling.depth / 32 + RUN_INSTRUCTIONS * warps
        instructions *= COMPUTED_BETWEEN_WAITS / min(1.0, busy / ENOUGH_WARPS)
        staged += int(nest.computed.bytes * side * tiling.depth * (not alone or not nest.computed.in_ring))
        if alone:
            read -= side * tiling.depth * nest.staged_bytes
    if nest.split:
        instructions += SPLIT_INSTRUCTIONS * (tiling.rows * across + columns * down) * tiling.depth / 32
    clocks = together(
        multiplied / rate, read / speeds.shared_bytes, instructions * 32 / speeds.instructions, staged / taken
    )
    return clocks / SPLIT_SHARE if nest.split else clocks


def meeting_clocks(nest: ThreadNest, tiling: ThreadTiling, machine: GpuMachine) -> float:
    """What it takes of a multiprocessor that sums of several groups are written to shared memory, and read."""
    if tiling.groups == 1:
        return 0.0
    bytes_ = tiling.groups * tiling.rows * tiling.columns * nest.sum_bytes
    return 2 * (BARRIER_CLOCKS + bytes_ / machine.speeds.shared_bytes)


def _read_by_lanes(nest: ThreadNest, tiling: ThreadTiling) -> int:
    """Bytes of operands that threads read which multiply one by one: each has its own, of rows and of columns, which
    others of its warp read as well."""
    along, beside = fma_threads(tiling.threads, tiling.rows, tiling.columns)
    each = tiling.rows // along + tiling.columns // beside * nest.beside
    return tiling.threads * each * tiling.depth * nest.staged_bytes


def together(*times: float) -> float:
    """Times of one turn, none of which hides the others in full."""
    return sum(time**TOGETHER for time in times) ** (1 / TOGETHER)
