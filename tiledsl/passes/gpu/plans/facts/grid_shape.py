"""What matters of a grid to plans: its blocks, tiles and accesses, and the sizes of a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Fact, Function, Op, Value
from tiledsl.ir.facts import Facts
from tiledsl.ir.symbolic import Dim, evaluate, symbol, symbols_of
from tiledsl.ir.types import AxisType, Shape, TileType
from tiledsl.passes.analysis.effects import tensors_in_order
from tiledsl.passes.analysis.sizes import UNKNOWN_SIZE, BlockDefinition, blocks_of, symbols_in
from tiledsl.passes.gpu.plans.facts.call_sizes import Sizes
from tiledsl.passes.nest.loop_nest import LoopNest, loop_nest
from tiledsl.support.powers_of_two import power_of_two_in

UNIT = 16
"""Sizes that are multiples of so much are known to be by what a function promises."""


@dataclass(frozen=True)
class GridShape:
    """What matters of one grid: its blocks, and the tiles and accesses inside of it."""

    op: ops.Grid
    blocks: tuple[BlockDefinition, ...]
    """Of the grid, then of the loops inside."""
    shapes: tuple[Shape, ...]
    accesses: tuple[ops.Load | ops.Store, ...]
    dots: tuple[ops.Dot, ...]

    @cached_property
    def nest(self) -> LoopNest:
        """What it does."""
        return loop_nest(self.op)

    @property
    def open(self) -> dict[str, BlockDefinition]:
        """The blocks that nobody has chosen, by symbol."""
        return {b.extent: b for b in self.blocks if b.extent is not None and b.block.kind != "fixed"}

    @cached_property
    def symbols(self) -> frozenset[str]:
        """Every size that it speaks of, but those of blocks."""
        names = frozenset[str]().union(*(symbols_in(op) for op in (self.op, *self.op.body.walk())))
        stops = frozenset[str]().union(*(symbols_of(b.total) for b in self.blocks if b.total is not None))
        return (names | stops) - self.block_symbols

    @property
    def block_symbols(self) -> frozenset[str]:
        return frozenset(b.extent for b in self.blocks if b.extent is not None)


def grids_of(function: Function) -> Iterator[GridShape]:
    """The grids of a function, in order."""
    for op in function.body.ops:
        if isinstance(op, ops.Grid):
            nested = list(op.body.walk())
            loops = [block for o in nested if isinstance(o, ops.Range) for block in blocks_of(o)]
            yield GridShape(
                op,
                (*blocks_of(op), *loops),
                tuple(dict.fromkeys(_tile_shapes(nested))),
                tuple(o for o in nested if isinstance(o, (ops.Load, ops.Store)) and accessed(o)),
                tuple(o for o in nested if isinstance(o, ops.Dot)),
            )


def _tile_shapes(nested: Iterable[Op]) -> Iterator[Shape]:
    for op in nested:
        for value in op.results:
            if isinstance(value.type, TileType) and value.shape:
                yield value.shape


def accessed(op: ops.Load | ops.Store) -> Shape:
    return op.value.shape if isinstance(op, ops.Store) else op.result.shape


class KnownSizes:
    """The sizes of a call; a guess for those that are not known. `alignment`: of what a multiple of bytes the rows of
    each tensor begin, as far as that is known."""

    def __init__(self, function: Function, sizes: Mapping[str, int], alignment: Sequence[int] = ()) -> None:
        shapes = [p.type.shape for p in function.parameters if not isinstance(p.type, AxisType)]
        names = frozenset[str]().union(*(symbols_of(dim) for shape in shapes for dim in shape))
        self.function, self.known = function, dict(sizes)
        self.values = {**dict.fromkeys(names, UNKNOWN_SIZE), **sizes}
        self.alignment: dict[Value, int] = dict(zip(tensors_in_order(function.body), alignment))

    @property
    def every(self) -> dict[str, int]:
        """Every size that the function speaks of, by symbol, but those of blocks; a guess for those not known."""
        return {name: size for grid in grids_of(self.function) for name, size in self.all_of(grid).items()}

    def all_of(self, grid: GridShape) -> dict[str, int]:
        """Every size that a grid speaks of, by symbol, but those of blocks; a guess for those that are not known."""
        return {**dict.fromkeys(grid.symbols, UNKNOWN_SIZE), **self.values}

    def of(self, dim: Dim | None, blocks: Mapping[str, int] | None = None) -> int:
        """A size, or a guess."""
        if dim is None:
            return UNKNOWN_SIZE
        values = {**self.values, **(blocks or {})}
        missing = {name: UNKNOWN_SIZE for name in symbols_of(dim) if name not in values}
        return max(1, evaluate(dim, {**values, **missing}))

    def multiple_of(self, dim: Dim) -> int:
        """A power of two that a size is known to be a multiple of wherever the plan is taken: the function says which
        symbols are multiples of 16, and the plan what others are multiples of."""
        known = [Fact(symbol(name), power_of_two_in(size)) for name, size in self.known.items() if size % UNIT]
        facts = Facts((*self.function.facts, *known))
        return next(n for n in (UNIT, 8, 4, 2, 1) if facts.divisible(dim, n))


def sizes_of_call(function: Function, grid: GridShape, sizes: Mapping[str, int], alignment: Sequence[int]) -> Sizes:
    """What is known of a call of a function, for one grid of it; unknown sizes are guessed."""
    known = KnownSizes(function, sizes, alignment)

    def alignment_of(tensor: Value) -> int:
        return known.alignment.get(tensor, 16)

    return Sizes(known.of, known.all_of(grid), alignment_of, known.multiple_of)
