"""Between which sizes integers lie: coordinates of blocks, subscripts, and what is computed from them.

for m in grid(M - 2): x[m + 1]        m + 1 lies in [1, M - 2]
for k in range(0, min(K, limit)): ... k lies in [0, K - 1]
x[(m.index * 2) % 8]                  lies in [0, 7]
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from tiledsl.ir.core import Function, Value
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ir.facts import Facts, facts_of
from tiledsl.ir.symbolic import Dim, maximum, minimum
from tiledsl.ir.tile_ops import (
    Arange,
    Broadcast,
    Cast,
    Coordinates,
    Extent,
    For,
    Map,
    Reshape,
    Shift,
    Start,
    Transpose,
)
from tiledsl.ir.types import AxisType, TileType
from tiledsl.passes.analysis.sizes import blocks_in, constant_of, size_of
from tiledsl.support.follow import follow

_MOST = 4
"""How many bounds of a kind are kept: each step may multiply them, and more are hardly ever of use."""


@dataclass(frozen=True)
class Span:
    """A value is at least each of `lows`, and at most each of `highs`; both may be empty."""

    lows: tuple[Dim, ...] = ()
    highs: tuple[Dim, ...] = ()

    @property
    def exact(self) -> Dim | None:
        """The only value there is, if that is known."""
        return self.lows[0] if self.lows and self.lows[:1] == self.highs[:1] else None

    @property
    def is_bounded(self) -> bool:
        """Whether there is a bound on both sides. Sizes do not overflow, so neither does arithmetic on such values."""
        return bool(self.lows and self.highs)


Asking: TypeAlias = Generator[Value, Span, Span]
_ANY = Span()


def _only(dim: Dim) -> Span:
    return Span((dim,), (dim,))


class CoordinateAnalysis:
    """Spans of the integer values of one function, found when asked for; elementwise for tiles, of all coordinates for
    blocks. A span holds wherever its value can be read.
    """

    def __init__(self, function: Function) -> None:
        self.facts: Facts = facts_of(function)
        self.blocks = blocks_in(function)
        self.spans: dict[Value, Span] = {}

    def within(self, value: Value, size: Dim) -> bool:
        """Whether the value always lies in [0, size)."""
        span = self.span(value)
        return any(self.facts.less_equal(0, low) for low in span.lows) and any(
            self.facts.less_equal(high + 1, size) for high in span.highs
        )

    def span(self, value: Value) -> Span:
        """What is known of where `value` lies."""
        return follow(self._span, value, self.spans)

    def _span(self, value: Value) -> Asking:
        self.spans[value] = _ANY  # a loop would ask again; none of the ops below can make one
        size = None if isinstance(value.type, AxisType) else size_of(value)
        if size is not None:
            return _only(size)
        if value in self.blocks:
            block = self.blocks[value]
            lows = (0,) if block.start is None else (yield block.start).lows
            return Span(lows, tuple(high - 1 for high in (yield block.stop).highs))
        match value.op:
            case None:
                return (yield from self._argument_span(value))
            case Arange() as op:
                return Span((0,), (op.extent - 1,))
            case Coordinates() | Start() as op:
                return (yield op.axis)
            case Extent(axis=Value(type=AxisType(extent=extent))):
                return _only(extent)
            case Shift() as op:
                return _add((yield op.axis), (yield op.offset))
            case Broadcast() | Reshape() | Transpose() as op:
                return (yield op.source)
            case Cast() as op:
                return self._cast_span(op, (yield op.source))
            case Map() as op if op.result.dtype == i64:
                spans: list[Span] = []
                for operand in op.inputs:
                    spans.append((yield operand))
                return self._map_span(op, spans)
            case _:
                return _span_of_dtype(value)

    def _argument_span(self, value: Value) -> Asking:
        """A parameter, or the index of a loop; of what loops carry nothing is known."""
        loop = value.op_around
        if isinstance(loop, For) and value is loop.body.arguments[0]:
            step, start, stop = constant_of(loop.step), (yield loop.start), (yield loop.stop)
            if step is not None and step > 0:
                return Span(start.lows, tuple(high - 1 for high in stop.highs))
            if step is not None and step < 0:
                return Span(tuple(low + 1 for low in stop.lows), start.highs)
        return _span_of_dtype(value)

    def _cast_span(self, op: Cast, span: Span) -> Span:
        dtype = op.dtype
        if not op.source.dtype.is_integer or not dtype.is_integer:
            return _span_of_dtype(op.result)
        if dtype == i64 and op.source.dtype.kind == "int":
            return span
        smallest, largest = _limits(dtype)
        lows = [low for low, _ in map(self.facts.bounds, span.lows) if low is not None and low >= smallest]
        highs = [high for _, high in map(self.facts.bounds, span.highs) if high is not None and high <= largest]
        return span if lows and highs else _span_of_dtype(op.result)

    def _map_span(self, op: Map, spans: Sequence[Span]) -> Span:
        match op.fn:
            case "minimum":
                return Span(_pairs(minimum, spans[0].lows, spans[1].lows), _union(spans[0].highs, spans[1].highs))
            case "maximum":
                return Span(_union(spans[0].lows, spans[1].lows), _pairs(maximum, spans[0].highs, spans[1].highs))
            case "where":
                _, yes, no = spans
                return Span(_pairs(minimum, yes.lows, no.lows), _pairs(maximum, yes.highs, no.highs))
            case "add" | "sub" | "neg" | "mul" | "floordiv" | "mod":
                pass
            case _:
                return _ANY
        if not all(span.is_bounded for span in spans):
            return _ANY  # it may wrap around
        match op.fn:
            case "add":
                return self._sum_span(op.inputs[0], op.inputs[1])
            case "sub":
                return _add(spans[0], _negated(spans[1]))
            case "neg":
                return _negated(spans[0])
            case "mul":
                return self._product_span(*spans)
            case _:
                return self._division_span(op.fn, *spans)

    def _sum_span(self, left: Value, right: Value) -> Span:
        span = _add(self.span(left), self.span(right))
        for start, extent in ((left, right), (right, left)):
            match (start.op, extent.op):
                # where a block starts plus how long it is, is one past its last coordinate
                case (Start() as first, Extent() as length) if first.axis is length.axis:
                    highs = tuple(high + 1 for high in self.span(first.axis).highs)
                    return Span(span.lows, _union(highs, span.highs))
                case _:
                    pass
        return span

    def _product_span(self, left: Span, right: Span) -> Span:
        for factor, span in ((left.exact, right), (right.exact, left)):
            if isinstance(factor, int):
                scaled = Span(tuple(factor * low for low in span.lows), tuple(factor * high for high in span.highs))
                return scaled if factor >= 0 else Span(scaled.highs, scaled.lows)
        if all(any(self.facts.less_equal(0, low) for low in span.lows) for span in (left, right)):
            return Span((0,), _pairs(lambda a, b: a * b, left.highs, right.highs))
        return _ANY

    def _division_span(self, fn: str, left: Span, right: Span) -> Span:
        divisor = right.exact
        if not isinstance(divisor, int) or divisor <= 0:
            return _ANY
        if fn == "floordiv":
            return Span(tuple(low // divisor for low in left.lows), tuple(high // divisor for high in left.highs))
        return Span((0,), (divisor - 1,))


def _add(left: Span, right: Span) -> Span:
    if not (left.is_bounded and right.is_bounded):
        return _ANY  # it may wrap around
    return Span(_pairs(_sum, left.lows, right.lows), _pairs(_sum, left.highs, right.highs))


def _sum(a: Dim, b: Dim) -> Dim:
    return a + b


def _negated(span: Span) -> Span:
    return Span(tuple(-high for high in span.highs), tuple(-low for low in span.lows))


def _union(left: Sequence[Dim], right: Sequence[Dim]) -> tuple[Dim, ...]:
    return tuple(dict.fromkeys((*left, *right)))[:_MOST]


def _pairs(function: Callable[[Dim, Dim], Dim], left: Sequence[Dim], right: Sequence[Dim]) -> tuple[Dim, ...]:
    return tuple(dict.fromkeys(function(a, b) for a, b in product(left, right)))[:_MOST]


def _limits(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest value of an integer type or bool."""
    match dtype.kind:
        case "int":
            return (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1)
        case "uint":
            return (0, (1 << dtype.bits) - 1)
        case _:
            return (0, 1)


def _span_of_dtype(value: Value) -> Span:
    """What the type alone tells: 64 bits as good as nothing, fewer something."""
    dtype = value.type.dtype if isinstance(value.type, TileType) else None
    if dtype is None or dtype.is_float or dtype.bits == 64:
        return _ANY
    return Span(*((limit,) for limit in _limits(dtype)))
