"""Windows that overlap are loaded once: a thread with a run of their first elements loads what all of them need, and
takes each window out of its registers.

    %a = gpu.load(%x, [%start])          {layout = spatial(16) * local(4)}
    %b = gpu.load(%x, [%start + 1])      {layout = spatial(16) * local(4)}
=>  %all = gpu.load(%x, [%start])        {layout = spatial(16/4) * local(5), checked = [0]}
    %a = gpu.slice(%all)                 {starts = [0], layout = spatial(16) * local(4)}
    %b = gpu.slice(%all)                 {starts = [1], layout = spatial(16) * local(4)}

Loops over the places of a window are written out first, from the inside out, as long as what they load overlaps and
registers have room for it. It does not matter whether the places are turns of loops or were written down one by one (a
stencil), nor how many axes they go along, nor by which stride. What lies outside of the tensor is what the loads give
there, so extents are not needed to keep within it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.facts import Facts
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.async_ops import Role
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.tile_ops import Constant, For, Map, Yield
from tiledsl.ir.types import TensorType
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.sizes import constant_of
from tiledsl.passes.gpu.layouts.access_layouts import run_along
from tiledsl.passes.gpu.layouts.linear_indices import LinearIndex, linear_coordinates, linear_index
from tiledsl.passes.gpu.plan import WRITTEN_OUT, WRITTEN_OUT_WORDS
from tiledsl.passes.gpu.plans.costs.shared_windows import WORTH
from tiledsl.passes.gpu.transforms.whole_pieces import Pieces, WholePieces
from tiledsl.passes.manager import PassContext

MOST_OPS = 1200
"""That a loop is written out to."""
PLAIN = ("pure", "read", "terminator")


@dataclass(frozen=True)
class ShareLoads:
    """Merges loads of tensors that the launch does not write. `alignment`: for each tensor among the parameters, the
    bytes that its rows start at a multiple of; those of others are not known."""

    name: ClassVar[str] = "share-loads"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU
    alignment: tuple[int, ...] = ()

    def run(self, module: Module, context: PassContext) -> Module:
        tensors = [value for value in module.entry.parameters if isinstance(value.type, TensorType)]
        pieces = WholePieces(dict(zip(tensors, self.alignment)), Facts(module.entry.facts))
        for op in list(module.walk()):
            if isinstance(op, gpu.Launch) and not any(isinstance(o, Role) for o in op.walk()):
                written = {o.tensor for o in op.walk() if isinstance(o, (gpu.Store, gpu.Atomic))}
                _share(op.body, written, pieces)
        return module


def _share(block: Block, written: Set[Value], pieces: WholePieces) -> None:
    for op in list(block.ops):
        for body in op.bodies.values():
            _share(body, written, pieces)
        if isinstance(op, For) and _overlaps(op, written):
            _write_out(op)
    groups: dict[Any, list[_Window]] = {}
    for op in block.ops:
        if isinstance(op, gpu.Load) and op.shape and op.tensor not in written:
            window = _window_of(op)
            if window is not None:
                groups.setdefault(window.key, []).append(window)
    for windows in groups.values():
        for near in _near(windows):
            _merge(near, pieces)


# Loops


def _overlaps(loop: For, written: Set[Value]) -> bool:
    """Whether turns load windows that overlap within threads, and there are few."""
    rounds = _rounds(loop)
    if rounds is None or not 2 <= len(rounds) <= WRITTEN_OUT or loop.body.arguments[0].dtype != i64:
        return False
    every = list(loop.body.walk())
    if len(every) * len(rounds) > MOST_OPS or any(op.effect not in PLAIN or op.bodies for op in every):
        return False
    return any(
        _goes_on(window, loop, rounds)
        for op in every
        if isinstance(op, gpu.Load) and op.shape and op.tensor not in written
        if (window := _window_of(op)) is not None
    )


def _goes_on(window: _Window, loop: For, rounds: range) -> bool:
    """Whether a window moves with the turns of a loop by less than what a thread has of it, and registers have room for
    what all turns need."""
    layout: RegisterLayout | None = window.load.result.layout
    moves = False
    for place in window.places:
        for value, factor in place.sum.terms:
            by = abs(factor * rounds.step)
            if value is loop.body.arguments[0]:
                if layout is None or moves or by >= place.run:
                    return False
                layout = layout.widened(place.axis, place.step, place.run + by * (len(rounds) - 1))
                moves = True
    return moves and layout is not None and _words(layout, window.load) <= WRITTEN_OUT_WORDS


def _words(layout: RegisterLayout, load: gpu.Load) -> int:
    """Registers of 32 bits that a thread has of a tile that is loaded in a layout."""
    return layout.slots * load.result.dtype.bytes // 4


def _rounds(loop: For) -> range | None:
    start, stop, step = (constant_of(v) for v in (loop.start, loop.stop, loop.step))
    return None if start is None or stop is None or not step else range(start, stop, step)


def _write_out(loop: For) -> None:
    """Puts all turns of a loop in its place."""
    block, rounds = loop.parent, _rounds(loop)
    assert block is not None
    assert rounds is not None
    carried: Sequence[Value] = loop.initial
    for number in rounds:
        constant = Constant(loop.location, value=number, dtype=i64)
        block.insert_before(loop, constant)
        values = dict(zip(loop.body.arguments, (constant.result, *carried)))
        for op in loop.body.ops:
            if isinstance(op, Yield):
                carried = [values.get(value, value) for value in op.operands]
            else:
                block.insert_before(loop, op.clone(values))
    for result, value in zip(loop.results, carried):
        result.replace_with(value)
    loop.erase()


# Windows


@dataclass(frozen=True)
class _Place:
    """Where a load begins along an axis of its tensor: `sum`, and `step` for each element along `axis` of the tile (-1:
    none). `run`: how far the elements of a thread reach along it; 0 where threads have no run of their own."""

    sum: LinearIndex
    axis: int
    step: int
    run: int


@dataclass(frozen=True)
class _Window:
    """A load with where it begins along each axis."""

    load: gpu.Load
    places: tuple[_Place, ...]

    @property
    def key(self) -> Any:
        """What loads have in common that may be one: all but how far apart they begin, along axes with runs."""
        load = self.load
        slid = {place.axis for place in self.places if place.run}
        masked = tuple(pair for pair in zip(load.masked, load.extents) if pair[0] not in slid)
        checked = tuple(axis for axis in load.checked if not self.places[axis].run)
        other = None if load.other is None else _number(load.other)
        places = tuple((p.sum.terms, p.axis, p.step, p.run or p.sum.constant) for p in self.places)
        return (load.tensor, load.layout, other, load.vector, load.ragged, masked, checked, places)


def _number(value: Value) -> Any:
    """A constant by its number, so that equal ones are one."""
    return (value.dtype, repr(value.op.value)) if isinstance(value.op, Constant) else value


def _window_of(load: gpu.Load) -> _Window | None:
    """None where coordinates are not sums, or two axes of the tensor run along one of the tile."""
    if load.repeat > 1:
        return None
    layout = load.result.layout
    places: list[_Place] = []
    for index, axis in zip(load.indices, load.axes):
        if not index.shape:
            step = 1 if axis >= 0 else 0
            places.append(_Place(linear_index(index), axis, step, run_along(layout, axis)))
            continue
        found = linear_coordinates(index)
        if found is None or found.axis < 0 or found.step < 1:
            return None
        run = run_along(layout, found.axis)
        if not run:
            return None
        places.append(_Place(found.sum, found.axis, found.step, found.step * (run - 1) + 1))
    axes = [place.axis for place in places if place.axis >= 0]
    return _Window(load, tuple(places)) if len(set(axes)) == len(axes) == len(load.shape) else None


def _near(windows: list[_Window]) -> Iterator[list[_Window]]:
    """The windows in groups of those that overlap with others of their group, in the order that they came in."""
    for axis, place in enumerate(windows[0].places):
        starts = sorted({window.places[axis].sum.constant for window in windows})
        for before, after in pairwise(starts):
            if after - before >= place.run:
                yield from _near([w for w in windows if w.places[axis].sum.constant <= before])
                yield from _near([w for w in windows if w.places[axis].sum.constant >= after])
                return
    yield windows


def _merge(windows: list[_Window], pieces: WholePieces) -> None:
    """One load for all of them, if its accesses are clearly less, and its elements no more."""
    first = windows[0]
    rank = len(first.places)
    low = [min(w.places[axis].sum.constant for w in windows) for axis in range(rank)]
    reach = [max(w.places[axis].sum.constant for w in windows) - low[axis] for axis in range(rank)]
    slots = sum(window.load.result.layout.slots for window in windows)
    for patch in _patches(first, low, reach, pieces):
        own = patch.layout.slots
        fewer = own * first.load.vector <= WORTH * slots * (patch.vector or first.load.vector) and own <= slots
        if fewer and _words(patch.layout, first.load) <= WRITTEN_OUT_WORDS:
            _take_all(windows, patch, {axis for axis, further in enumerate(reach) if further})
            return


@dataclass(frozen=True)
class _Patch:
    """What all windows together need of a thread: its layout, where it begins along each axis of the tensor, and how
    many elements are loaded at a time; 0 for as many as each window's load takes."""

    layout: RegisterLayout
    low: list[int]
    vector: int


def _patches(first: _Window, low: Sequence[int], reach: Sequence[int], pieces: WholePieces) -> Iterator[_Patch]:
    """By whole pieces of rows, then by elements; none where windows do not go on."""
    if not any(reach):
        return
    assert isinstance(first.load.tensor.type, TensorType)
    unit = first.load.tensor.type.unit
    for whole in (True, False) if unit is not None and reach[unit] else (False,):
        layout, begin, vector = first.load.result.layout, [*low], 0
        for axis, (place, further) in enumerate(zip(first.places, reach)):
            if not further:
                continue
            needed = place.run + further
            if axis == unit:
                apart = place.step * run_along(layout, place.axis)
                start = place.sum.moved_to(low[axis])
                found = pieces.of(first.load, start, apart, needed) if whole else Pieces(1, 0, needed)
                needed, vector, begin[axis] = found.elements, found.vector, low[axis] - found.before
            wider = layout.widened(place.axis, place.step, needed)
            assert wider is not None, "there are runs along the axis"
            layout = wider
        yield _Patch(layout, begin, vector)


def _take_all(windows: list[_Window], patch: _Patch, widened: Set[int]) -> None:
    """One load for windows, out of which each is taken."""
    first, steps = windows[0], [1] * len(windows[0].load.shape)
    for axis in widened:
        steps[first.places[axis].axis] = first.places[axis].step
    whole = _load_all(first, patch.layout, patch.low, widened, patch.vector)
    for window in windows:
        starts = [0] * len(first.load.shape)
        for axis in widened:
            starts[first.places[axis].axis] = window.places[axis].sum.constant - patch.low[axis]
        _take(whole.result, window.load, tuple(starts), tuple(steps))


def _load_all(first: _Window, layout: RegisterLayout, low: Sequence[int], widened: Set[int], vector: int) -> gpu.Load:
    """The load for all windows, in front of the first one. `vector`: as `gpu.load` has it, 0 for as it was."""
    load = first.load
    assert load.parent is not None
    assert isinstance(load.tensor.type, TensorType)
    slid = {first.places[axis].axis for axis in widened}
    indices, axes = list(load.indices), list(load.axes)
    for axis in widened:
        place, index = first.places[axis], load.indices[axis]
        sum_ = LinearIndex(frozenset({(index, 1)}), low[axis] - place.sum.constant)
        indices[axis] = _scalar(load, place.sum.moved_to(low[axis]) if index.shape else sum_)
        axes[axis] = place.axis
    kept = [(axis, extent) for axis, extent in zip(load.masked, load.extents) if axis not in slid]
    whole = gpu.Load(
        load.location, result_names=[load.result.name], tensor=load.tensor, indices=indices,
        extents=[extent for _, extent in kept], other=load.other, axes=tuple(axes),
        masked=tuple(axis for axis, _ in kept), checked=tuple(sorted({*load.checked, *widened})),
        vector=vector or load.vector, ragged=load.ragged and not vector, shape=layout.shape,
        layout=layout,
    )  # fmt: skip
    load.parent.insert_before(load, whole)
    return whole


def _scalar(load: gpu.Load, sum_: LinearIndex) -> Value:
    """A sum as a scalar in front of the load."""
    block = load.parent
    assert block is not None

    def emit(op: Op) -> Value:
        block.insert_before(load, op)
        return op.results[0]

    def number(value: int) -> Value:
        return emit(Constant(load.location, value=value, dtype=i64))

    total: Value | None = None
    for value, factor in sum_.in_order():
        part = value if factor == 1 else emit(Map(load.location, fn="mul", inputs=(value, number(factor))))
        total = part if total is None else emit(Map(load.location, fn="add", inputs=(total, part)))
    if total is None:
        return number(sum_.constant)
    return total if not sum_.constant else emit(Map(load.location, fn="add", inputs=(total, number(sum_.constant))))


def _take(whole: Value, load: gpu.Load, starts: tuple[int, ...], steps: tuple[int, ...]) -> None:
    """Takes one window out of all. What was taken out of it is taken out of all as well."""
    assert load.parent is not None
    for user in list(load.result.users):
        if isinstance(user, gpu.Slice):
            inner = user.steps or (1,) * len(user.starts)
            after = tuple(start + step * own for start, step, own in zip(starts, steps, user.starts))
            by = tuple(step * own for step, own in zip(steps, inner))
            _replace(user, whole, after, by)
    if load.result.users:
        _replace(load, whole, starts, steps)
    else:
        load.erase()


def _replace(op: gpu.Load | gpu.Slice, whole: Value, starts: tuple[int, ...], steps: tuple[int, ...]) -> None:
    assert op.parent is not None
    part = gpu.Slice(
        op.location, result_names=[op.result.name], source=whole, starts=starts, layout=op.result.layout,
        steps=steps if any(step != 1 for step in steps) else (),
    )  # fmt: skip
    op.parent.insert_before(op, part)
    op.result.replace_with(part.result)
    op.erase()
