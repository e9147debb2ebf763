"""Writes the steps of a loop as one tile program: each program of the grid goes through all steps for its own blocks.

    @step(%c, %x, %d)                    for m, n in tile.grid(M, N):
      %n = map(add, map(mul, %c, %d), %x)        c = carry[m, n]
      %y = map(exp, %n)              =>          for t in tile.range(T, block=1):
      return(%n, %y)                                 c = c * d[n] + x[t, m, n]
                                                     y[t, m, n] = exp(c)
                                                 last[m, n] = c

So what is carried stays in registers, and nothing is launched for a step. It can be done where a program needs no more
of what is carried than it computes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from typing_extensions import override

from tiledsl.ir import graph_ops as graph
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Function, Number, Value, free_names
from tiledsl.ir.dtypes import i64
from tiledsl.ir.symbolic import Dim, floordiv, symbol
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import BlockSize, TensorType, scalar
from tiledsl.passes.graph.analysis.axes import Axis
from tiledsl.passes.graph.kernels.group_program import GroupProgram
from tiledsl.passes.graph.kernels.group_tiles import Scope
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan
from tiledsl.passes.graph.kernels.treatments import Treatments


@dataclass(frozen=True)
class Steps:
    """What a step has to do with the loop. `carried`: the parameters for each carried value, several where the step
    reads it along different axes; the first results are the next ones. `elements`: the parameters that are elements of
    sequences."""

    carried: tuple[tuple[Value, ...], ...]
    elements: frozenset[Value]
    first: tuple[Number | None, ...]
    """The number that each carried value starts as in all of its elements, if it is one that is known."""
    count: int
    reverse: bool
    places: tuple[int, ...] = ()
    """Where the axis of steps is in each tensor of what is stacked, among those of more than one element."""
    ahead: int = 1
    """So many steps are in one turn of the loop, which loads their elements together."""


def reason_against(plan: KernelPlan, steps: Steps) -> str | None:
    """Why a step that is one kernel cannot be looped within it, if it cannot."""
    function, axes, treatments = plan.outlined.function, plan.axes, plan.treatments
    last = function.body.terminator
    assert isinstance(last, graph.Return)
    changing = {*steps.elements, *(before for slot in steps.carried for before in slot)}
    for op in function.body.ops:
        if isinstance(op, graph.Window):
            return "a step has windows"
        if isinstance(op, graph.Contract) and not set(axes.reduced[op]) <= treatments.whole:
            return "a step has a product of matrices"
        if isinstance(op, graph.Gather) and op.source in changing:
            return "a step gathers from what changes step by step"
    for slot, after in zip(steps.carried, last.values):
        kept = axes.kept[after]
        if set(treatments.grid) - set(kept):
            return f"programs share %{after.name}"
        for before in slot:
            mine = axes.kept[before]
            if len(mine) != len(kept) or not all(_is_one(a, b, treatments) for a, b in zip(mine, kept)):
                return f"a program needs more of %{before.name} than it computes"
    return None


def _is_one(first: Axis, second: Axis, treatments: Treatments) -> bool:
    """Whether a program has the same elements along two axes."""
    both_whole = first in treatments.whole and second in treatments.whole
    return first is second or (both_whole and first.size == second.size)


Item = TypeVar("Item")


def inserted(items: Sequence[Item], place: int, item: Item) -> tuple[Item, ...]:
    """The items with one more at a place."""
    return (*items[:place], item, *items[place:])


Stacked: TypeAlias = "Collection[tuple[Value, Value]]"
"""The tensors of what is stacked, with the results of a step that go there."""


class LoopProgram(GroupProgram):
    """The whole program. Its parameters are a tensor for each carried value that does not start as a known number, then
    those of the step, in order, with an axis of steps in front where they are elements."""

    def __init__(self, plan: KernelPlan, units: Sequence[int | None], steps: Steps) -> None:
        """`units`: of all parameters, in order, the axis along which elements lie side by side."""
        super().__init__(plan.outlined.function, plan.axes, plan.treatments, units)
        self.steps = steps
        for axis in plan.treatments.whole:
            self.sizes[axis] = axis.size  # what is carried is read along axes of other names than it is made
        carried = {before for slot in steps.carried for before in slot}
        self.others = [p for p in self.function.parameters if p not in carried]
        self.count: Dim = symbol(free_names(self.declared, "T")) if steps.elements else steps.count
        self.declared.add(str(self.count))
        self.step: Value | None = None
        """The coordinate along the axis of steps."""

    @override
    def build(self, name: str) -> Function:
        last = self.function.body.terminator
        assert isinstance(last, graph.Return)
        carried, stacked = last.values[: len(self.steps.carried)], last.values[len(self.steps.carried) :]
        units = iter(self.units)
        starts = [
            self._start(value, next(units)) if number is None else number
            for value, number in zip(carried, self.steps.first)
        ]
        for parameter, unit in zip(self.others, units):
            self._parameter(parameter, unit)
        finals = [self._output(value) for value in carried]
        outputs = [self._stacked(value, place) for value, place in zip(stacked, self.steps.places)]
        stops = [self.builder.size(self.sizes[axis]) for axis in self.treatments.grid]
        with self._grid() as grid:
            initial = [self._first(start, value) for start, value in zip(starts, carried)]
            ends = self._steps(initial, carried, list(zip(outputs, stacked)))
            for output, value, end in zip(finals, carried, ends):
                self.builder.emit(ops.Store, tensor=output, indices=self.places(value), value=end)
        self.builder.emit(ops.Grid, stops=stops, blocks=self._block_sizes(), body=grid)
        self.builder.emit(ops.Return, values=[*finals, *outputs])
        return Function(name, self.body, self._facts(), self.function.location)

    def _start(self, value: Value, unit: int | None) -> Value:
        """The parameter for what is carried into the first step."""
        type_ = TensorType(tensor_type(value).dtype, self._shape(value), unit)
        return self.body.add_argument(type_, f"first_{value.name or 'carry'}")

    def _parameter(self, parameter: Value, unit: int | None) -> None:
        shape = self._shape(parameter)
        if parameter in self.steps.elements:
            shape = (self.count, *shape)
        type_ = TensorType(tensor_type(parameter).dtype, shape, unit)
        self.tensors[parameter] = self.body.add_argument(type_, parameter.name)

    def _shape(self, value: Value) -> tuple[Dim, ...]:
        return tuple(self.sizes[axis] for axis in self.axes.kept[value])

    def _stacked(self, value: Value, place: int) -> Value:
        shape, dtype = inserted(self._shape(value), place, self.count), tensor_type(value).dtype
        return self.builder.emit(ops.Empty, shape=shape, dtype=dtype, result_names=[value.name or "out"]).result

    def _first(self, start: Value | Number, value: Value) -> Value:
        if isinstance(start, Value):
            return self.builder.emit(ops.Load, tensor=start, indices=self.places(value)).result
        number = self.builder.constant(start, tensor_type(value).dtype)
        return self.builder.broadcast(number, self.shape(self.tile_axes(value)))

    def _steps(self, initial: Sequence[Value], carried: Sequence[Value], stacked: Stacked) -> Sequence[Value]:
        """The loops over the steps: so many at a time, then those that are left. Gives what is carried at the end."""
        ahead, zero = self.steps.ahead, self.builder.constant(0, i64)
        if ahead == 1:
            return self._turns(zero, self.builder.size(self.count), 1, initial, carried, stacked)
        times = floordiv(self.count, ahead)
        states = self._turns(zero, self.builder.size(times), ahead, initial, carried, stacked)
        if self.steps.count % ahead == 0:
            return states
        rest, end = self.builder.size(times * ahead), self.builder.size(self.count)
        return self._turns(rest, end, 1, states, carried, stacked)

    def _turns(
        self,
        start: Value,
        stop: Value,
        ahead: int,
        initial: Sequence[Value],
        carried: Sequence[Value],
        stacked: Stacked,
    ) -> Sequence[Value]:
        """A loop with `ahead` steps in each turn, all of whose elements are loaded first."""
        body = Block()
        name = free_names(self.declared, "t")
        self.declared.add(name)
        turn = body.add_argument(scalar(i64), name)
        states: Sequence[Value] = [
            body.add_argument(first.type, slot[0].name if slot else value.name)
            for slot, first, value in zip(self.steps.carried, initial, carried)
        ]
        with Scope(self, body):
            steps = [self._step_at(turn, ahead, number) for number in range(ahead)]
            loaded = [self._elements_at(step) for step in steps]
            for self.step, elements in zip(steps, loaded):
                states = self._one(states, elements, carried, stacked)
            self.builder.emit(ops.Yield, values=states)
        loop = ops.Range(
            self.builder.location, start=start, stop=stop, initial=initial, blocks=(BlockSize.fixed(1),), body=body,
            result_names=[value.name for value in carried],
        )  # fmt: skip
        self.builder.block.append(loop)
        return loop.results

    def _step_at(self, turn: Value, ahead: int, number: int) -> Value:
        """The coordinate along the axis of steps of one of those in a turn."""
        step = turn
        if ahead > 1:
            first = self.builder.map("mul", turn, self.builder.constant(ahead, i64))
            step = self.builder.map("add", first, self.builder.constant(number, i64))
        if not self.steps.reverse:
            return step
        last = self.builder.map("sub", self.builder.size(self.count), self.builder.constant(1, i64))
        return self.builder.map("sub", last, step)

    def _elements_at(self, step: Value) -> dict[Value, Value]:
        """The elements of sequences at a step, as far as no loop within it goes through them."""
        self.step = step
        self.scopes.append({})
        for parameter in self.others:
            if parameter in self.steps.elements and not self.treatments.streamed & set(self.axes.kept[parameter]):
                self.tile(parameter)
        return self.scopes.pop()

    def _one(
        self, states: Sequence[Value], elements: dict[Value, Value], carried: Sequence[Value], stacked: Stacked
    ) -> Sequence[Value]:
        """One step; gives what it carries on."""
        assert self.step is not None
        known = {before: state for slot, state in zip(self.steps.carried, states) for before in slot}
        self.scopes.append({**elements, **known})
        after: list[Value] = []
        for value in carried:
            with self._at(value):
                after.append(self.builder.cast(self.tile(value), tensor_type(value).dtype))
        for (output, value), place in zip(stacked, self.steps.places):
            with self._at(value):
                indices = inserted(self.places(value), place, self.step)
                tile = self.tile(value)
                self.builder.emit(ops.Store, tensor=output, indices=indices, value=tile, in_bounds=(place,))
        self.scopes.pop()
        return after

    def _at(self, value: Value) -> AbstractContextManager[None]:
        return self.builder.at(value.op.location if value.op is not None else self.builder.location)

    @override
    def _load(self, value: Value) -> Value:
        if value not in self.steps.elements:
            return super()._load(value)
        assert self.step is not None
        indices = (self.step, *self.places(value))
        return self.builder.emit(ops.Load, tensor=self.tensors[value], indices=indices, in_bounds=(0,)).result
