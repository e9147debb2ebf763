"""Random straight-line TILE code: what `random_modules` fills the bodies of its programs with.

Programs are to give the same result under every choice of block sizes, in every order of programs, by every back end.
So an axis of a block is never reduced or subscripted by position, numbers are kept within bounds, and functions that
jump (comparisons, rounding, casts to integers) are applied only to values whose bits all implementations agree on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

from tests.support.generators.known_values import JUMPS, Known, bound_of, error_of, limit, rounding
from tiledsl.ir import tile_ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Number, Value
from tiledsl.ir.dtypes import (
    DType,
    bf16,
    bool_,
    compute_dtype,
    f8e4m3,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.symbolic import Dim, evaluate, minimum, symbols_of
from tiledsl.ir.type_rules import broadcast_shapes
from tiledsl.ir.types import Shape, Slice, Whole, scalar

T = TypeVar("T")

FLOATS = (f32, f64, f16, bf16, f8e4m3, f8e5m2)
INTEGERS = (i64, i32, i16, i8, u64, u32, u16, u8)
DTYPES = (*FLOATS, *INTEGERS, bool_)

VOLUME = 4096
"""Tiles have no more elements than this."""


class Expressions:
    """Emits random ops through `builder` on the values of `pool`, and adds their results to it."""

    def __init__(self, draw: st.DrawFn, builder: Builder, sizes: dict[str, int]) -> None:
        self.draw = draw
        self.builder = builder
        self.pool: list[Known] = []
        self.sizes = sizes
        """What size symbols are in this run; for the extent of a block, the most it can be."""
        self.blocks: set[str] = set()
        """The symbols that are extents of blocks."""

    # Choices

    def pick(self, choices: Sequence[T]) -> T:
        return self.draw(st.sampled_from(choices))

    def chance(self, one_in: int = 2) -> bool:
        return self.draw(st.integers(0, one_in - 1)) == 0

    def pick_known(self, fits: Callable[[Known], bool]) -> Known | None:
        fitting = [known for known in self.pool if fits(known)]
        return self.pick(fitting) if fitting else None

    # Sizes

    def count(self, dim: Dim) -> int:
        return evaluate(dim, self.sizes)

    def volume(self, shape: Iterable[Dim]) -> int:
        return math.prod(map(self.count, shape))

    def is_block(self, dim: Dim) -> bool:
        """Whether positions along such an axis depend on how the axis is cut into blocks."""
        return not symbols_of(dim).isdisjoint(self.blocks)

    def is_fine(self, shape: Shape) -> bool:
        """Of a shape that a value may have: not too large, and no block twice (that would pair its elements)."""
        blocks = [dim for dim in shape if self.is_block(dim)]
        return len(shape) <= 4 and self.volume(shape) <= VOLUME and len(set(blocks)) == len(blocks)

    def fold_axes(self, known: Known) -> list[int]:
        """Axes that can be folded: not blocks. They may be empty."""
        return [i for i, dim in enumerate(known.shape) if not self.is_block(dim)]

    def whole_axes(self, known: Known) -> list[int]:
        """Those that are not empty."""
        return [i for i in self.fold_axes(known) if self.count(known.shape[i]) > 0]

    # The ops that both vocabularies have

    def literal(self, number: Number, dtype: DType) -> Value:
        return self.builder.constant(number, dtype)

    def apply(self, fn: str, *inputs: Value) -> Value:
        return self.builder.map(fn, *inputs)

    def convert(self, source: Value, dtype: DType) -> Value:
        return self.builder.cast(source, dtype)

    # Leaves

    def learn(self, value: Value, bound: float, error: float = 0.0) -> Known:
        dtype = Known(value, bound).dtype
        assert (bound <= limit(dtype) and error < math.inf) if dtype.is_float else error == 0, value
        known = Known(value, min(bound, limit(dtype)), error)
        if known.is_useful():
            self.pool.append(known)
        return known

    def constant(self, dtype: DType) -> Known:
        match dtype.kind:
            case "float":
                number: Number = self.draw(st.integers(-16, 16)) / 8
            case "int" | "uint":
                number = self.draw(st.integers(0 if dtype.kind == "uint" else -9, 9))
            case "bool":
                number = self.draw(st.booleans())
        return self.learn(self.literal(number, dtype), abs(number))

    def scalar(self, dtype: DType) -> Known:
        """A scalar that is there already, or a new constant."""
        found = self.pick_known(lambda k: k.value.type == scalar(dtype))
        return found if found is not None and self.chance() else self.constant(dtype)

    # Steps. Each tries to emit something; where nothing fits it leaves the program as it is.

    def step(self) -> None:
        steps = (self.map, self.map, self.map, self.cast, self.reshape, self.transpose, self.broadcast)
        steps += (self.extract, self.reduce, self.scan, self.dot, self.custom, self.random, self.arange)
        self.pick(steps)()

    def map(self) -> None:
        fn = self.pick(tuple(fn for fn, row in SCALAR_FUNCTIONS.items() if not row.gives_bits))  # they tell -0 from 0
        function = SCALAR_FUNCTIONS[fn]
        first = self.pick_known(lambda k: function.accepts(k.dtype) and (k.exact or fn not in JUMPS))
        if first is None:
            return
        operands = [first]
        while len(operands) < (2 if fn == "where" else function.arity):
            shape = next((k.shape for k in operands if k.shape), None)
            fits = [k for k in self.pool if k.dtype == first.dtype and (k.exact or fn not in JUMPS)]
            operands.append(self.pick([k for k in fits if shape is None or k.shape in ((), shape)]))
        if fn == "where":
            shape = next((k.shape for k in operands if k.shape), None)
            condition = self.pick_known(lambda k: k.dtype == bool_ and (shape is None or k.shape in ((), shape)))
            operands.insert(0, condition or self.constant(bool_))
        error = 0.0
        if first.dtype.is_float:
            operands = self.tame(fn, operands)
            bound = bound_of(fn, [k.bound for k in operands])
            if bound > limit(first.dtype):
                return
            error = error_of(fn, operands, bound, first.dtype)
        else:
            bound = limit(first.dtype)
            if fn in ("add", "sub", "mul", "minimum", "maximum", "abs", "where") and first.dtype.is_signed:
                bound = bound_of(fn, [k.bound for k in operands])
        result = self.apply(fn, *(k.value for k in operands))
        self.learn(result, 1 if function.gives_bool else bound, error)

    def tame(self, fn: str, operands: list[Known]) -> list[Known]:
        """Operands in the domain of `fn`: |x| + 1 where x must be positive, or not 0."""
        positive = {"div": [1], "floordiv": [1], "mod": [1], "log": [0], "log2": [0], "sqrt": [0], "rsqrt": [0]}
        for i in positive.get(fn, [0] if fn == "pow" else []):
            known = operands[i]
            if known.bound + 1 <= limit(known.dtype):
                one = self.literal(1.0, known.dtype)
                raised = self.apply("add", self.apply("abs", known.value), one)
                error = 0.0 if known.exact else known.error + rounding(known.dtype, known.bound + 1)
                operands[i] = self.learn(raised, known.bound + 1, error)
            else:
                operands[i] = self.learn(self.literal(1.5, known.dtype), 1.5)
        return operands

    def cast(self) -> None:
        dtype = self.pick(DTYPES)
        top = limit(dtype) / 4 if dtype.is_integer else limit(dtype)

        def fits(known: Known) -> bool:
            if not known.dtype.is_float and not dtype.is_float:
                return True
            negative = known.dtype.is_float and dtype.kind == "uint"  # out of range: unspecified
            return not negative and (known.exact or dtype.is_float) and (known.bound <= top or dtype == bool_)

        source = self.pick_known(fits)
        if source is not None:
            bound = source.bound if dtype.is_float or source.dtype.is_float else limit(dtype)
            bound = min(bound, limit(dtype))
            error = 0.0 if source.exact else source.error + rounding(dtype, bound)
            self.learn(self.convert(source.value, dtype), bound, error)

    def reshape(self) -> None:
        source = self.pick_known(lambda k: len(k.shape) < 4)
        if source is None:
            return
        shape = list(source.shape)
        pairs = [i for i in range(len(shape) - 1) if not self.is_block(shape[i]) and not self.is_block(shape[i + 1])]
        if pairs and self.chance():
            at = self.pick(pairs)
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        elif 1 in shape and self.chance():
            shape.remove(1)
        else:
            shape.insert(self.draw(st.integers(0, len(shape))), 1)
        result = self.builder.emit(tile_ops.Reshape, source=source.value, shape=tuple(shape)).result
        self.learn(result, source.bound, source.error)

    def transpose(self) -> None:
        source = self.pick_known(lambda k: len(k.shape) > 1)
        if source is not None:
            permutation = self.draw(st.permutations(range(len(source.shape))))
            op = self.builder.emit(tile_ops.Transpose, source=source.value, permutation=tuple(permutation))
            self.learn(op.result, source.bound, source.error)

    def broadcast(self) -> None:
        source = self.pick_known(lambda k: not k.shape or 1 in k.shape or len(k.shape) < 3)
        target = self.pick_known(lambda k: bool(k.shape))
        if source is None or target is None:
            return
        shape = broadcast_shapes(source.shape, target.shape)
        if shape is not None and self.is_fine(shape):
            self.learn(self.builder.broadcast(source.value, shape), source.bound, source.error)

    def extract(self) -> None:
        source = self.pick_known(lambda k: bool(k.shape))
        if source is None:
            return
        indices: list[Value | Slice | Whole] = []
        for dim in source.shape:
            if isinstance(dim, int) and dim > 0 and self.chance():
                indices.append(self.literal(self.draw(st.integers(0, dim - 1)), i64))
            elif self.is_block(dim) or self.chance():
                indices.append(Whole())
            else:
                indices.append(self.slice(dim))
        result = self.builder.emit(tile_ops.Extract, source=source.value, indices=indices).result
        self.learn(result, source.bound, source.error)

    def slice(self, dim: Dim) -> Slice:
        """A part of an axis that is inside of it whatever its size."""
        if isinstance(dim, int):
            start = self.draw(st.integers(0, dim))
            return Slice(start, self.draw(st.integers(start, dim)))
        start = minimum(dim, self.draw(st.integers(0, 3)))
        return Slice(start, dim) if self.chance() else Slice(0, start)

    def reduce(self) -> None:
        source = self.pick_known(lambda k: bool(self.fold_axes(k)))
        if source is None:
            return
        fn = self.pick(("add", "mul", "max", "min", "and", "or", "argmax", "argmin"))
        axes = tuple(sorted(self.draw(st.sets(st.sampled_from(self.fold_axes(source)), min_size=1))))
        if fn in ("argmax", "argmin"):
            axes = axes[:1]
        count = self.volume(source.shape[i] for i in axes)
        bound = self.fold_bound(source, fn, count)
        if bound is not None:
            result = self.builder.emit(
                tile_ops.Reduce, sources=[source.value], axes=axes, fn=fn, keepdims=self.chance()
            ).result
            self.learn(result, bound, fold_error(source, fn, count, bound))

    def scan(self) -> None:
        source = self.pick_known(lambda k: bool(self.fold_axes(k)))
        if source is None:
            return
        fn, axis = self.pick(("add", "mul", "max", "min")), self.pick(self.fold_axes(source))
        count = self.count(source.shape[axis])
        bound = self.fold_bound(source, fn, count)
        if bound is not None:
            result = self.builder.emit(
                tile_ops.Scan, sources=[source.value], axis=axis, fn=fn, reverse=self.chance()
            ).result
            self.learn(result, bound, fold_error(source, fn, count, bound))

    def fold_bound(self, source: Known, fn: str, count: int) -> float | None:
        """How large a fold of `count` elements gets, or None if it should not be done."""
        dtype = source.dtype
        if count == 0 and fn in ("max", "min") and dtype.is_float:
            return None  # it would be infinite
        if fn in ("argmax", "argmin"):
            return float(count) if source.exact else None
        if (fn in ("add", "mul") and dtype == bool_) or (fn in ("and", "or") and dtype.is_float):
            return None
        if not dtype.is_float:
            return limit(dtype)
        if fn == "mul":  # max: the partial products of small numbers may be larger than the whole
            bound = max(1.0, source.bound) ** min(count, 64)
        else:
            bound = source.bound * count if fn == "add" else source.bound
        return bound if bound <= limit(dtype) else None

    def custom(self) -> None:
        """A fold of two sources at once by a block: the sum of one, the larger of the other."""
        first = self.pick_known(lambda k: bool(self.fold_axes(k)) and k.dtype != bool_)
        if first is None:
            return
        second = self.pick([k for k in self.pool if k.shape == first.shape])
        axis = self.pick(self.fold_axes(first))
        count = self.count(first.shape[axis])
        bound = self.fold_bound(first, "add", count)
        if bound is None:
            return
        sources = (first.value, second.value)
        combiner = Block([(scalar(v.dtype), name) for name in ("a", "b") for v in sources])
        a, x, b, y = combiner.arguments
        with self.builder.inside(combiner):
            results = [self.apply("add", a, b), self.apply("maximum", x, y)]
            self.builder.emit(tile_ops.Yield, values=results)
        if self.chance():
            total, top = self.builder.emit(
                tile_ops.Reduce, sources=sources, axes=(axis,), fn="custom", keepdims=self.chance(), combiner=combiner
            ).results
        else:
            total, top = self.builder.emit(
                tile_ops.Scan, sources=sources, axis=axis, fn="custom", reverse=self.chance(), combiner=combiner
            ).results
        self.learn(total, bound, fold_error(first, "add", count, bound) + rounding(first.dtype, bound, count))
        self.learn(top, second.bound, second.error)

    def dot(self) -> None:
        a = self.pick_known(lambda k: len(k.shape) > 1 and k.dtype != bool_ and not self.is_block(k.shape[-1]))
        if a is None:
            return

        def fits(k: Known) -> bool:
            return k.dtype == a.dtype and len(k.shape) == len(a.shape) and k.shape[:-2] == a.shape[:-2]

        b = self.pick_known(lambda k: fits(k) and k.shape[-1] == a.shape[-1])
        if b is None or not self.is_fine((*a.shape[:-1], b.shape[-2])):
            return
        dtype = f64 if a.dtype == f64 else f32 if a.dtype.is_float else self.pick((i32, i64))
        count = self.count(a.shape[-1])
        bound, error = dot_bounds(a, b, count, dtype)
        if dtype.is_float and bound > limit(dtype) / 2:
            return
        last = len(a.shape) - 1
        swapped = (*range(last - 1), last, last - 1)
        right = self.builder.emit(tile_ops.Transpose, source=b.value, permutation=swapped).result
        shape = (*a.shape[:-1], b.shape[-2])
        acc = self.pick_known(lambda k: k.shape == shape and k.dtype == dtype and k.bound < limit(dtype) / 2)
        result = self.builder.emit(
            tile_ops.Dot,
            a=a.value,
            b=right,
            acc=None if acc is None else acc.value,
            dtype=dtype,
            precision=self.pick(("ieee", "tf32")) if a.dtype == f32 else "ieee",
        ).result
        total = min(bound, limit(dtype) / 2) + (0 if acc is None else acc.bound)
        self.learn(result, total, error + (0 if acc is None else acc.error + rounding(dtype, total)))

    def random(self) -> None:
        offsets = self.pick_known(lambda k: k.dtype.is_integer)
        if offsets is not None:
            fn = self.pick(("uniform", "normal", "bits"))
            seed = self.scalar(self.pick((i64, u32))).value
            result = self.builder.emit(tile_ops.Random, seed=seed, offsets=offsets.value, fn=fn).result
            bound = 10.0 if result.dtype.is_float else limit(result.dtype)
            self.learn(result, bound, rounding(result.dtype, bound, 64))

    def arange(self) -> None:
        source = self.pick_known(lambda k: any(not self.is_block(dim) for dim in k.shape))
        if source is not None:
            extent = self.pick([dim for dim in source.shape if not self.is_block(dim)])
            self.learn(self.builder.emit(tile_ops.Arange, extent=extent).result, self.count(extent))

    def clip(self, known: Known, bound: int) -> Known:
        """`known` limited to [-bound, bound] (from 0 if unsigned; bool as it is)."""
        if known.dtype == bool_:
            return known
        low = self.literal(0 if known.dtype.kind == "uint" else -bound, known.dtype)
        high = self.literal(bound, known.dtype)
        result = self.apply("minimum", self.apply("maximum", known.value, low), high)
        return self.learn(result, bound, known.error)


def fold_error(source: Known, fn: str, count: int, bound: float) -> float:
    """How far implementations may differ in a fold of `count` elements; `bound` is that of the result.

    Sums of narrow floats are taken in f32 and rounded once.
    """
    if fn not in ("add", "mul") or not source.dtype.is_float:
        return source.error if fn in ("max", "min") else 0.0
    passed_on = count * source.error * (bound if fn == "mul" else 1)
    return passed_on + rounding(compute_dtype(source.dtype), bound, count + 1) + rounding(source.dtype, bound)


def dot_bounds(a: Known, b: Known, count: int, dtype: DType) -> tuple[float, float]:
    """The bound and the error of sums of `count` products, accumulated in `dtype`."""
    bound = a.bound * b.bound * count
    passed_on = count * ((a.bound + a.error) * b.error + b.bound * a.error)
    return bound, passed_on + rounding(dtype, bound, count + 4)
