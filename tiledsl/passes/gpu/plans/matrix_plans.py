"""Plans for grids with matrix products: tile sizes, warps and stages.

A plain product takes the tile that finishes first: the time of one tile (large tiles multiply faster per element) times
the rounds in which the multiprocessors get through all of them. Products that feed on each other, as in attention, keep
rows within warps, so that what is folded along rows and multiplied again never leaves registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.symbolic import Dim, symbol_name
from tiledsl.passes.analysis.sizes import BlockDefinition
from tiledsl.passes.gpu.layouts.capacities import ROOM_DEPTH, ROOM_DEPTH_OF_BYTES
from tiledsl.passes.gpu.layouts.select_mma import choose_instruction
from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.support.powers_of_two import power_of_two_up_to

SizeOf = Callable[["Dim | None"], int]


@dataclass(frozen=True)
class TileChoice:
    """A tile of the result, and how good it is: elements multiplied per unit of time, as a share of the best.

    `depth_bytes`: how much of K is multiplied between two barriers, for an operand that counts fastest along it.
    """

    rows: int
    columns: int
    warps: tuple[int, int]
    rate: float
    depth_bytes: int = 128


MATRIX_TILES = (
    TileChoice(128, 256, (2, 4), 1.0),
    TileChoice(256, 128, (4, 2), 0.99),
    TileChoice(128, 128, (2, 2), 0.94),
    TileChoice(64, 128, (2, 2), 0.75),
    TileChoice(128, 64, (2, 2), 0.75),
    TileChoice(64, 64, (2, 2), 0.55),
    TileChoice(32, 64, (2, 2), 0.35),
    TileChoice(16, 64, (1, 4), 0.22),
    TileChoice(16, 128, (1, 4), 0.3),
)
"""For 16-bit operands and matrix instructions, measured on sm_90."""
PLAIN_TILES = (
    TileChoice(128, 128, (8, 1), 1.0),
    TileChoice(64, 64, (4, 1), 0.7),
    TileChoice(32, 32, (4, 1), 0.4),
    TileChoice(16, 16, (2, 1), 0.2),
)
"""For products without matrix instructions."""
WHOLE_ROW_TILES = (
    (64, (2, 4)), (64, (1, 8)), (32, (2, 4)), (32, (1, 8)), (32, (1, 16)), (16, (1, 4)), (16, (1, 8)), (16, (1, 16)),
)  # fmt: skip
"""Rows of a block that has whole rows of a product, and how its warps share them."""
PLAIN_WHOLE_ROWS = ((32, (8, 1)), (16, (8, 1)), (16, (16, 1)), (8, (8, 1)), (8, (16, 1)))
WHOLE_ROW_SUMS = 96
"""Registers of a thread that hold sums there; half as many without matrix instructions."""
WHOLE_ROW_UNIT = 16
MOST_STAGES = 4
BLOCKS_RESIDENT_BYTES = 110 << 10
"""Shared memory with which two blocks fit a multiprocessor of 227 KiB."""


def matrix_plans(
    dots: Sequence[ops.Dot], blocks: Sequence[BlockDefinition], machine: GpuMachine, size_of: SizeOf
) -> list[Plan]:
    """Plans for a grid with these products, the best first."""
    main = max(dots, key=lambda dot: size_of(dot.a.shape[-2]) * size_of(dot.b.shape[-1]))
    open_ = {b.extent: b for b in blocks if b.extent is not None and b.block.kind != "fixed"}
    if any(_feeds(dot, dots) for dot in dots) or any(_is_folded(dot.result) for dot in dots):
        return _back_to_back_plans(dots, open_, machine, size_of)
    whole = _whole_row_plans(main, open_, machine, size_of) if has_whole_rows(dots, blocks) else []
    if whole:
        return whole
    beside = sum(dot.parent is main.parent and dot.result.shape == main.result.shape for dot in dots)
    return _product_plans(main, open_, machine, size_of, beside, matrices_at_once(main, blocks, size_of))


def matrices_at_once(dot: ops.Dot, blocks: Sequence[BlockDefinition], size_of: SizeOf) -> int:
    """How many matrices a program multiplies at once: along leading axes that are whole, or cut as the user says. Those
    that are open get blocks of 1."""
    said = {b.extent: b.block.size if b.block.kind == "fixed" else 1 for b in blocks if b.extent is not None}
    return math.prod(said.get(symbol_name(dim) or "") or size_of(dim) for dim in dot.result.shape[:-2])


def has_whole_rows(dots: Sequence[ops.Dot], blocks: Sequence[BlockDefinition]) -> bool:
    """Whether a grid makes whole rows of a product in a loop, as something is folded along them."""
    if len(dots) != 1 or any(_feeds(dot, dots) for dot in dots):
        return False
    extents = {block.extent: block for block in blocks}
    row, column, depth = (symbol_name(dim) for dim in (dots[0].a.shape[-2], dots[0].b.shape[-1], dots[0].a.shape[-1]))
    return row in extents and column not in extents and depth in extents and _is_loop(extents[depth])


def _whole_row_plans(
    dot: ops.Dot, open_: dict[str, BlockDefinition], machine: GpuMachine, size_of: SizeOf
) -> list[Plan]:
    """As many rows as registers and shared memory have room for, in steps of K that leave two stages at least."""
    instruction = choose_instruction(dot.a.dtype, dot.b.dtype, dot.dtype, dot.precision, machine.capability)
    plain = instruction.instruction == "fma"
    row, depth = (symbol_name(dim) or "" for dim in (dot.a.shape[-2], dot.a.shape[-1]))
    n = -(-size_of(dot.b.shape[-1]) // WHOLE_ROW_UNIT) * WHOLE_ROW_UNIT
    found: list[Plan] = []
    for rows, warps in PLAIN_WHOLE_ROWS if plain else WHOLE_ROW_TILES:
        sums = rows * n // (32 * math.prod(warps))
        if n % (warps[1] * 8) or sums > (WHOLE_ROW_SUMS // 2 if plain else WHOLE_ROW_SUMS):
            continue
        for deep in (128 // dot.a.dtype.bytes, 64 // dot.a.dtype.bytes, 32 // dot.a.dtype.bytes):
            stage_bytes = (rows + n) * deep * dot.a.dtype.bytes
            stages = min(MOST_STAGES, (machine.shared_bytes_per_block - 2048) // stage_bytes)
            if stages >= 2:
                blocks = {name: rows if name == row else deep if name == depth else 1 for name in open_}
                found.append(Plan((GridPlan(32 * math.prod(warps), 1, warps, stages),), blocks=tuple(blocks.items())))
                break
    return found


def _feeds(dot: ops.Dot, dots: Sequence[ops.Dot]) -> bool:
    """Whether an operand of a product is computed from another product of the grid."""
    seen: set[Value] = set()
    work = [dot.a, dot.b]
    while work:
        value = work.pop()
        if value in seen or value.op is None:
            continue
        seen.add(value)
        if isinstance(value.op, ops.Dot) and value.op in dots:
            return True
        work += [v for v in value.op.operands if v is not value]
    return False


def _is_folded(value: Value) -> bool:
    """Whether a product is folded along its columns, perhaps after elementwise ops."""
    seen, work = {value}, [value]
    while work:
        for user in work.pop().users:
            if isinstance(user, ops.Reduce):
                return True
            if isinstance(user, (ops.Map, ops.Cast)) and user.result not in seen:
                seen.add(user.result)
                work.append(user.result)
    return False


def _total(open_: dict[str, BlockDefinition], name: str, size_of: SizeOf) -> int:
    return size_of(open_[name].total)


def _product_plans(
    dot: ops.Dot, open_: dict[str, BlockDefinition], machine: GpuMachine, size_of: SizeOf, beside: int, batches: int
) -> list[Plan]:
    """`beside`: products of that shape in one loop, each with a right operand and sums of its own. `batches`: matrices
    that each of them multiplies at once, which share the depth of a stage."""
    row, column, depth = (symbol_name(dim) or "" for dim in (dot.a.shape[-2], dot.b.shape[-1], dot.a.shape[-1]))
    instruction = choose_instruction(dot.a.dtype, dot.b.dtype, dot.dtype, dot.precision, machine.capability)
    plain = instruction.instruction == "fma"
    m = _total(open_, row, size_of) if row in open_ else size_of(dot.a.shape[-2])
    n = _total(open_, column, size_of) if column in open_ else size_of(dot.b.shape[-1])
    others = math.prod(
        size_of(b.total) for name, b in open_.items() if name not in (row, column, depth) and not _is_loop(b)
    )
    bytes_ = dot.a.dtype.bytes
    found: list[tuple[float, Plan]] = []
    choices = PLAIN_TILES if plain else MATRIX_TILES
    smallest = min(choices, key=lambda choice: choice.rows * choice.columns)
    for choice in choices:
        least = ROOM_DEPTH if bytes_ > 1 else ROOM_DEPTH_OF_BYTES
        deep = 16 if plain else max(least, power_of_two_up_to(max(1, choice.depth_bytes // bytes_ // batches)))
        stage_bytes = (choice.rows + choice.columns * beside) * deep * bytes_ * batches
        stages = max(1, min(MOST_STAGES, (machine.shared_bytes_per_block - 2048) // stage_bytes))
        sums = choice.rows * choice.columns * beside * batches * dot.dtype.bytes // 4
        accumulators = sums // (32 * math.prod(choice.warps))
        if (stages < 2 or accumulators > 128) and choice is not smallest:
            continue
        if stages * stage_bytes > BLOCKS_RESIDENT_BYTES >= 3 * stage_bytes:
            stages = 3  # so that two blocks fit
        blocks = dict.fromkeys(open_, 1)
        if row in open_:
            blocks[row] = choice.rows
        if column in open_:
            blocks[column] = choice.columns
        if depth in open_:
            blocks[depth] = deep
        resident = max(1, min(2, 227 * 1024 // (stages * stage_bytes + 1024)))
        tiles = -(-m // choice.rows) * -(-n // choice.columns) * others
        rounds = -(-tiles // (machine.multiprocessors * resident))
        time = rounds * resident * choice.rows * choice.columns / choice.rate
        grid = GridPlan(32 * math.prod(choice.warps), 1, choice.warps, stages, raster=8)
        found.append((time, Plan((grid,), blocks=tuple(blocks.items()))))
    found.sort(key=lambda pair: pair[0])
    return [plan for _, plan in found]


def _is_loop(block: BlockDefinition) -> bool:
    return isinstance(block.op, ops.Range)


def _back_to_back_plans(
    dots: Sequence[ops.Dot], open_: dict[str, BlockDefinition], machine: GpuMachine, size_of: SizeOf
) -> list[Plan]:
    rows = {symbol_name(dot.a.shape[-2]) for dot in dots} - {None}
    plans: list[Plan] = []
    for height, width, stages in _heights(dots, open_, machine, size_of):
        blocks = {
            name: height if name in rows and not _is_loop(block) else width if _is_loop(block) else 1
            for name, block in open_.items()
        }
        warps = max(1, height // 16)
        plans.append(Plan((GridPlan(32 * warps, 1, (warps, 1), stages),), blocks=tuple(blocks.items())))
    return plans


def _heights(
    dots: Sequence[ops.Dot], open_: dict[str, BlockDefinition], machine: GpuMachine, size_of: SizeOf
) -> Iterator[tuple[int, int, int]]:
    """Rows per program, columns per turn of the loop, stages."""
    wide = max(dot.a.dtype.bytes for dot in dots)
    longest = max((_total(open_, n, size_of) for n, b in open_.items() if not _is_loop(b)), default=64)
    if wide <= 2 and longest > 64 * machine.multiprocessors // 8:
        yield 128, 64, 2
    yield 64, 64 if wide <= 2 else 32, 2
    yield 64, 32, 1
    yield 32, 16, 1
