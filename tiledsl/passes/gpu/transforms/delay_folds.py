"""Folds of folds become one fold after the loop: what a loop adds up of sums of tiles, each thread adds up for itself.

    for %m in 0 ... %turns (%total = %first) {             for %m in 0 ... %turns (%part = 0) {
      %sum = gpu.reduce([%block]) {axes = [0], fn = add}       %next = %part + %block
      %next = %total + %sum                          =>    }
    }                                                      %sum = gpu.reduce([%part]) {axes = [0], fn = add}
                                                           %total = %first + %sum

Threads meet once instead of in every turn. A sum may be rescaled in each turn, as that of an online softmax is:
`%total * %w + reduce(%p)` becomes `%part * %w + %p`. Such a loop begins with 0, or with a sum of that kind, as a
rotated loop does whose first turn stands in front of it.

Where a thread has few elements of the tile, it carries these. Else, and in loops that multiply, it carries the sum of
slices of the tile, in fewer registers: two for each row of an accumulator.

Before and after: GPU form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.dtypes import u8
from tiledsl.ir.fold_identities import PAIRWISE, fold_identity
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.async_ops import Wgmma
from tiledsl.ir.gpu.gpu_rules import launch_around, role_around
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.fold_plans import fold_scratch_bytes
from tiledsl.ir.layouts.layout import Digit, RegisterLayout
from tiledsl.ir.types import TileType, Type
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.loops.carried_values import carried_arguments, yielded

MOST_SLOTS = 64
"""Elements for each thread that a loop may carry in the place of what they are folded to."""
MOST_HELD = 16
"""The same of a loop that multiplies, where warps share the axis that is folded: no slice of it has a part of each."""
COMBINES = {pair: fold for fold, pair in PAIRWISE.items()}
"""Elementwise functions that go with folds."""


@dataclass(frozen=True)
class DelayFolds:
    """In all loops over numbers."""

    name: ClassVar[str] = "delay-folds"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU

    def run(self, module: Module, context: PassContext) -> Module:
        for op in list(module.walk()):
            if isinstance(op, ops.For):
                for number in range(len(op.results)):
                    _delay(op, number)
        return module


@dataclass(frozen=True)
class _Joined:
    """A value that joins (`combine`) the `fold` of a tile with what was there before, perhaps rescaled (`scale`)."""

    combine: ops.Map
    fold: gpu.Reduce
    scale: ops.Map | None = None
    weight: Value | None = None

    @property
    def source(self) -> Value:
        return self.fold.sources[0]


@dataclass(frozen=True)
class _Part:
    """What threads carry of a tile: its slices that begin at `starts`, joined."""

    layout: RegisterLayout
    starts: tuple[tuple[int, ...], ...]


def _delay(loop: ops.For, number: int) -> None:
    argument, initial = carried_arguments(loop, loop.body)[number], loop.initial[number]
    turn = _joined(yielded(loop.body)[number], lambda value: value is argument)
    part = None if turn is None or not _once(argument) else _part(loop, turn)
    if turn is None or part is None:
        return
    first = _joined(initial, lambda value: number_of(value) == 0) if turn.combine.fn == "add" else None
    if first is not None and (first.source.type != turn.source.type or first.fold.axes != turn.fold.axes):
        first = None
    from_zero = turn.combine.fn == "add" and (first is not None or number_of(initial) == 0)
    if turn.scale is not None and not from_zero:
        return
    result, folded = loop.results[number], loop.results[number].type
    start = _nothing(loop if first is None else first.combine, turn, part)
    start = start if first is None else _follow(first, part, start)
    for value in (argument, result):
        value.type = start.type
    following = _follow(turn, part, argument)
    last = loop.body.terminator
    assert last is not None
    last.set_field("values", _replaced(yielded(loop.body), number, following))
    loop.set_field("initial", _replaced(loop.initial, number, start))
    for done in (turn, first):
        if done is not None:
            _erase(done)
    _fold_behind(loop, result, folded, turn, None if from_zero else initial)


def _joined(value: Value, is_before: Callable[[Value], bool]) -> _Joined | None:
    """How a value joins a fold of its block with what `is_before` knows, if it does."""
    combine = value.op
    if not isinstance(combine, ops.Map) or combine.fn not in COMBINES or not _once(value):
        return None
    for folded, kept in (combine.inputs, combine.inputs[::-1]):
        fold, scale = folded.op, kept.op
        if not isinstance(fold, gpu.Reduce) or fold.fn != COMBINES[combine.fn] or fold.parent is not combine.parent:
            continue
        dtype = fold.sources[0].dtype
        narrow = dtype.is_float and dtype.bits < 32  # which are rounded after each fold
        if narrow or len(fold.results) != 1 or fold.has_body("combiner") or not _once(folded):
            continue
        if is_before(kept):
            return _Joined(combine, fold)
        if combine.fn == "add" and isinstance(scale, ops.Map) and scale.fn == "mul" and _once(kept):
            weight, before = scale.inputs if is_before(scale.inputs[1]) else scale.inputs[::-1]
            if is_before(before) and not is_before(weight) and weight.shape:
                return _Joined(combine, fold, scale, weight)
    return None


def _once(value: Value) -> bool:
    return sum(value.users.values()) == 1


def _part(loop: ops.For, turn: _Joined) -> _Part | None:
    """What a loop carries of the tile that it folds; None where threads have no registers for it."""
    layout, part = turn.source.layout, None
    kinds = {type(op) for op in loop.body.ops}
    multiplies = Wgmma in kinds or gpu.Mma in kinds
    if turn.scale is not None and Wgmma not in kinds:
        return None  # the extremum is folded in each turn anyway, and two registers more may be a block less
    if not multiplies and layout.slots <= MOST_SLOTS:
        return _Part(layout, ((0,) * layout.rank,))
    if len(turn.fold.axes) == 1:
        part = _slices(layout, turn.fold.axes[0])
    if part is None and layout.slots <= MOST_HELD and turn.fold.buffer is not None:
        return _Part(layout, ((0,) * layout.rank,))
    return part if part is not None and part.layout.slots <= MOST_SLOTS else None


def _slices(layout: RegisterLayout, axis: int) -> _Part | None:
    """Equal slices along an axis: each thread's outermost slots there."""
    along = [digit for digit in layout.slot_digits if digit.axis == axis]
    outer = max(along, key=lambda digit: digit.stride, default=None)
    if outer is None or outer.stride * outer.size != layout.shape[axis]:
        return None
    shape = tuple(outer.stride if number == axis else size for number, size in enumerate(layout.shape))
    slots: list[Digit] = [digit for digit in layout.slot_digits if digit is not outer]
    starts = [
        tuple(outer.stride * number if other == axis else 0 for other in range(layout.rank))
        for number in range(outer.size)
    ]
    return _Part(RegisterLayout(shape, layout.thread_digits, slots), tuple(starts))


def _nothing(anchor: Op, turn: _Joined, part: _Part) -> Value:
    """What is carried where nothing is folded yet, made in front of an op."""
    build = Builder(Block(), turn.fold.location)
    dtype = turn.source.dtype
    nothing = _filled(build, build.constant(fold_identity(turn.fold.fn, dtype), dtype), part.layout)
    _insert(build, anchor)
    return nothing


def _follow(turn: _Joined, part: _Part, carried: Value) -> Value:
    """What is carried on from a turn, made where it joined."""
    build, source = Builder(Block(), turn.fold.location), turn.source
    total, fn = _rescaled(build, turn, part, carried), turn.combine.fn
    pieces = [source] if source.layout == part.layout else []
    if not pieces:
        pieces = [build.emit(gpu.Slice, source=source, starts=at, layout=part.layout).result for at in part.starts]
    joined = pieces[0]
    for piece in pieces[1:]:
        joined = _map(build, fn, joined, piece)
    joined = _map(build, fn, total, joined)
    joined.name = turn.combine.result.name
    _insert(build, turn.combine)
    return joined


def _rescaled(build: Builder, turn: _Joined, part: _Part, carried: Value) -> Value:
    """What was carried so far, in terms of this turn."""
    weight, axes = turn.weight, turn.fold.axes
    if weight is None:
        return carried
    if not turn.fold.keepdims:
        layout = part.layout.reduced(axes, True)
        type_ = TileType(weight.dtype, layout.shape, "register", layout)
        weight = build.emit(ops.Reshape, types=[type_], source=weight, shape=layout.shape).result
    return _map(build, "mul", carried, _filled(build, weight, part.layout))


def _map(build: Builder, fn: str, left: Value, right: Value) -> Value:
    return build.emit(ops.Map, types=[left.type], fn=fn, inputs=(left, right)).result


def _filled(build: Builder, source: Value, layout: RegisterLayout) -> Value:
    type_ = TileType(source.dtype, layout.shape, "register", layout)
    return build.emit(ops.Broadcast, types=[type_], source=source, shape=layout.shape).result


def _fold_behind(loop: ops.For, result: Value, type_: Type, turn: _Joined, initial: Value | None) -> None:
    """Folds what a loop gives in front of the first op that takes it, and joins that with what the loop began with."""
    assert loop.parent is not None
    users = set(result.users)
    anchor = next((op for op in loop.parent.ops if any(inner in users for inner in op.walk())), None)
    if anchor is None:
        return
    build, fold = Builder(Block(), turn.fold.location), turn.fold
    size = fold_scratch_bytes(result.layout, fold.axes, [result.dtype], _threads(loop), fold.fn)
    scratch = None
    if size:
        fields = {"shape": (size,), "dtype": u8, "layout": SharedLayout((0,))}
        scratch = build.emit(gpu.Buffer, result_names=["scratch"], **fields).result
    folded = build.emit(
        gpu.Reduce, sources=[result], buffer=scratch, axes=fold.axes, fn=fold.fn, keepdims=fold.keepdims
    )
    whole = folded.result
    if initial is not None:
        whole = _map(build, turn.combine.fn, initial, whole)
    assert whole.type == type_
    whole.name = result.name
    _insert(build, anchor)
    for user in users:
        user.replace_operand(result, whole)


def _threads(op: Op) -> int:
    """How many threads of a block run an op."""
    around = role_around(op) or launch_around(op)
    assert around is not None
    return around.threads


def _replaced(values: Sequence[Value], number: int, value: Value) -> tuple[Value, ...]:
    return (*values[:number], value, *values[number + 1 :])


def _erase(done: _Joined) -> None:
    buffer = done.fold.buffer
    for op in (done.combine, done.scale, done.fold):
        if op is not None:
            op.erase()
    if buffer is not None and buffer.op is not None and not buffer.users:
        buffer.op.erase()


def _insert(build: Builder, anchor: Op) -> None:
    """Puts what was built in front of an op."""
    assert anchor.parent is not None
    for op in build.block.ops:
        anchor.parent.insert_before(anchor, op)
