"""What a grid does, read off its TILE program once: axes, loops, accesses, products, elementwise work.

    for m, n in tile.grid(M, N):                       axes m of M, n of N
        for k in tile.range(K):                        loop k of K: fixed
            acc = tile.dot(a[m, k], b[k, n], acc)      reads a: moved by m and k, repeated by n

Nothing here depends on sizes, block sizes or a machine: `count_work` puts in the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Function, Index, Value
from tiledsl.ir.dtypes import f32
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import Shape, TensorType, TileType
from tiledsl.passes.analysis.live_tiles import live_tiles
from tiledsl.passes.analysis.quotients import repeats
from tiledsl.passes.analysis.scalars.rounded_results import accurate_values
from tiledsl.passes.analysis.sizes import BlockDefinition, blocks_of, is_scalar
from tiledsl.passes.analysis.slid_axes import slid_axes
from tiledsl.passes.nest.dependence import AxisDependence, slope

AccessOp: TypeAlias = "ops.Load | ops.Store | ops.Atomic"
LoopOp: TypeAlias = "ops.Range | ops.For | ops.While"
Trips = Literal["fixed", "grows", "shrinks", "band", "varies", "data"]
"""How often a loop turns, from block to block of the grid: always alike; more often the farther along an axis (causal
attention), less often; a window that moves along; otherwise by where the block lies; or by values in memory."""
Source = Literal["loaded", "computed", "carried"]
Part = TypeVar("Part", "Access", "Elementwise")
Arguments = ParamSpec("Arguments")
Fact = TypeVar("Fact")
MANY_TILES = 16
"""That a program has at once, so that they and not the parts of the largest one fill the registers of its threads."""


@dataclass(frozen=True, eq=False)
class NestLoop:
    """A sequential loop of a grid, within the loops of `outer`."""

    op: LoopOp
    outer: tuple[NestLoop, ...]
    trips: Trips
    depends: frozenset[Value]
    """The axes that its bounds depend on: blocks of the grid, of ranges and indices of loops."""

    @property
    def axis(self) -> Value | None:
        """The block or the index that its body is given; a `while` has none."""
        return None if isinstance(self.op, ops.While) else self.op.body.arguments[0]

    @property
    def definition(self) -> BlockDefinition | None:
        """Where its blocks begin and end, of a `tile.range`."""
        return next(blocks_of(self.op)) if isinstance(self.op, ops.Range) else None


@dataclass(frozen=True, eq=False)
class Access:
    """A load, store or atomic: what it selects, and what moves it.

    `moved_by`: the axes that its subscripts depend on. `repeated_by`: the axes around it that they do not depend on;
    for each block of those the same elements are accessed again. `gathers`: at coordinates that a tile of integers
    lists. Along a quotient of coordinates it does not gather.
    """

    op: AccessOp
    loops: tuple[NestLoop, ...]
    moved_by: tuple[Value, ...]
    repeated_by: tuple[Value, ...]
    gathers: bool
    conditional: bool
    """Whether it stands in a branch, and so may not be made."""
    chosen: tuple[tuple[Value, Dim], ...] = ()
    """The axes whose blocks choose a place by what data say, and among how many: `w[expert[p], k, n]`."""

    @cached_property
    def facts(self) -> dict[object, Any]:
        """What was found out about it: see `kept`."""
        return {}

    @cached_property
    def repeats(self) -> int:
        """How many neighbours of the tile share an element of the tensor: see `passes/analysis/quotients.py`."""
        return repeats(self.op)

    @cached_property
    def shape(self) -> Shape:
        """Of the tile that is moved."""
        return self.op.result.shape if isinstance(self.op, ops.Load) else self.op.value.shape

    @cached_property
    def tensor(self) -> TensorType:
        """The type of the tensor."""
        assert isinstance(self.op.tensor.type, TensorType)
        return self.op.tensor.type

    @property
    def is_read(self) -> bool:
        """Whether it brings values in; an atomic counts as written."""
        return isinstance(self.op, ops.Load)


def kept(
    found: Callable[Concatenate[Part, Arguments], Fact],
) -> Callable[Concatenate[Part, Arguments], Fact]:
    """Of a function that says what an access or an elementwise op is, whatever plans and sizes are: it is asked once,
    where plans are many."""

    @wraps(found)
    def known(part: Part, *args: Arguments.args, **named: Arguments.kwargs) -> Fact:
        assert not named, "arguments are given by their places"
        key = (found, *args)
        if key not in part.facts:
            part.facts[key] = found(part, *args, **named)
        return part.facts[key]

    return known


@dataclass(frozen=True, eq=False)
class NestDot:
    """A matrix product, and where its operands come from."""

    op: ops.Dot
    loops: tuple[NestLoop, ...]
    left: Source
    right: Source


@dataclass(frozen=True, eq=False)
class Elementwise:
    """Work on every element of a tile: a map, a conversion, a fold or a scan, random numbers."""

    op: ops.Map | ops.Cast | ops.Reduce | ops.Scan | ops.Sort | ops.Random
    loops: tuple[NestLoop, ...]
    is_accurate: bool = False
    """Whether more is made of a map's f32 than floats of 16 bits, so that functions are not approximations."""

    @cached_property
    def facts(self) -> dict[object, Any]:
        """What was found out about it: see `kept`."""
        return {}

    @property
    def shape(self) -> Shape:
        """Of what is gone through: a fold reads more than it gives."""
        return self.op.sources[0].shape if isinstance(self.op, (ops.Reduce, ops.Scan)) else self.op.result.shape


@dataclass(frozen=True, eq=False)
class LoopNest:
    """All of one grid. `axes` are its own, in order; `loops` come with the outer ones first."""

    grid: ops.Grid
    axes: tuple[BlockDefinition, ...]
    loops: tuple[NestLoop, ...]
    accesses: tuple[Access, ...]
    dots: tuple[NestDot, ...]
    elementwise: tuple[Elementwise, ...]

    @cached_property
    def axis_values(self) -> tuple[Value, ...]:
        """The blocks that the body of the grid is given."""
        return tuple(axis.argument for axis in self.axes)

    @cached_property
    def dependence(self) -> AxisDependence:
        """What its integers depend on."""
        return AxisDependence()

    @cached_property
    def sums(self) -> dict[object, Any]:
        """What was counted of it, and is the same for other blocks (`count_work`) or plans (`held_tiles`)."""
        return {}

    @cached_property
    def tiles(self) -> tuple[tuple[Shape, int], ...]:
        """Shapes of all tiles but those in `folded_tiles`, each with the bytes of an element, once."""
        return self._shapes(value for value in self._made if value not in self._folded)

    @cached_property
    def folded_tiles(self) -> tuple[tuple[Shape, int], ...]:
        """The same of tiles that nothing but folds go through, of what is repeated and computed element by element: no
        thread has all of its elements at a time. x[m, :, None] == i[None, None, :], added up along the second axis."""
        return self._shapes(self._folded)

    def _shapes(self, values: Iterable[Value]) -> tuple[tuple[Shape, int], ...]:
        found = [(v.type.shape, v.type.dtype.bytes) for v in values if isinstance(v.type, TileType) and v.type.shape]
        return tuple(dict.fromkeys(found))

    @cached_property
    def live(self) -> tuple[tuple[Shape, int, int], ...]:
        """Of a grid without loops, the tiles that are there at once where they are the most: shape, bytes of an
        element, and how many. Empty where they are few: then the elements of each decide."""
        if self.loops:
            return ()
        found = live_tiles(self.grid.body)
        return tuple((*kind, count) for kind, count in found.items()) if found.total() >= MANY_TILES else ()

    @cached_property
    def _made(self) -> list[Value]:
        return [value for op in self.grid.body.walk() if not isinstance(op, ops.Stack) for value in op.results]

    @cached_property
    def stacked(self) -> list[ops.Stack]:
        """Tiles side by side, which are in shared memory."""
        return [op for op in self.grid.body.walk() if isinstance(op, ops.Stack)]

    @cached_property
    def _folded(self) -> dict[Value, None]:
        made = dict[Value, None]()
        for value in self._made:
            match value.op:
                case ops.Broadcast() if len(value.shape) > 1:
                    made[value] = None
                case ops.Map() | ops.Cast() if value.shape:
                    if all(operand in made for operand in value.op.operands if operand.shape):
                        made[value] = None
                case _:
                    pass
        for value in reversed(list(made)):
            if not all(isinstance(user, ops.Reduce) or any(r in made for r in user.results) for user in value.users):
                del made[value]
        return made

    @cached_property
    def slid(self) -> frozenset[str]:
        """The extents of its blocks along which windows slide."""
        return slid_axes(self.grid.body.walk())


def loop_nests(function: Function) -> list[LoopNest]:
    """The nests of a function, one for each grid, in order."""
    return [loop_nest(op) for op in function.body.ops if isinstance(op, ops.Grid)]


def loop_nest(grid: ops.Grid) -> LoopNest:
    """The nest of one grid."""
    return _Reader(grid, AxisDependence()).nest()


class _Reader:
    def __init__(self, grid: ops.Grid, dependence: AxisDependence) -> None:
        self.grid = grid
        self.axes = tuple(blocks_of(grid))
        self.dependence = dependence
        self.accurate = accurate_values(grid.body)
        self.loops: list[NestLoop] = []
        self.accesses: list[Access] = []
        self.dots: list[NestDot] = []
        self.elementwise: list[Elementwise] = []

    def nest(self) -> LoopNest:
        self._block(self.grid.body, (), conditional=False)
        return LoopNest(
            self.grid, self.axes, tuple(self.loops), tuple(self.accesses), tuple(self.dots), tuple(self.elementwise)
        )

    def _block(self, block: Block, loops: tuple[NestLoop, ...], *, conditional: bool) -> None:
        for op in block.ops:
            match op:
                case ops.Range() | ops.For() | ops.While():
                    loop = self._loop(op, loops)
                    self.loops.append(loop)
                    for body in op.bodies.values():
                        self._block(body, (*loops, loop), conditional=conditional)
                case ops.If():
                    for body in (op.otherwise,) if op.rare else op.bodies.values():
                        self._block(body, loops, conditional=True)
                case ops.Load() | ops.Store() | ops.Atomic():
                    self.accesses.append(self._access(op, loops, conditional))
                case ops.Dot():
                    self.dots.append(NestDot(op, loops, _source(op.a), _source(op.b)))
                case ops.Map() | ops.Cast() | ops.Reduce() | ops.Scan() | ops.Sort() | ops.Random():
                    accurate = isinstance(op, ops.Map) and op.result.dtype == f32 and op.result in self.accurate
                    self.elementwise.append(Elementwise(op, loops, accurate))
                case _:
                    pass

    def _loop(self, op: LoopOp, outer: tuple[NestLoop, ...]) -> NestLoop:
        if isinstance(op, ops.While):
            return NestLoop(op, outer, "data", frozenset())
        bounds = [self.dependence.of(value) for value in (op.start, op.stop)]
        depends = bounds[0].axes | bounds[1].axes
        if bounds[0].on_data or bounds[1].on_data:
            return NestLoop(op, outer, "data", depends)
        return NestLoop(op, outer, _trips(op, depends), depends)

    def _access(self, op: AccessOp, loops: tuple[NestLoop, ...], conditional: bool) -> Access:
        found = [self.dependence.of(index) for index in op.indices if isinstance(index, Value)]
        moved = frozenset[Value]().union(*(d.axes for d in found))
        around = [*(a.argument for a in self.axes), *(loop.axis for loop in loops if loop.axis is not None)]
        chosen = self._chosen(op)
        return Access(
            op, loops,
            moved_by=tuple(axis for axis in around if axis in moved),
            repeated_by=tuple(axis for axis in around if axis not in moved),
            gathers=repeats(op) == 1 and any(map(_is_gathered, op.indices)),
            conditional=conditional,
            chosen=tuple((axis, chosen[axis]) for axis in around if axis in chosen),
        )  # fmt: skip

    def _chosen(self, op: AccessOp) -> dict[Value, Dim]:
        """Of the axes that move an access by data alone, how many places they choose among."""
        found: dict[Value, Dim] = {}
        tensor = op.tensor.type
        assert isinstance(tensor, TensorType)
        moved = set[Value]()
        for index, size in zip(op.indices, tensor.shape):
            if isinstance(index, Value):
                dependence = self.dependence.of(index)
                if dependence.on_data and is_scalar(index):
                    found.update(dict.fromkeys(dependence.axes, size))
                else:
                    moved |= dependence.axes
        return {axis: size for axis, size in found.items() if axis not in moved}


def _is_gathered(index: Index) -> bool:
    return isinstance(index, Value) and isinstance(index.type, TileType) and index.shape != ()


def _trips(op: ops.Range | ops.For, depends: frozenset[Value]) -> Trips:
    if not depends:
        return "fixed"
    if len(depends) > 1:
        return "varies"
    (axis,) = depends
    starts, stops = slope(op.start, axis), slope(op.stop, axis)
    if starts is None or stops is None or starts < 0 or stops < 0:
        return "varies"
    if starts and stops:
        return "band"
    return "grows" if stops else "shrinks"


def _source(operand: Value) -> Source:
    """Where an operand of a product comes from, perhaps transposed or reshaped on its way."""
    for value in _through_views(operand):
        if isinstance(value.op, ops.Load):
            return "loaded"
        if value.op is None:
            return "carried"
    return "computed"


def _through_views(value: Value) -> Iterator[Value]:
    yield value
    while isinstance(value.op, (ops.Transpose, ops.Reshape)):
        value = value.op.source
        yield value
