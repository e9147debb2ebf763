"""Which layout each tile of a TILE program should have: anchors first, then propagation.

Anchors are the accumulators of matrix products, and accesses of global memory by 16 bytes. From them layouts spread
along elementwise ops, folds (a slice of the source's layout), transposes and what loops carry. A tile that is cheap to
make anew (a constant, coordinates, a broadcast, what is computed from only these) has no layout of its own: it is made
in whatever layout it is needed in. Where two anchors meet, the stronger one wins, and `lower` converts at that edge.

    x[m, n] -> exp -> sum over n          local(1, 8) * spatial(4, 32) * local(1, 8) -> the same -> its slice
    dot(q, k) -> where(mask, s, -inf)     the accumulator's layout; the mask is computed in it
    x[m, k] * g[k] -> dot(.., b)          what the product takes from registers, where it takes that
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.layouts.layout import RegisterLayout, spatial
from tiledsl.ir.layouts.scan_plans import suits_scan
from tiledsl.ir.layouts.sort_plans import sort_layout
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import AxisType, Shape, TensorType, TileType, Whole
from tiledsl.passes.analysis.fields import field_of, record_length
from tiledsl.passes.analysis.folds import fold_of, scan_of
from tiledsl.passes.analysis.quotients import repeats
from tiledsl.passes.analysis.slid_axes import slid_axes
from tiledsl.passes.gpu.layouts.access_layouts import access_layout
from tiledsl.passes.gpu.layouts.capacities import Capacities
from tiledsl.passes.gpu.layouts.gathered_layouts import (
    coordinate_layout,
    gather_axis,
    gather_rank,
    is_tile_index,
)
from tiledsl.passes.gpu.layouts.operand_sources import elementwise_inputs
from tiledsl.passes.gpu.layouts.unit_axes import broadcast_source_layout, reshaped_layout
from tiledsl.passes.tile.loops.carried_values import carried_arguments, yielded
from tiledsl.support.follow import follow
from tiledsl.support.powers_of_two import power_of_two_in, power_of_two_up_to

ROWS_OF_BLOCK = 8
"""Rows that each block of a cluster gets at least, if rows are what the blocks share out."""
MOST_ELEMENTS = 16
"""Of an access by one thread: bytes."""
WIDEST = 16
"""Bytes of an access."""
LONG_ROW = 128
"""Elements of a row of which a warp accesses a part at once."""
SCANNED_RUN = 4
"""Neighbours of a thread, of a row in shared memory: more of them lie in banks that are asked for at once."""
MEETINGS = (ops.Dot, ops.Reduce, ops.Scan, ops.Sort)
"""For which threads meet: how many share a row is chosen for them."""
COMPUTED, ACCESSED, MULTIPLIED = 1, 2, 3
"""How strong a wish for a layout is: of a value that is only computed, of an access, of a matrix product."""


@dataclass(frozen=True)
class Wish:
    """A layout, and how strongly it is wanted."""

    strength: int
    layout: RegisterLayout


class LayoutInference:
    """The layouts of the values in one grid (or a run of ops outside of grids)."""

    def __init__(
        self,
        body: Iterable[Op],
        capacities: Capacities,
        threads: int,
        vector_bytes: int,
        dot_layout: Callable[[ops.Dot], RegisterLayout],
        row_threads: int = 0,
        cluster: int = 1,
        operand_layouts: Callable[[ops.Dot], Mapping[Value, RegisterLayout]] = lambda dot: {},
        alignment: Callable[[Value], int] = lambda tensor: 16,
        *,
        flat: bool = False,
    ) -> None:
        """`threads` in a program of `cluster` blocks, `row_threads` of them for a row (0: as many as suit it).
        `alignment`: the bytes that each row of a tensor begins at a multiple of. `flat`: whether whole rows come by way
        of shared memory.

        `dot_layout` tells the layout of a product's accumulator, `operand_layouts` those of operands that are computed
        for it of what its loop loads.
        """
        self.row_threads = row_threads
        self.cluster = cluster
        self.capacities = capacities
        self.threads = threads
        self.flat = flat
        self._dot_layout = dot_layout
        self._wishes: dict[Value, Wish] = {}
        every = [nested for op in body for nested in op.walk()]
        accesses = [op for op in every if isinstance(op, (ops.Load, ops.Store)) and _runs(op)]
        self._slid = slid_axes(every)
        self._vector = max(1, vector_bytes // self._bytes_of_vectors(accesses))
        self._multiplies = multiplies = any(isinstance(op, ops.Dot) for op in every)
        if not self._slid and not any(isinstance(op, MEETINGS) for op in every):
            self._vector = min(self._vector, self._each(accesses))
        self._aligned = {} if multiplies else self._aligned_vectors(accesses, alignment)
        for op in every:
            for operand, layout in operand_layouts(op).items() if isinstance(op, ops.Dot) else ():
                self._anchor(operand, layout)
        for _ in range(4):  # what loops carry may need a second turn, what is carried through two of them a third
            before = dict(self._wishes)
            for op in every:
                self._visit(op)
            for op in reversed(every):
                self._bring(op)
            if self._wishes == before:
                break

    def _bytes_of_vectors(self, accesses: Iterable[ops.Load | ops.Store]) -> int:
        """The element that threads have 16 bytes of: the widest that is stored as a whole tile. Of a wider one a thread
        would have several runs, and each store of a warp every other half of a sector, which goes to L2 twice; what is
        loaded so stays in L1."""
        sizes = {op: math.prod(self.capacities.shape(_accessed_shape(op))) for op in accesses}
        most = max(sizes.values(), default=0)
        stored = [_bytes_of_element(op) for op, size in sizes.items() if isinstance(op, ops.Store) and size == most]
        loaded = [_bytes_of_element(op) for op, size in sizes.items() if size == most]
        return max(stored, default=min(loaded, default=4))

    def _each(self, accesses: Iterable[ops.Load | ops.Store]) -> int:
        """The elements that each thread has of the largest tile, where all threads are to have some: with wider vectors
        others would compute the same again."""
        most = max((math.prod(self.capacities.shape(_accessed_shape(op))) for op in accesses), default=0)
        return max(1, power_of_two_up_to(max(1, most // self.threads)))

    def _aligned_vectors(
        self, accesses: Iterable[ops.Load | ops.Store], alignment: Callable[[Value], int]
    ) -> dict[str, int]:
        """How many elements threads access at once, at most, by the axis that they lie along. Where rows begin anywhere
        a run of a thread is stored element by element, and what a warp stores at once had better lie side by side. What
        is only loaded so stays in L1."""
        most = max((math.prod(self.capacities.shape(_accessed_shape(op))) for op in accesses), default=0)
        stored: dict[str, int] = {}
        loaded: dict[str, int] = {}
        for op in accesses:
            shape = _accessed_shape(op)
            if math.prod(self.capacities.shape(shape)) == most:
                along = str(shape[access_order(op)[-1]])
                if along in self._slid or _is_field(op):
                    continue  # threads have runs, of which they take all windows; they are turned for stores
                if self.capacities.of(shape[access_order(op)[-1]]) < LONG_ROW and not self._is_part(op, along):
                    continue  # what lies around a run is of the same lines
                number = max(1, alignment(op.tensor) // tensor_of(op).dtype.bytes) * repeats(op)
                if isinstance(op, ops.Store):
                    stored[along] = min(stored.get(along, number), number)
                else:
                    loaded[along] = max(loaded.get(along, number), number)
        return {**loaded, **stored}

    def _is_part(self, op: ops.Load | ops.Store, along: str) -> bool:
        """Whether a tile has a block of each row, and not all of it: its rows are apart, so that runs of a warp are of
        as many lines as there are rows. Not where windows slide along it, which threads with runs share."""
        unit = tensor_of(op).unit
        index = None if unit is None else op.indices[unit]
        return along not in self._slid and isinstance(index, Value) and isinstance(index.type, AxisType)

    def slides(self, dim: Dim) -> bool:
        """Whether windows slide along the axis of that size."""
        return str(dim) in self._slid

    def of(self, value: Value) -> RegisterLayout | None:
        """The layout that suits a tile best; None for one that is cheap to make in any."""
        wish = self._wishes.get(value)
        return None if wish is None else wish.layout

    def default(self, shape: Shape) -> RegisterLayout:
        """A layout for a tile that nothing else speaks for."""
        return self.access(shape, list(range(len(shape))), 4)

    def access(
        self, shape: Shape, order: list[int], element_bytes: int, most: int = MOST_ELEMENTS, runs: Sequence[int] = ()
    ) -> RegisterLayout:
        """The layout for an access in which the axis `order[-1]` counts fastest in memory. `most`: how many elements
        one thread accesses at once at most. `runs`: other axes along which each thread is to have neighbours,
        beside those that windows slide along."""
        sizes = self.capacities.shape(shape)
        shared_out = self._axis_of_blocks(sizes, order)
        runs = [axis for axis, dim in enumerate(shape) if axis in runs or str(dim) in self._slid]
        vector = min(self._vector, most, self._aligned.get(str(shape[order[-1]]), most) if shape else most)
        if shared_out is None:
            return access_layout(sizes, order, self.threads, vector, element_bytes, self.row_threads, runs)
        # each block of a cluster has a run of its own
        part = tuple(size // self.cluster if axis == shared_out else size for axis, size in enumerate(sizes))
        blocks = spatial(*(self.cluster if axis == shared_out else 1 for axis in range(len(sizes))))
        threads, row_threads = self.threads // self.cluster, self.row_threads
        if shared_out == order[-1]:
            row_threads //= self.cluster
        return blocks * access_layout(part, order, threads, vector, element_bytes, row_threads, runs)

    def _runs_of_row(self, shape: Shape, order: list[int], element_bytes: int) -> RegisterLayout:
        """The layout for rows that are scanned, and come by way of shared memory, where threads may have runs of them
        however they lie: of a run of four, threads tell each other once, not for each element."""
        sizes = self.capacities.shape(shape)
        vector = max(1, min(SCANNED_RUN, power_of_two_in(sizes[order[-1]]) // max(1, self.row_threads)))
        return access_layout(sizes, order, self.threads, vector, element_bytes, self.row_threads)

    def _axis_of_blocks(self, sizes: tuple[int, ...], order: list[int]) -> int | None:
        """The axis that the blocks of a cluster share out: one with many rows, else the one that counts fastest."""
        if self.cluster == 1 or not sizes:
            return None
        for axis in order:
            enough = ROWS_OF_BLOCK * self.cluster if axis != order[-1] else self.cluster
            if sizes[axis] % self.cluster == 0 and sizes[axis] >= enough:
                return axis
        return None

    def copy_layout(self, shape: Shape, order: list[int], vector: int, element_bytes: int) -> RegisterLayout:
        """The layout in which threads copy a tile to shared memory, `vector` elements at a time."""
        return access_layout(self.capacities.shape(shape), order, self.threads, vector, element_bytes)

    def _anchor(self, operand: Value, layout: RegisterLayout) -> None:
        """All whole tiles that an operand is computed of come as it is needed."""
        rank = len(operand.shape)
        for value, axes in elementwise_inputs(operand):
            if value.op is not None and sorted(axes) == list(range(rank)) and not isinstance(value.op, ops.Broadcast):
                back = [axes.index(axis) for axis in range(rank)]
                self._wish(value, Wish(MULTIPLIED, layout.permuted(back)))

    def _visit(self, op: Op) -> None:
        match op:
            case ops.Range() | ops.For() | ops.While():
                self._loop(op)
            case ops.If():
                for yes, no, result in zip(yielded(op.then), yielded(op.otherwise), op.results):
                    self._wish(result, self._stronger((yes, no)))
            case _:
                for result in op.results:
                    if isinstance(result.type, TileType) and result.shape:
                        self._wish(result, self._rule(op))
                if isinstance(op, (ops.Load, ops.Cast, ops.Reshape)) and op.result.shape:
                    self._follow_product(op)

    def _follow_product(self, op: ops.Load | ops.Cast | ops.Reshape) -> None:
        """What meets an accumulator comes as it is needed there: a whole tile of it would take as much shared memory as
        the result, and between blocks of a cluster nothing moves any more. That it does may be seen late."""
        if is_gathered_rarely(op):
            return
        needed, known = follow(self._needed, op.result), self._wishes.get(op.result)
        if needed is not None and known is not None and known.strength < MULTIPLIED:
            self._wishes[op.result] = replace(known, layout=needed)

    def _bring(self, op: Op) -> None:
        """What is computed together with an accumulator is loaded and computed as that one lies, however far before, in
        branches and loops too."""
        if isinstance(op, ops.If):
            for yes, no, result in zip(yielded(op.then), yielded(op.otherwise), op.results):
                self._bring_to((yes, no), self._wishes.get(result))
        if isinstance(op, ops.Range):
            for number, result in enumerate(op.results):
                given = (yielded(op.body)[number], carried_arguments(op, op.body)[number])
                self._bring_to(given, self._wishes.get(result))
        if not isinstance(op, (ops.Map, ops.Cast, ops.Transpose)):
            return
        wish = self._wishes.get(op.result)
        if wish is None or wish.strength < MULTIPLIED:
            return
        layout = wish.layout
        if isinstance(op, ops.Transpose):
            layout = layout.permuted([op.permutation.index(axis) for axis in range(len(op.permutation))])
        for source in op.operands:
            known = self._wishes.get(source)
            follows = isinstance(source.op, (ops.Load, ops.Map, ops.Cast, ops.Transpose))
            if known is not None and follows and known.strength < MULTIPLIED and len(source.shape) == layout.rank:
                self._wishes[source] = Wish(MULTIPLIED, layout)

    def _bring_to(self, values: Iterable[Value], wish: Wish | None) -> None:
        """The same of what a branch or a loop gives."""
        for value in values:
            known, carried = self._wishes.get(value), value.op is None or isinstance(value.op, ops.Range)
            weak = carried if known is None else known.strength < MULTIPLIED
            follows = carried or isinstance(value.op, (ops.Map, ops.Cast))
            if wish is not None and wish.strength == MULTIPLIED and weak and follows:
                self._wishes[value] = wish

    def _wish(self, value: Value, wish: Wish | None) -> None:
        known = self._wishes.get(value)
        if wish is not None and (known is None or wish.strength > known.strength):
            self._wishes[value] = wish

    def _stronger(self, values: Iterable[Value]) -> Wish | None:
        wishes = [self._wishes[v] for v in values if v in self._wishes]
        return max(wishes, key=lambda wish: wish.strength, default=None)

    def _loop(self, op: ops.Range | ops.For | ops.While) -> None:
        """What is carried stays in one layout all along: that of what is yielded, else that in which it comes in."""
        following = yielded(op.body)
        for number, (initial, result) in enumerate(zip(op.initial, op.results)):
            if not isinstance(result.type, TileType) or not result.shape:
                continue
            wish = self._stronger((following[number],)) or self._stronger((initial,))
            self._wish(result, wish)
            for body in op.bodies.values():
                self._wish(carried_arguments(op, body)[number], self._wishes.get(result))

    def _rule(self, op: Op) -> Wish | None:
        match op:
            case ops.Dot():
                return Wish(MULTIPLIED, self._dot_layout(op))
            case ops.Load():
                return self._load(op)
            case ops.Atomic():
                return self._stronger((op.value,)) or Wish(COMPUTED, self.default(op.result.shape))
            case ops.Map():
                return self._stronger(v for v in op.inputs if v.shape)
            case ops.Cast():
                return self._stronger((op.source,))
            case ops.Random():
                return self._stronger((op.offsets,)) or Wish(COMPUTED, self.default(op.result.shape))
            case ops.Transpose():
                wish = self._stronger((op.source,))
                return wish and Wish(wish.strength, wish.layout.permuted(op.permutation))
            case ops.Reshape():
                wish = self._stronger((op.source,))
                layout = wish and reshaped_layout(wish.layout, op.source.shape, op.result.shape)
                if wish is not None and layout is not None:
                    return Wish(wish.strength, layout)
                return None if reshapes_units(op) else Wish(COMPUTED, self.default(op.result.shape))
            case ops.Reduce():
                wish = self._stronger(op.sources)
                source = wish.layout if wish is not None else self.default(op.sources[0].shape)
                return Wish(wish.strength if wish else COMPUTED, source.reduced(op.axes, op.keepdims))
            case ops.Scan() if (wish := self._stronger(op.sources)) and suits_scan(
                wish.layout, op.axis, self.threads // self.cluster
            ):
                return wish
            case ops.Sort():
                shape = self.capacities.shape(op.source.shape)
                layout = sort_layout(shape, op.axis, self.threads // self.cluster, self.cluster, op.source.dtype.bytes)
                return Wish(COMPUTED, layout)
            case ops.Scan() | ops.Extract():
                return Wish(COMPUTED, self.default(op.results[0].shape))
            case _:
                return None

    def _load(self, op: ops.Load) -> Wish | None:
        """Where it is broadcast right away, or meets an accumulator, it is loaded as it is needed there."""
        if is_gathered_rarely(op):
            return Wish(ACCESSED, self.access(op.result.shape, [0], op.result.dtype.bytes, most=1))
        needed = follow(self._needed, op.result)
        if needed is None and not self._multiplies:
            needed = follow(self._gathered_at, op.result)
        if needed is not None:
            return Wish(ACCESSED, needed)
        if only_broadcast(op.result) or repeats(op) >= MOST_ELEMENTS:  # of which a thread has few, whatever the layout
            return None
        *slow, fast = access_order(op) or [0]
        fold = fold_of(op.result)
        folded = set(() if fold is None else fold.axes)  # in one thread, if others are enough for all threads
        order = [*(a for a in slow if a in folded), *(a for a in slow if a not in folded), fast]
        order, scan = order[-len(op.result.shape) :], scan_of(op.result)
        if _is_added_up(op.result):  # atomics are one by one: neighbours of a warp update neighbours
            return Wish(ACCESSED, self.access(op.result.shape, order, op.result.dtype.bytes, most=1))
        runs = None if scan is None or scan.axis == fast else scan.axis
        if self.flat and scan is not None and scan.axis == fast and is_rows(op):
            return Wish(ACCESSED, self._runs_of_row(op.result.shape, order, op.result.dtype.bytes))
        return Wish(
            ACCESSED, self.access(op.result.shape, order, op.result.dtype.bytes, runs=() if runs is None else (runs,))
        )

    def _needed(self, value: Value) -> Generator[Value, RegisterLayout | None, RegisterLayout | None]:
        """The layout in which the users of a value will ask for it, if that is clear and not its own to choose."""
        for user in value.users:
            match user:
                case ops.Broadcast():
                    for after in user.result.users:
                        wish = self._user_wish(after)
                        wanted = None if wish is None else wish.layout
                        if wanted is None and isinstance(after, (ops.Map, ops.Cast)):
                            wanted = yield after.result  # it is made wherever it is needed itself
                        if wanted is not None:
                            return broadcast_source_layout(wanted, value.shape)
                case ops.Cast():
                    found = yield user.result
                    if found is not None:
                        return found
                case ops.Reshape():
                    wanted = yield user.result
                    found = wanted and reshaped_layout(wanted, user.result.shape, value.shape)
                    if found is not None:
                        return found
                case ops.Map():
                    wish = self._wishes.get(user.result)
                    if wish is not None and wish.strength == MULTIPLIED:
                        return wish.layout
                case _:
                    pass
        return None

    def _gathered_at(self, value: Value) -> Generator[Value, RegisterLayout | None, RegisterLayout | None]:
        """The layout in which coordinates are needed, if nothing else asks for them than loads that gather at these, or
        at what is computed of them element by element, and all in one layout."""
        found: RegisterLayout | None = None
        for user in value.users:
            needed: RegisterLayout | None = None
            if isinstance(user, ops.Load) and value in user.indices:
                wish = self._wishes.get(user.result) or self._load(user)
                needed = wish and coordinate_layout(wish.layout, gather_axis(user), gather_rank(user), value.shape)
            elif isinstance(user, (ops.Cast, ops.Map)) and user.result.shape == value.shape:
                needed = yield user.result
            if needed is None or found not in (None, needed):
                return None
            found = needed
        return found

    def _user_wish(self, op: Op) -> Wish | None:
        match op:
            case ops.Map() | ops.Cast():
                return self._wishes.get(op.result)
            case _:
                return None


def is_gathered_rarely(op: Op) -> bool:
    """Whether a line is read at computed coordinates in a branch that is rare. Threads share it out, and move what they
    read: as the rows of an accumulator each would have coordinates of so many that registers do not hold them."""
    if not isinstance(op, ops.Load) or len(op.result.shape) != 1 or not any(map(is_tile_index, op.indices)):
        return False
    around = op.parent and op.parent.parent
    while isinstance(around, Op) and not isinstance(around, ops.Grid):
        if isinstance(around, ops.If) and around.rare:
            return True
        around = around.parent and around.parent.parent
    return False


def reshapes_units(op: ops.Reshape) -> bool:
    """Whether a reshape only adds or drops axes of size 1."""
    return [d for d in op.source.shape if d != 1] == [d for d in op.result.shape if d != 1]


def only_broadcast(value: Value) -> bool:
    """Whether a tile is only ever used by being broadcast (after casts and the like)."""
    seen, work = {value}, [value]
    while work:
        here = work.pop()
        if not here.users:
            return False
        for user in here.users:
            if isinstance(user, (ops.Cast, ops.Reshape, ops.Map)):
                if user.result not in seen:
                    seen.add(user.result)
                    work.append(user.result)
            elif not isinstance(user, ops.Broadcast):
                return False
    return True


def _is_added_up(value: Value) -> bool:
    """Whether a tile is what atomics update rows with, as it is or after elementwise ops."""
    work, seen = [value], {value}
    while work:
        here = work.pop()
        for user in here.users:
            match user:
                case ops.Atomic():
                    last = user.indices[-1]
                    if user.value is here and isinstance(last, Value) and isinstance(last.type, AxisType):
                        return True
                case ops.Map() | ops.Cast() if user.result not in seen:
                    seen.add(user.result)
                    work.append(user.result)
                case _:
                    pass
    return False


def tensor_of(op: ops.Load | ops.Store | ops.Atomic) -> TensorType:
    """The type of the tensor that is accessed."""
    assert isinstance(op.tensor.type, TensorType)
    return op.tensor.type


def is_rows(op: ops.Load | ops.Store) -> bool:
    """Whether an access is of whole rows of a tensor, each a coordinate of its first axis, whose last axis has no
    gaps."""
    rank = len(op.indices)
    if rank < 2 or tensor_of(op).unit != rank - 1 or not all(isinstance(index, Whole) for index in op.indices[1:]):
        return False
    first = op.indices[0]
    return isinstance(first, Value) and isinstance(first.type, AxisType)


def tile_axes(op: ops.Load | ops.Store | ops.Atomic) -> list[int]:
    """For each axis of the tensor the tile axis that runs along it, or -1: a scalar, or a gather."""
    axes: list[int] = []
    number = 0
    gathered = gather_rank(op)
    seen = False
    for index in op.indices:
        if is_tile_index(index):
            axes.append(-1)
            number += 0 if seen else gathered
            seen = True
        elif isinstance(index, Value) and isinstance(index.type, TileType):
            axes.append(-1)
        else:
            axes.append(number)
            number += 1
    return axes


def access_order(op: ops.Load | ops.Store | ops.Atomic) -> list[int]:
    """The axes of the tile of an access, the one that runs along the tensor's axis of unit stride last."""
    rank = len(op.value.shape) if isinstance(op, (ops.Store, ops.Atomic)) else len(op.result.shape)
    order = list(range(rank))
    unit = tensor_of(op).unit
    axis = -1 if unit is None else tile_axes(op)[unit]
    if unit is not None and _is_field(op):  # records lie one behind the other
        axis = tile_axes(op)[unit - 1]
    if axis >= 0:
        order.remove(axis)
        order.append(axis)
    return order


def _accessed_shape(op: ops.Load | ops.Store) -> Shape:
    return op.value.shape if isinstance(op, ops.Store) else op.result.shape


def _runs(op: ops.Load | ops.Store) -> bool:
    """Whether a tile runs along the axis of unit stride."""
    unit = tensor_of(op).unit
    return unit is not None and (tile_axes(op)[unit] >= 0 or repeats(op) > 1 or _is_field(op))


def _is_field(op: ops.Load | ops.Store | ops.Atomic) -> bool:
    return not isinstance(op, ops.Atomic) and field_of(op) is not None


def _bytes_of_element(op: ops.Load | ops.Store) -> int:
    """Bytes that threads have 16 of: of fields so many that whole records make up accesses of 16 bytes."""
    bytes_ = tensor_of(op).dtype.bytes
    return math.gcd(WIDEST, record_length(op) * bytes_) if _is_field(op) else bytes_
