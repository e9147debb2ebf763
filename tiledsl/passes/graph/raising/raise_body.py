"""A tile program as a GRAPH function, where it is a plain map, fold or product.

    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):                              =>      %c = contract(%a, %b) {axes = "m k, k n -> m n"}
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc

Each block is taken for the whole of its axis. That says the same as long as nothing depends on where blocks begin and
end: loads and stores cover axes, folds are over whole axes, and what a loop carries is a fold over all of its blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl.ir import graph_ops
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Function, Op, Value, free_names
from tiledsl.ir.dtypes import i64
from tiledsl.ir.fold_identities import fold_identity
from tiledsl.ir.symbolic import Dim, symbol_name, symbols_of
from tiledsl.ir.type_rules import tensor_type, tile_type
from tiledsl.ir.types import AxisType, BlockSize, TensorType, TileType
from tiledsl.passes.graph.analysis.online_rules import is_constant
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.raising.program_memory import ProgramMemory
from tiledsl.passes.graph.raising.program_values import Known
from tiledsl.passes.graph.raising.raised import Carried, Raised, Run, aligned

_FOLDS = {"add": "add", "mul": "mul", "maximum": "max", "minimum": "min"}
"""How a fold goes on, and what folds so."""


def raise_body(function: Function) -> Function:
    """The GRAPH function for a TILE function whose sizes are numbers. Raises NotPlainError."""
    return _Raiser(function).run()


class _Raiser(ProgramMemory):
    def run(self) -> Function:
        for parameter in self.function.parameters:
            type_ = parameter.type
            assert isinstance(type_, (TensorType, TileType))
            value = self.body.add_argument(TensorType(type_.dtype, type_.shape), parameter.name)
            if isinstance(type_, TensorType):
                self.tensors[parameter] = value
            else:
                self.known[parameter] = Raised(value)
        self.ops(self.function.body)
        return Function(self.function.name, self.body, (), self.function.location)

    def ops(self, block: Block) -> None:
        for op in block.ops:
            with self.builder.at(op.location):
                self.visit(op)
            for old in op.results:
                found = self.known.get(old)
                if isinstance(found, Raised) and not found.value.name:
                    found.value.name = old.name

    def visit(self, op: Op) -> None:
        match op:
            case ops.Grid():
                self.visit_grid(op)
            case ops.Range():
                self.visit_range(op)
            case ops.Empty() | ops.Yield():
                pass
            case ops.Store():
                self.store(op)
            case ops.Return():
                if any(value not in self.tensors for value in op.values):
                    self.refuse(op, "not all of a result is written")
                values = [self.tensors[value] for value in op.values]
                self.body.append(graph_ops.Return(op.location, values=values))
            case ops.Dot():
                self.known[op.result] = self.dot(op)
            case ops.Map():
                self.known[op.result] = self.map(op)
            case _:
                made = self.tile(op)
                self.known[op.result] = made

    def tile(self, op: Op) -> Raised:
        """What an op that only makes a tile of tiles gives."""
        emit = self.builder.emit
        match op:
            case ops.Constant():
                return Raised(emit(graph_ops.Constant, value=op.value, dtype=op.dtype).result)
            case ops.Size():
                return Raised(emit(graph_ops.Constant, value=self.number(op, op.value), dtype=i64).result)
            case ops.Arange():
                return Raised(emit(graph_ops.Iota, shape=(self.number(op, op.extent),), axis=0).result)
            case ops.Coordinates():
                return Raised(self.coordinates(self.run_of(op, op.axis)))
            case ops.Load():
                return self.load(op)
            case ops.Cast():
                source = self.source(op, op.source)
                return Raised(
                    emit(graph_ops.Cast, source=source.value, dtype=op.dtype).result, source.outer, source.partial
                )
            case ops.Broadcast() | ops.Reshape() | ops.Transpose():
                return self.reindexed(op)
            case ops.Reduce():
                return self.reduce(op)
            case ops.Scan():
                return self.scan(op)
            case ops.Random():
                seed, offsets = self.whole(op, op.seed), self.whole(op, op.offsets)
                if seed.outer:
                    self.refuse(op, "its seed differs between programs")
                drawn = emit(graph_ops.Random, seed=seed.value, offsets=offsets.value, fn=op.fn).result
                return Raised(drawn, offsets.outer)
            case _:
                self.refuse(op, "whole tensors have no word for it")

    # Axes

    def open(self, op: Op, argument: Value, start: int, stop: int, size: BlockSize, *, looped: bool) -> Run:
        single = not isinstance(argument.type, AxisType)
        if size.kind == "fixed" and not single:
            self.refuse(op, f"it says a block of {size.size}")
        run = Run(len(self.known), argument.name or "i", start, max(stop - start, 0), single, looped)
        self.known[argument] = run
        if isinstance(argument.type, AxisType):
            name = symbol_name(argument.type.extent)
            if name is None:
                self.refuse(op, f"it says a block of {argument.type.extent}")
            self.extents[name] = run
        return run

    def constant(self, op: Op, value: Value) -> int:
        if not isinstance(value.op, ops.Constant):
            self.refuse(op, "where it ends is computed")
        return int(value.op.value)

    def visit_grid(self, op: ops.Grid) -> None:
        self.grid = [
            self.open(op, argument, 0, self.constant(op, stop), size, looped=False)
            for argument, stop, size in zip(op.body.arguments, op.stops, op.blocks)
        ]
        self.written_here = set()
        self.ops(op.body)

    def visit_range(self, op: ops.Range) -> None:
        if op.num_stages:
            self.refuse(op, f"it says num_stages={op.num_stages}")
        start, stop = self.constant(op, op.start), self.constant(op, op.stop)
        run = self.open(op, op.body.arguments[0], start, stop, op.blocks[0], looped=True)
        for argument, value in zip(op.body.arguments[1:], op.initial):
            found = self.known.get(value)
            self.known[argument] = (
                found if isinstance(found, Carried) else Carried(self.whole(op, value), len(self.loops))
            )
        carried = [self.known[argument] for argument in op.body.arguments[1:]]
        self.loops.append(run)
        self.ops(op.body)
        self.loops.pop()
        last = op.body.terminator
        assert last is not None
        for before, after, result in zip(carried, last.operands, op.results):
            found = self.known.get(after)
            assert isinstance(before, Carried)
            if not isinstance(found, Carried) or found.initial is not before.initial:
                self.refuse(op, f"%{after.name or result.name} is no fold over its blocks")
            self.known[result] = self.folded(found) if found.depth == len(self.loops) else found

    def folded(self, carried: Carried) -> Raised:
        """The result of a loop."""
        if not carried.parts:
            return carried.initial
        first, *rest = carried.parts
        start = fold_identity(_FOLDS[carried.fn], tensor_type(carried.initial.value).dtype)
        if not is_constant(carried.initial.value, start):
            first, rest = carried.initial, carried.parts
        for part in rest:
            inputs, outer = aligned(self.builder, [first, part])
            first = Raised(self.builder.emit(graph_ops.Map, fn=carried.fn, inputs=inputs).result, outer)
        return first

    def into(self, op: Op, carried: Carried, fn: str, part: Raised) -> Carried:
        """The fold with a part, which has to be folded over every loop in which it is carried."""
        for run in self.loops[carried.depth :]:
            if run.single and run in part.outer:
                part = self.without(part, run, _FOLDS[fn])
            elif run not in part.partial:
                self.refuse(op, "what it adds is not folded over the block of the loop")
        return carried.with_part(op, fn, Raised(part.value, part.outer))

    def without(self, part: Raised, run: Run, fn: str) -> Raised:
        """What is left of a tensor when an outer axis is folded."""
        at = part.outer.index(run)
        folded = self.builder.emit(graph_ops.Reduce, source=part.value, axes=(at,), fn=fn).result
        return Raised(folded, tuple(other for other in part.outer if other is not run), part.partial)

    # Ops on tiles

    def map(self, op: ops.Map) -> Known:
        if op.fn in _FOLDS:
            for acc, part in (op.inputs, op.inputs[::-1]):
                carried = self.known.get(acc)
                if isinstance(carried, Carried) and not isinstance(self.known.get(part), Carried):
                    return self.into(op, carried, op.fn, self.source(op, part))
        inputs, outer = aligned(self.builder, [self.whole(op, value) for value in op.inputs])
        return Raised(self.builder.emit(graph_ops.Map, fn=op.fn, inputs=inputs).result, outer)

    def reindexed(self, op: ops.Broadcast | ops.Reshape | ops.Transpose) -> Raised:
        source = self.source(op, op.source)
        outer = tuple(run.size for run in source.outer)
        shape = self.shape(op, tile_type(op.result).shape)
        emit = self.builder.emit
        if isinstance(op, ops.Transpose):
            count = len(outer)
            permutation = (*range(count), *(count + axis for axis in op.permutation))
            value = emit(graph_ops.Transpose, source=source.value, permutation=permutation).result
        elif isinstance(op, ops.Reshape):
            before, after = ([dim for dim in v.shape if dim != 1] for v in (op.source, op.result))
            if before != after:
                self.refuse(op, "it regroups the elements of a tile")
            value = emit(graph_ops.Reshape, source=source.value, shape=(*outer, *shape)).result
        else:
            value = source.value
            places = (*outer, *(1,) * (len(shape) - len(source.tile)), *source.tile)
            if outer and places != sizes_of(value):
                value = emit(graph_ops.Reshape, source=value, shape=places).result
            value = emit(graph_ops.Broadcast, source=value, shape=(*outer, *shape)).result
        return Raised(value, source.outer, source.partial)

    def folded_runs(self, op: Op, dims: Sequence[Dim], *, in_order: bool = False) -> frozenset[Run]:
        """The loops of whose blocks dimensions are that an op folds. Blocks of the grid it cannot fold."""
        found: set[Run] = set()
        for dim in dims:
            for name in symbols_of(dim):
                run = self.extents[name]
                if not run.looped or symbol_name(dim) is None or in_order:
                    self.refuse(op, f"it depends on the block {name}")
                found.add(run)
        return frozenset(found)

    def reduce(self, op: ops.Reduce) -> Raised:
        if op.fn == "custom":
            self.refuse(op, "it has a combiner of its own")
        (value,) = op.sources
        source = self.whole(op, value)
        runs = self.folded_runs(op, [value.shape[axis] for axis in op.axes], in_order=op.fn in ("argmax", "argmin"))
        axes = tuple(len(source.outer) + axis for axis in op.axes)
        made = self.builder.emit(graph_ops.Reduce, source=source.value, axes=axes, fn=op.fn, keepdims=op.keepdims)
        return Raised(made.result, source.outer, runs)

    def scan(self, op: ops.Scan) -> Raised:
        if op.fn == "custom":
            self.refuse(op, "it has a combiner of its own")
        (value,) = op.sources
        source = self.whole(op, value)
        self.folded_runs(op, [value.shape[op.axis]], in_order=True)
        axis = len(source.outer) + op.axis
        made = self.builder.emit(graph_ops.Scan, source=source.value, axis=axis, fn=op.fn, reverse=op.reverse)
        return Raised(made.result, source.outer)

    def dot(self, op: ops.Dot) -> Known:
        a, b = self.whole(op, op.a), self.whole(op, op.b)
        acc = None if op.acc is None else self.known.get(op.acc)
        runs = self.folded_runs(op, [op.a.shape[-1]])
        summed = [run for run in self.loops[acc.depth :] if run.single] if isinstance(acc, Carried) else []
        summed = [run for run in summed if run in a.outer and run in b.outer]
        product = self.product(op, a, b, summed)
        product = Raised(product.value, product.outer, runs | frozenset(summed))
        if acc is None:
            return product
        if isinstance(acc, Carried):
            return self.into(op, acc, "add", product)
        if runs:
            self.refuse(op, "it adds the sum of one block of a loop")
        inputs, outer = aligned(self.builder, [self.whole(op, op.acc or op.a), product])
        return Raised(self.builder.emit(graph_ops.Map, fn="add", inputs=inputs).result, outer)

    def product(self, op: ops.Dot, a: Raised, b: Raised, summed: Sequence[Run]) -> Raised:
        """The contraction of two tensors over the last axis of a tile, and over `summed`."""
        batch = [f"b{i}" for i in range(len(a.tile) - 2)]
        runs = sorted({*a.outer, *b.outer}, key=lambda run: run.number)
        names: dict[Run, str] = {}
        for run in runs:
            names[run] = free_names({*batch, "m", "n", "k", *names.values()}, run.name)
        left = [*(names[run] for run in a.outer), *batch, "m", "k"]
        right = [*(names[run] for run in b.outer), *batch, "k", "n"]
        outer = tuple(run for run in runs if run not in summed)
        out = [*(names[run] for run in outer), *batch, "m", "n"]
        axes = f"{' '.join(left)}, {' '.join(right)} -> {' '.join(out)}"
        fields: dict[str, Any] = {"axes": axes, "dtype": op.dtype, "precision": op.precision}
        return Raised(self.builder.emit(graph_ops.Contract, a=a.value, b=b.value, **fields).result, outer)
