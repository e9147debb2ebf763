"""What the values of a tile program are, as far as it has been read."""

from __future__ import annotations

from typing import NoReturn, TypeAlias, Union

from tiledsl.ir import graph_ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.symbolic import Dim, evaluate, symbols_of
from tiledsl.ir.types import Shape
from tiledsl.passes.graph.raising.raised import Carried, NotPlainError, Raised, Run

Known: TypeAlias = Union[Raised, Carried, Run]


class ProgramValues:
    """The state of reading one program: `known` tiles, folds and blocks; what is in each of the `tensors` by now."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.body = Block()
        self.builder = Builder(self.body, function.location)
        self.known: dict[Value, Known] = {}
        self.tensors: dict[Value, Value] = {}
        """What is in each tensor by now."""
        self.extents: dict[str, Run] = {}
        self.grid: list[Run] = []
        self.loops: list[Run] = []
        self.written_here: set[Value] = set()

    def refuse(self, op: Op, reason: str) -> NoReturn:
        raise NotPlainError(op, reason)

    # What values are

    def source(self, op: Op, value: Value) -> Raised:
        """The tensor of a tile that an op reads; it may be a part of a sum."""
        found = self.known.get(value)
        match found:
            case Raised():
                return found
            case Run():
                return Raised(self.coordinates(found), (found,))
            case Carried():
                self.refuse(op, "it reads what a loop has carried so far")
            case None:
                self.refuse(op, f"it reads %{value.name}")

    def whole(self, op: Op, value: Value) -> Raised:
        """The tensor of a tile that is no part of a sum."""
        found = self.source(op, value)
        if found.partial:
            self.refuse(op, "it reads the sum of one block of a loop")
        return found

    def coordinates(self, run: Run) -> Value:
        iota = self.builder.emit(graph_ops.Iota, shape=(run.size,), axis=0).result
        if run.start == 0:
            return iota
        start = self.builder.emit(graph_ops.Constant, value=run.start, dtype=i64).result
        return self.builder.emit(graph_ops.Map, fn="add", inputs=[iota, start]).result

    def run_of(self, op: Op, axis: Value) -> Run:
        found = self.known.get(axis)
        if not isinstance(found, Run):
            self.refuse(op, f"%{axis.name} is no block as the grid or the loop gives it")
        return found

    def number(self, op: Op, dim: Dim) -> int:
        """A size, where blocks are whole axes."""
        if symbols_of(dim) - self.extents.keys():
            self.refuse(op, f"the size {dim} is not known")
        return evaluate(dim, {name: run.size for name, run in self.extents.items()})

    def shape(self, op: Op, shape: Shape) -> tuple[int, ...]:
        return tuple(self.number(op, dim) for dim in shape)
