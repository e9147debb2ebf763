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

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from tests.support.generators.known_values import Known, limit, rounding
from tests.support.generators.random_expressions import DTYPES, INTEGERS, dot_bounds, fold_error
from tests.support.generators.random_memory import LOADED, LOCATIONS, Axis, Memory
from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.backend_ref.execution import BlockChooser
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Block, Fact, Function, Index, Module, Value
from tiledsl.ir.dtypes import DType, bool_, f32, f64, i64, to_numpy
from tiledsl.ir.symbolic import Dim, evaluate, symbol, symbols_of
from tiledsl.ir.types import WHOLE, AxisType, BlockSize, Shape, TensorType, TileType, Type, scalar


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

    def largest(self) -> int:
        """How many elements the largest tensor or tile has, about: an extent of a block counts for 7."""
        found = 0
        for op in self.module.walk():
            for type_ in (v.type for v in op.results if not isinstance(v.type, AxisType)):
                sizes = {name: self.sizes.get(name, 7) for dim in type_.shape for name in symbols_of(dim)}
                found = max(found, math.prod(max(1, evaluate(dim, sizes)) for dim in type_.shape))
        return found

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
def tile_programs(
    draw: st.DrawFn, max_steps: int = 8, extents: Sequence[int] = (5, 1, 8, 3, 0, 12, 16)
) -> RandomProgram:
    """A program with one or two grids; `max_steps` limits the ops of each body before loops and stores.

    `extents`: what sizes may be.
    """
    sizes = {name: draw(st.sampled_from(extents)) for name in ("M", "N", "K")}
    writer = _Writer(draw, sizes, max_steps)
    module = Module([writer.function()])
    tolerances = tuple(writer.contents[value][1] for value in writer.returned)
    return RandomProgram(module, sizes, draw(st.integers(0, 2**16)), tolerances)


class _Writer(Memory):
    """Writes the function: grids, loops and branches."""

    def __init__(self, draw: st.DrawFn, sizes: dict[str, int], max_steps: int) -> None:
        super().__init__(draw, sizes)
        self.max_steps = max_steps
        self.returned: list[Value] = []

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
        if self.chance(3):  # several matrices at once
            shapes = [(3, m, n), (3, n, k)]
        for _ in range(self.draw(st.integers(0, 2))):
            dims = st.sampled_from((m, n, k, 1, 3, m + 1, 2 * n))
            shapes.append(tuple(self.draw(st.lists(dims, max_size=3))))
        dtypes = [self.pick(DTYPES) for _ in shapes]
        if self.chance():
            dtypes[1] = dtypes[0]  # so that there is something to multiply
        for shape, dtype, name in zip(shapes, dtypes, "abcd"):
            unit = len(shape) - 1 if shape and self.chance() else None
            tensor = self.top.add_argument(TensorType(dtype, shape, unit), name)
            self.readable.append(tensor)
            self.contents[tensor] = (LOADED, 0.0)
        for dtype, name in ((f32, "s"), (i64, "i"), (bool_, "flag")):
            if self.chance():
                self.learn(self.top.add_argument(scalar(dtype), name), LOADED)

    def grid(self) -> None:
        count = self.draw(st.integers(1, 3))
        stops = [self.pick((*self.symbols, 3, 1)) for _ in range(count)]
        values = [self.bound(stop) for stop in stops]
        sizes, arguments = zip(*(self.block_of(stop, name) for stop, name in zip(stops, "mnp")))
        with self.body(*arguments, covers=True) as body:
            for argument, stop in zip(body.arguments, stops):
                self.enter(argument, stop)
            self.statements(depth=0)
            self.store()
            if self.chance():
                self.emit_yield()
        self.builder.emit(tile_ops.Grid, stops=values, blocks=sizes, body=body)

    def bound(self, size: Dim) -> Value:
        """A size as a loop's bound: in any integer type that has it."""
        dtype = self.pick((i64, i64, *INTEGERS))
        return self.convert(self.builder.size(size), dtype if self.count(size) < 1 << (dtype.bits - 1) else i64)

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
        self.axes.append(Axis(argument, stop))
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
        start, end = self.builder.constant(first, self.pick((i64, *INTEGERS))), self.bound(stop)
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
        values = [*(k.value for k in initial), self.convert(start, i64)]
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
        stop = a.type.shape[-1]
        dtype = f64 if a.type.dtype == f64 else f32 if a.type.dtype.is_float else i64
        right: Index = WHOLE if n.value is m.value else n.value
        size, (kind, name) = self.block_of(stop, "k")
        if not isinstance(kind, AxisType):
            return
        with self.body((kind, name), covers=False) as body:
            (k,) = body.arguments
            batches = [WHOLE for _ in a.type.shape[:-2]]
            at = self.builder.emit(tile_ops.Load, tensor=a, indices=[*batches, m.value, k]).result
            bt = self.builder.emit(tile_ops.Load, tensor=b, indices=[*batches, k, right]).result
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
        ranks = len(a.type.shape) == len(b.type.shape) >= 2
        matrices = ranks and (*a.type.shape[:-2], a.type.shape[-1]) == b.type.shape[:-1]
        return small and matrices and a.type.dtype == b.type.dtype != bool_

    def for_(self, depth: int) -> None:
        bounds = (self.pick((0, 1)), self.pick((3, 0, 4)), self.pick((1, 2)))
        start, stop, step = (self.builder.constant(bound, self.pick((i64, *INTEGERS))) for bound in bounds)
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


def results_agree(actual: Sequence[Array], expected: Sequence[Array]) -> bool:
    """Whether two runs gave the same bits."""
    return len(actual) == len(expected) and all(a.tobytes() == b.tobytes() for a, b in zip(actual, expected))
