"""Random GRAPH modules that run without faults, for properties of the text form, the executor and fusion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from typing_extensions import override

from tests.support.compare import RELATIVE, assert_close
from tests.support.generators.known_values import Known, limit, rounding
from tests.support.generators.random_expressions import DTYPES, VOLUME, Expressions, dot_bounds, fold_error
from tests.support.generators.random_memory import LOADED, LOCATIONS
from tests.support.generators.random_modules import random_array
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir import graph_ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Fact, Function, Module, Number, Value
from tiledsl.ir.dtypes import DType, bool_, f32, f64, i64
from tiledsl.ir.symbolic import Dim, symbol
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.types import Shape, Slice, TensorType

DOUBLE = """
func @double(%x: tensor<f32, [A, B]>) {
  %y = tile.empty() {shape = [B, A], dtype = f32}
  %A = tile.size() {value = A}
  %B = tile.size() {value = B}
  tile.grid([%A, %B]) {blocks = [auto, 1]} body(%a: axis<a>, %b: i64) {
    %t = tile.load(%x, [%a, %b])
    %r = tile.map([%t, %t]) {fn = add}
    tile.store(%y, [%b, %a], %r)
  }
  tile.return([%y])
}
"""
"""A tile function that graphs call: 2 * x, transposed."""


@dataclass(frozen=True)
class RandomGraph:
    """A module of form GRAPH, and arguments for its entry."""

    module: Module
    sizes: dict[str, int]
    seed: int
    tolerances: tuple[float, ...]
    """How far each result may differ beside what its dtype rounds: fusion leaves out roundings of narrow floats."""

    def check(self, results: Sequence[Array], expected: Sequence[Array]) -> None:
        """Holds results against those of the reference."""
        for actual, wanted, tolerance in zip(results, expected, self.tolerances):
            usual = RELATIVE.get(str(wanted.dtype), 0.0)
            assert_close(actual, wanted, absolute=max(usual, tolerance))

    def arguments(self) -> list[Array]:
        """New arrays on every call, always with the same contents."""
        generator = np.random.default_rng(self.seed)
        types = [parameter.type for parameter in self.module.entry.parameters]
        return [random_array(t.dtype, t.shape, self.sizes, generator) for t in types if isinstance(t, TensorType)]

    def execute(self) -> tuple[Array, ...]:
        """The results by the reference executor."""
        return execute_graph(self.module.entry, self.arguments(), self.module)


@st.composite
def graph_modules(draw: st.DrawFn, max_steps: int = 12) -> RandomGraph:
    """A graph of at most `max_steps` ops, constants left out."""
    sizes = {name: draw(st.sampled_from((5, 1, 8, 3, 0, 4))) for name in ("M", "N")}
    writer = _GraphWriter(draw, sizes)
    function = writer.function(max_steps)
    called = [parse_module(DOUBLE).entry] if writer.calls else []
    return RandomGraph(Module([function, *called]), sizes, draw(st.integers(0, 2**16)), writer.tolerances)


class _GraphWriter(Expressions):
    """Writes the function; `map` and `cast` of TILE serve here too."""

    def __init__(self, draw: st.DrawFn, sizes: dict[str, int]) -> None:
        self.body = Block()
        super().__init__(draw, Builder(self.body, LOCATIONS[0]), sizes)
        self.calls = False
        self.tolerances: tuple[float, ...] = ()

    @override
    def learn(self, value: Value, bound: float, error: float = 0.0) -> Known:
        dtype = Known(value, bound).dtype
        if (
            dtype.is_float
            and dtype.bits < 32
            and isinstance(value.op, (graph_ops.Map, graph_ops.Reduce, graph_ops.Scan))
        ):
            error = max(error, rounding(dtype, bound))  # fusion may leave the rounding out
        return super().learn(value, bound, error)

    def literal(self, number: Number, dtype: DType) -> Value:
        return self.builder.emit(graph_ops.Constant, value=number, dtype=dtype).result

    def apply(self, fn: str, *inputs: Value) -> Value:
        return self.builder.emit(graph_ops.Map, fn=fn, inputs=inputs).result

    def convert(self, source: Value, dtype: DType) -> Value:
        return self.builder.emit(graph_ops.Cast, source=source, dtype=dtype).result

    def function(self, max_steps: int) -> Function:
        m, n = symbol("M"), symbol("N")
        shapes: list[Shape] = [(m, n)]
        for _ in range(self.draw(st.integers(0, 2))):
            shapes.append(tuple(self.draw(st.lists(st.sampled_from((m, n, 1, 3, m + 1)), max_size=3))))
        for shape, name in zip(shapes, "abc"):
            self.learn(self.body.add_argument(TensorType(self.pick(DTYPES), shape), name), LOADED)
        steps = (self.map, self.map, self.cast, self.reduce, self.scan, self.contract, self.transpose, self.reshape)
        steps += (
            self.broadcast,
            self.cut,
            self.pad,
            self.concat,
            self.interleave,
            self.window,
            self.gather,
            self.iota,
            self.call,
        )
        for _ in range(self.draw(st.integers(1, max_steps))):
            self.builder.location = self.pick(LOCATIONS)
            self.pick(steps)()
        returned = self.draw(st.lists(st.sampled_from(self.pool), max_size=2)) + self.pool[-1:]
        self.builder.emit(graph_ops.Return, values=[k.value for k in returned])
        self.tolerances = tuple(k.error for k in returned)
        facts = [Fact(symbol(name), 4) for name, size in self.sizes.items() if size % 4 == 0 and self.chance()]
        return Function("graph", self.body, facts, LOCATIONS[1])

    def pick_ranked(self, rank: int) -> Known | None:
        """A tensor of at least that rank."""
        return self.pick_known(lambda k: len(k.shape) >= rank)

    def reduce(self) -> None:
        source = self.pick_known(lambda k: bool(self.whole_axes(k)))
        if source is None:
            return
        fn = self.pick(("add", "mul", "max", "min", "and", "or", "argmax", "argmin"))
        axes = tuple(sorted(self.draw(st.sets(st.sampled_from(self.whole_axes(source)), min_size=1))))
        axes = axes[:1] if fn in ("argmax", "argmin") else axes
        count = self.volume(source.shape[i] for i in axes)
        bound = self.fold_bound(source, fn, count)
        if bound is not None:
            op = self.builder.emit(graph_ops.Reduce, source=source.value, axes=axes, fn=fn, keepdims=self.chance())
            self.learn(op.result, bound, fold_error(source, fn, count, bound))

    def scan(self) -> None:
        source = self.pick_known(lambda k: bool(self.whole_axes(k)))
        if source is None:
            return
        fn, axis = self.pick(("add", "max", "min")), self.pick(self.whole_axes(source))
        bound = self.fold_bound(source, fn, self.count(source.shape[axis]))
        if bound is not None and (fn != "add" or source.dtype != bool_):
            op = self.builder.emit(graph_ops.Scan, source=source.value, axis=axis, fn=fn, reverse=self.chance())
            self.learn(op.result, bound, fold_error(source, fn, self.count(source.shape[axis]), bound))

    def contract(self) -> None:
        a = self.pick_known(lambda k: k.dtype != bool_)
        if a is None:
            return
        b = self.pick([k for k in self.pool if k.dtype == a.dtype])
        names_a = [f"a{i}" for i in range(len(a.shape))]
        free = dict(zip(names_a, a.shape))
        names_b: list[str] = []
        for i, dim in enumerate(b.shape):
            alike = [name for name, size in free.items() if size == dim]
            name = self.pick(alike) if alike and self.chance() else f"b{i}"
            free.pop(name, None)
            names_b.append(name)
        sizes: dict[str, Dim] = {**dict(zip(names_a, a.shape)), **dict(zip(names_b, b.shape))}
        summed = [name for name in names_a if name in names_b and self.chance()]
        result = self.draw(st.permutations([name for name in sizes if name not in summed]))
        dtype = f64 if a.dtype == f64 else f32 if a.dtype.is_float else i64
        bound, error = dot_bounds(a, b, max(1, math.prod(self.count(sizes[name]) for name in summed)), dtype)
        fits = self.volume(sizes[name] for name in result) <= VOLUME and len(result) <= 4
        if fits and (bound <= limit(dtype) or not dtype.is_float):
            axes = f"{' '.join(names_a)}, {' '.join(names_b)} -> {' '.join(result)}"
            op = self.builder.emit(graph_ops.Contract, a=a.value, b=b.value, axes=axes, dtype=dtype)
            self.learn(op.result, bound, error)

    def transpose(self) -> None:
        source = self.pick_ranked(1)
        if source is not None:
            permutation = tuple(self.draw(st.permutations(range(len(source.shape)))))
            op = self.builder.emit(graph_ops.Transpose, source=source.value, permutation=permutation)
            self.learn(op.result, source.bound, source.error)

    def reshape(self) -> None:
        source = self.pick_ranked(0)
        if source is None or len(source.shape) == 4:
            return
        shape = list(source.shape)
        even = [axis for axis, size in enumerate(shape) if isinstance(size, int) and size > 2 and size % 2 == 0]
        match self.draw(st.integers(0, 3)):
            case 0 if len(shape) > 1:
                shape[:2] = [shape[0] * shape[1]]
            case 1 if 1 in shape:
                shape.remove(1)
            case 2 if even:
                axis = self.pick(even)
                shape[axis : axis + 1] = [shape[axis] // 2, 2]
            case _:
                shape.insert(self.draw(st.integers(0, len(shape))), 1)
        op = self.builder.emit(graph_ops.Reshape, source=source.value, shape=tuple(shape))
        self.learn(op.result, source.bound, source.error)

    def broadcast(self) -> None:
        source, target = self.pick_ranked(0), self.pick_ranked(1)
        if source is None or target is None:
            return
        shape = graph_ops.broadcast_shapes(source.shape, target.shape)
        if shape is not None and self.is_fine(shape):
            op = self.builder.emit(graph_ops.Broadcast, source=source.value, shape=shape)
            self.learn(op.result, source.bound, source.error)

    def cut(self) -> None:
        source = self.pick_ranked(1)
        if source is not None:
            parts = [self.slice(dim) if self.chance() else Slice(0, dim) for dim in source.shape]
            op = self.builder.emit(
                graph_ops.Slice,
                source=source.value,
                starts=tuple(part.start for part in parts),
                stops=tuple(part.stop for part in parts),
                steps=tuple(self.pick((1, 1, 2, 3)) for _ in parts),
            )
            self.learn(op.result, source.bound, source.error)

    def pad(self) -> None:
        source = self.pick_ranked(1)
        if source is None:
            return
        value = True if source.dtype == bool_ else self.draw(st.integers(0, LOADED))
        low, high = (tuple(self.pick((0, 1, symbol("M"))) for _ in source.shape) for _ in range(2))
        if self.volume(a + b + dim for a, b, dim in zip(low, high, source.shape)) <= VOLUME:
            op = self.builder.emit(graph_ops.Pad, source=source.value, low=low, high=high, value=value)
            self.learn(op.result, max(source.bound, LOADED), source.error)

    def concat(self) -> None:
        self.joined(graph_ops.Concat)

    def interleave(self) -> None:
        self.joined(graph_ops.Interleave)

    def joined(self, kind: type[graph_ops.Concat | graph_ops.Interleave]) -> None:
        source = self.pick_ranked(1)
        if source is None or self.volume(source.shape) > VOLUME / 2:
            return
        axis = self.draw(st.integers(0, len(source.shape) - 1))
        fits = [k for k in self.pool if k.dtype == source.dtype and k.shape == source.shape]
        sources = [source, self.pick(fits)]
        op = self.builder.emit(kind, sources=[k.value for k in sources], axis=axis)
        self.learn(op.result, max(k.bound for k in sources), max(k.error for k in sources))

    def window(self) -> None:
        source = self.pick_known(lambda k: bool(self.whole_axes(k)) and len(k.shape) < 4)
        if source is None:
            return
        axis = self.pick(self.whole_axes(source))
        size = self.draw(st.integers(1, min(3, self.count(source.shape[axis]))))
        dilation = self.pick((1, 2)) if (size - 1) * 2 < self.count(source.shape[axis]) else 1
        stride = self.pick((1, 2))
        if self.volume(source.shape) * size <= VOLUME:
            fields = {"axes": (axis,), "sizes": (size,), "strides": (stride,), "dilations": (dilation,)}
            result = self.builder.emit(graph_ops.Window, source=source.value, result_names=["w"], **fields).result
            self.learn(result, source.bound, source.error)

    def gather(self) -> None:
        source = self.pick_ranked(1)
        indices = self.pick_known(lambda k: k.dtype.is_integer and len(k.shape) < 3)
        if source is None or indices is None:
            return
        axis = self.draw(st.integers(0, len(source.shape) - 1))
        others = [dim for i, dim in enumerate(source.shape) if i != axis]
        if self.is_fine((*others, *indices.shape)):
            op = self.builder.emit(graph_ops.Gather, source=source.value, indices=indices.value, axis=axis)
            self.learn(op.result, source.bound, source.error)

    def iota(self) -> None:
        like = self.pick_ranked(1)
        if like is None or self.chance():
            size = self.builder.emit(graph_ops.Size, value=symbol("M") * 2 + 1).result
            self.learn(size, 2 * self.sizes["M"] + 1)
        else:
            axis = self.draw(st.integers(0, len(like.shape) - 1))
            result = self.builder.emit(graph_ops.Iota, shape=like.shape, axis=axis).result
            self.learn(result, self.count(like.shape[axis]))

    def call(self) -> None:
        source = self.pick_known(lambda k: k.dtype == f32 and len(k.shape) == 2 and k.bound * 2 <= limit(f32))
        if source is not None:
            types = graph_ops.call_types(parse_module(DOUBLE).entry, [source.value])
            op = graph_ops.Call(self.builder.location, types=types, inputs=[source.value], callee="double")
            self.body.append(op)
            self.learn(op.result, source.bound * 2, source.error * 2)
            self.calls = True
