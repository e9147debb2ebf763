"""Writes out loops over what a program stores and reads again, so that each of these places is a number.

    tile.for(%0, %4, %1, [])  body(%i: i64) {               %a0 = tile.load(%a, [%0, %b]) ...
      %a = tile.load(%a, [%i, %b])                          tile.store(%y, [%0, %b], %a0)
      ... %y = tile.load(%y, [%before, %b]) ...      =>     %a1 = tile.load(%a, [%1, %b]) ...
      tile.store(%y, [%i, %b], %sum)                        %y0 = tile.load(%y, [%0, %b])
    }                                                       ...

Before: any TILE form. After: the same form. A loop is taken with all loops in it if the bounds of all are known, the
outermost one first, as long as what comes of it has at most `MOST_OPS` ops that are not index arithmetic. Branches that
the numbers decide are decided. `forward-stores` then finds what is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Block, Function, Module, Op, Value
from tiledsl.ir.dtypes import DType, bool_, i64
from tiledsl.ir.symbolic import symbols_of
from tiledsl.ir.tile_ops import Cast, Constant, Dot, For, Grid, If, Load, Map, Range, Size, Store, Yield
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.analysis.sizes import is_scalar
from tiledsl.passes.manager import PassContext
from tiledsl.passes.nest.evaluate_scalars import Place, ScalarValues
from tiledsl.passes.tile.loops.carried_values import yielded

MOST_OPS = 4096
"""Ops on tiles that a loop comes to at most: a few seconds of NVRTC, and 100 KiB of machine code, which the cache of
instructions does not hold, but each program goes through it once."""

Counted = (For, Range)


@dataclass(frozen=True)
class UnrollLoops:
    """Writes out loops of known bounds over what is stored and read again."""

    name: ClassVar[str] = "unroll-loops"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for grid in [op for op in module.entry.body.ops if isinstance(op, Grid)]:
            reread = _reread(grid)
            for loop in _loops_over(grid.body, reread):
                self._unroll(loop, reread, context)
        return module

    def _unroll(self, loop: For | Range, reread: Set[Value], context: PassContext) -> None:
        count = _ops_of(loop, ScalarValues({}, {}), MOST_OPS)
        if count is None or count > MOST_OPS:
            why = "its bounds are not known" if count is None else f"it would be more than {MOST_OPS} operations"
            context.remark(
                self.name, loop.location, f"what the loop stores is read again, and it is not written out: {why}"
            )
            for inner in _loops_over(loop.body, reread):
                self._unroll(inner, reread, context)
            return
        _Writer(loop).write()
        context.remark(self.name, loop.location, f"written out, to {count} operations: what is stored is read again")


def rereading_loops(function: Function) -> Iterator[For | Range]:
    """The outermost loops over tensors that their grid stores to and reads, in which nothing but loops over single
    coordinates stands. None of a grid that none of them stores in."""
    for grid in [op for op in function.body.ops if isinstance(op, Grid)]:
        yield from _loops_over(grid.body, _reread(grid))


def _reread(grid: Grid) -> Set[Value]:
    """The tensors that loops of a grid store to, and that it reads."""
    loops = [op for op in grid.walk() if isinstance(op, Counted)]
    return tensors_written(loops) & {op.tensor for op in grid.walk() if isinstance(op, Load)}


def _loops_over(block: Block, tensors: Set[Value]) -> Iterator[For | Range]:
    if not tensors:
        return
    for op in list(block.ops):
        if isinstance(op, Counted) and _accesses(op, tensors) and all(map(_is_plain, op.walk())):
            yield op
        else:
            for body in op.bodies.values():
                yield from _loops_over(body, tensors)


def sizes_to_know(function: Function) -> frozenset[str]:
    """The symbols whose sizes those loops need: in their bounds, and of the axes that scalars subscript in them."""
    found = frozenset[str]()
    for loop in rereading_loops(function):
        for op in loop.walk():
            if isinstance(op, For):
                found |= _symbols_behind((op.start, op.stop, op.step))
            elif isinstance(op, Range):
                found |= _symbols_behind((op.start, op.stop))
            elif isinstance(op, (Load, Store)):
                for index, size in zip(op.indices, tensor_type(op.tensor).shape):
                    if isinstance(index, Value) and is_scalar(index):
                        found |= symbols_of(size)
    return found


def _symbols_behind(values: Sequence[Value]) -> frozenset[str]:
    found, seen, work = frozenset[str](), set[Value](), list(values)
    while work:
        value = work.pop()
        if value not in seen and value.op is not None:
            seen.add(value)
            if isinstance(value.op, Size):
                found |= symbols_of(value.op.value)
            work += [one for one in value.op.operands if is_scalar(one)]
    return found


def _accesses(loop: For | Range, tensors: Set[Value]) -> bool:
    return any(isinstance(op, (Load, Store)) and op.tensor in tensors for op in loop.walk())


def _is_plain(op: Op) -> bool:
    """Whether an op may be written out: no loop over blocks, no loop of which nobody knows how long it is, no product,
    nothing that programs tell each other."""
    if isinstance(op, Range):
        return all(block.kind == "fixed" and block.size == 1 for block in op.blocks)
    known = op.name in ("tile.load", "tile.store", "tile.for", "tile.if", "tile.yield")
    return not isinstance(op, Dot) and (known or op.effect == "pure" or op.effect == "terminator")


def _number_of(value: Value, values: ScalarValues) -> int | None:
    """A scalar that is computed of integers alone, none of which can wrap around."""
    return values.of(value) if _is_index(value) else None


def _is_index(value: Value) -> bool:
    match value.op:
        case None:
            return value.dtype == i64
        case Constant():
            return not value.dtype.is_float
        case Size() as op:
            return isinstance(op.value, int)
        case Cast() as op:
            return value.dtype == i64 and not op.source.dtype.is_float and _is_index(op.source)
        case Map() as op:
            return value.dtype in (i64, bool_) and all(map(_is_index, op.inputs))
        case _:
            return False


def _rounds(loop: For | Range, values: ScalarValues) -> range | None:
    step = 1 if isinstance(loop, Range) else _number_of(loop.step, values)
    start, stop = _number_of(loop.start, values), _number_of(loop.stop, values)
    return None if start is None or stop is None or not step else range(start, stop, step)


def _chosen(op: If, values: ScalarValues) -> list[Block]:
    """The branches of an `if` that may run."""
    condition = _number_of(op.condition, values)
    return [op.then, op.otherwise] if condition is None else [op.then if condition else op.otherwise]


def _ops_of(loop: For | Range, values: ScalarValues, most: int) -> int | None:
    """How many ops on tiles a loop comes to; None where bounds are not known. Counted no further than just above
    `most`."""
    rounds = _rounds(loop, values)
    if rounds is None:
        return None
    total = 0
    for number in rounds:
        inside = _of_body(loop.body, _with(values, loop, number), most - total)
        if inside is None:
            return None
        total += max(1, inside)
        if total > most:
            break
    return total


def _of_body(block: Block, values: ScalarValues, most: int) -> int | None:
    total = 0
    for op in block.ops:
        found: int | None = 0
        if isinstance(op, Counted):
            found = _ops_of(op, values, most - total)
        elif isinstance(op, If):
            parts = [_of_body(branch, values, most - total) for branch in _chosen(op, values)]
            found = None if None in parts else sum(part or 0 for part in parts)
        elif isinstance(op, (Load, Store)) or any(not is_scalar(value) for value in op.results):
            found = 1
        if found is None:
            return None
        total += found
        if total > most:
            break
    return total


def _with(values: ScalarValues, loop: For | Range, number: int) -> ScalarValues:
    return ScalarValues(values.sizes, {**values.places, loop.body.arguments[0]: Place(number, 1)})


class _Writer:
    """Writes a loop out before itself, and takes it away."""

    def __init__(self, loop: For | Range) -> None:
        self.loop = loop
        self._numbers: dict[tuple[int, DType], Value] = {}

    def write(self) -> None:
        values: dict[Value, Value] = {}
        self._loop(self.loop, ScalarValues({}, {}), values)
        for result in self.loop.results:
            result.replace_with(values[result])
        self.loop.erase()

    def _put(self, op: Op) -> None:
        assert self.loop.parent is not None
        self.loop.parent.insert_before(self.loop, op)

    def _number(self, number: int, dtype: DType) -> Value:
        key = (number, dtype)
        if key not in self._numbers:
            constant = Constant(self.loop.location, value=number, dtype=dtype)
            self._put(constant)
            self._numbers[key] = constant.result
        return self._numbers[key]

    def _loop(self, loop: For | Range, known: ScalarValues, values: dict[Value, Value]) -> None:
        rounds = _rounds(loop, known)
        assert rounds is not None
        index, *carried = loop.body.arguments
        state = [values.get(value, value) for value in loop.initial]
        for number in rounds:
            values.update(zip(carried, state))
            values[index] = self._number(number, index.dtype)
            self._body(loop.body, _with(known, loop, number), values)
            state = [values.get(value, value) for value in yielded(loop.body)]
        values.update(zip(loop.results, state))

    def _body(self, block: Block, known: ScalarValues, values: dict[Value, Value]) -> None:
        for op in block.ops:
            if isinstance(op, Counted):
                self._loop(op, known, values)
            elif isinstance(op, If) and len(chosen := _chosen(op, known)) == 1:
                self._body(chosen[0], known, values)
                values.update(zip(op.results, [values.get(value, value) for value in yielded(chosen[0])]))
            elif isinstance(op, Map) and is_scalar(op.result) and (number := _index_of(op, known)) is not None:
                values[op.result] = self._number(number, op.result.dtype)
            elif not isinstance(op, Yield):
                self._put(op.clone(values))


def _index_of(op: Map, known: ScalarValues) -> int | None:
    """What index arithmetic comes to."""
    return _number_of(op.result, known) if op.result.dtype == i64 else None
