"""How much work one program of a grid does, as a function of its block sizes: what a CPU's launch plans with.

    c[m, n] = a[m, k] @ b[k, n] in f32      axes m, n; loop k
                                            dot (m, n, k) in k; load (m, k) and (k, n) in k, 4 bytes each; store (m, n)

It is read off the `LoopNest` of a grid once, and is plain data: kept in the disk cache beside the code, so that blocks
are chosen for the sizes of each call without the program at hand. Costs are in `cpu_cost.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import compute_dtype
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.symbolic import Dim, evaluate, symbol_name
from tiledsl.ir.types import AxisType, Shape, TensorType
from tiledsl.passes.analysis.element_loops import is_elementwise
from tiledsl.passes.analysis.sizes import UNKNOWN_SIZE, BlockDefinition, size_of
from tiledsl.passes.cpu.moving_loops import MovingLoop, mean_length, moving_loops
from tiledsl.passes.machine import products_in_lane
from tiledsl.passes.nest.loop_nest import Access, LoopNest, NestDot, NestLoop

STREAMED = (ops.Map, ops.Cast, ops.Broadcast, ops.Transpose)
"""What is computed as it is read."""
HELD = 4
"""The cost of a function from which on its result is kept as a tile, and not computed anew for each reader."""


@dataclass(frozen=True)
class Axis:
    """An axis cut into blocks: its extent symbol, how long it is, or may be (None: known only while running), the
    block's bounds.
    """

    symbol: str
    length: Dim | None
    limit: int
    unit: int
    kind: Literal["auto", "fixed", "upto"]


@dataclass(frozen=True)
class Task:
    """Work over a tile: `weight` vector operations per element (or a dot), in the loops over `loops` (axis symbols).

    dot: dims are (batch..., m, n, k), weight is how many products a lane may take together (`products_in_lane`). load,
    store, update (a store that combines, atomically unless one thread does it all): weight is bytes per element.
    vector: weight is the function's cost. again: weight is bytes per element of a tile that is kept, for all times
    that it is read again.
    """

    kind: Literal["dot", "load", "store", "update", "vector", "again"]
    dims: tuple[Dim, ...]
    weight: int
    loops: tuple[str, ...]
    run: int | None = None
    """The dim along which a load or store is contiguous, if there is one."""
    across: int | None = None
    """The dim of a load along which its nest goes fastest, since what it makes is stored so, where the load is
    contiguous along another one: each element of a row of it is in a line of its own."""
    in_registers: bool = False
    """Whether it is in loops that change tiles element by element: these are turns of one nest."""
    times: Dim = 1
    """Turns of the loops around that have no symbol: they go one coordinate at a time, or their blocks are given."""


@dataclass(frozen=True)
class GridWork:
    """All that the cost model knows of a grid. `axes` are those of the grid, `loops` those of ranges inside."""

    axes: tuple[Axis, ...]
    loops: tuple[Axis, ...]
    tasks: tuple[Task, ...]
    programs: Dim
    """Programs along the axes whose blocks are single coordinates."""
    tiles: tuple[tuple[Dim, ...], ...]
    """Shapes of the tiles that live in a program, each counted with 4 bytes per element."""
    moving: tuple[MovingLoop, ...] = ()
    """Loops whose lengths differ from block to block; the axes of those that have one say how long they get."""


def collect_work(nest: LoopNest) -> GridWork:
    """The work of a grid's programs."""
    programs: Dim = 1
    for axis in nest.axes:
        if not isinstance(axis.argument.type, AxisType):
            programs = programs * (UNKNOWN_SIZE if axis.total is None else axis.total)
    reader = _TaskReader(nest, moving_loops(nest))
    return GridWork(
        tuple(_axis(one, one.total) for one in nest.axes if one.extent is not None),
        tuple(reader.loops()),
        tuple(reader.tasks()),
        programs,
        tuple(_tiles(nest)),
        tuple(reader.moving.values()),
    )


def _axis(one: BlockDefinition, length: Dim | None) -> Axis:
    assert one.extent is not None
    return Axis(one.extent, length, one.block.size, one.block.unit, one.block.kind)


def _longest(loop: BlockDefinition) -> Dim | None:
    """How long a loop may be whose bounds only the running program knows: `min(lengths[b], N)` is at most N. None if
    nothing bounds it."""
    stop = _bound(loop.stop, "minimum")
    start = None if loop.start is None else _bound(loop.start, "maximum")
    return stop if stop is None or start is None else stop - start


def _bound(value: Value, fn: str) -> Dim | None:
    """A size that a scalar is, or is limited by: that of `fn`, in which it is one of several."""
    known = size_of(value)
    if known is not None:
        return known
    match value.op:
        case ops.Cast() as op:
            return _bound(op.source, fn)
        case ops.Map() as op if op.fn == fn:
            return next((bound for one in op.inputs if (bound := _bound(one, fn)) is not None), None)
        case _:
            return None


def _length(loop: ops.For) -> Dim | None:
    start, stop, step = size_of(loop.start), size_of(loop.stop), size_of(loop.step)
    return stop - start if start is not None and stop is not None and step == 1 else None


def _in_registers(loops: tuple[NestLoop, ...], nest: LoopNest) -> tuple[NestLoop, ...]:
    """Of the loops around, those that change tiles element by element."""
    written = {access.op.tensor for access in nest.accesses if not access.is_read}
    first = next((number for number, loop in enumerate(loops) if is_elementwise(loop.op, written)), len(loops))
    return loops[first:]


def _run(access: Access) -> int | None:
    return updated_row(access.op) if isinstance(access.op, ops.Atomic) else contiguous_dim(access.op)


def _across(access: Access, run: int | None) -> int | None:
    """See `Task.across`."""
    if run is None or not isinstance(access.op, ops.Load):
        return None
    names = [symbol_name(dim) for dim in access.shape]
    stored = next((op for op in _readers(access.op.result) if isinstance(op, ops.Store)), None)
    fastest = None if stored is None else contiguous_dim(stored)
    if stored is None or fastest is None:
        return None
    along = symbol_name(stored.value.shape[fastest])
    return names.index(along) if along in names and along != names[run] else None


class _TaskReader:
    """The tasks of a nest, each with the loops around it that have names, and the turns of those that have none."""

    def __init__(self, nest: LoopNest, moving: Mapping[NestLoop, MovingLoop]) -> None:
        self.nest, self.moving = nest, moving

    def loops(self) -> Iterator[Axis]:
        """The loops whose blocks have symbols."""
        for loop in self.nest.loops:
            one = loop.definition
            if one is not None and one.extent is not None:
                length = one.total if one.total is not None else _longest(one)
                if length is not None and loop.trips in ("grows", "shrinks") and loop not in self.moving:
                    length = (length + 1) // 2  # of all blocks, on average
                yield _axis(one, length)

    def tasks(self) -> Iterator[Task]:
        """All of them."""
        yield from map(self._product, self.nest.dots)
        yield from self._accesses()
        yield from self._vectors()
        yield from self._again()

    def _around(self, loops: tuple[NestLoop, ...]) -> tuple[str, ...]:
        """The names of the loops around."""
        names = [
            self.moving[one].name if one in self.moving else None if one.definition is None else one.definition.extent
            for one in loops
        ]
        return tuple(name for name in names if name is not None)

    def _times(self, loops: tuple[NestLoop, ...]) -> Dim:
        """The turns of the loops around whose blocks are known, and no symbols; of those whose length is a size."""
        times: Dim = 1
        for loop in loops:
            one = loop.definition
            if one is not None and one.extent is None and one.total is not None:
                times = times * ((one.total + one.block.size - 1) // one.block.size)
            elif isinstance(loop.op, ops.For):
                length = _length(loop.op)
                times = times if length is None else times * length
        return times

    def _product(self, dot: NestDot) -> Task:
        *batch, rows, depth = dot.op.a.shape
        together = products_in_lane(compute_dtype(dot.op.dtype), dot.op.a.dtype, dot.op.b.dtype)
        dims = (*batch, rows, dot.op.b.shape[-1], depth)
        return Task("dot", dims, together, self._around(dot.loops), times=self._times(dot.loops))

    def _accesses(self) -> Iterator[Task]:
        for access in self.nest.accesses:
            if access.shape:
                kind: Literal["load", "store", "update"] = "load" if access.is_read else "store"
                if isinstance(access.op, ops.Atomic):
                    kind = "update"
                element = access.op.result.dtype if isinstance(access.op, ops.Load) else access.tensor.dtype
                loops = access.loops
                run, turned = _run(access), _in_registers(loops, self.nest)
                if turned:  # its turns read neighbours of what the first one did
                    around, times = self._around(loops), self._times(loops)
                    yield Task("again", access.shape, element.bytes, around, in_registers=True, times=times)
                    loops = tuple(loop for loop in loops if loop not in turned)
                around, times = self._around(loops), self._times(loops)
                yield Task(kind, access.shape, element.bytes, around, run, _across(access, run), times=times)

    def _vectors(self) -> Iterator[Task]:
        for work in self.nest.elementwise:
            around, times = self._around(work.loops), self._times(work.loops)
            if isinstance(work.op, ops.Map) and work.shape:
                cost, turned = SCALAR_FUNCTIONS[work.op.fn].cost, bool(_in_registers(work.loops, self.nest))
                yield Task("vector", work.shape, cost, around, in_registers=turned, times=times)
            elif isinstance(work.op, (ops.Reduce, ops.Scan, ops.Sort)):
                yield Task("vector", work.shape, 2, around, times=times)

    def _again(self) -> Iterator[Task]:
        """What is gone through again of tiles that are kept: by each reader but the one that comes with the first
        pass."""
        for value, loops in _kept(self.nest):
            weight = value.dtype.bytes * max(1, _passes(value))
            yield Task("again", value.shape, weight, self._around(loops), times=self._times(loops))


def _kept(nest: LoopNest) -> Iterator[tuple[Value, tuple[NestLoop, ...]]]:
    """Tiles that several loops of a program go through, and the loops of the nest around them: all else streams."""
    for access in nest.accesses:
        if isinstance(access.op, ops.Load) and access.shape and _passes(access.op.result):
            yield access.op.result, access.loops
    for work in nest.elementwise:
        if isinstance(work.op, ops.Scan):
            yield from ((value, work.loops) for value in (*work.op.sources, *work.op.results))
        elif isinstance(work.op, ops.Sort):
            yield from ((value, work.loops) for value in (work.op.source, work.op.result))
        elif isinstance(work.op, ops.Map) and work.shape and _is_kept(work.op):
            yield work.op.result, work.loops


def _is_kept(op: ops.Map) -> bool:
    return SCALAR_FUNCTIONS[op.fn].cost >= HELD and _passes(op.result) > 0


def _passes(value: Value) -> int:
    """How often a tile is gone through after the first time."""
    return max(0, len(_readers(value)) - 1)


def _readers(value: Value) -> set[Op]:
    """The ops that go through a tile: its users, or theirs where these are computed as they are read."""
    found: set[Op] = set()
    seen, work = {value}, [value]
    while work:
        for user in work.pop().users:
            if not isinstance(user, STREAMED):
                found.add(user)
            elif user.result not in seen:
                seen.add(user.result)
                work.append(user.result)
    return found


def _tiles(nest: LoopNest) -> Iterator[Shape]:
    for dot in nest.dots:
        yield from (dot.op.result.shape, dot.op.a.shape, dot.op.b.shape)
    for value, _ in _kept(nest):
        yield value.shape


def contiguous_dim(op: ops.Load | ops.Store) -> int | None:
    """The axis of the tile along which its elements are neighbours in memory, if there is one."""
    assert isinstance(op.tensor.type, TensorType)
    selected = 0
    for axis, subscript in enumerate(op.indices):
        if isinstance(subscript, Value) and not isinstance(subscript.type, AxisType):
            if subscript.shape:
                return None  # a gather
            continue
        if op.tensor.type.unit == axis:
            return selected
        selected += 1
    return None


def updated_row(op: ops.Atomic) -> int | None:
    """The axis of the tile whose elements are neighbours in memory, if there is one, whatever chooses their row."""
    assert isinstance(op.tensor.type, TensorType)
    chosen = [s if isinstance(s, Value) and not isinstance(s.type, AxisType) else None for s in op.indices]
    rank = max((len(s.shape) for s in chosen if s is not None), default=0)
    at, placed = 0, False
    for axis, subscript in enumerate(chosen):
        if subscript is None:
            if axis == op.tensor.type.unit:
                return at
            at += 1
        elif subscript.shape and not placed:
            at, placed = at + rank, True
    return None


def trips_of(work: GridWork, sizes: Mapping[str, int], blocks: Mapping[str, int]) -> dict[str, float]:
    """Turns of each loop of a program, of all programs on average; a part of one counts as such where that differs."""
    trips: dict[str, float] = {axis.symbol: -(-axis_length(axis, sizes) // blocks[axis.symbol]) for axis in work.loops}
    for loop in work.moving:
        length = mean_length(loop, sizes, blocks)
        trips[loop.name] = length / max(1, min(evaluate(loop.block, {**sizes, **blocks}), math.ceil(length)))
    return trips


def total_traffic(work: GridWork, sizes: Mapping[str, int], blocks: Mapping[str, int]) -> tuple[int, int, int]:
    """Bytes loaded, bytes stored and operations of the whole grid; as if all blocks were whole."""
    values = {**sizes, **blocks}
    trips = trips_of(work, sizes, blocks)
    totals = {"load": 0.0, "store": 0.0, "update": 0.0, "dot": 0.0, "vector": 0.0, "again": 0.0}
    for task in work.tasks:
        amount: float = math.prod(evaluate(dim, values) for dim in (*task.dims, task.times))
        amount *= math.prod(trips.get(axis, 1) for axis in task.loops)
        totals[task.kind] += amount * (2 if task.kind == "dot" else 1 if task.kind == "vector" else task.weight)
    programs = grid_programs(work, sizes, blocks)
    load, store, dot, vector = (round(programs * totals[kind]) for kind in ("load", "store", "dot", "vector"))
    return load, store + round(programs * totals["update"]), dot + vector


def axis_length(axis: Axis, sizes: Mapping[str, int]) -> int:
    """How long an axis is, or gets; a guess where only the running program knows."""
    return UNKNOWN_SIZE if axis.length is None else max(0, evaluate(axis.length, sizes))


def grid_programs(work: GridWork, sizes: Mapping[str, int], blocks: Mapping[str, int]) -> int:
    """How many programs the grid has."""
    programs = max(0, evaluate(work.programs, sizes))
    for axis in work.axes:
        programs *= -(-axis_length(axis, sizes) // blocks[axis.symbol])
    return programs
