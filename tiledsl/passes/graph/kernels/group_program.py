"""Writes a group of GRAPH ops as one tile program, the way a person would.

    @linear(%x, %w, %b)                       for m, n in tile.grid(M, N):
      %p = contract(%x, %w)                       for k in tile.range(K): acc = dot(x[m, k], w[k, n], acc)
      %s = map(add, %p, broadcast(%b))    =>      out[m, n] = acc + b[n]
      return(%s)

Each value becomes a tile over blocks of its axes, where it is asked for first (`group_tiles`); a sum over a streamed
axis becomes a loop that carries it, with all others over the same axis (`group_streams`). Nothing here is tidy: the
passes of TILE see to that.
"""

from __future__ import annotations

from tiledsl.ir import graph_ops as graph
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Fact, Function, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.types import BlockSize, Shape, TensorType
from tiledsl.passes.graph.kernels.group_streams import GroupStreams
from tiledsl.passes.graph.kernels.group_tiles import Scope


class GroupProgram(GroupStreams):
    """The whole program: parameters, results, the grid and what it stores."""

    def build(self, name: str) -> Function:
        """The tile program."""
        read: dict[int, Value] = {}
        for number, (parameter, unit) in enumerate(zip(self.function.parameters, self.units)):
            if parameter in self.wholes:
                continue
            field = self.records.inputs.get(number)
            if field is not None and field.record in read:
                self.tensors[parameter] = read[field.record]
                continue
            type_ = parameter.type
            assert isinstance(type_, TensorType)
            shape = tuple(self.sizes[axis] for axis in self.axes.kept[parameter])
            if field is not None:
                unit, shape = len(shape), (*shape, self.records.lengths[field.record])
            self.tensors[parameter] = self.body.add_argument(TensorType(type_.dtype, shape, unit), parameter.name)
            if field is not None:
                read[field.record] = self.tensors[parameter]
        last = self.function.body.terminator
        assert isinstance(last, graph.Return)
        outputs = self._outputs(last)
        stops = [self.builder.size(self.sizes[axis]) for axis in self.treatments.grid]
        with self._grid() as grid:
            for number, (value, output) in enumerate(zip(last.values, outputs)):
                with self.builder.at(value.op.location if value.op is not None else last.location):
                    places, tile, field = self.places(value), self.tile(value), self.records.outputs.get(number)
                    if field is not None:
                        places = (*places, self.builder.constant(field.number, i64))
                    self.builder.emit(ops.Store, tensor=output, indices=places, value=tile)
        self.builder.emit(ops.Grid, stops=stops, blocks=self._block_sizes(), body=grid)
        self.builder.emit(ops.Return, values=list(dict.fromkeys(outputs)))
        return Function(name, self.body, self._facts(), self.function.location)

    def _grid(self) -> Scope:
        block = Block()
        for axis in self.treatments.grid:
            self.open(block, axis, single=axis in self.treatments.single)
        return Scope(self, block)

    def _block_sizes(self) -> tuple[BlockSize, ...]:
        single = self.treatments.single
        return tuple(BlockSize.fixed(1) if axis in single else BlockSize.auto() for axis in self.treatments.grid)

    def _outputs(self, last: graph.Return) -> list[Value]:
        """The tensor of each result; fields of one record share theirs."""
        records: dict[int, Value] = {}
        outputs: list[Value] = []
        for number, value in enumerate(last.values):
            field = self.records.outputs.get(number)
            if field is None:
                outputs.append(self._output(value))
                continue
            if field.record not in records:
                records[field.record] = self._output(value, (self.records.lengths[field.record],))
            outputs.append(records[field.record])
        return outputs

    def _output(self, value: Value, length: Shape = ()) -> Value:
        type_ = value.type
        assert isinstance(type_, TensorType)
        shape = (*(self.sizes[axis] for axis in self.axes.kept[value]), *length)
        return self.builder.emit(ops.Empty, shape=shape, dtype=type_.dtype, result_names=[value.name or "out"]).result

    def _facts(self) -> list[Fact]:
        return [
            Fact(size, 16) for axis, size in self.sizes.items() if not isinstance(size, int) and axis.size % 16 == 0
        ]
