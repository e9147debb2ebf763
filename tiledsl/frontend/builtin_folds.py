"""Reductions, scans and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledsl.frontend import language_math as language
from tiledsl.frontend.builtin_math import in_compute_dtype
from tiledsl.frontend.builtin_table import Arguments, Handler, lowers
from tiledsl.frontend.elementwise import apply, truth
from tiledsl.frontend.lowering import Lowering
from tiledsl.frontend.operands import as_tile, coerce, operand_like, reshape, shape_of, strength_of
from tiledsl.frontend.promotion import sum_dtype
from tiledsl.frontend.sizes import element_count
from tiledsl.frontend.values import FrontValue, Operand, Tile, Tuple, dim_value
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import bool_, f64
from tiledsl.ir.tile_ops import Reduce, Scan, Yield
from tiledsl.ir.types import TileType, format_shape, scalar
from tiledsl.support.errors import fail

FOLDS: dict[Callable[..., Any], str] = {
    language.sum: "add", language.prod: "mul", language.max: "max", language.min: "min", language.any: "or",
    language.all: "and",
}  # fmt: skip


def _fold(fn: str) -> Handler:
    def handler(low: Lowering, arguments: Arguments) -> FrontValue:
        source = _source(low, fn, arguments.read("x"))
        axes = arguments.axes("axis", len(source.value.shape))
        return fold(low, fn, source, axes, arguments.flag("keepdims"))

    return handler


for _stub, _fn in FOLDS.items():
    lowers(_stub)(_fold(_fn))


def _source(low: Lowering, fn: str, x: Operand) -> Tile:
    """What is folded: sums and products of integers are widened, `any` and `all` look at truth."""
    if fn in ("or", "and"):
        return truth(low, x)
    source = as_tile(low, x)
    if fn in ("add", "mul"):
        return Tile(coerce(low, operand_like(x, source), sum_dtype(source.value.dtype)), source.weak)
    return source


def fold(low: Lowering, fn: str, source: Tile, axes: Sequence[int], keepdims: bool) -> Tile:
    """Folds some axes of a tile; without any axes it is the tile itself."""
    if not axes:
        return source
    if source.value.dtype == bool_:
        fn = {"max": "or", "min": "and"}.get(fn, fn)
    op = low.builder.emit(Reduce, sources=[source.value], axes=tuple(axes), fn=fn, keepdims=keepdims)
    return Tile(op.result, source.weak)


@lowers(language.mean)
def mean(low: Lowering, arguments: Arguments) -> FrontValue:
    source = arguments.read("x")
    if not strength_of(source).dtype.is_float:
        source = operand_like(source, Tile(coerce(low, source, f64)))
    axes = arguments.axes("axis", len(shape_of(source)))
    count = dim_value(element_count(tuple(shape_of(source)[i] for i in axes)))
    keepdims = arguments.flag("keepdims")

    def formula(x: Operand) -> FrontValue:
        total = fold(low, "add", as_tile(low, x), axes, keepdims)
        return apply(low, "div", operand_like(x, total), operand_like(x, count))

    return in_compute_dtype(low, source, formula)


def _extremum_index(fn: str) -> Handler:
    def handler(low: Lowering, arguments: Arguments) -> FrontValue:
        source = as_tile(low, arguments.read("x")).value
        rank = len(source.shape)
        keepdims = arguments.flag("keepdims")
        if arguments.given("axis"):
            axis = arguments.axis("axis", rank)
            return Tile(low.builder.emit(Reduce, sources=[source], axes=(axis,), fn=fn, keepdims=keepdims).result)
        flat = reshape(low, source, (element_count(source.shape),))
        index = low.builder.emit(Reduce, sources=[flat], axes=(0,), fn=fn).result
        return Tile(reshape(low, index, (1,) * rank) if keepdims else index)

    return handler


lowers(language.argmax)(_extremum_index("argmax"))
lowers(language.argmin)(_extremum_index("argmin"))


@lowers(language.cumsum)
def cumsum(low: Lowering, arguments: Arguments) -> FrontValue:
    source = _source(low, "add", arguments.read("x")).value
    rank = len(source.shape)
    if not arguments.given("axis") and rank != 1:
        low.fail("axis-needed", name="tile.cumsum", shape=format_shape(source.shape))
    axis = arguments.axis("axis", rank) if arguments.given("axis") else 0
    op = low.builder.emit(Scan, sources=[source], axis=axis, fn="add", reverse=arguments.flag("reverse"))
    return Tile(op.result)


@lowers(language.reduce)
def reduce(low: Lowering, arguments: Arguments) -> FrontValue:
    sources = _sources(low, arguments)
    axis = arguments.axis("axis", len(sources[0].shape))
    keepdims = arguments.flag("keepdims")
    combiner = _combiner(low, arguments, sources)
    op = low.builder.emit(Reduce, sources=sources, axes=(axis,), fn="custom", keepdims=keepdims, combiner=combiner)
    return _results(arguments, op.results)


@lowers(language.scan)
def scan(low: Lowering, arguments: Arguments) -> FrontValue:
    sources = _sources(low, arguments)
    axis = arguments.axis("axis", len(sources[0].shape))
    reverse = arguments.flag("reverse")
    combiner = _combiner(low, arguments, sources)
    op = low.builder.emit(Scan, sources=sources, axis=axis, fn="custom", reverse=reverse, combiner=combiner)
    return _results(arguments, op.results)


def _sources(low: Lowering, arguments: Arguments) -> list[Value]:
    """The tiles that are folded together, of one shape."""
    x = arguments["x"]
    items = x.value.items if isinstance(x.value, Tuple) else (x.value,)
    sources = [as_tile(low, operand_like(x, item)).value for item in items]
    for source in sources:
        if len(source.shape) != len(sources[0].shape) or not all(map(low.sizes.unify, source.shape, sources[0].shape)):
            first, second = format_shape(sources[0].shape), format_shape(source.shape)
            low.fail("fold-shapes", name=arguments.name, first=first, second=second)
    return sources


def _results(arguments: Arguments, results: Sequence[Value]) -> FrontValue:
    tiles = tuple(Tile(result) for result in results)
    return Tuple(tiles) if isinstance(arguments["x"].value, Tuple) else tiles[0]


def _combiner(low: Lowering, arguments: Arguments, sources: Sequence[Value]) -> Block:
    """The user's function as a block: all left scalars, then all right ones, to as many results."""
    fn = arguments["fn"]
    types = [(scalar(s.dtype), side) for side in ("left", "right") for s in sources]
    with low.body(types) as block:
        result = low.call(fn, [Operand(Tile(a), a.name, fn.location) for a in block.arguments])
        items = result.items if isinstance(result, Tuple) else (result,)
        if len(items) != len(sources):
            low.fail_at(fn, "combiner-count", count=len(items), expected=len(sources), name=arguments.name)
        values: list[Value] = []
        for item, source in zip(items, sources):
            operand = operand_like(fn, item)
            if shape_of(operand):
                low.fail_at(operand, "combiner-rank", name=arguments.name)
            values.append(coerce(low, operand, source.dtype))
        low.builder.emit(Yield, values=values)
    for op in block.walk():
        if op.effect not in ("pure", "terminator") or any(isinstance(r.type, TileType) and r.shape for r in op.results):
            fail("combiner-op", op.location, name=arguments.name, fn=fn.text)
    return block


@lowers(language.softmax)
def softmax(low: Lowering, arguments: Arguments) -> FrontValue:
    source = arguments.read("x")
    axis = arguments.axis("axis", len(shape_of(source)))

    def formula(x: Operand) -> FrontValue:
        largest = fold(low, "max", as_tile(low, x), (axis,), keepdims=True)
        exponential = apply(low, "exp", operand_like(x, apply(low, "sub", x, operand_like(x, largest))))
        total = fold(low, "add", as_tile(low, operand_like(x, exponential)), (axis,), keepdims=True)
        return apply(low, "div", operand_like(x, exponential), operand_like(x, total))

    return in_compute_dtype(low, source, formula)
