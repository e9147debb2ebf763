"""Fields of records are accessed together: what a thread has of several records lies side by side in memory.

    x of f32[M, 2], 4 records of a thread
    %a = gpu.load(%x, [%m, 0])        {layout = spatial(64) * local(4)}     4 accesses of 4 bytes
    %b = gpu.load(%x, [%m, 1])        {layout = spatial(64) * local(4)}     4 more
=>  %all = gpu.load(%x, [%m, 0])      {layout = spatial(64) * local(8), vector = 4, flat = true}    2 of 16 bytes
    %a = gpu.slice(%all)              {starts = [0], steps = [2], layout = spatial(64) * local(4)}
    %b = gpu.slice(%all)              {starts = [1], steps = [2], layout = spatial(64) * local(4)}

Stores of all fields become one in the same way, of what `gpu.interleave` makes. A record is a row of a tensor that lies
row by row without gaps, and has few elements. Fields that nobody asks for are loaded as well; a store that is to leave
one as it is stays as it is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, Union

from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.facts import Facts
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.async_ops import Role
from tiledsl.ir.layouts.layout import RegisterLayout, local
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tile_ops import Constant, Map, Size
from tiledsl.ir.types import TensorType
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.effects import tensors_in_order
from tiledsl.passes.analysis.fields import MOST_FIELDS
from tiledsl.passes.analysis.sizes import constant_of
from tiledsl.passes.gpu.layouts.linear_indices import linear_index
from tiledsl.passes.manager import PassContext

WIDEST = 16
"""Bytes of an access."""
MOST_WORDS = 64
"""Registers of a thread that what is loaded together takes at most."""

Access: TypeAlias = Union[gpu.Load, gpu.Store]


@dataclass(frozen=True)
class JoinFields:
    """`packed`: for each tensor that lies row by row without gaps, the bytes that it starts at a multiple of; 0 for
    others. Those behind are not known."""

    name: ClassVar[str] = "join-fields"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU
    packed: tuple[int, ...] = ()

    def run(self, module: Module, context: PassContext) -> Module:
        packed = dict(zip(tensors_in_order(module.entry.body), self.packed))
        fields = _Fields(packed, Facts(module.entry.facts))
        for op in list(module.walk()):
            if isinstance(op, gpu.Launch) and not any(isinstance(o, Role) for o in op.walk()):
                fields.join(op.body, {o.tensor for o in op.walk() if isinstance(o, (gpu.Store, gpu.Atomic))})
        return module


@dataclass(frozen=True)
class _Fields:
    """What is known of tensors, and of sizes."""

    packed: Mapping[Value, int]
    facts: Facts

    def join(self, block: Block, written: Set[Value]) -> None:
        groups: dict[Any, dict[int, Access]] = {}
        read = {op.tensor for op in block.walk() if isinstance(op, gpu.Load)}
        for op in list(block.ops):
            for body in op.bodies.values():
                self.join(body, written)
            if isinstance(op, (gpu.Load, gpu.Store)) and (op.tensor not in written or op.tensor not in read):
                found = self._field(op)
                if found is not None:
                    groups.setdefault((type(op), *_likeness(op)), {}).setdefault(found, op)
        for fields in groups.values():
            loads = {number: op for number, op in fields.items() if isinstance(op, gpu.Load)}
            stores = {number: op for number, op in fields.items() if isinstance(op, gpu.Store)}
            if len(loads) > 1:
                self._load(loads)
            if stores and len(stores) == _length(next(iter(stores.values()))):
                self._store(stores)

    def _field(self, op: Access) -> int | None:
        """Which field of a record an access is of; None where it is of none."""
        type_ = op.tensor.type
        assert isinstance(type_, TensorType)
        rank = len(type_.shape)
        if rank < 2 or type_.unit != rank - 1 or not self.packed.get(op.tensor, 0) or not _shape(op):
            return None
        length, number = type_.shape[-1], constant_of(op.indices[-1])
        if not isinstance(length, int) or not 1 < length <= MOST_FIELDS or number is None:
            return None
        plain = op.axes[-2] >= 0 and op.vector == 1 and not op.flat and not op.checked
        plain = plain and all(not index.shape for index in op.indices)
        if isinstance(op, gpu.Load):
            plain = plain and op.step == op.repeat == 1 and _words(op, length) <= MOST_WORDS
        return number if plain and 0 <= number < length else None

    def _load(self, fields: Mapping[int, gpu.Load]) -> None:
        first = next(iter(fields.values()))
        block = first.parent
        assert block is not None
        axis, length, vector, ragged = self._run(first)
        layout = _layout(first.result.layout, axis, length)
        zero, extents = _subscripts(first, axis, length)
        whole = gpu.Load(
            first.location, result_names=[first.tensor.name], tensor=first.tensor, indices=(*first.indices[:-1], zero),
            extents=extents, other=first.other, axes=_axes(first, axis), masked=first.masked, vector=vector,
            ragged=ragged, flat=True, shape=layout.shape, layout=layout,
        )  # fmt: skip
        block.insert_before(first, whole)
        steps = tuple(length if other == axis else 1 for other in range(layout.rank))
        for number, op in fields.items():
            starts = tuple(number if other == axis else 0 for other in range(layout.rank))
            part = gpu.Slice(
                op.location, result_names=[op.result.name], source=whole.result, starts=starts, steps=steps,
                layout=op.result.layout,
            )  # fmt: skip
            block.insert_before(op, part)
            op.result.replace_with(part.result)
            op.erase()

    def _store(self, fields: Mapping[int, gpu.Store]) -> None:
        block = next(iter(fields.values())).parent
        assert block is not None
        last = max(fields.values(), key=block.ops.index)
        axis, length, vector, ragged = self._run(last)
        joined = gpu.Interleave(
            last.location, result_names=[last.tensor.name], axis=axis,
            sources=[fields[number].value for number in range(length)],
        )  # fmt: skip
        block.insert_before(last, joined)
        zero, extents = _subscripts(last, axis, length)
        store = gpu.Store(
            last.location, tensor=last.tensor, indices=(*last.indices[:-1], zero), value=joined.result,
            extents=extents, axes=_axes(last, axis), masked=last.masked, vector=vector, ragged=ragged, flat=True,
            alike=last.alike,
        )  # fmt: skip
        block.insert_before(last, store)
        for op in fields.values():
            op.erase()

    def _run(self, op: Access) -> tuple[int, int, int, bool]:
        """The axis of the tile along which records lie, how many elements each has, how many elements are accessed at
        a time, and whether the tile may end within these."""
        axis, length, layout = op.axes[-2], _length(op), _layout_of(op)
        assert isinstance(op.tensor.type, TensorType)
        bytes_ = op.tensor.type.dtype.bytes
        slots = layout.slot_digits
        own = slots[-1].size if slots and slots[-1].axis == axis and slots[-1].stride == 1 else 1
        run = math.gcd(own * length, self.packed[op.tensor] // bytes_)
        run = math.gcd(run, *(d.stride * length for d in layout.thread_digits if d.axis == axis))
        run = math.gcd(run, *(d.stride * length for d in slots[:-1] if d.axis == axis))
        apart = length
        for place in range(len(op.indices) - 2, -1, -1):
            run = math.gcd(run, apart * self._multiple(op.indices[place]))
            size = op.tensor.type.shape[place]
            if op.axes[place] >= 0 and place < len(op.indices) - 2:
                run = math.gcd(run, apart)
            apart *= self._divisor(size)
        vector = run & -run
        ragged = False
        for masked, extent in zip(op.masked, op.extents):
            if masked == axis:
                ragged = length * self._multiple(extent) % vector != 0
        return axis, length, vector, ragged

    def _multiple(self, value: Value) -> int:
        """A number that an integer scalar is known to be a multiple of; 0 for 0."""
        launch, op = getattr(value.owner, "parent", None), value.op
        if isinstance(launch, gpu.Launch) and value in launch.body.arguments:
            return launch.blocks[launch.body.arguments.index(value)]
        match op:
            case Constant(value=int(number)):
                return abs(number)
            case Size(value=size):
                return self._divisor(size)
            case Map(fn="mul", inputs=(left, right)):
                return self._multiple(left) * self._multiple(right)
            case Map(fn="add" | "sub" | "minimum" | "maximum", inputs=inputs):
                return math.gcd(*map(self._multiple, inputs))
            case _:
                return 1

    def _divisor(self, size: Dim) -> int:
        return size if isinstance(size, int) else max(n for n in (1, 2, 4, 8, 16) if self.facts.divisible(size, n))


def _likeness(op: Access) -> tuple[Any, ...]:
    """What the fields of one record have in common."""
    places = tuple(linear_index(index) for index in op.indices[:-1])
    if isinstance(op, gpu.Store):
        return op.tensor, places, op.axes, op.masked, op.extents, op.value.type, op.alike
    other = op.other if op.other is None or not isinstance(op.other.op, Constant) else repr(op.other.op.value)
    return op.tensor, places, op.axes, op.masked, op.extents, op.result.type, other


def _layout_of(op: Access) -> RegisterLayout:
    return op.value.layout if isinstance(op, gpu.Store) else op.result.layout


def _shape(op: Access) -> object:
    return op.value.shape if isinstance(op, gpu.Store) else op.shape


def _length(op: Access) -> int:
    assert isinstance(op.tensor.type, TensorType)
    length = op.tensor.type.shape[-1]
    assert isinstance(length, int), "a record has a known length"
    return length


def _words(op: gpu.Load, length: int) -> int:
    """Registers of 32 bits that a thread has of whole records."""
    return op.result.layout.slots * length * op.result.dtype.bytes // 4


def _layout(layout: RegisterLayout, axis: int, length: int) -> RegisterLayout:
    """Of whole records, in the place of each element."""
    return layout * local(*(length if other == axis else 1 for other in range(layout.rank)))


def _axes(op: Access, axis: int) -> tuple[int, ...]:
    return (*op.axes[:-2], -1, axis)


def _subscripts(op: Access, axis: int, length: int) -> tuple[Value, tuple[Value, ...]]:
    """0 in front of an access, and its extents there as numbers of elements."""
    block = op.parent
    assert block is not None

    def emit(new: Op) -> Value:
        block.insert_before(op, new)
        return new.results[0]

    def number(value: int) -> Value:
        return emit(Constant(op.location, value=value, dtype=i64))

    extents = [
        emit(Map(op.location, fn="mul", inputs=(extent, number(length)))) if masked == axis else extent
        for masked, extent in zip(op.masked, op.extents)
    ]
    return number(0), tuple(extents)
