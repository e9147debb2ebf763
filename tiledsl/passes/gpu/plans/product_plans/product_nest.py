"""What a grid with matrix products is to a planner: its products, what is loaded for them, and what else a block does.

    for h, i in tile.grid(H, Q):
        for j in tile.range(K):                              products of the loop over j:
            s = tile.dot(q[h, i, :], k[h, j, :].mT)          rows x loop, D deep
            acc = tile.dot(weights(s), v[h, j, :], acc)      rows x D, as deep as the loop's block

Any number of products, in loops or not, has this form; of several loops, a turn is one of each. Every side of a tile is
the block of the rows, of the columns, of the loop, or a whole axis; a tiling puts in the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from tiledsl.ir.tile_ops import PLANES

Kind = Literal["rows", "columns", "loop", "whole"]


class Side(NamedTuple):
    """A side of a tile. `size`: how long the axis is that the block cuts up; or of a whole axis, all of it."""

    kind: Kind
    size: int


class ProductDot(NamedTuple):
    """A product of two tiles, `rows` x `depth` and `depth` x `columns`.

    `left_loaded`, `right_loaded`: whether an operand is loaded, else threads compute it: left ones stay in registers,
    right ones are written to shared memory. `adds_to_other`: whether it adds to what another product has made. `times`:
    how many matrices are multiplied with as many others, and added up (planes). `split`: whether threads make planes of
    what is loaded.
    """

    rows: Side
    columns: Side
    depth: Side
    bytes: int
    in_loop: bool
    left_loaded: bool
    right_loaded: bool
    adds_to_other: bool
    promoted: bool
    times: int = 1
    split: bool = False

    @property
    def planes(self) -> int:
        """Matrices that threads make of an operand which they compute."""
        return PLANES if self.split else 1

    @property
    def sums_loop(self) -> bool:
        """Whether it sums along the loop, of several products the last ones."""
        return self.depth.kind == "loop"


class Stream(NamedTuple):
    """A tile that is loaded ahead, and stays in shared memory until all products have read it.

    `moved_by`: the axes of the grid that say where it lies. `copied`: how many bytes at a time threads copy of it; 0
    where TMA does. `counts_along_depth`: whether it counts fastest along what its product sums up; `row_start`: the
    bytes that every row of the tensor starts at a multiple of, a line of the cache at most. `is_left`: of which
    operand. `held`: elements of the whole tensor that the grid reads. `only_multiplied`: whether nothing but products
    reads it. `windows`: the bytes of a pixel's channels, where rows are positions of windows; else 0.
    `planes`: how many such tiles lie behind each other. `run`: where rows lie in runs anywhere, how many rows each has
    that a block may begin with; else 0. `cleared`: whether who loads it makes rows behind the end of the loop 0.
    `among`: where blocks of the last axis but one choose a place by what data say, as rows sorted by experts do, of how
    many; else 0.
    """

    sides: tuple[Side, ...]
    bytes: int
    in_loop: bool
    is_left: bool
    counts_along_depth: bool
    row_start: int
    moved_by: tuple[int, ...]
    copied: int
    held: int
    only_multiplied: bool = True
    windows: int = 0
    planes: int = 1
    run: int = 0
    cleared: bool = False
    among: int = 0


class Work(NamedTuple):
    """What threads compute for each element of a tile, in a turn of the loop."""

    sides: tuple[Side, ...]
    instructions: float
    special: float


class Result(NamedTuple):
    """A tile that a block stores."""

    sides: tuple[Side, ...]
    bytes: int


class Held(NamedTuple):
    """A tile with a whole axis that threads load around the loop, as rows that are folded. `beside_sums`: whether it is
    there when the loop's sums are, else it is done with before."""

    sides: tuple[Side, ...]
    bytes: int
    beside_sums: bool


class LoopLengths(NamedTuple):
    """How long the loop of each block of `rows` is, in elements, from the first block on. `weight`: blocks that each
    number stands for. Where all loops are alike, `rows` is 0 and there is one number."""

    rows: int
    lengths: tuple[int, ...]
    weight: float


class Epilogue(NamedTuple):
    """What is done to a result behind the loop.

    `beside_bytes`: read for each element of the result. `row_bytes`: of the widest load that is the same for all rows,
    for each column (a bias); `row_loaded`: of all such loads. `instructions` for each element of the result. `folds`
    along its rows. `number_of_a_row`: whether one number for each row is read.
    """

    beside_bytes: int = 0
    row_bytes: int = 0
    row_loaded: int = 0
    instructions: float = 0
    folds: int = 0
    number_of_a_row: bool = False


EPILOGUE = Epilogue()
"""A result is stored as it is."""


@dataclass(frozen=True)
class ProductNest:
    """A grid with products. `axes`: those of the grid in order: each is the rows, the columns, or one that every
    program has a block of its own of (`whole`, with the number of such blocks).

    `back_to_back`: whether products feed on each other, or stand in several `loops`. `computes`: whether a loop does
    more than multiply what it loads. `parallel_products`: how many products make a tile of the result each, in one
    loop.
    `whole_rows`: a tile has all columns, since something is folded along them.
    `grows`: whether blocks farther along the rows have longer loops; `masked`: whether masks do something in the last
    turns of loops. `splittable`: whether blocks can share the loop. `held`: rows that threads hold. `rows_apart`,
    `columns_apart`: why blocks of a cluster cannot share the rows, or the columns, in words that follow "because";
    empty where they can. `apart`: the same of a role that makes scores, beside one that sums. `asked`: of what threads
    load themselves for operands that they compute, bytes of a row for each element of the loop; 0 where they do not.
    """

    axes: tuple[Side, ...]
    dots: tuple[ProductDot, ...]
    streams: tuple[Stream, ...]
    loop: Side | None
    lengths: tuple[LoopLengths, ...]
    work: tuple[Work, ...]
    results: tuple[Result, ...]
    back_to_back: bool
    loops: int = 1
    computes: bool = False
    parallel_products: int = 1
    whole_rows: bool = False
    tma_store: bool = True
    epilogue: Epilogue = EPILOGUE
    grows: bool = False
    masked: bool = False
    splittable: bool = False
    held: tuple[Held, ...] = ()
    rows_apart: str = ""
    columns_apart: str = ""
    apart: str = ""
    asked: float = 0.0

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return max((dot.rows.size for dot in self.dots), default=1)

    @property
    def columns(self) -> int:
        """How many columns one product has, of those that the grid cuts up, or that a tile has whole."""
        return max((dot.columns.size for dot in self.dots if dot.columns.kind == "columns"), default=0)

    @property
    def by_threads(self) -> bool:
        """Whether threads copy an operand: each block for itself."""
        return any(stream.copied for stream in self.streams)

    @property
    def by_planes(self) -> bool:
        """Whether a turn makes several products of what it loads: long enough to hide a copy."""
        return any(dot.times > 1 for dot in self.dots)

    @property
    def reads_alone(self) -> bool:
        """Whether an operand's rows are positions of windows, or lie in runs, of which each block reads its own, or are
        made 0 behind the end of the loop by the block that reads them; or planes are made of it by each block."""
        alone = any(stream.windows or stream.run or stream.cleared for stream in self.streams)
        return alone or any(dot.split for dot in self.dots)

    @property
    def bytes(self) -> int:
        """Of the widest element that is multiplied."""
        return max(dot.bytes for dot in self.dots)

    @property
    def out_bytes(self) -> int:
        """Stored for each element of a result."""
        return sum(result.bytes for result in self.results)

    @property
    def staged(self) -> bool:
        """Whether results go through shared memory on their way out: by TMA, or because the eight elements of a row
        that neighbouring threads hold make no whole sector of memory."""
        return self.tma_store or 8 * self.out_bytes < 32 * max(1, self.parallel_products)
