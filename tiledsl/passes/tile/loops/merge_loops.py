"""Makes one loop of those that a program writes one after the other to add to the same product.

    for r in range(3):                                         9 loops over %c of [0, 128), written out
        for c in tile.range(C):                             =>
            acc = tile.dot(x[p + r, c], w[r, c, k], acc)       1 loop over [0, 9 * 128): r is start // 128, and c what
                                                               is left

The same where a nest of loops does nothing but go through the last of them: `R * S * ceil(C / block)` blocks.

Before: form `tile`, as the front end gives it: bodies are alike but for their constants. After: the same form. A ring
of stages, and specialised warps, have one loop to run ahead in. Constants have to follow from the number of the loop:
as sums of its digits in some mixed radix, each times a factor, which is what nested `range`s give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.symbolic import Dim, Expr, ceildiv, substitute, symbol, symbol_name
from tiledsl.ir.tile_ops import (
    Cast,
    Constant,
    Coordinates,
    Dot,
    For,
    Load,
    Range,
    Shift,
    Size,
    Start,
    Transpose,
    Yield,
)
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import AxisType, BlockSize, TileType
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.sizes import size_of
from tiledsl.passes.analysis.swizzled_rows import ROW_BYTES, depth_of_rows
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.loops.carried_values import yielded

PLAIN_DEPTH = 16
"""Of a block of the sum where products are single multiply-adds."""
MOST_ROOM = 1.5
"""Of what the loops go through, what the blocks of the one loop may."""
MOST_DIGITS = 3
"""Of the number of a loop: as many loops around it may have been written out."""


@dataclass(frozen=True)
class MergeLoops:
    """Makes one loop of loops whose bodies are alike."""

    name: ClassVar[str] = "merge-loops"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            for op in list(function.walk()):
                if isinstance(op, Range):
                    self._merge_nest(op, context)
            for block in [function.body, *(body for op in function.walk() for body in op.bodies.values())]:
                for alike in [run for chain in _chains(block) for run in _alike(chain)]:
                    self._merge(alike, context)
        return module

    def _merge(self, alike: _Likeness, context: PassContext) -> None:
        loops, length = alike.loops, _length(alike.first)
        depth = _depth(alike.first, length) if length != 0 else 0
        numbers = {one: formula for one, of in alike.numbers.items() if (formula := _formula(of)) is not None}
        if depth and len(numbers) == len(alike.numbers):
            _emit(loops, numbers, ceildiv(length, depth) * depth, depth)
            context.remark(self.name, loops[-1].location, f"{len(loops)} loops that add to one product are one loop")

    def _merge_nest(self, loop: Range, context: PassContext) -> None:
        nest, length = _nest_around(loop), _length(loop)
        depth = _depth(loop, length) if nest and length != 0 else 0
        if depth:
            _emit_nest(nest, loop, ceildiv(length, depth) * depth, depth)
            context.remark(self.name, loop.location, f"the loop and {len(nest)} around it are one loop")


def _nest_around(loop: Range) -> list[For]:
    """Loops around a loop that do nothing but go through it, the outermost one first."""
    found: list[For] = []
    inner: Range | For = loop
    while inner.parent is not None and isinstance(around := inner.parent.parent, For):
        others = [op for op in around.body.ops if op is not inner]
        plain = all(isinstance(op, Yield) or (op.effect == "pure" and not op.bodies) for op in others)
        counted = size_of(around.start) == 0 and size_of(around.step) == 1 and size_of(around.stop) is not None
        handed = tuple(around.body.arguments[1:]) == inner.initial and yielded(around.body) == inner.results
        if not (plain and counted and handed and all(sum(v.users.values()) == 1 for v in inner.initial)):
            break
        found.insert(0, around)
        inner = around
    return found


def _chains(block: Block) -> list[list[Range]]:
    """Loops of which each goes on with what the one before it gives, and nobody else has that."""
    chains: list[list[Range]] = []
    for op in block.ops:
        if not isinstance(op, Range):
            continue
        before = chains[-1][-1] if chains else None
        if before is not None and op.initial == before.results and all(v.users == {op: 1} for v in before.results):
            chains[-1].append(op)
        else:
            chains.append([op])
    return [chain for chain in chains if len(chain) > 1]


def _alike(chain: Sequence[Range]) -> list[_Likeness]:
    """Those of a chain that do the same behind each other, but for numbers; two of them at least."""
    runs: list[_Likeness] = []
    for loop in chain:
        if not (runs and runs[-1].add(loop)):
            runs.append(_Likeness([loop]))
    return [run for run in runs if len(run.loops) > 1]


def _length(loop: Range) -> Dim:
    """How many coordinates a loop goes through from 0; 0 where that is computed."""
    start, stop = (size_of(end) for end in (loop.start, loop.stop))
    return stop if start == 0 and stop is not None and not (isinstance(stop, int) and stop < 0) else 0


def _depth(loop: Range, length: Dim) -> int:
    """The block of the one loop; 0 where there is none: a loop of another kind, or a short one."""
    axis, (block,) = loop.body.arguments[0], loop.blocks
    dots = [op for op in loop.body.ops if isinstance(op, Dot)]
    extent = axis.type.extent if isinstance(axis.type, AxisType) else None
    if not dots or any(dot.a.shape[-1] != extent for dot in dots):
        return 0
    if not all(isinstance(user, (Load, Coordinates)) for user in axis.users):
        return 0
    width = max(max(dot.a.dtype.bytes, dot.b.dtype.bytes) for dot in dots)
    plain = width >= 4 and any(dot.precision == "ieee" for dot in dots)
    if block.kind == "fixed" or plain:
        depth = block.size if block.kind == "fixed" else PLAIN_DEPTH
    else:
        depth = depth_of_rows(length, width) if isinstance(length, int) else ROW_BYTES[1] // width
    if isinstance(length, int):
        if length % depth == 0:
            return depth
        if -(-length // depth) * depth > MOST_ROOM * length:
            return 0
    return depth if _may_go_beyond(loop, dots, length) else 0


def _may_go_beyond(loop: Range, dots: Sequence[Dot], length: Dim) -> bool:
    """Whether blocks may go beyond the end of the loop: products alone take what it loads, and that is 0 there."""
    axis = loop.body.arguments[0]
    assert isinstance(axis.type, AxisType)
    for op in loop.body.ops:
        along = any(isinstance(v.type, TileType) and axis.type.extent in v.type.shape for v in op.results)
        if along and not isinstance(op, (Load, Cast, Transpose)):
            return False
        reads = any(isinstance(v.type, TileType) and axis.type.extent in v.type.shape for v in op.operands)
        if reads and not isinstance(op, (Cast, Transpose, Dot)):
            return False
    return all(_is_read(side, axis, length) for dot in dots for side in (dot.a, dot.b))


def _is_read(value: Value, axis: Value, length: Dim) -> bool:
    """Whether an operand is read from a tensor that ends where the loop does: what lies beyond is 0."""
    while isinstance(value.op, (Cast, Transpose)):
        value = value.op.source
    return isinstance(value.op, Load) and value.op.other is None and _covers(value.op, axis, length)


def _covers(load: Load, axis: Value, length: Dim) -> bool:
    places = [number for number, index in enumerate(load.indices) if index is axis]
    return len(places) == 1 and tensor_type(load.tensor).shape[places[0]] == length


@dataclass
class _Likeness:
    """Loops that are alike, and the constants of the first one that differ: their numbers, by loops."""

    loops: list[Range]
    numbers: dict[Constant, list[int]] = field(default_factory=dict[Constant, list[int]])

    @property
    def first(self) -> Range:
        return self.loops[0]

    def add(self, loop: Range) -> bool:
        """Whether another loop is alike; it is one of them then."""
        pair = _Pair(self.first, loop)
        if not pair.is_alike():
            return False
        for constant in {**self.numbers, **pair.numbers}:
            before = self.numbers.setdefault(constant, [int(constant.value)] * len(self.loops))
            before.append(pair.numbers.get(constant, int(constant.value)))
        self.loops.append(loop)
        return True


class _Pair:
    """Two loops, whose values are held against each other."""

    def __init__(self, first: Range, other: Range) -> None:
        self.first, self.other = first, other
        self.pairs = dict(zip(first.body.arguments, other.body.arguments))
        self.numbers: dict[Constant, int] = {}
        """Of the other loop, by the constant of the first one; only those that differ."""
        axes = (first.body.arguments[0].type, other.body.arguments[0].type)
        names = [symbol_name(axis.extent) for axis in axes if isinstance(axis, AxisType)]
        self._renamed = {names[1]: symbol(names[0])} if len(names) == 2 and names[0] and names[1] else {}

    def is_alike(self) -> bool:
        """Whether the loops do the same, but for numbers."""
        first, other = self.first, self.other
        ends = (size_of(first.start), size_of(first.stop)) == (size_of(other.start), size_of(other.stop))
        said = (first.blocks, first.num_stages) == (other.blocks, other.num_stages)
        types = [argument.type for argument in first.body.arguments[1:]]
        if not (ends and said and self._renamed and types == [a.type for a in other.body.arguments[1:]]):
            return False
        if len(first.body.ops) != len(other.body.ops):
            return False
        return all(self._ops(one, its) for one, its in zip(first.body.ops, other.body.ops))

    def _ops(self, one: Op, its: Op) -> bool:
        if type(one) is not type(its) or one.bodies or its.bodies:
            return False
        if isinstance(one, Constant) and isinstance(its, Constant):
            return self._constants(one, its)
        same = self._attributes(tuple(one.attributes.items()), tuple(its.attributes.items()))
        fields = one.fields.keys() == its.fields.keys()
        if not same or not fields or not all(self._fields(one.fields[key], its.fields[key]) for key in one.fields):
            return False
        self.pairs.update(zip(one.results, its.results))
        return True

    def _constants(self, one: Constant, its: Constant) -> bool:
        same = one.dtype == its.dtype and (one.value == its.value or one.dtype.is_integer)
        if same and one.value != its.value:
            self.numbers[one] = int(its.value)
        self.pairs[one.result] = its.result
        return same

    def _attributes(self, one: object, its: object) -> bool:
        if isinstance(one, tuple) and isinstance(its, tuple):
            return len(one) == len(its) and all(map(self._attributes, one, its))  # pyright: ignore[reportUnknownArgumentType]
        return one == (substitute(its, self._renamed) if isinstance(its, Expr) else its)

    def _fields(self, one: object, its: object) -> bool:
        if isinstance(one, tuple) and isinstance(its, tuple):
            return len(one) == len(its) and all(map(self._fields, one, its))  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(one, Value) and isinstance(its, Value):
            return self._values(one, its)
        return one == its

    def _values(self, one: Value, its: Value) -> bool:
        """Values from outside are the same, or made in the same way."""
        if one in self.pairs or one is its:
            return self.pairs.get(one, one) is its
        if one.op is None or its.op is None or one.op.effect != "pure" or one.op.parent is self.first.body:
            return False
        return self._ops(one.op, its.op)


@dataclass(frozen=True)
class _Formula:
    """A number that follows from that of a loop: `first + sum of factor * (number // apart % radix)`."""

    first: int
    digits: tuple[tuple[int, int, int], ...]
    """Factor, apart, radix: the last of them without a radix that matters."""

    def emit(self, build: Builder, number: Value, constant: Constant) -> Value:
        """In the loop's body."""
        result = build.constant(self.first, i64)
        for factor, apart, radix in self.digits:
            digit = _digit(build, number, apart, radix)
            result = build.map("add", result, build.map("mul", digit, build.constant(factor, i64)))
        return build.cast(result, constant.dtype)


def _digit(build: Builder, number: Value, apart: Dim, radix: Dim) -> Value:
    """`number // apart % radix`; a radix of 0 for the first digit, which needs none."""
    if apart != 1:
        number = build.map("floordiv", number, build.size(apart))
    return build.map("mod", number, build.size(radix)) if radix != 0 else number


def _formula(numbers: Sequence[int]) -> _Formula | None:
    """How numbers follow from where they stand; None where they do not."""
    for radices in _factors(len(numbers), MOST_DIGITS):
        apart, digits = len(numbers), list[tuple[int, int, int]]()
        for place, radix in enumerate(radices):
            apart //= radix
            digits.append((numbers[apart] - numbers[0], apart, radix if place else 0))
        made = [
            numbers[0] + sum(f * (n // apart % radix if radix else n // apart) for f, apart, radix in digits)
            for n in range(len(numbers))
        ]
        if made == list(numbers):
            return _Formula(numbers[0], tuple(digit for digit in digits if digit[0]))
    return None


def _factors(number: int, most: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a product of at most so many factors above 1, those of fewer first."""
    for count in range(1, most + 1):
        if count == 1:
            yield (number,)
            continue
        for first in range(2, number // 2 + 1):
            if number % first == 0:
                yield from ((first, *rest) for rest in _factors(number // first, count - 1) if len(rest) == count - 1)


def _emit(chain: Sequence[Range], numbers: Mapping[Constant, _Formula], each: Dim, depth: int) -> None:
    """Puts one loop where the last one is. `each`: coordinates that it has for every one of them."""
    first, last = chain[0], chain[-1]

    def body(build: Builder, number: Value, values: dict[Value, Value]) -> None:
        for op in (*_moved(first, numbers), *first.body.ops):
            if isinstance(op, Constant) and op in numbers:
                values[op.result] = numbers[op].emit(build, number, op)
            else:
                build.block.append(op.clone(values))

    _replace(last, first, first.initial, len(chain) * each, each, depth, body)
    for one in reversed(chain):
        one.erase()


def _emit_nest(nest: Sequence[For], loop: Range, each: Dim, depth: int) -> None:
    """Puts one loop where the outermost loop of a nest is."""
    sizes = [size_of(one.stop) for one in nest]
    counts = [size for size in sizes if size is not None]
    assert len(counts) == len(nest)

    def body(build: Builder, number: Value, values: dict[Value, Value]) -> None:
        for place, one in enumerate(nest):
            inner: Dim = math.prod(counts[place + 1 :], start=1)
            values[one.body.arguments[0]] = _digit(build, number, inner, counts[place] if place else 0)
            carried = loop.body.arguments[1:]
            values.update((before, values[now]) for before, now in zip(one.body.arguments[1:], carried))
            for op in one.body.ops:
                if not isinstance(op, (For, Range, Yield)):
                    build.block.append(op.clone(values))
        for op in loop.body.ops:
            build.block.append(op.clone(values))

    outer = nest[0]
    _replace(outer, loop, outer.initial, math.prod(counts, start=each), each, depth, body)
    outer.erase()


def _replace(
    before: Range | For,
    like: Range,
    initial: Sequence[Value],
    length: Dim,
    each: Dim,
    depth: int,
    fill: Callable[[Builder, Value, dict[Value, Value]], None],
) -> None:
    """Puts a loop before another one, whose results its own stand for. `like`: what it has its axis and its values of;
    `fill`: writes its body, of the number of `each` coordinates that it is at."""
    body = Block([(argument.type, argument.name) for argument in like.body.arguments])
    build = Builder(body, like.location)
    axis = body.arguments[0]
    start = build.emit(Start, axis=axis).result
    number = build.map("floordiv", start, build.size(each))
    back = build.map("sub", build.constant(0, i64), build.map("mul", number, build.size(each)))
    values: dict[Value, Value] = dict(zip(like.body.arguments, body.arguments))
    values[like.body.arguments[0]] = build.emit(Shift, axis=axis, offset=back).result
    fill(build, number, values)
    ends = (Constant(like.location, value=0, dtype=i64), Size(like.location, value=length))
    loop = Range(
        like.location, start=ends[0].result, stop=ends[1].result, initial=initial,
        blocks=(BlockSize.fixed(depth),), num_stages=like.num_stages, body=body,
        result_names=[value.name for value in before.results],
    )  # fmt: skip
    assert before.parent is not None
    for op in (*ends, loop):
        before.parent.insert_before(before, op)
    for old, new in zip(before.results, loop.results):
        old.replace_with(new)


def _moved(loop: Range, numbers: Mapping[Constant, _Formula]) -> list[Op]:
    """What is made outside of a loop of numbers that differ: it has to stand in the one loop. In order."""
    made: dict[Op, bool] = {}

    def differs(op: Op) -> bool:
        if op not in made:
            inner = [differs(v.op) for v in op.operands if v.op is not None and v.op.parent is not loop.body]
            made[op] = (isinstance(op, Constant) and op in numbers) or (op.effect == "pure" and any(inner))
        return made[op]

    for op in loop.body.ops:
        for value in op.operands:
            if value.op is not None and value.op.parent is not loop.body:
                differs(value.op)
    return [op for op, one in made.items() if one]
