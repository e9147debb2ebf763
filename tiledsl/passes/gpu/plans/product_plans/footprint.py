"""What a block with specialised warps takes of a multiprocessor: registers of its threads, shared memory.

The planner asks here whether a tiling fits, and the lowering how many registers each role gets; a test holds the shared
memory against what is allocated.
"""

from __future__ import annotations

from typing import NamedTuple

from tiledsl.passes.gpu.plans.product_plans.product_nest import ProductDot, ProductNest, Result, Stream
from tiledsl.passes.gpu.plans.product_plans.tilings import WARPGROUP, WARPGROUP_ROWS, Tiling
from tiledsl.passes.gpu_machine import GpuMachine

SUM_BYTES = 4
REGISTER_BYTES = 4
COMPUTED_SLOTS = 2
"""Places for a right operand that threads compute: that of the turn at hand, and that of the next."""
ROWS_OF_SWIZZLE = 8
"""After so many rows a swizzle repeats."""
MOST_GROUPS = 3
"""Warpgroups that share a row."""
SENT_ROWS = 16
"""Blocks that share a loop send each other rows of their sums in groups of so many at most."""
MOST_STAGES = 12
RESERVED_BYTES = 2048
"""Of a block's shared memory: mbarriers, and what alignment to 1024 bytes may cost."""
BOOKKEEPING = 40
"""Registers of a consumer's thread beside its sums, where a loop only multiplies."""
BACK_TO_BACK_ROOM = {1: 193, 2: 193, 3: 136}
"""Registers of a thread for tiles, where a loop computes as well: what addresses, numbers of rows and what the loop
carries besides leave of them, by consumers."""
APART_ROOM = {"scores": 100, "sums": 144}
"""The same of a thread that makes scores, and of one that sums, where these are roles of their own."""
WIDE_COLUMNS = 16
"""Columns of a tile that is computed in a loop, for which a thread has one address or constant more."""
INSTRUCTION_REGISTERS = 26
"""Registers of one instruction beside its sums."""
INSTRUCTION_COLUMNS = 256
"""That one instruction makes at most."""
MOST_REGISTERS = 232
PRODUCER_REGISTERS = 32
RESIDENT_PRODUCER_REGISTERS = 40
"""Where blocks share a multiprocessor."""
REGISTERS = {2: (40, 232), 3: (32, 160)}
"""Of each thread of the warpgroup that loads and of those that multiply, by how many multiply, where a block has a
multiprocessor for itself. Where one multiplies, all have as many as they begin with."""
REGISTERS_BACK_TO_BACK = {**REGISTERS, 2: (24, 240)}
"""The same where products hold their sums at once."""
REGISTERS_APART = (40, 176, 120)
"""The same of each thread that loads, that sums and that makes scores, where the latter have a role of their own."""
REGISTERS_OF_COPIES = {2: (72, 216), 3: (56, 152)}
"""The same where the threads that load copy rows themselves."""


class Registers(NamedTuple):
    """Of one thread that multiplies: what its tiles take, and what there is for them."""

    held: int
    room: int

    @property
    def fit(self) -> bool:
        """Whether they do."""
        return self.held <= self.room


def registers_of(nest: ProductNest, tiling: Tiling, machine: GpuMachine) -> Registers:
    """Of a consumer's thread."""
    threads = tiling.row_groups * tiling.column_groups * WARPGROUP
    if not nest.back_to_back:
        sums = sum(_sums(dot, tiling) for dot in nest.dots) // threads
        room = consumer_registers(machine, tiling.consumers, tiling.resident) - BOOKKEEPING
        beside = _registers_beside(nest, sums, tiling.columns // tiling.column_groups)
        held = sums + beside + _operands(nest, tiling) // threads + _rows_held(nest, tiling, beside_sums=True)
        return Registers(max(held, _rows_held(nest, tiling)), room)
    if tiling.apart:
        return _registers_apart(nest, tiling)
    held = _rows_held(nest, tiling, beside_sums=True)
    held += sum(_sums(dot, tiling) // threads for dot in nest.dots if not dot.adds_to_other)
    held += tiling.column_groups * _operands(nest, tiling) // threads  # whoever shares rows has all of these
    wide = [tiling.length(dot.columns) for dot in nest.dots if dot.in_loop and dot.columns.kind == "loop"]
    held = max(held + max(wide, default=0) // WIDE_COLUMNS, _rows_held(nest, tiling))
    return Registers(held, BACK_TO_BACK_ROOM[tiling.consumers])


def _registers_apart(nest: ProductNest, tiling: Tiling) -> Registers:
    """Of a thread of that role which has less to spare: one makes scores, and has them twice, as they are and as what
    is carried of them to the end of the loop; the other one has sums alone."""
    held = {"scores": _rows_held(nest, tiling), "sums": 0}
    for dot in nest.dots:
        if dot.sums_loop:
            held["sums"] += _sums(dot, tiling) // (tiling.consumers * WARPGROUP)
        else:
            held["scores"] += (1 if dot.adds_to_other else 2) * _sums(dot, tiling) // WARPGROUP
    held["scores"] += _operands(nest, tiling) // WARPGROUP
    tight = max(held, key=lambda role: held[role] - APART_ROOM[role])
    return Registers(held[tight], APART_ROOM[tight])


def _rows_held(nest: ProductNest, tiling: Tiling, *, beside_sums: bool = False) -> int:
    """Registers of a thread for rows that it holds: all of them, or those that it holds beside its sums."""
    threads = tiling.row_groups * tiling.column_groups * WARPGROUP
    held = [one for one in nest.held if one.beside_sums or not beside_sums]
    return sum(tiling.elements(one.sides) * one.bytes for one in held) // REGISTER_BYTES // threads


def _operands(nest: ProductNest, tiling: Tiling) -> int:
    """Registers of all threads that hold left operands."""
    sides = {(dot.rows, dot.depth, dot.bytes * _planes_held(dot)) for dot in nest.dots if not dot.left_loaded}
    return sum(tiling.rows_of(rows) * tiling.length(depth) * bytes_ // 4 for rows, depth, bytes_ in sides)


def _planes_held(dot: ProductDot) -> int:
    """Of a left operand: those of the turn at hand, and those that are made for the next one."""
    return COMPUTED_SLOTS * dot.planes if dot.split else 1


def _sums(dot: ProductDot, tiling: Tiling) -> int:
    """Registers of all threads that hold a product's sums."""
    return tiling.rows_of(dot.rows) * tiling.length(dot.columns) * (2 if dot.promoted else 1)


def _registers_beside(nest: ProductNest, sums: int, columns: int) -> int:
    """Registers of a thread that has so many sums of so many columns, for what its result is combined with: a quarter
    of its part of tiles, which are read as they are needed, and two neighbours of each eight columns of rows."""
    beside_bytes = sums // nest.parallel_products * nest.epilogue.beside_bytes
    return int(beside_bytes / 4 + columns * nest.epilogue.row_bytes / 4) // 4


def instruction_fits(nest: ProductNest, tiling: Tiling, machine: GpuMachine) -> bool:
    """Whether a thread has registers at launch for one instruction: compilers do not count on more for it."""
    if tiling.apart:  # its instructions are as narrow as that takes
        return True
    widest = max(tiling.length(dot.columns) // tiling.column_groups for dot in nest.dots)
    wanted = min(INSTRUCTION_COLUMNS, widest) // 2 + INSTRUCTION_REGISTERS
    return wanted <= registers_at_launch(machine, tiling.consumers, tiling.resident)


def registers_at_launch(machine: GpuMachine, consumers: int, resident: int) -> int:
    """The registers that each thread of a block has when it begins. A multiple of 8."""
    return min(machine.registers // ((consumers + 1) * WARPGROUP * resident) // 8 * 8, 248)


def consumer_registers(machine: GpuMachine, consumers: int, resident: int) -> int:
    """The registers that a consumer's thread can have where so many consumers and one producer make a block, of which
    `resident` share a multiprocessor. A multiple of 8.

    >>> consumer_registers(gpu_machine("sm_90"), 2, 1)
    232
    """
    left = registers_at_launch(machine, consumers, resident) * (consumers + 1) - (
        PRODUCER_REGISTERS if resident == 1 else RESIDENT_PRODUCER_REGISTERS
    )
    return min(MOST_REGISTERS, left // consumers // 8 * 8)


def registers_of_roles(
    machine: GpuMachine, consumers: int, resident: int, *, back_to_back: bool, copies: bool
) -> tuple[int, int]:
    """Registers of each thread that loads and of each that multiplies; 0 where they keep what they begin with."""
    if resident > 1:
        return RESIDENT_PRODUCER_REGISTERS, consumer_registers(machine, consumers, resident)
    table = REGISTERS_OF_COPIES if copies else REGISTERS_BACK_TO_BACK if back_to_back else REGISTERS
    return table.get(consumers, (0, 0))


def shared_bytes(nest: ProductNest, tiling: Tiling) -> int:
    """Of a block, but for mbarriers and what alignment costs."""
    return tiling.stages * stage_bytes(nest, tiling) + bytes_beside(nest, tiling)


def stage_bytes(nest: ProductNest, tiling: Tiling) -> int:
    """Shared memory of one stage: a tile of each operand that the loop loads."""
    return sum(stream_bytes(stream, tiling) for stream in nest.streams if stream.in_loop)


def stream_bytes(stream: Stream, tiling: Tiling) -> int:
    """Shared memory of one tile."""
    return tiling.elements(stream.sides) * stream.bytes * stream.planes


def result_bytes(result: Result, tiling: Tiling) -> int:
    """Shared memory of one tile that is stored."""
    return tiling.elements(result.sides) * result.bytes


def _lends(stream: Stream, result: Result, tiling: Tiling) -> bool:
    """Whether a tile that was loaded lies in shared memory as one that is stored will."""
    loaded, stored = (tuple(map(tiling.length, sides[-2:])) for sides in (stream.sides, result.sides))
    return stream.only_multiplied and (*loaded, stream.bytes) == (*stored, result.bytes)


def goes_out_by_ring(nest: ProductNest, tiling: Tiling) -> bool:
    """Whether the first result goes out through the stages of an operand, when they are done with: a block makes one
    tile by one loop, and the largest of its operands has room for it."""
    one = not tiling.programs and tiling.roles != "pingpong" and tiling.splits == 1 and nest.loops == 1
    if not one or nest.loop is None or not nest.tma_store or nest.epilogue.beside_bytes:
        return False
    largest = max(stream_bytes(stream, tiling) for stream in nest.streams if stream.in_loop)
    return bool(nest.results) and result_bytes(nest.results[0], tiling) <= tiling.stages * largest


def goes_out_of_registers(nest: ProductNest, tiling: Tiling) -> bool:
    """Whether threads store the first result themselves: warpgroups share its rows, the ring has no room for it, and
    eight elements of a row, which neighbours hold, are a whole sector of memory."""
    shared = nest.back_to_back and tiling.column_groups > 1
    return shared and nest.results[0].bytes >= SUM_BYTES and not goes_out_by_ring(nest, tiling)


def exchanged_bytes(nest: ProductNest, tiling: Tiling) -> int:
    """Shared memory in which warpgroups that share rows give each other what they made of their columns: left operands
    that are computed, and what each found in its part of a row, once for a turn and once behind the loop."""
    if tiling.column_groups == 1:
        return 0
    rows = 2 * tiling.rows * tiling.column_groups * SUM_BYTES
    return rows + REGISTER_BYTES * _operands(nest, tiling)


def bytes_beside(nest: ProductNest, tiling: Tiling) -> int:
    """Shared memory of a block beside the stages: what is loaded once, and what waits for its way out. The first result
    may go out through the place of what came in, where that is a tile like it, or through the stages."""
    if tiling.splits > 1:
        return sums_bytes(nest, tiling)
    once = [stream for stream in nest.streams if not stream.in_loop]
    results = nest.results if nest.staged else ()
    if results and (goes_out_by_ring(nest, tiling) or goes_out_of_registers(nest, tiling)):
        results = (Result((), 0), *results[1:])
    each = sum(stream_bytes(stream, tiling) for stream in once)
    each += sum(result_bytes(result, tiling) for result in results[1:])
    if results and not any(_lends(stream, results[0], tiling) for stream in once):
        each += result_bytes(results[0], tiling)
    each += sum(
        COMPUTED_SLOTS * tiling.length(dot.depth) * tiling.length(dot.columns) * dot.bytes * dot.planes
        for dot in nest.dots
        if not dot.right_loaded
    )
    if nest.back_to_back:
        return each + exchanged_bytes(nest, tiling)
    tile = tiling.rows * tiling.columns
    if tiling.roles == "pingpong":  # else the result goes out through the same memory
        each += tile * nest.epilogue.beside_bytes
    each += tiling.columns * nest.epilogue.row_loaded * nest.parallel_products
    if nest.whole_rows:
        each += _folds_bytes(nest, tiling)
    return each * (2 if tiling.roles == "pingpong" else 1)


def _folds_bytes(nest: ProductNest, tiling: Tiling) -> int:
    """In which warpgroups tell each other what they made of their parts of rows; blocks of a cluster in two places that
    take turns."""
    across = tiling.across
    return nest.epilogue.folds * tiling.rows * SUM_BYTES * (MOST_GROUPS if across == 1 else 2 * (across + MOST_GROUPS))


def sums_bytes(nest: ProductNest, tiling: Tiling) -> int:
    """Shared memory for the sums that blocks which share a loop give each other, of rows that there are."""
    return rows_to_send(tiling.rows, rows_to_load(nest, tiling)) * tiling.columns * SUM_BYTES


def rows_to_load(nest: ProductNest, tiling: Tiling) -> int:
    """How many rows of the left operand a stage gets of a tile of so many: not all where there are fewer, each of them
    in one piece. An instruction gets some at least."""
    lefts = [stream for stream in nest.streams if stream.is_left]
    if nest.back_to_back or tiling.side > 1 or not all(stream.counts_along_depth for stream in lefts):
        return tiling.rows
    there = -(-nest.rows // ROWS_OF_SWIZZLE) * ROWS_OF_SWIZZLE
    return min(tiling.rows, max(there, tiling.rows - WARPGROUP_ROWS + ROWS_OF_SWIZZLE))


def rows_to_send(rows: int, loaded: int) -> int:
    """Of the sums of a tile, how many rows blocks send each other at most: as many as are loaded, 16 by 16.

    >>> rows_to_send(64, 24)
    32
    """
    return min(rows, -(-loaded // SENT_ROWS) * SENT_ROWS)


def lends_room(nest: ProductNest, tiling: Tiling) -> bool:
    """Whether the stages of an operand, when they are done with, have room for a block's own sums."""
    largest = max(stream_bytes(stream, tiling) for stream in nest.streams) * tiling.stages
    return largest >= tiling.rows * tiling.columns * SUM_BYTES


def stages_that_fit(nest: ProductNest, tiling: Tiling, machine: GpuMachine) -> int:
    """How many stages a ring can have, where `resident` blocks share a multiprocessor."""
    room, each = machine.shared_bytes_of_block(tiling.resident) - RESERVED_BYTES, max(1, stage_bytes(nest, tiling))
    most = tiling._replace(stages=min(MOST_STAGES, room // each))  # where no result has memory of its own
    while most.stages > 0 and not fits_memory(nest, most, machine):
        most = most._replace(stages=most.stages - 1)
    return most.stages


def fits_memory(nest: ProductNest, tiling: Tiling, machine: GpuMachine) -> bool:
    """Whether a block has shared memory for its stages and all beside them."""
    return shared_bytes(nest, tiling) + RESERVED_BYTES <= machine.shared_bytes_of_block(tiling.resident)
