"""Random TILE modules that run without faults, for properties of passes, back ends and the text form.

    @given(tile_programs())
    def test_pass(program: RandomProgram) -> None:
        expected = program.execute()
        ...

The result does not depend on block sizes or on the order of programs (see `random_expressions`), so any two ways to
run a program may be compared, within its tolerances (see `known_values`). Tensors that are not written everywhere are
filled first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from tests.support.known_values import Known, limit, rounding
from tests.support.random_expressions import DTYPES, INTEGERS, Expressions, dot_bounds, fold_error
from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.backend_ref.execution import BlockChooser
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir import tile_ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Fact, Function, Index, Module, Value
from tiledsl.ir.dtypes import DType, bool_, f32, f64, i64, to_numpy
from tiledsl.ir.symbolic import Dim, evaluate, symbol
from tiledsl.ir.types import WHOLE, AxisType, BlockSize, Shape, Slice, TensorType, TileType, Type, scalar
from tiledsl.support.location import Location

LOADED = 8
"""Elements of arguments are at most this large."""
LOCATIONS = (
    Location("kernel.py", 3, 5, 3, 20),
    Location("kernel.py", 7, 1, 9, 2),
    Location('a "quoted" name.py', 2, 9, 2, 11, Location("kernel.py", 8, 4, 8, 30, Location("kernel.py", 20, 1))),
)


def ignore_output(line: str) -> None:
    del line


@dataclass(frozen=True)
class RandomProgram:
    """A module, and arguments for its entry."""

    module: Module
    sizes: dict[str, int]
    seed: int
    tolerances: tuple[float, ...]
    """How far each result of two right implementations may differ, absolutely; 0 for the same bits."""

    def arguments(self) -> list[Argument]:
        """New arrays and numbers on every call, always with the same contents."""
        generator = np.random.default_rng(self.seed)
        return [self._argument(parameter, generator) for parameter in self.module.entry.parameters]

    def execute(
        self, *, blocks: BlockChooser | None = None, output: Callable[[str], None] = ignore_output
    ) -> tuple[Array, ...]:
        """The results by the reference executor."""
        return execute(self.module.entry, self.arguments(), blocks=blocks, output=output)

    def with_module(self, module: Module) -> RandomProgram:
        """The same arguments for another module."""
        return replace(self, module=module)

    def _argument(self, parameter: Value, generator: np.random.Generator) -> Argument:
        assert not isinstance(parameter.type, AxisType)
        return random_array(parameter.type.dtype, parameter.type.shape, self.sizes, generator)


def random_array(dtype: DType, shape: Shape, sizes: dict[str, int], generator: np.random.Generator) -> Array:
    """Small numbers: integers up to 8, floats that are multiples of 1/2 up to 4."""
    extents = [evaluate(dim, sizes) for dim in shape]
    numbers = generator.integers(0 if dtype.kind == "uint" else -LOADED, LOADED + 1, extents)
    if dtype == bool_:
        return np.asarray(numbers > 0)
    return np.asarray(numbers / 2 if dtype.is_float else numbers).astype(to_numpy(dtype))


@st.composite
def tile_programs(draw: st.DrawFn, max_steps: int = 8) -> RandomProgram:
    """A program with one or two grids; `max_steps` limits the ops of each body before loops and stores."""
    sizes = {name: draw(st.sampled_from((5, 1, 8, 3, 0, 12, 16))) for name in ("M", "N", "K")}
    writer = _Writer(draw, sizes, max_steps)
    module = Module([writer.function()])
    tolerances = tuple(writer.contents[value][1] for value in writer.returned)
    return RandomProgram(module, sizes, draw(st.integers(0, 2**16)), tolerances)


@dataclass(frozen=True, eq=False)
class _Axis:
    """A block in scope: of an axis from 0 to `stop`."""

    value: Value
    stop: Dim


class _Writer(Expressions):
    """Writes the function. `readable` tensors may be loaded from, `axes` are the blocks in scope."""

    def __init__(self, draw: st.DrawFn, sizes: dict[str, int], max_steps: int) -> None:
        self.top = Block()
        super().__init__(draw, Builder(self.top, LOCATIONS[0]), dict(sizes))
        self.max_steps = max_steps
        self.symbols = [symbol(name) for name in sizes]
        self.readable: list[Value] = []
        self.written: list[Value] = []
        """Tensors that the grid at hand stores to: it may not read them."""
        self.returned: list[Value] = []
        self.contents: dict[Value, tuple[float, float]] = {}
        """The bound and the error of the elements of each tensor."""
        self.axes: list[_Axis] = []
        self.covers = True
        """Whether every program passes here exactly once, so that plain stores fill a tensor."""

    def learn(self, value: Value, bound: float, error: float = 0.0) -> Known:
        value.name = self.pick(("", "x", "t", "acc"))
        self.builder.location = self.pick(LOCATIONS)
        return super().learn(value, bound, error)

    @contextmanager
    def body(self, *arguments: tuple[Type, str], covers: bool) -> Generator[Block]:
        """A new block to write into; what is learned in it is forgotten at its end."""
        block = Block(arguments)
        pool, axes, outer = list(self.pool), list(self.axes), self.covers
        self.covers = outer and covers
        with self.builder.inside(block):
            yield block
        self.pool, self.axes, self.covers = pool, axes, outer

    def emit_yield(self, *values: Value) -> None:
        self.builder.emit(tile_ops.Yield, values=values)

    # The function

    def function(self) -> Function:
        self.parameters()
        for dim in self.symbols:
            self.learn(self.builder.size(dim), self.count(dim))
        for _ in range(self.draw(st.integers(0, 4))):
            self.pick((self.map, self.cast, self.random))()
        if self.chance():
            printed = [k.value for k in self.pool if not k.dtype.is_float][:2]
            self.builder.emit(tile_ops.Print, values=printed, text=self.pick(("", 'sizes "M"\n', "\u03b1")))
        for _ in range(self.draw(st.integers(1, 2))):
            self.grid()
            self.returned += self.written
            self.readable += self.written
            self.written = []
        self.builder.emit(tile_ops.Return, values=self.returned)
        divisible = [name for name, size in self.sizes.items() if size % 4 == 0 and symbol(name) in self.symbols]
        facts = [Fact(symbol(name), 4) for name in divisible if self.chance()]
        return Function("kernel", self.top, facts, self.pick(LOCATIONS))

    def parameters(self) -> None:
        m, n, k = self.symbols
        shapes: list[Shape] = [(m, n), (n, k)]
        for _ in range(self.draw(st.integers(0, 2))):
            dims = st.sampled_from((m, n, k, 1, 3, m + 1, 2 * n))
            shapes.append(tuple(self.draw(st.lists(dims, max_size=3))))
        for shape, name in zip(shapes, "abcd"):
            unit = len(shape) - 1 if shape and self.chance() else None
            tensor = self.top.add_argument(TensorType(self.pick(DTYPES), shape, unit), name)
            self.readable.append(tensor)
            self.contents[tensor] = (LOADED, 0.0)
        for dtype, name in ((f32, "s"), (i64, "i"), (bool_, "flag")):
            if self.chance():
                self.learn(self.top.add_argument(scalar(dtype), name), LOADED)

    def grid(self) -> None:
        count = self.draw(st.integers(1, 3))
        stops = [self.pick((*self.symbols, 3, 1)) for _ in range(count)]
        values = [self.builder.size(stop) for stop in stops]
        sizes, arguments = zip(*(self.block_of(stop, name) for stop, name in zip(stops, "mnp")))
        with self.body(*arguments, covers=True) as body:
            for argument, stop in zip(body.arguments, stops):
                self.enter(argument, stop)
            self.statements(depth=0)
            self.store()
            if self.chance():
                self.emit_yield()
        self.builder.emit(tile_ops.Grid, stops=values, blocks=sizes, body=body)

    def block_of(self, stop: Dim, name: str) -> tuple[BlockSize, tuple[Type, str]]:
        """A block size, and the type and name of the argument that stands for the block."""
        size = self.pick(
            (BlockSize.auto(), BlockSize.fixed(1), BlockSize.fixed(4), BlockSize.upto(6, 2), BlockSize.upto(5))
        )
        if size == BlockSize.fixed(1) and self.chance():
            return size, (scalar(i64), name)
        extent = f"{name}{len(self.blocks)}"
        self.blocks.add(extent)
        self.sizes[extent] = self.count(stop)
        return size, (AxisType(symbol(extent)), name)

    def enter(self, argument: Value, stop: Dim) -> None:
        self.axes.append(_Axis(argument, stop))
        if not isinstance(argument.type, AxisType):
            self.learn(argument, self.count(stop))

    def statements(self, depth: int) -> None:
        """What a body does: loads, then ops, loops and branches in any order."""
        for _ in range(self.draw(st.integers(1, 3))):
            self.load()
        for _ in range(self.draw(st.integers(1, self.max_steps))):
            self.pick((self.step, self.step, self.step, self.load, self.coordinates))()
        if depth < 2:
            for _ in range(self.draw(st.integers(0, 2 - depth))):
                control = (self.range, self.gemm, self.for_, self.while_, self.branch, self.assertion, self.atomic)
                self.pick(control)(depth + 1)
        if self.chance(3):
            self.store()

    # Coordinates and memory

    def blocks_in_scope(self) -> list[_Axis]:
        return [axis for axis in self.axes if isinstance(axis.value.type, AxisType)]

    def coordinates(self) -> None:
        axes = self.blocks_in_scope()
        if not axes:
            return
        axis = self.pick(axes)
        assert isinstance(axis.value.type, AxisType)
        if self.chance():
            result = self.builder.emit(tile_ops.Coordinates, axis=self.shifted(axis.value)).result
        else:
            start = self.builder.emit(tile_ops.Start, axis=axis.value).result
            within = self.builder.emit(tile_ops.Arange, extent=axis.value.type.extent).result
            result = self.builder.map("add", within, start)
        self.learn(result, self.count(axis.stop) + 9)

    def shifted(self, axis: Value) -> Value:
        if not self.chance(3):
            return axis
        return self.builder.emit(tile_ops.Shift, axis=axis, offset=self.constant(i64).value).result

    def load(self, *_: int) -> None:
        tensor = self.pick(self.readable)
        assert isinstance(tensor.type, TensorType)
        indices: list[Index] = []
        proved: list[int] = []
        for i, dim in enumerate(tensor.type.shape):
            gathered = [index.shape for index in indices if isinstance(index, Value) and is_tile(index)]
            index, inside = self.subscript(dim, gathered)
            indices.append(index)
            if inside and self.chance():
                proved.append(i)
        shape = tile_ops.indexed_shape(tensor.type.shape, indices)
        if self.is_fine(shape):
            dtype = tensor.type.dtype
            other = self.scalar(dtype) if self.chance(3) else None
            fields = None if other is None or other.bound > LOADED else other.value
            op = self.builder.emit(tile_ops.Load, tensor=tensor, indices=indices, other=fields, in_bounds=tuple(proved))
            self.learn(op.result, *self.contents[tensor])

    def subscript(self, dim: Dim, gathered: list[Shape]) -> tuple[Index, bool]:
        """A subscript for an axis of `dim` elements, and whether it is within bounds for certain.

        `gathered` are the shapes of int tiles that other axes are subscripted with.
        """
        axes = self.blocks_in_scope()
        gathers = [k for k in self.pool if k.dtype.is_integer and k.shape and k.shape in (gathered or [k.shape])]
        match self.draw(st.integers(0, 7)):
            case 0 | 1 | 2 if axes:
                same = [axis for axis in axes if axis.stop == dim]
                axis = self.pick(same or axes)
                index = self.shifted(axis.value)
                return index, axis.stop == dim and index is axis.value
            case 3:
                return self.scalar(self.pick((i64, *INTEGERS))).value, False
            case 4:
                return self.slice(dim), True
            case 5 if gathers:
                return self.pick(gathers).value, False
            case _:
                return WHOLE, True

    def complete(self, known: Known) -> Known | None:
        """`known` with an axis for every block in scope, or None if that is too much."""
        missing = [a.value.type.extent for a in self.axes if isinstance(a.value.type, AxisType)]
        missing = [extent for extent in missing if extent not in known.shape]
        shape = (*missing, *known.shape)
        if not self.is_fine(shape):
            return None
        return self.learn(self.builder.broadcast(known.value, shape), known.bound, known.error)

    def store(self, *_: int) -> None:
        """Stores a value into a tensor of its own, at coordinates that no other program writes."""
        chosen = self.pick_known(lambda k: True) or self.constant(f32)
        known = self.complete(chosen) or self.complete(self.constant(f32))
        if known is None:
            return
        plain = self.covers
        indices: list[Index] = []
        shape: list[Dim] = []
        by_extent = {a.value.type.extent: a for a in self.axes if isinstance(a.value.type, AxisType)}
        scattered = False
        for dim in known.shape:
            axis = by_extent.get(dim)
            index: Index = WHOLE
            if axis is not None:
                index, dim = axis.value, axis.stop
                if self.chance(4):
                    index, plain = self.shifted(axis.value), False
                elif not scattered and self.chance(5):
                    index, scattered, plain = self.mirrored(axis), True, False
                elif self.chance(5):
                    dim, plain = self.pick((*self.symbols, 2)), False
            elif self.chance(4):
                index, dim, plain = Slice(1, dim + 1), dim + 2, False
            indices.append(index)
            shape.append(dim)
        if scattered:  # an int tile takes the place of its axis, so the selected shape stays the same
            plain = False
        for axis in self.axes:
            if not isinstance(axis.value.type, AxisType):
                at = self.draw(st.integers(0, len(shape)))
                indices.insert(at, axis.value)
                shape.insert(at, axis.stop)
        proved = range(len(shape)) if plain and self.chance() else ()
        tensor = self.new_tensor(known.dtype, tuple(shape), filled=not plain or self.chance())
        self.contents[tensor] = (max(known.bound, LOADED), known.error)
        self.builder.emit(tile_ops.Store, tensor=tensor, indices=indices, value=known.value, in_bounds=tuple(proved))

    def mirrored(self, axis: _Axis) -> Value:
        """The coordinates of the block, counted from the other end of the axis."""
        own = self.builder.emit(tile_ops.Coordinates, axis=axis.value).result
        return self.builder.map("sub", self.builder.size(axis.stop - 1), own)

    def new_tensor(self, dtype: DType, shape: Shape, filled: bool) -> Value:
        with self.builder.inside(self.top):
            number = True if dtype == bool_ else self.draw(st.integers(0, 3))
            fill = self.builder.constant(number, dtype) if filled else None
            tensor = self.builder.emit(tile_ops.Empty, fill=fill, shape=shape, dtype=dtype, result_names=["c"]).result
        self.written.append(tensor)
        return tensor

    def atomic(self, depth: int) -> None:
        """A histogram: integers are combined at any coordinates."""
        del depth
        value = self.pick_known(lambda k: k.dtype.is_integer)
        value = None if value is None else self.complete(value)
        if value is None:
            return
        where = self.pick_known(lambda k: k.dtype == i64 and k.shape in ((), value.shape))
        if where is None or not value.shape:
            return
        index = self.builder.broadcast(where.value, value.shape)
        fn = self.pick(("add", "max", "min", "and", "or", "xor"))
        tensor = self.new_tensor(value.dtype, (self.pick((4, *self.symbols)),), filled=True)
        self.contents[tensor] = (limit(value.dtype), 0.0)
        self.builder.emit(tile_ops.Atomic, tensor=tensor, indices=[index], value=value.value, fn=fn)

    def assertion(self, depth: int) -> None:
        del depth
        known = self.pick_known(lambda k: k.exact)
        if known is not None:
            condition = self.builder.map("eq", known.value, known.value)
            self.builder.emit(tile_ops.Assert, condition=condition, text=self.pick(("", "x == x")))

    # Loops and branches

    def range(self, depth: int) -> None:
        """Folds the blocks of an axis into carried values."""
        stop = self.pick(self.symbols)
        first = self.pick((0, 0, 1))
        start, end = self.builder.constant(first, i64), self.builder.size(stop)
        size, (kind, name) = self.block_of(stop, "k")
        initial = [self.pick(self.pool)] if self.pool and self.chance() else []
        types = [(k.value.type, "carried") for k in initial]
        results: list[Known] = []
        with self.body((kind, name), *types, (scalar(i64), "count"), covers=first == 0) as body:
            block, *carried, count = body.arguments
            self.enter(block, stop)
            self.statements(depth)
            yields: list[Value] = []
            for known, argument in zip(initial, carried):
                updated = self.fold_block(Known(argument, known.bound, known.error), block, stop)
                yields.append(updated.value)
                results.append(updated)
            plus = self.builder.constant(1, i64)
            if isinstance(block.type, AxisType):
                plus = self.builder.emit(tile_ops.Extent, axis=block).result
            self.emit_yield(*yields, self.builder.map("add", count, plus))
        values = [*(k.value for k in initial), start]
        op = self.builder.emit(tile_ops.Range, start=start, stop=end, initial=values, blocks=(size,), body=body)
        for result, known in zip(op.results, results):
            self.learn(result, known.bound, known.error)
        self.learn(op.results[-1], self.count(stop) + 1)

    def fold_block(self, carried: Known, block: Value, stop: Dim) -> Known:
        """The carried value with something of this block folded into it: the larger, or the sum."""
        extent = block.type.extent if isinstance(block.type, AxisType) else None

        def fits(known: Known) -> bool:
            return known.dtype == carried.dtype and known.shape == (*carried.shape, extent)

        known = None if extent is None else self.pick_known(fits)
        if known is None:
            return carried
        total = carried.bound + known.bound * self.count(stop)
        adds = carried.dtype != bool_ and total <= limit(carried.dtype) and self.chance()
        fields = {"sources": [known.value], "axes": (len(carried.shape),)}
        folded = self.builder.emit(tile_ops.Reduce, fn="add" if adds else "max", result_names=["part"], **fields).result
        result = self.builder.map("add" if adds else "maximum", carried.value, folded)
        if not adds:
            return Known(result, max(carried.bound, known.bound), max(carried.error, known.error))
        # each block is rounded, and each addition
        count = self.count(stop)
        error = count * fold_error(known, "add", count, total) + rounding(known.dtype, total, count)
        return Known(result, total, carried.error + error)

    def gemm(self, depth: int) -> None:
        """A dot product streamed over a shared axis of two tensors."""
        del depth
        pairs = [(a, b) for a in self.readable for b in self.readable if self.contracts(a, b)]
        if not pairs or not self.blocks_in_scope():
            return
        a, b = self.pick(pairs)
        assert isinstance(a.type, TensorType)
        m, n = self.pick(self.blocks_in_scope()), self.pick(self.blocks_in_scope())
        stop = a.type.shape[1]
        dtype = f64 if a.type.dtype == f64 else f32 if a.type.dtype.is_float else i64
        right: Index = WHOLE if n.value is m.value else n.value
        size, (kind, name) = self.block_of(stop, "k")
        if not isinstance(kind, AxisType):
            return
        with self.body((kind, name), covers=False) as body:
            (k,) = body.arguments
            at = self.builder.emit(tile_ops.Load, tensor=a, indices=[m.value, k]).result
            bt = self.builder.emit(tile_ops.Load, tensor=b, indices=[k, right]).result
            product = TileType(dtype, (*at.shape[:-1], bt.shape[-1]))
            acc = body.add_argument(product, "acc")
            self.emit_yield(self.builder.emit(tile_ops.Dot, a=at, b=bt, acc=acc, dtype=dtype).result)
        zero = self.builder.broadcast(self.builder.constant(0, dtype), product.shape)
        start, end = self.builder.constant(0, i64), self.builder.size(stop)
        op = self.builder.emit(tile_ops.Range, start=start, stop=end, initial=[zero], blocks=(size,), body=body)
        loaded = Known(at, LOADED), Known(bt, LOADED)
        self.learn(op.result, *dot_bounds(*loaded, self.count(stop), dtype))

    def contracts(self, a: Value, b: Value) -> bool:
        if not isinstance(a.type, TensorType) or not isinstance(b.type, TensorType):
            return False
        small = a.owner is self.top and b.owner is self.top
        matrices = len(a.type.shape) == 2 and len(b.type.shape) == 2 and a.type.shape[1] == b.type.shape[0]
        return small and matrices and a.type.dtype == b.type.dtype != bool_

    def for_(self, depth: int) -> None:
        bounds = (self.pick((0, 1)), self.pick((3, 0, 4)), self.pick((1, 2)))
        start, stop, step = (self.builder.constant(bound, i64) for bound in bounds)
        initial = self.clipped()
        types = [(k.value.type, "carried") for k in initial]
        with self.body((scalar(i64), "i"), *types, covers=False) as body:
            self.learn(body.arguments[0], 4)
            carried = [self.learn(a, LOADED) for a in body.arguments[1:]]
            self.statements(depth)
            self.emit_yield(*(self.same_type(k).value for k in carried))
        values = [k.value for k in initial]
        op = self.builder.emit(tile_ops.For, start=start, stop=stop, step=step, initial=values, body=body)
        for result in op.results:
            self.learn(result, LOADED)

    def while_(self, depth: int) -> None:
        initial = self.clipped()
        types = [(scalar(i64), "i"), *((k.value.type, "carried") for k in initial)]
        with self.body(*types, covers=False) as condition:
            limit_ = self.builder.constant(self.pick((2, 0)), i64)
            self.emit_yield(self.builder.map("lt", condition.arguments[0], limit_))
        with self.body(*types, covers=False) as body:
            count = self.learn(body.arguments[0], 4).value
            carried = [self.learn(a, LOADED) for a in body.arguments[1:]]
            self.statements(depth)
            following = self.builder.map("add", count, self.builder.constant(1, i64))
            self.emit_yield(following, *(self.same_type(k).value for k in carried))
        values = [self.builder.constant(0, i64), *(k.value for k in initial)]
        op = self.builder.emit(tile_ops.While, initial=values, condition=condition, body=body)
        for result in op.results[1:]:
            self.learn(result, LOADED)

    def clipped(self) -> list[Known]:
        """What a loop whose body does anything may carry: errors would grow without bound."""
        exact = [k for k in self.pool if k.exact]
        chosen = [self.pick(exact)] if exact and self.chance() else []
        return [self.clip(k, LOADED) for k in chosen]

    def same_type(self, known: Known) -> Known:
        """Any value of that type, within the bounds of carried values."""
        found = self.pick([k for k in self.pool if k.value.type == known.value.type and k.exact])
        return self.clip(found, LOADED)

    def branch(self, depth: int) -> None:
        condition = self.scalar(bool_)
        base = self.pick_known(lambda k: True) or self.constant(f32)
        blocks: list[Block] = []
        given: list[Known] = []
        for _ in range(2):
            with self.body(covers=False) as body:
                if self.chance():
                    self.statements(depth)
                given.append(self.pick([k for k in self.pool if k.value.type == base.value.type]))
                self.emit_yield(given[-1].value)
            blocks.append(body)
        op = self.builder.emit(tile_ops.If, condition=condition.value, then=blocks[0], otherwise=blocks[1])
        self.learn(op.result, max(k.bound for k in given), max(k.error for k in given))


def is_tile(value: Value) -> bool:
    """Whether a subscript is an int tile."""
    return isinstance(value.type, TileType) and bool(value.type.shape)


def results_agree(actual: Sequence[Array], expected: Sequence[Array]) -> bool:
    """Whether two runs gave the same bits."""
    return len(actual) == len(expected) and all(a.tobytes() == b.tobytes() for a, b in zip(actual, expected))
