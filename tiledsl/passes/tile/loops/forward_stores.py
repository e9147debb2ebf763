"""What a program stored and reads again is taken from where it was computed (scalar replacement).

    tile.store(%y, [%1, %b], %s)               tile.store(%y, [%1, %b], %s)
    tile.store(%y, [%2, %b], %t)               tile.store(%y, [%2, %b], %t)
    %u = tile.load(%y, [%1, %b])        =>     %v = tile.map([%s, %s]) {fn = mul}
    %v = tile.map([%u, %u]) {fn = mul}

Before: any TILE form. After: the same form; no load reads what this program stored, or loaded, at an equal place,
unless something was stored in between at a place that may be the same. A store behind which the same place is stored to
before anything may read it goes. Places are equal if all subscripts are, and apart if along one axis they are numbers,
or the same value and numbers added, that differ. Other programs cannot have stored there: that would be a race.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from tiledsl.ir.core import Block, Index, Module, Op, Value
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tile_ops import Atomic, Grid, If, Load, Map, Shift, Store
from tiledsl.ir.types import AxisType, Slice, Whole
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.analysis.sizes import SIZES, size_of
from tiledsl.passes.manager import PassContext


@dataclass(frozen=True)
class ForwardStores:
    """Replaces loads by what was stored, and takes stores away that nobody can see."""

    name: ClassVar[str] = "forward-stores"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for grid in [op for op in module.entry.body.ops if isinstance(op, Grid)]:
            read = {op.tensor for op in grid.walk() if isinstance(op, Load)}
            stored = {op.tensor for op in grid.walk() if isinstance(op, Store)}
            if stored & read:
                forwarder = _Forwarder(stored & read)
                forwarder.block(grid.body, _Known())
                gone = _without_unseen(grid.body, stored)
                if forwarder.replaced or gone:
                    what = f"{forwarder.replaced} loads take what the program stored"
                    context.remark(self.name, grid.location, f"{what}; {gone} stores that others overwrite go")
        return module


class Subscript(NamedTuple):
    """Along one axis: what stands there (`base`, of a kind), and what is added to it; of a slice where it begins and
    stops."""

    kind: str
    base: Hashable
    offset: Dim = 0
    stop: Dim = 0


Place = tuple[Subscript, ...]


def place_of(op: Load | Store | Atomic) -> Place:
    """Where an access lies."""
    return tuple(map(_subscript, op.indices))


def _subscript(index: Index) -> Subscript:
    match index:
        case Whole():
            return Subscript("whole", None)
        case Slice():
            return Subscript("slice", None, index.start, index.stop)
        case Value(op=Shift() as op):
            inner = _subscript(op.axis)
            size = size_of(op.offset)
            return inner._replace(offset=inner.offset + size) if size is not None else Subscript("value", index)
        case Value(type=AxisType()):
            return Subscript("block", index)
        case Value():
            size = size_of(index)
            return Subscript("coordinate", None, size) if size is not None else _sum(index)


def _sum(value: Value) -> Subscript:
    if isinstance(value.op, Map) and value.op.fn in ("add", "sub") and not value.shape:
        left, right = value.op.inputs
        by = size_of(right)
        if by is not None and value.dtype.bits == 64:
            inner = _sum(left)
            return inner._replace(offset=inner.offset + (by if value.op.fn == "add" else -by))
    return Subscript("value" if value.shape else "coordinate", value)


def are_apart(one: Place, other: Place) -> bool:
    """Whether two accesses of a tensor surely have no element in common."""
    return any(map(_differ, one, other))


def _differ(one: Subscript, other: Subscript) -> bool:
    if one.kind == other.kind == "coordinate" and one.base is other.base:
        distance = one.offset - other.offset
        return isinstance(distance, int) and distance != 0
    if one.kind == other.kind == "slice":
        return SIZES.less_equal(one.stop, other.offset) or SIZES.less_equal(other.stop, one.offset)
    return False


def _shape_of(place: Place) -> Hashable:
    """Equal for places that are equal, or apart: all but the numbers."""
    return tuple(
        one._replace(offset=0) if isinstance(one.offset, int) and one.kind == "coordinate" else one for one in place
    )


@dataclass
class _Known:
    """What lies at which places of which tensors."""

    values: dict[Value, dict[Hashable, dict[Place, Op]]] = field(default_factory=dict)

    def copy(self) -> _Known:
        copied = {tensor: {shape: dict(by) for shape, by in found.items()} for tensor, found in self.values.items()}
        return _Known(copied)

    def forget(self, tensors: Iterable[Value]) -> None:
        for tensor in tensors:
            self.values.pop(tensor, None)

    def store(self, op: Store) -> None:
        place, found = place_of(op), self.values.setdefault(op.tensor, {})
        shape = _shape_of(place)
        for other, by in found.items():
            if other != shape:
                for known in [one for one in by if not are_apart(one, place)]:
                    del by[known]
        found.setdefault(shape, {})[place] = op

    def find(self, op: Load) -> Op | None:
        """The access at the same place that knows what is there; the load is that from now on if there is none."""
        place = place_of(op)
        return self.values.setdefault(op.tensor, {}).setdefault(_shape_of(place), {}).setdefault(place, op)


class _Forwarder:
    def __init__(self, tensors: set[Value]) -> None:
        self.tensors = tensors
        self.replaced = 0

    def block(self, block: Block, known: _Known) -> None:
        for op in list(block.ops):
            if isinstance(op, Store) and op.tensor in self.tensors:
                known.store(op)
            elif isinstance(op, Load) and op.tensor in self.tensors:
                self._load(op, known)
            elif isinstance(op, Atomic):
                known.values.clear()  # other programs may say by it that they have stored something
            elif op.bodies and op.effect == "control":
                written = tensors_written([op])
                if any(isinstance(inner, Atomic) for inner in op.walk()):
                    known.values.clear()
                if not isinstance(op, If):  # a body may run after itself
                    known.forget(written)
                for body in op.bodies.values():
                    self.block(body, known.copy())
                known.forget(written)

    def _load(self, op: Load, known: _Known) -> None:
        earlier = known.find(op)
        if earlier is op or earlier is None:
            return
        assert isinstance(earlier, (Load, Store))
        value = earlier.value if isinstance(earlier, Store) else earlier.result
        inside = all(
            axis in op.in_bounds or axis in earlier.in_bounds or isinstance(index, Whole)
            for axis, index in enumerate(op.indices)
        )
        if inside and value.type == op.result.type:
            op.result.replace_with(value)
            op.erase()
            self.replaced += 1


def _without_unseen(block: Block, tensors: set[Value]) -> int:
    """Takes stores away that are overwritten before anything may read them; how many there were."""
    gone = 0
    later: dict[Value, set[Place]] = {}
    for op in reversed(list(block.ops)):
        match op:
            case Store():
                place = place_of(op)
                if place in later.get(op.tensor, ()):
                    op.erase()
                    gone += 1
                else:
                    later.setdefault(op.tensor, set()).add(place)
            case Load() if op.tensor in later:
                place = place_of(op)
                later[op.tensor] = {one for one in later[op.tensor] if are_apart(one, place)}
            case Atomic():
                later.clear()
            case _ if op.bodies and op.effect == "control":
                if any(isinstance(inner, Atomic) for inner in op.walk()):
                    later.clear()
                for tensor in {inner.tensor for inner in op.walk() if isinstance(inner, Load)}:
                    later.pop(tensor, None)
                gone += sum(_without_unseen(body, tensors) for body in op.bodies.values())
            case _:
                pass
    return gone
