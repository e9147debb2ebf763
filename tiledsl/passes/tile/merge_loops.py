"""Makes one loop of those that a program writes one after the other to add to the same product.

    for r in range(3):                                         9 loops over %c of [0, 128), written out
        for c in tile.range(C):                             =>
            acc = tile.dot(x[p + r, c], w[r, c, k], acc)       1 loop over [0, 9 * 128): r is start // 128, and c what
                                                               is left

Before: form `tile`, as the front end gives it: bodies are alike but for their constants. After: the same form. A ring
of stages, and specialised warps, have one loop to run ahead in. Constants have to follow from the number of the loop:
as sums of its digits in some mixed radix, each times a factor, which is what nested `range`s give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.symbolic import Expr, substitute, symbol, symbol_name
from tiledsl.ir.tile_ops import Cast, Constant, Coordinates, Dot, Load, Range, Shift, Size, Start, Transpose
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import AxisType, BlockSize
from tiledsl.ir.verifier import Form
from tiledsl.passes.manager import PassContext

ROW_BYTES = (128, 64, 32)
"""Of a block of the sum: rows of a swizzle that tensor cores read."""
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
            for block in [function.body, *(body for op in function.walk() for body in op.bodies.values())]:
                for alike in [run for chain in _chains(block) for run in _alike(chain)]:
                    self._merge(alike, context)
        return module

    def _merge(self, alike: _Likeness, context: PassContext) -> None:
        loops, length = alike.loops, _length(alike.first)
        depth = _depth(alike.first, length) if length else 0
        numbers = {one: formula for one, of in alike.numbers.items() if (formula := _formula(of)) is not None}
        if depth and len(numbers) == len(alike.numbers):
            _emit(loops, numbers, -(-length // depth) * depth, depth)
            context.remark(self.name, loops[-1].location, f"{len(loops)} loops that add to one product are one loop")


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


def _length(loop: Range) -> int:
    """How many coordinates a loop goes through from 0; 0 where that is not known."""
    start, stop = (_number(end) for end in (loop.start, loop.stop))
    return stop if start == 0 and stop is not None and stop > 0 else 0


def _number(value: Value) -> int | None:
    match value.op:
        case Constant() as op if isinstance(op.value, int):
            return op.value
        case Size() as op if isinstance(op.value, int):
            return op.value
        case _:
            return None


def _depth(loop: Range, length: int) -> int:
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
    sizes = [PLAIN_DEPTH] if plain else [row // width for row in ROW_BYTES]
    if block.kind == "fixed":
        sizes = [block.size]
    depth = min(sizes, key=lambda size: (-(-length // size) * size, -size))
    room = -(-length // depth) * depth
    if room == length:
        return depth
    ends_with_it = all(_is_read(side, axis, length) for dot in dots for side in (dot.a, dot.b))
    return depth if ends_with_it and room <= MOST_ROOM * length else 0


def _is_read(value: Value, axis: Value, length: int) -> bool:
    """Whether an operand is read from a tensor that ends where the loop does: what lies beyond is 0."""
    while isinstance(value.op, (Cast, Transpose)):
        value = value.op.source
    return isinstance(value.op, Load) and value.op.other is None and _covers(value.op, axis, length)


def _covers(load: Load, axis: Value, length: int) -> bool:
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
        ends = (_number(first.start), _number(first.stop)) == (_number(other.start), _number(other.stop))
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
            digit = number
            if apart > 1:
                digit = build.map("floordiv", digit, build.constant(apart, i64))
            if radix:
                digit = build.map("mod", digit, build.constant(radix, i64))
            result = build.map("add", result, build.map("mul", digit, build.constant(factor, i64)))
        return build.cast(result, constant.dtype)


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


def _emit(chain: Sequence[Range], numbers: Mapping[Constant, _Formula], each: int, depth: int) -> None:
    """Puts one loop where the last one is. `each`: coordinates that it has for every one of them."""
    first, last = chain[0], chain[-1]
    body = Block([(argument.type, argument.name) for argument in first.body.arguments])
    build = Builder(body, first.location)
    axis = body.arguments[0]
    start = build.emit(Start, axis=axis).result
    number = build.map("floordiv", start, build.constant(each, i64))
    back = build.map("sub", build.constant(0, i64), build.map("mul", number, build.constant(each, i64)))
    values: dict[Value, Value] = dict(zip(first.body.arguments, body.arguments))
    values[first.body.arguments[0]] = build.emit(Shift, axis=axis, offset=back).result
    moved = _moved(first, numbers)
    for op in (*moved, *first.body.ops):
        if isinstance(op, Constant) and op in numbers:
            values[op.result] = numbers[op].emit(build, number, op)
        else:
            body.append(op.clone(values))
    outer = last.parent
    assert outer is not None
    ends = (Constant(first.location, value=0, dtype=i64), Size(first.location, value=len(chain) * each))
    loop = Range(
        first.location, start=ends[0].result, stop=ends[1].result, initial=first.initial,
        blocks=(BlockSize.fixed(depth),), num_stages=first.num_stages, body=body,
        result_names=[value.name for value in last.results],
    )  # fmt: skip
    for op in (*ends, loop):
        outer.insert_before(last, op)
    for before, now in zip(last.results, loop.results):
        before.replace_with(now)
    for one in reversed(chain):
        one.erase()


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
