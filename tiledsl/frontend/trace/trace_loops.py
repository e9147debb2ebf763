"""Loops of formulas: a step is traced once, as a function of its own that `graph.loop` runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from tiledsl.frontend.trace.array_types import is_array
from tiledsl.frontend.trace.structures import Structure, build, leaf_names, structure_of, take_apart
from tiledsl.frontend.trace.trace import Trace, describe, identifier, type_of
from tiledsl.frontend.trace.trace_elementwise import tensor
from tiledsl.frontend.trace.traced import TracedSize, TracedTensor, dim_of
from tiledsl.ir.core import Block, Function, Op, Value, free_names
from tiledsl.ir.graph_ops import Constant, Iota, Loop, Return, Size
from tiledsl.ir.symbolic import Dim, symbols_of
from tiledsl.ir.types import TensorType, Type
from tiledsl.ir.verifier import is_tile_function
from tiledsl.support.location import Location

Step = Callable[[Any, Any], Any]


def record_loop(trace: Trace, step: Step, carry: Any, xs: Any, length: Any, reverse: bool) -> tuple[Any, Any]:
    """Records `tiledsl.scan`: gives what is carried at the end, and what the steps gave, stacked."""
    trace.arrive()
    place = trace.builder.location = trace.places.called() or trace.builder.location
    starts: list[Any] = []
    carried = structure_of(carry, "carry", _is_leaf, starts)
    initial = [tensor(trace, value) for value in starts]
    sources: list[Any] = []
    elements = structure_of(xs, "x", _is_leaf, sources)
    sequences = [tensor(trace, value) for value in sources]
    count = _count(trace, sequences, length)
    body = _Body(trace, step, place, _Given(carried, elements, initial, sequences))
    traced = body.run()
    if any(x.weak and x.dtype != after.dtype for x, after in zip(initial, traced.after)):
        # numbers give way to what they meet in the step, so they begin as what that gives
        body.drop()
        initial = [
            trace.tensor(trace.cast(x.value, after.dtype)) if x.weak else x for x, after in zip(initial, traced.after)
        ]
        body = _Body(trace, step, place, _Given(carried, elements, initial, sequences))
        traced = body.run()
    _check_carried(trace, carried, initial, traced.after, body)
    function, shared = body.finish([x.value for x in (*traced.after, *traced.stacked)])
    stacked = [TensorType(x.dtype, (count, *x.type.shape)) for x in traced.stacked]
    with trace.builder.at(place):
        loop = trace.builder.emit(
            Loop, initial=[x.value for x in initial], sequences=[x.value for x in sequences], shared=shared,
            callee=function.name, count=count, reverse=bool(reverse),
            types=[*(_plain(x.type) for x in initial), *stacked],
        )  # fmt: skip
    results = [trace.tensor(value) for value in loop.results]
    return build(carried, iter(results)), build(traced.structure, iter(results[len(initial) :]))


@dataclass(frozen=True)
class _Given:
    """What a loop is given: structures, and the tensors in them."""

    carried: Structure
    elements: Structure
    initial: Sequence[TracedTensor]
    sequences: Sequence[TracedTensor]


class _Traced(NamedTuple):
    """What a step gave: the carry, and what is stacked with its structure."""

    after: list[TracedTensor]
    stacked: list[TracedTensor]
    structure: Structure


def _is_leaf(value: object) -> bool:
    return isinstance(value, (TracedTensor, TracedSize, int, float, np.generic)) or is_array(value)


def _element(type_: TensorType) -> TensorType:
    return TensorType(type_.dtype, type_.shape[1:])


def _plain(type_: TensorType) -> TensorType:
    return TensorType(type_.dtype, type_.shape)


def _count(trace: Trace, sequences: Sequence[TracedTensor], length: Any) -> Dim:
    """How many steps there are. Raises TileShapeError or TileTypeError where that is no one number."""
    for x in sequences:
        if not x.ndim:
            trace.fail("scan-rank", x, text=trace.text_of(x), what=describe(x))
    said = None if length is None else dim_of(length)
    if (length is not None and (said is None or isinstance(length, bool))) or (said is None and not sequences):
        trace.fail("scan-count", length, what="there are no sequences" if length is None else _said(trace, length))
    counts = [(x.type.shape[0], x) for x in sequences]
    first = said if said is not None else counts[0][0]
    if isinstance(first, int) and first < 0:
        trace.fail("scan-count", length, what=_said(trace, length))
    for count, x in counts:
        if count != first:
            other = "`length`" if said is not None else f"`{trace.text_of(counts[0][1])}`"
            operands = [x] if said is not None else [counts[0][1], x]
            trace.fail("scan-lengths", *operands, text=trace.text_of(x), count=count, other=other, first=first)
    return first


def _said(trace: Trace, length: Any) -> str:
    return f"`length` is {describe(length)}"


def _check_carried(
    trace: Trace, structure: Structure, initial: Sequence[TracedTensor], after: Sequence[TracedTensor], body: _Body
) -> None:
    """Raises TileTypeError unless a step gives what it takes."""
    for name, before, now in zip(leaf_names(structure), initial, after):
        if _plain(before.type) != _plain(now.type):
            text = trace.text_of(now)
            trace.builder.location = body.place
            body.drop()
            trace.fail(
                "scan-carry", before,
                name=name, before=_plain(before.type), now=_plain(now.type), text=text, dtype=now.dtype,
            )  # fmt: skip


class _Body:
    """A step as a function: its parameters, then what it reads from outside."""

    def __init__(self, trace: Trace, step: Step, place: Location, given: _Given) -> None:
        self.trace = trace
        self.step = step
        self.place = place
        self.given = given
        self.block = Block()
        self.taken: set[str] = set()
        self.functions = list(trace.functions)
        weak = [*(x.weak for x in given.initial), *(False for _ in given.sequences)]
        types = [*(x.type for x in given.initial), *(_element(x.type) for x in given.sequences)]
        names = [*leaf_names(given.carried), *leaf_names(given.elements)]
        self.arguments = [
            trace.tensor(self._argument(name, _plain(type_)), gives_way)
            for name, type_, gives_way in zip(names, types, weak)
        ]

    def _argument(self, wanted: str, type_: Type) -> Value:
        name = free_names(self.taken, identifier(wanted))
        self.taken.add(name)
        return self.block.add_argument(type_, name)

    def run(self) -> _Traced:
        """Runs the step once. Raises TileTypeError where it gives something else than a pair."""
        trace, arguments = self.trace, iter(self.arguments)
        try:
            with trace.builder.inside(self.block):
                carry = build(self.given.carried, arguments)
                returned: Any = self.step(carry, build(self.given.elements, arguments))
                trace.builder.location = self.place
                if not isinstance(returned, tuple) or len(cast("tuple[Any, ...]", returned)) != 2:
                    trace.fail("scan-result", what=describe(returned))
                after, ys = cast("tuple[Any, Any]", returned)
                leaves: list[Any] = []
                problem = take_apart(self.given.carried, after, leaves)
                if problem is not None:
                    trace.fail("scan-structure", problem=problem)
                outputs: list[Any] = []
                structure = structure_of(ys, "y", _is_leaf, outputs)
                tensors, stacked = ([tensor(trace, value) for value in values] for values in (leaves, outputs))
                return _Traced(tensors, stacked, structure)
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Takes out what was recorded, with steps of loops in it: whoever catches an error may go on."""
        for op in reversed(list(self.block.ops)):
            op.erase()
        functions = self.trace.functions
        functions[:] = [f for f in functions if f in self.functions or is_tile_function(f)]

    def finish(self, values: Sequence[Value]) -> tuple[Function, list[Value]]:
        """The function, and the values from outside that it takes as well."""
        self.block.append(Return(self.place, values=list(values)))
        shared = self._captured()
        shared += self._for_sizes()
        name = self.trace.function_name(getattr(self.step, "__name__", "step").replace("<lambda>", "step"))
        function = Function(name, self.block, [], self.place)
        self.trace.functions.insert(0, function)  # after those that run it, before those that it runs
        return function, shared

    def _captured(self) -> list[Value]:
        """Makes parameters of what the step reads from outside. Numbers and coordinates are written again."""
        inside = {*self.block.arguments, *(value for op in self.block.ops for value in op.results)}
        shared: list[Value] = []
        told = _sizes_told(self.block)
        for op in list(self.block.ops):
            for value in dict.fromkeys(op.operands):
                if value in inside:
                    continue
                stands = self._again(value.op, told)
                if stands is None:
                    stands = self._argument(value.name or "shared", _plain(type_of(value)))
                    shared.append(value)
                inside.add(stands)
                for user in [user for user in value.users if user.parent is self.block]:
                    user.replace_operand(value, stands)
        return shared

    def _again(self, op: Op | None, told: set[str]) -> Value | None:
        """The result of a copy of an op, if it is a number or coordinates that the step can make itself."""
        if not isinstance(op, (Constant, Iota, Size)):
            return None
        dims = op.shape if isinstance(op, Iota) else (op.value,) if isinstance(op, Size) else ()
        if any(name not in told for dim in dims for name in symbols_of(dim)):
            return None
        copy = op.clone({})
        self.block.insert_before(self.block.ops[0], copy)
        return copy.results[0]

    def _for_sizes(self) -> list[Value]:
        """Parameters of the formula that tell sizes which the step speaks of, and no parameter of it has alone."""
        types = [value.type for op in self.block.ops for value in op.results]
        spoken = {name for type_ in types for dim in getattr(type_, "shape", ()) for name in symbols_of(dim)}
        found: list[Value] = []
        for name in sorted(spoken - _sizes_told(self.block)):
            for value in self.trace.body.arguments:
                if any(str(dim) == name for dim in type_of(value).shape):
                    found.append(value)
                    self._argument(value.name, _plain(type_of(value)))
                    break
        return found


def _sizes_told(block: Block) -> set[str]:
    """The names of sizes that are an axis of a parameter."""
    return {str(dim) for value in block.arguments for dim in type_of(value).shape if not isinstance(dim, int)}
