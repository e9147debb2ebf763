"""Loads and stores of a tile program, as slices and transposes of whole tensors."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir import graph_ops
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Index, Value
from tiledsl.ir.type_rules import tensor_type, tile_type
from tiledsl.ir.types import Slice, Whole
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.raising.program_values import ProgramValues
from tiledsl.passes.graph.raising.raised import Raised, Run, spread


class ProgramMemory(ProgramValues):
    """Reads and writes of tensors."""

    def load(self, op: ops.Load) -> Raised:
        if tile_type(op.result).level is not None:
            self.refuse(op, "it says a level")
        if op.tensor not in self.tensors or op.tensor in self.written_here:
            self.refuse(op, f"it reads %{op.tensor.name}, which the program writes")
        value = self.tensors[op.tensor]
        parts = [self.selected(op, index, n) for index, n in zip(op.indices, sizes_of(value))]
        starts, stops = tuple(start for start, _, _ in parts), tuple(stop for _, stop, _ in parts)
        if any(starts) or stops != sizes_of(value):
            steps = (1,) * len(parts)
            value = self.builder.emit(graph_ops.Slice, source=value, starts=starts, stops=stops, steps=steps).result
        runs = [run for _, _, run in parts if isinstance(run, Run)]
        if len(set(runs)) != len(runs):
            self.refuse(op, "it reads a diagonal")
        kept = [run for _, _, run in parts if run is not None]  # an axis of one coordinate that is known goes
        places = tuple(stop - start for start, stop, run in parts if run is not None)
        if places != sizes_of(value):
            value = self.builder.emit(graph_ops.Reshape, source=value, shape=places).result
        outer = sorted((run for run in runs if run.single), key=lambda run: run.number)
        first = [kept.index(run) for run in outer]
        permutation = (*first, *(i for i in range(len(kept)) if i not in first))
        if permutation != tuple(range(len(kept))):
            value = self.builder.emit(graph_ops.Transpose, source=value, permutation=permutation).result
        return Raised(value, tuple(outer))

    def selected(self, op: ops.Load | ops.Store, index: Index, size: int) -> tuple[int, int, Run | str | None]:
        """Start, stop and axis of what a subscript selects: None for one known coordinate, a word for a part."""
        if isinstance(index, Whole):
            return 0, size, "whole"
        run = None
        if isinstance(index, Slice):
            start, stop = self.number(op, index.start), self.number(op, index.stop)
        elif isinstance(found := self.known.get(index), Run):
            start, stop, run = found.start, found.start + found.size, found
        elif isinstance(index.op, ops.Constant):
            start = int(index.op.value)
            stop = start + 1
        else:
            self.refuse(op, f"the subscript %{index.name} is computed" if index.name else "a subscript is computed")
        if not 0 <= start <= stop <= size:
            self.refuse(op, f"it reaches from {start} to {stop} of an axis of {size}")
        return start, stop, "part" if isinstance(index, Slice) else run

    def store(self, op: ops.Store) -> None:
        if not isinstance(op.tensor.op, ops.Empty):
            self.refuse(op, f"it writes to %{op.tensor.name}, which it is given")
        if self.loops:
            self.refuse(op, "it writes within a loop")
        if op.tensor in self.tensors:
            self.refuse(op, f"%{op.tensor.name} is written by another store too")
        sizes = self.shape(op, tensor_type(op.tensor).shape)
        parts = [self.selected(op, index, n) for index, n in zip(op.indices, sizes)]
        runs = [run for _, _, run in parts if isinstance(run, Run)]
        covered = all((start, stop) == (0, n) for (start, stop, _), n in zip(parts, sizes))
        if not covered or any(run.size != 1 for run in self.grid if run not in runs) or len(set(runs)) != len(runs):
            self.refuse(op, "it does not write each element of the result once")
        kept = [run for _, _, run in parts if run is not None]
        outer = sorted((run for run in runs if run.single), key=lambda run: run.number)
        tile = tuple(n for n, (_, _, run) in zip(sizes, parts) if run is not None and run not in outer)
        value = self.over(self.whole(op, op.value), outer, tile)
        tiles = iter(range(len(outer), len(kept)))
        permutation = tuple(outer.index(run) if run in outer else next(tiles) for run in kept)
        if permutation != tuple(range(len(kept))):
            value = self.builder.emit(graph_ops.Transpose, source=value, permutation=permutation).result
        if sizes_of(value) != sizes:
            value = self.builder.emit(graph_ops.Reshape, source=value, shape=sizes).result
        self.tensors[op.tensor] = value
        self.written_here.add(op.tensor)

    def over(self, source: Raised, outer: Sequence[Run], tile: tuple[int, ...]) -> Value:
        """A tensor over all of `outer` and `tile`. What else it has is of one element."""
        kept = tuple(run for run in source.outer if run in outer)
        value = source.value
        if kept != source.outer:
            shape = (*(run.size for run in kept), *source.tile)
            value = self.builder.emit(graph_ops.Reshape, source=value, shape=shape).result
        value = spread(self.builder, Raised(value, kept), outer, tile)
        shape = (*(run.size for run in outer), *tile)
        return (
            value
            if shape == sizes_of(value)
            else self.builder.emit(graph_ops.Broadcast, source=value, shape=shape).result
        )
