"""Products of a step that do not read what is carried, as one product for all steps in front of the loop.

    func @step(%h, %x, %w, %u) {                                %ps = contract(%xs, %w) {axes = "t b k, k n -> t b n"}
      %p = contract(%x, %w) {axes = "b k, k n -> b n"}    =>    graph.loop([%h], [%ps], [%u]) {callee = step}
      %q = contract(%h, %u) ...                                 func @step(%h, %p, %u) { %q = contract(%h, %u) ... }

What they are computed from goes with them. A step that had no other product may then be looped within a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Module, Op, Value, free_names
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of
from tiledsl.passes.graph.groups.group import is_of_matrices
from tiledsl.passes.graph.rewrites.canonicalise_graph import drop_unread
from tiledsl.passes.manager import PassContext

MOST_BYTES = 1 << 30
"""Results of all steps are not made at once where they would be larger."""


@dataclass(frozen=True)
class HoistProducts:
    """Of the loops of the entry."""

    name: ClassVar[str] = "hoist-products"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH

    def run(self, module: Module, context: PassContext) -> Module:
        loops = [op for op in module.entry.body.ops if isinstance(op, ops.Loop)]
        for loop in loops:
            step = module.function(loop.callee)
            if not is_alone(loop, module):
                continue
            found = [op for op in step.body.ops if isinstance(op, ops.Contract) and is_of_matrices(op)]
            if found:
                Hoisting(loop, step, context).run(found)
        return module


def is_alone(loop: ops.Loop, module: Module) -> bool:
    """Whether no other loop runs the step of this one."""
    return sum(isinstance(op, ops.Loop) and op.callee == loop.callee for op in module.walk()) == 1


class _Lifted(NamedTuple):
    """What stands for a value of the step outside of it; `moves`: with an axis of steps in front."""

    value: Value
    moves: bool


class Hoisting:
    """One loop, whose step no other loop runs."""

    def __init__(self, loop: ops.Loop, step: Function, context: PassContext) -> None:
        self.loop = loop
        self.step = step
        self.context = context
        self.count: Any = loop.count
        carried, last = len(loop.initial), len(loop.initial) + len(loop.sequences)
        self.known: dict[Value, _Lifted | None] = dict.fromkeys(step.parameters[:carried])
        self.known.update(zip(step.parameters[carried:last], (_Lifted(v, True) for v in loop.sequences)))
        self.known.update(zip(step.parameters[last:], (_Lifted(v, False) for v in loop.shared)))
        self.elements = list(zip(step.parameters[carried:last], loop.sequences))
        self.shared = list(zip(step.parameters[last:], loop.shared))

    def run(self, products: list[ops.Contract]) -> None:
        done = False
        for op in products:
            if self.count * bytes_of(op.result) > MOST_BYTES or not self._can_be_lifted(op.result):
                continue
            lifted = self._lift(op.result)
            taken = {parameter.name for parameter in self.step.parameters}
            name = free_names(taken, op.result.name or "product")
            parameter = self.step.body.add_argument(tensor_type(op.result), name)
            op.result.replace_with(parameter)
            (self.elements if lifted.moves else self.shared).append((parameter, lifted.value))
            text = "a product that does not read what is carried is made for all steps at once"
            self.context.remark(HoistProducts.name, op.location, text)
            done = True
        if done:
            drop_unread(self.step.body)
            self._rebuild()

    def results(self) -> ops.Loop | None:
        """Makes in front of the loop what steps stack without reading what is carried; the loop that is left, or None
        where there is no such result."""
        last, carried = self.step.body.terminator, len(self.loop.initial)
        assert isinstance(last, ops.Return)
        lifted = {
            number: self._lift(value)
            for number, value in enumerate(last.values)
            if number >= carried and self._can_be_lifted(value)
        }
        if not lifted:
            return None
        for number, found in lifted.items():
            shape = sizes_of(self.loop.results[number])[1:]
            self.loop.results[number].replace_with(self.spread(last, found, shape))
        kept = [number for number in range(len(last.values)) if number not in lifted]
        last.set_field("values", [last.values[number] for number in kept])
        drop_unread(self.step.body)
        self._rebuild()
        return self._with_results(kept)

    def _with_results(self, kept: list[int]) -> ops.Loop:
        """A loop that gives fewer results in the place of this one."""
        loop = self.loop
        old = [loop.results[number] for number in kept]
        fields: dict[str, Any] = {**loop.fields, **loop.attributes}
        types, names = [value.type for value in old], [value.name for value in old]
        made = ops.Loop(loop.location, types=types, result_names=names, **fields)
        assert loop.parent is not None
        loop.parent.insert_before(loop, made)
        for before, after in zip(old, made.results):
            before.replace_with(after)
        loop.erase()
        return made

    def _rebuild(self) -> None:
        """Gives the step the parameters that it still reads, and the loop what belongs to them."""
        loop, body = self.loop, self.step.body
        elements = [pair for pair in self.elements if pair[0].users]
        shared = [pair for pair in self.shared if pair[0].users]
        body.arguments = [*body.arguments[: len(loop.initial)], *(p for p, _ in elements), *(p for p, _ in shared)]
        loop.set_field("sequences", [value for _, value in elements])
        loop.set_field("shared", [value for _, value in shared])

    # Lifting

    def _can_be_lifted(self, value: Value) -> bool:
        """Whether a value is computed of elements and of what all steps share, by ops that can stand in front."""
        pending, seen = [value], set[Value]()
        while pending:
            current = pending.pop()
            if current in seen:
                continue
            seen.add(current)
            if current in self.known:
                if self.known[current] is None:
                    return False
                continue
            if current.op is None or not isinstance(current.op, LIFTED):
                return False
            pending += current.op.operands
        return True

    def _lift(self, value: Value) -> _Lifted:
        found = self.known.get(value)
        if found is None:
            op = value.op
            assert op is not None
            operands = [self._lift(operand) for operand in op.operands]
            moves = any(operand.moves for operand in operands)
            if moves:
                made = _MOVED[type(op)](self, op, operands)
            else:
                copy = op.clone({old: new.value for old, new in zip(op.operands, operands)})
                made = self._insert(copy)
            found = self.known[value] = _Lifted(made, moves)
        return found

    def _insert(self, op: Op) -> Value:
        assert self.loop.parent is not None
        self.loop.parent.insert_before(self.loop, op)
        return op.results[0]

    def emit(self, kind: type[Op], like: Op, **fields: Any) -> Value:
        """An op in front of the loop, at the place of one of the step."""
        return self._insert(kind(like.location, result_names=[like.results[0].name if like.results else ""], **fields))

    def spread(self, like: Op, operand: _Lifted, shape: tuple[int, ...]) -> Value:
        """An operand of one element, or of a shape, as one for all steps: with that shape behind the axis of steps."""
        value, sizes = operand.value, sizes_of(operand.value)
        mine = sizes[1:] if operand.moves else sizes
        if operand.moves and len(mine) < len(shape):
            between = (1,) * (len(shape) - len(mine))
            value = self.emit(ops.Reshape, like, source=value, shape=(sizes[0], *between, *mine))
        wanted = (self.count, *shape)
        return value if sizes_of(value) == wanted else self.emit(ops.Broadcast, like, source=value, shape=wanted)


Mover = Callable[[Hoisting, Any, "list[_Lifted]"], Value]


def _map(to: Hoisting, op: ops.Map, operands: list[_Lifted]) -> Value:
    shape = sizes_of(op.result)
    inputs = [
        operand.value if not operand.moves and not sizes_of(operand.value) else to.spread(op, operand, shape)
        for operand in operands
    ]
    return to.emit(ops.Map, op, fn=op.fn, inputs=inputs)


def _cast(to: Hoisting, op: ops.Cast, operands: list[_Lifted]) -> Value:
    return to.emit(ops.Cast, op, source=operands[0].value, dtype=op.dtype)


def _broadcast(to: Hoisting, op: ops.Broadcast, operands: list[_Lifted]) -> Value:
    return to.spread(op, operands[0], sizes_of(op.result))


def _reshape(to: Hoisting, op: ops.Reshape, operands: list[_Lifted]) -> Value:
    return to.emit(ops.Reshape, op, source=operands[0].value, shape=(to.count, *op.shape))


def _transpose(to: Hoisting, op: ops.Transpose, operands: list[_Lifted]) -> Value:
    permutation = (0, *(axis + 1 for axis in op.permutation))
    return to.emit(ops.Transpose, op, source=operands[0].value, permutation=permutation)


def _slice(to: Hoisting, op: ops.Slice, operands: list[_Lifted]) -> Value:
    bounds = {"starts": (0, *op.starts), "stops": (to.count, *op.stops), "steps": (1, *op.steps)}
    return to.emit(ops.Slice, op, source=operands[0].value, **bounds)


def _reduce(to: Hoisting, op: ops.Reduce, operands: list[_Lifted]) -> Value:
    axes = tuple(axis + 1 for axis in op.axes)
    return to.emit(ops.Reduce, op, source=operands[0].value, axes=axes, fn=op.fn, keepdims=op.keepdims)


def _contract(to: Hoisting, op: ops.Contract, operands: list[_Lifted]) -> Value:
    a, b, result = op.axis_names()
    steps = free_names({*a, *b}, "t")
    names = [[steps, *mine] if operand.moves else mine for mine, operand in zip((a, b), operands)]
    axes = f"{' '.join(names[0])}, {' '.join(names[1])} -> {' '.join([steps, *result])}"
    fields = {"dtype": op.dtype, "precision": op.precision}
    return to.emit(ops.Contract, op, a=operands[0].value, b=operands[1].value, axes=axes, **fields)


_MOVED: dict[type[Op], Mover] = {
    ops.Map: _map,
    ops.Cast: _cast,
    ops.Broadcast: _broadcast,
    ops.Reshape: _reshape,
    ops.Transpose: _transpose,
    ops.Slice: _slice,
    ops.Reduce: _reduce,
    ops.Contract: _contract,
}
LIFTED = (*_MOVED, ops.Constant, ops.Size, ops.Iota)
"""What can stand in front of a loop."""
