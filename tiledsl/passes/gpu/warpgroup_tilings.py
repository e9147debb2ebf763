"""Tilings of a matrix product for warpgroups: what a block holds of each memory, and which tilings fit.

A block has consumer warpgroups that multiply by `wgmma` and one producer warpgroup that loads by TMA, through a ring of
stages in shared memory ([tiling.md](../../../docs/tiling.md)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu_machine import GpuMachine

WARPGROUP = 128
"""Threads."""
WARPGROUP_ROWS = 64
"""Rows of the result that one instruction makes."""
SPAN_BYTES = 128
"""A row of a stage, as the widest swizzle has it; steps are one or two of them deep."""
STEP_BYTES = 32
"""Of K, what one instruction multiplies."""
SECTOR_BYTES = 32
"""What memory is written in."""
ROWS_OF_SWIZZLE = 8
"""After so many rows a swizzle repeats."""
SUM_BYTES = 4
MOST_GROUPS = 3
"""Warpgroups that share a row."""
SENT_ROWS = 16
"""Blocks that share a loop send each other rows of their sums in groups of so many at most."""
MOST_STAGES = 12
RESERVED_BYTES = 2048
"""Of a block's shared memory: mbarriers, and what alignment to 1024 bytes may cost."""
BOOKKEEPING = 40
"""Registers of a consumer's thread beside its accumulators."""
INSTRUCTION_REGISTERS = 26
"""Registers of one instruction beside its sums."""
MOST_REGISTERS = 232
PRODUCER_REGISTERS = 32
RESIDENT_PRODUCER_REGISTERS = 40
"""Where blocks share a multiprocessor."""


@dataclass(frozen=True)
class Product:
    """out[m, n] = a[m, k] @ b[k, n], `batches` times. Sizes in elements, `*_bytes` per element.

    `a_k_major`, `b_k_major`: whether that operand counts fastest along k. `tma_store`: whether the result can go out
    by TMA. `epilogue_bytes`: what is read beside, for each element of the result. `promoted`: sums of narrow products
    are added to others in f32, which take as many registers again. `row_bytes`: of what is read beside that is the
    same for all rows, for each column at most (a bias); `row_loaded`: of all of that. `a_copied`, `b_copied`: how
    many bytes at a time threads that load copy of that operand; 0 where TMA does. `beside`: right operands that are
    multiplied by the same left one, each into sums of its own; `n` and columns of tiles count those of all of them.
    `whole_rows`: a tile has all columns, since something is folded along them, `folds` times. `epilogue_work`:
    instructions for each element of the result. `number_of_a_row`: whether one number for each row is read beside,
    which blocks that share whole rows cannot load each a part of.
    """

    m: int
    n: int
    k: int
    batches: int = 1
    a_bytes: int = 2
    b_bytes: int = 2
    out_bytes: float = 2
    a_k_major: bool = True
    b_k_major: bool = True
    tma_store: bool = True
    epilogue_bytes: float = 0
    row_bytes: int = 0
    row_loaded: int = 0
    epilogue_work: float = 0
    folds: int = 0
    promoted: bool = False
    a_copied: int = 0
    b_copied: int = 0
    beside: int = 1
    whole_rows: bool = False
    number_of_a_row: bool = False

    @property
    def staged(self) -> bool:
        """Whether the result goes through shared memory on its way out: by TMA, or because the eight elements of a row
        that neighbouring threads hold make no whole sector of memory."""
        return self.tma_store or 8 * self.out_bytes < SECTOR_BYTES

    @property
    def by_threads(self) -> bool:
        """Whether threads copy an operand: each block for itself."""
        return bool(self.a_copied or self.b_copied)

    @property
    def depth(self) -> int:
        """Elements of a span."""
        return SPAN_BYTES // max(self.a_bytes, self.b_bytes)


class Tiling(NamedTuple):
    """The choices for a product.

    `rows` and `columns` are those of one block's tile; with "pingpong", of one consumer's. `row_groups` x
    `column_groups` consumers share a tile. `side`: blocks of a cluster side by side along the rows, which get the right
    operand by multicast. `resident`: blocks at once on a multiprocessor. `programs`: clusters that go through all
    tiles; 0: one for each tile. `across`: blocks of a cluster that share whole rows, which get the left operand by
    multicast. `loaded`: rows of a tile that are loaded, where the product has no more; 0 for all.
    """

    rows: int
    columns: int
    depth: int
    schedule: str = "cooperative"
    row_groups: int = 1
    column_groups: int = 1
    stages: int = 2
    side: int = 1
    splits: int = 1
    resident: int = 1
    programs: int = 0
    raster: int = 1
    loaded: int = 0
    across: int = 1

    @property
    def consumers(self) -> int:
        """Warpgroups of a block that multiply."""
        return 2 if self.schedule == "pingpong" else self.row_groups * self.column_groups

    @property
    def block(self) -> tuple[int, int, int]:
        """The blocks of a plan: rows and columns that a cluster makes, and the depth of its step."""
        return self.rows * self.side, self.columns * self.across, self.depth * self.splits

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.side * self.across * self.splits

    def grid_plan(self) -> GridPlan:
        """The same as a plan says it."""
        return GridPlan(
            self.consumers * WARPGROUP,
            self.cluster,
            (4 * self.row_groups, self.column_groups),
            self.stages,
            programs=self.programs,
            raster=self.raster,
            schedule=self.schedule,
            splits=self.splits,
            rows=self.loaded,
            resident=self.resident,
            across=self.across,
        )


def rows_to_load(product: Product, rows: int, side: int = 1) -> int:
    """How many rows of the left operand a stage gets of a tile of so many: not all where the product has fewer, each of
    them in one piece. An instruction gets some at least."""
    if not product.a_k_major or side > 1:
        return rows
    return min(rows, max(-(-product.m // ROWS_OF_SWIZZLE) * ROWS_OF_SWIZZLE, rows - WARPGROUP_ROWS + ROWS_OF_SWIZZLE))


def sums_bytes(product: Product, rows: int, columns: int) -> int:
    """Shared memory for the sums that blocks which share a loop give each other, of rows that there are."""
    return rows_to_send(rows, rows_to_load(product, rows)) * columns * SUM_BYTES


def rows_to_send(rows: int, loaded: int) -> int:
    """Of the sums of a tile, how many rows blocks send each other at most: as many as are loaded, 16 by 16.

    >>> rows_to_send(64, 24)
    32
    """
    return min(rows, -(-loaded // SENT_ROWS) * SENT_ROWS)


def lends_room(product: Product, rows: int, columns: int, depth: int, stages: int) -> bool:
    """Whether the stages of an operand, when they are done with, have room for a block's own sums."""
    largest = max(rows * product.a_bytes, columns * product.b_bytes) * depth * stages
    return largest >= rows * columns * SUM_BYTES


def stage_bytes(product: Product, rows: int, columns: int, depth: int) -> int:
    """Shared memory of one stage: a tile of each operand."""
    return (rows * product.a_bytes + columns * product.b_bytes) * depth


def staging_bytes(product: Product, rows: int, columns: int, schedule: str) -> int:
    """Shared memory in which a result waits for its way out, and what is read beside it comes in. Consumers in turn
    have a tile each."""
    each = int(rows * columns * product.out_bytes) if product.staged else 0
    if schedule == "pingpong":  # else the result goes out through the same memory
        each += int(rows * columns * product.epilogue_bytes)
    each += columns * product.row_loaded
    if product.whole_rows:
        each += folds_bytes(product, rows, columns)
    return each * (2 if schedule == "pingpong" else 1)


def folds_bytes(product: Product, rows: int, columns: int) -> int:
    """Shared memory in which warpgroups tell each other what they made of their parts of rows; blocks of a cluster in
    two places that take turns."""
    across = -(-product.n // columns)
    return product.folds * rows * SUM_BYTES * (MOST_GROUPS if across == 1 else 2 * (across + MOST_GROUPS))


def accumulators(product: Product, rows: int, columns: int, groups: int) -> int:
    """Registers of a thread that hold sums, where `groups` warpgroups share a tile."""
    return rows * columns // (groups * WARPGROUP) * (2 if product.promoted else 1)


def registers_beside(product: Product, sums: int, columns: int) -> int:
    """Registers of a thread that has so many sums of so many columns, for what its result is combined with: a quarter
    of its part of tiles, which are read as they are needed, and two neighbours of each eight columns of rows.

    >>> registers_beside(Product(1, 1, 1, epilogue_bytes=2, row_bytes=2), 128, 256)
    48
    """
    return int(sums * product.epilogue_bytes / 4 + columns * product.row_bytes / 4) // 4


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


def holds(machine: GpuMachine, sums: int, columns: int, consumers: int, resident: int) -> bool:
    """Whether a consumer's thread has registers for so many sums, and at launch for an instruction of so many columns:
    compilers do not count on more for one instruction."""
    of_instruction = columns // 2 + INSTRUCTION_REGISTERS
    fits = of_instruction <= registers_at_launch(machine, consumers, resident)
    return fits and sums + BOOKKEEPING <= consumer_registers(machine, consumers, resident)


def stages_that_fit(machine: GpuMachine, stage: int, staging: int, resident: int) -> int:
    """How many stages of so many bytes a ring can have beside the staged result, where `resident` blocks share a
    multiprocessor."""
    room = machine.shared_bytes_of_block(resident)
    return min(MOST_STAGES, (room - RESERVED_BYTES - staging) // stage)
