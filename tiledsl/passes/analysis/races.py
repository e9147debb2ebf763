"""Refuses functions whose programs get in each other's way, as far as that can be decided (docs/checking.md).

    for m, n in tile.grid(M, N):
        y[m] = tile.sum(x[m, n], axis=1)     # all programs along `n` store to y[m], each something else

What is refused is wrong for every choice of blocks that leaves several programs along an axis. Where places, values or
conditions are not known well enough, nothing is said: running with a shadow of the memory finds what happens then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from tiledsl.ir.core import Function, Index, Op, Value
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tile_ops import Atomic, Cast, Empty, For, Grid, Load, Map, Range, Store, While
from tiledsl.ir.types import TensorType
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.analysis.grid_accesses import Access, accesses_of
from tiledsl.passes.analysis.grid_flow import Axes, GridFlow, Stretch
from tiledsl.passes.analysis.grid_places import Extents, Sizes, meet, pairs_of_programs, sizes_to_try
from tiledsl.passes.analysis.sizes import size_of
from tiledsl.passes.analysis.splats import number_of
from tiledsl.support.errors import Label, fail

_MOST_PAIRS = 2000
"""Of accesses to one tensor: long unrolled code is not looked at to the end."""
_MOST_PROGRAMS = 200_000
"""Of pairs of programs, for all accesses to one tensor together: grids of many axes have many."""
_ORDER = ("race-update", "race-store", "race-atomic", "race-neighbour", "race-stores")
"""What is told first where several are true."""
_ATOMICS = {
    "add": "atomic_add", "sub": "atomic_add", "maximum": "atomic_max", "minimum": "atomic_min",
    "and": "atomic_and", "or": "atomic_or", "xor": "atomic_xor",
}  # fmt: skip


def refuse_races(function: Function) -> None:
    """Raises TileRaceError for the first race between programs of a grid, or read of what nothing was stored to.

    `function` is a TILE function of any form; it is only read.
    """
    for op in function.body.ops:
        if isinstance(op, Grid) and not _are_apart(op):
            races = list(_races_of(function, op))
            if races:
                min(races, key=lambda race: (_ORDER.index(race.code), race.second.order)).fail()
    _refuse_uninitialised(function)


@dataclass(frozen=True)
class _Race:
    """`first` in one program and `second`, which writes, in another that differs from it along `axes`."""

    code: str
    flow: GridFlow
    first: Access
    second: Access
    axes: Axes

    def fail(self) -> NoReturn:
        """Raises it."""
        grid, first, second = self.flow.grid, self.first.op, self.second.op
        axis = grid.body.arguments[min(self.axes)]
        stop = size_of(grid.stops[min(self.axes)])
        shown = "..." if stop is None else str(stop)
        names = {"tensor": first.tensor.name, "axis": axis.name, "stop": shown}
        around = Label(grid.location, f"programs along `{axis.name}` of this grid run at the same time")
        labels = [around]
        match self.code:
            case "race-store":
                assert isinstance(second, Store)
                source = _where_it_comes_from(second.value, axis)
                if source is not None:
                    labels.insert(0, Label(source.location, f"this is different for each block `{axis.name}`"))
                fail(self.code, second.location, labels=labels, notes=(), **names)
            case "race-update":
                if first.location != second.location:
                    labels.insert(0, Label(first.location, "it is read here"))
                fail(
                    self.code, second.location, labels=labels, notes=(), fix=_update_fix(first, second, names), **names
                )
            case "race-atomic":
                verb = "reads" if isinstance(first, Load) else "stores to"
                labels.insert(0, Label(second.location, "the atomic"))
                fail(self.code, first.location, labels=labels, notes=(), verb=verb, **names)
            case _:
                labels.insert(0, Label(second.location, "what they store"))
                fail(self.code, first.location, labels=labels, notes=(), **names)


def _update_fix(read: Op, stored: Op, names: Mapping[str, str]) -> str:
    assert isinstance(stored, Store)
    value = _uncast(stored.value).op
    if isinstance(value, Map) and value.fn in _ATOMICS and read in [_uncast(v).op for v in value.inputs]:
        return f"update it by `tile.{_ATOMICS[value.fn]}`"
    axis, stop = names["axis"], names["stop"]
    return f"take `{axis}` out of the grid, and loop over it in each program: `for {axis} in tile.range({stop}):`"


def _where_it_comes_from(value: Value, axis: Value) -> Op | None:
    """An op that brings the axis into a value, a load if there is one."""
    seen, queue, found = {value}, [value], list[Op]()
    while queue:
        around: Sequence[Op] = list(_ops_behind(queue.pop()))
        for op in around:
            if axis in op.operands:
                found.append(op)
            for operand in op.operands:
                if operand not in seen and not isinstance(operand.type, TensorType):
                    seen.add(operand)
                    queue.append(operand)
    found = [op for op in found if not isinstance(op, Store)]
    return next((op for op in found if isinstance(op, Load)), found[0] if found else None)


def _ops_behind(value: Value) -> Iterator[Op]:
    """What computes a value: its op, and the ends of that op's bodies; for what a loop carries the loop."""
    op = value.op or value.op_around
    if op is None or isinstance(op, Grid):
        return
    yield op
    for body in op.bodies.values():
        if body.terminator is not None:
            yield body.terminator


def _uncast(value: Value) -> Value:
    while isinstance(value.op, Cast):
        value = value.op.source
    return value


def _are_apart(grid: Grid) -> bool:
    """Whether each tensor that is written has one place, which follows all axes of the grid: most kernels are so."""
    accesses = [op for op in grid.body.walk() if isinstance(op, (Load, Store, Atomic))]
    written = tensors_written([grid])
    places: dict[Value, tuple[Index, ...]] = {}
    for op in accesses:
        if op.tensor in written:
            indices = places.setdefault(op.tensor, op.indices)
            same = len(indices) == len(op.indices) and all(a is b for a, b in zip(indices, op.indices))
            if not same or not set(grid.body.arguments) <= set(indices):
                return False
    return True


def _races_of(function: Function, grid: Grid) -> Iterator[_Race]:
    flow = GridFlow(function, grid)
    for tensor, accesses in accesses_of(flow).items():
        assert isinstance(tensor.type, TensorType)
        places = [part for access in accesses for part in access.place if isinstance(part, Stretch)]
        dims: list[Dim] = [*tensor.type.shape]
        dims += [dim for part in places for dim in (part.low, part.high)]
        tried = sizes_to_try(function, grid, dims)
        finder = _Finder(flow, tensor.type.shape, tried)
        pairs = 0
        for first in accesses:
            for second in accesses:
                if _is_pair(first, second):
                    pairs += 1
                    if pairs > _MOST_PAIRS:
                        return
                    race = finder.race(first, second)
                    if race is not None:
                        yield race


def _is_pair(first: Access, second: Access) -> bool:
    """Each two accesses are looked at once, with one that writes as the second: the atomic if one is."""
    match first.op, second.op:
        case (_, Load()) | (Atomic(), _):
            return False
        case Store(), Store():
            return first.order <= second.order
        case _:
            return True


class _Finder:
    """Looks for pairs of programs whose accesses to one tensor meet."""

    def __init__(self, flow: GridFlow, shape: tuple[Dim, ...], tried: Sequence[Sizes]) -> None:
        self._flow = flow
        self._shape = shape
        self._tried = tried
        self._extents: dict[tuple[int, int], Extents] = {}
        self._left = _MOST_PROGRAMS

    def race(self, first: Access, second: Access) -> _Race | None:
        """The race between one access in a program and another in another program, if there surely is one."""
        free = self._flow.all_axes - first.pinned - second.pinned
        if not free or not first.may_happen_with(second) or not _comparable(first, second):
            return None
        if _own(first, second) >= free:
            return None
        races = [self._differing(sizes, number, first, second, free) for number, sizes in enumerate(self._tried)]
        if not races or any(axes is None for axes in races):
            return None
        axes = races[0]
        assert axes is not None
        still = not (first.axes & axes or second.axes & axes)
        match first.op, second.op:
            case _, Atomic():
                code = "race-atomic"
            case Load(), _:
                code = "race-update" if still else "race-neighbour"
            case _:
                code = "race-store" if first is second else "race-stores"
        return _Race(code, self._flow, first, second, axes)

    def _differing(self, sizes: Sizes, number: int, first: Access, second: Access, free: Axes) -> Axes | None:
        """Along which axes two programs differ in which the accesses meet and matter to each other."""
        left, right = (self._extents_of(access, number, sizes) for access in (first, second))
        harmless: dict[Axes, bool] = {}
        for axes, one, other in pairs_of_programs(sizes, free):
            self._left -= 1
            if self._left < 0:
                return None
            if axes not in harmless:
                harmless[axes] = self._is_harmless(first, second, axes)
            if not harmless[axes] and meet(left, one, right, other):
                return axes
        return None

    def _extents_of(self, access: Access, number: int, sizes: Sizes) -> Extents:
        key = (access.order, number)
        if key not in self._extents:
            self._extents[key] = Extents.of(sizes, self._shape, access.place)
        return self._extents[key]

    def _is_harmless(self, first: Access, second: Access, axes: Axes) -> bool:
        """Whether programs that differ along `axes` do the same, or come to the same in whatever order they run."""
        match first.op, second.op:
            case _, Atomic():
                return False
            case Store() as one, Store() as other:
                number = number_of(one.value)
                if first is not second and number is not None and number == number_of(other.value):
                    return True
                still = first is second or not (first.axes & axes or second.axes & axes)
                return still and not self._flow.sure_of([one.value, other.value]) & axes
            case Load(), Store() as store:
                same = not (second.axes & axes or self._flow.sure_of([store.value]) & axes)
                if same and second.is_before(first):
                    return True  # the program itself has stored what all others do
                return bool(second.axes & axes) and _keeps(store)
            case _:
                return False


def _comparable(first: Access, second: Access) -> bool:
    """Whether along each axis both places are known, or they are one value."""
    pairs = zip(first.place, second.place)
    return all(
        isinstance(a, Stretch) == isinstance(b, Stretch) and (isinstance(a, Stretch) or a == b) for a, b in pairs
    )


def _own(first: Access, second: Access) -> Axes:
    """The axes of the grid whose blocks both places follow, so that programs which differ there are apart."""
    found: set[int] = set()
    for left, right in zip(first.place, second.place):
        if isinstance(left, Stretch) and left == right and left.axis is not None and left.low == left.high:
            found.add(left.axis)
    return frozenset(found)


def _keeps(store: Store) -> bool:
    """Whether some elements of what is stored are those from before: `a[m] = where(mask, ..., a[m])`."""
    queue, seen = [store.value], set[Value]()
    while queue:
        value = queue.pop()
        op = _uncast(value).op
        if not isinstance(op, Map) or value in seen:
            continue
        seen.add(value)
        for kept in op.inputs[1:] if op.fn == "where" else ():
            source = _uncast(kept).op
            if isinstance(source, Load) and source.tensor is store.tensor:
                return True
            queue.append(kept)
    return False


# Reads of what nothing was stored to


def _refuse_uninitialised(function: Function) -> None:
    empty = {op.result: op for op in function.body.ops if isinstance(op, Empty) and op.fill is None}
    if not empty:
        return
    written: set[Value] = set()
    for op in function.walk():
        match op:
            case Range() | For() | While():
                written |= tensors_written([op])  # by an earlier turn, it may be
            case Load() | Atomic() if op.tensor in empty and op.tensor not in written:
                _fail_uninitialised(op, empty[op.tensor])
            case Store():
                written.add(op.tensor)
            case _:
                pass


def _fail_uninitialised(op: Load | Atomic, empty: Empty) -> NoReturn:
    labels = [Label(empty.location, "`tile.empty` leaves it undefined")]
    fail("uninitialised", op.location, labels=labels, tensor=op.tensor.name)
