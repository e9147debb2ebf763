"""Mistakes in what is accessed: stages, offsets, extents, layouts, and the places of buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.support.mutants.mutating import (
    Change,
    Mutator,
    before,
    change_operand,
    launch_of,
    number,
    operand_at,
    set_attribute,
    set_operand,
)
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import bool_
from tiledsl.ir.gpu.async_ops import Mbarriers, TmaLoad, TmaStore, Wgmma
from tiledsl.ir.gpu.gpu_ops import Atomic, Buffer, Copy, Load, Pad, Read, Reduce, Scan, Store, View, Write
from tiledsl.ir.layouts.buffer_layout import SharedLayout, Swizzle
from tiledsl.ir.tile_ops import Broadcast, Constant, For, Map

SWIZZLES = (None, Swizzle(1, 4, 3), Swizzle(2, 4, 3), Swizzle(3, 4, 3))


# Offsets in buffers


def _placed(op: Op) -> Iterator[tuple[str, Value, dict[int, int]]]:
    """Accesses of buffers: the field of the offsets, the buffer, and how far it goes along which of its axes."""
    match op:
        case Read() | Copy() | TmaLoad() | TmaStore():
            yield "offsets", op.buffer, dict(zip(op.places, op.shape))
        case Write():
            yield "offsets", op.buffer, dict(zip(op.places, _sizes(op.value)))
        case Wgmma():
            rows, columns = _sizes(op.acc)
            if op.a_axes:
                yield "a_offsets", op.a, dict(zip(op.a_axes, (rows, op.depth)))
            yield "b_offsets", op.b, dict(zip(op.b_axes, (op.depth, columns)))
        case _:
            pass


def _sizes(value: Value) -> tuple[int, ...]:
    return tuple(dim for dim in value.shape if isinstance(dim, int))


def stage(op: Op) -> Iterator[Change]:
    """Accesses the next stage: along an axis that the access does not run along."""
    for field, buffer, runs in _placed(op):
        for axis, size in enumerate(_sizes(buffer)):
            if axis not in runs and size > 1:
                words = f"next stage of %{buffer.name} for {op.name}"
                yield change_operand("stage-of-buffer", words, field, axis, ("add", 1), ("mod", size))


def offset(op: Op) -> Iterator[Change]:
    """Accesses one element further on, or one tile, along each axis that it runs along."""
    for field, buffer, runs in _placed(op):
        for axis, size in runs.items():
            for step in dict.fromkeys((1, size)):
                words = f"%{buffer.name} {step} further along axis {axis} for {op.name}"
                yield change_operand("offset", words, field, axis, ("add", step))


# Subscripts of tensors


def index(op: Op) -> Iterator[Change]:
    """Accesses a tensor one element further on."""
    if isinstance(op, (Load, Store, Atomic, Copy, TmaLoad, TmaStore)):
        for axis, value in enumerate(op.indices):
            if not value.shape:
                words = f"%{op.tensor.name} 1 further along axis {axis} for {op.name}"
                yield change_operand("index", words, "indices", axis, ("add", 1))


def extent(op: Op) -> Iterator[Change]:
    """One element fewer within the extent, or one more."""
    if not isinstance(op, (Load, Store, Atomic, Copy, Pad)):
        return
    axes = op.axes if isinstance(op, Pad) else op.masked
    shape = op.shape if isinstance(op, (Load, Copy)) else _sizes(op.source if isinstance(op, Pad) else op.value)
    for position, axis in enumerate(axes):
        for kind, step in (("extent-less", "sub"), ("extent-more", "add")):
            words = f"extent of axis {axis} {'one less' if step == 'sub' else 'one more'} for {op.name}"
            steps = (("minimum", shape[axis]), (step, 1))
            yield change_operand(kind, words, "extents", position, *steps)


def unmasked(op: Op) -> Iterator[Change]:
    """Forgets where a tile ends."""
    if isinstance(op, (Load, Store, Atomic, Copy)) and op.masked:

        def apply(copy: Op) -> None:
            copy.set_field("extents", ())
            copy.attributes["masked"] = ()

        yield Change("unmasked", f"no extents for {op.name}", apply)
    if isinstance(op, (Load, Store, Atomic, Copy)) and op.checked:
        yield set_attribute("unmasked", op, "checked", ())


# Buffers and barriers


def overlap(op: Op) -> Iterator[Change]:
    """Moves a buffer, or mbarriers, to where another one is."""
    if isinstance(op, (Buffer, Mbarriers)) and op.offset >= 0:
        others = [other for other in launch_of(op).walk() if isinstance(other, (Buffer, Mbarriers)) and other is not op]
        for other in dict.fromkeys(other.offset for other in others):
            if other not in (-1, op.offset):
                yield set_attribute("overlap", op, "offset", other)


def swizzle(op: Op) -> Iterator[Change]:
    """Another swizzle of a buffer, for all who access it."""
    if not isinstance(op, Buffer) or not isinstance(op.layout, SharedLayout):
        return
    if any(isinstance(user, (Reduce, Scan, View)) for user in op.result.users):
        return  # they take the buffer for bytes
    old = op.layout
    for swizzle in SWIZZLES:
        if swizzle == old.swizzle:
            continue
        new = replace(old, swizzle=swizzle)

        def apply(copy: Op, new: SharedLayout = new) -> None:
            copy.attributes["layout"] = new
            copy.result.type = replace(copy.result.tile, layout=new)

        same = new.bytes(op.shape, op.dtype) == old.bytes(op.shape, op.dtype)
        words = f"swizzle {old.swizzle or 'none'} => {swizzle or 'none'} of {op.name}"
        yield Change("swizzle", words, apply, "all go by the layout of the buffer" if same else "")


# Numbers of stages


def modulo(op: Op) -> Iterator[Change]:
    """Another divisor: of a step into a stage, or a turn into a parity."""
    if not isinstance(op, Map) or op.fn not in ("mod", "floordiv"):
        return
    divisor = op.inputs[1].op
    if not isinstance(divisor, Constant) or op.result.shape:
        return
    value = int(divisor.value)
    for other in (value - 1, value + 1):
        if other > 0:

            def apply(copy: Op, other: int = other) -> None:
                set_operand(copy, "inputs", 1, number(copy, other, divisor.dtype))

            yield Change("modulo", f"divide by {other} in place of {value} in {op.name} ({op.fn})", apply)


def trips(op: Op) -> Iterator[Change]:
    """A loop that goes round once more, or once less."""
    if isinstance(op, For) and any(inner.name.startswith("gpu.") for inner in op.walk()):
        for name, fn in (("stop", "add"), ("stop", "sub"), ("start", "add")):
            words = f"`{name}` {'+' if fn == 'add' else '-'} one step of {op.name}"
            yield Change("trips", words, lambda copy, name=name, fn=fn: _shift_bound(copy, name, fn))


def _shift_bound(loop: Op, name: str, fn: str) -> None:
    assert isinstance(loop, For)
    inputs = (operand_at(loop, name, 0), loop.step)
    set_operand(loop, name, 0, before(loop, Map(loop.location, fn=fn, inputs=inputs)))


# Flags


def multicast(op: Op) -> Iterator[Change]:
    if isinstance(op, TmaLoad) and op.multicast:
        yield set_attribute("multicast", op, "multicast", False, "each block loads all of it itself")


def apart(op: Op) -> Iterator[Change]:
    if isinstance(op, Copy):
        yield set_attribute("apart", op, "apart", not op.apart, "it is a word for insert-barriers")


def accumulate(op: Op) -> Iterator[Change]:
    """Adds to what the accumulator began with, or to nothing."""
    if not isinstance(op, Wgmma):
        return

    def always(copy: Op) -> None:
        copy.set_field("accumulate", None)

    def never(copy: Op) -> None:
        copy.set_field("accumulate", before(copy, Constant(copy.location, value=False, dtype=bool_)))

    if op.accumulate is not None:
        reason = "the accumulator begins as 0" if _begins_as_zero(op.acc, op.accumulate) else ""
        yield Change("accumulate", f"always accumulate in {op.name}", always, reason)
    known = op.accumulate.op if op.accumulate is not None else None
    if not (isinstance(known, Constant) and not known.value):
        yield Change("accumulate", f"never accumulate in {op.name}", never)


def _begins_as_zero(acc: Value, accumulate: Value) -> bool:
    """Whether `accumulate` is false for a tile of zeros alone: known, or what a loop carries in its first iteration."""
    test = accumulate.op
    if isinstance(acc.owner, Block) and isinstance(acc.owner.parent, For) and isinstance(test, Map):
        loop, carried = acc.owner.parent, acc.owner.arguments
        if test.fn == "ne" and test.inputs == (carried[0], loop.start):
            return _is_zero(loop.initial[carried.index(acc) - 1])
    return _is_zero(acc)


def _is_zero(value: Value) -> bool:
    source = value.op.source.op if isinstance(value.op, Broadcast) else None
    return isinstance(source, Constant) and source.value == 0


ACCESS_MUTATORS: tuple[Mutator, ...] = (
    stage, offset, index, extent, unmasked, overlap, swizzle, modulo, trips, multicast, apart, accumulate,
)  # fmt: skip
