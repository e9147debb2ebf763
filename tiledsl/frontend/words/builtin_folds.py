"""Reductions, scans, sorts and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledsl.frontend.language import composites
from tiledsl.frontend.language import math as language
from tiledsl.frontend.language.composites import FOLD_WORDS, INDEX_WORDS
from tiledsl.frontend.language.tensors import stack as stack_word
from tiledsl.frontend.words.builtin_table import Arguments, Handler, lowers
from tiledsl.frontend.words.elementwise import TileSteps
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.operands import as_tile, coerce, operand_like, shape_of
from tiledsl.frontend.words.values import FrontValue, Operand, Tile, Tuple
from tiledsl.ir.core import Block, Value
from tiledsl.ir.tile_ops import Reduce, Scan, Sort, Stack, Yield
from tiledsl.ir.types import TileType, format_shape, scalar
from tiledsl.support.errors import fail


def _fold(composite: Callable[..., Any]) -> Handler:
    def handler(low: Lowering, arguments: Arguments) -> FrontValue:
        source = TileSteps(low).tensor(arguments["x"])
        axes = arguments.axes("axis", len(shape_of(source)))
        return composite(TileSteps(low), source, axes, arguments.flag("keepdims")).value

    return handler


def _index(composite: Callable[..., Any]) -> Handler:
    def handler(low: Lowering, arguments: Arguments) -> FrontValue:
        source = TileSteps(low).tensor(arguments["x"])
        axis = arguments.axis("axis", len(shape_of(source))) if arguments.given("axis") else None
        return composite(TileSteps(low), source, axis, arguments.flag("keepdims")).value

    return handler


for _stub, _composite in FOLD_WORDS.items():
    lowers(_stub)(_fold(_composite))
for _stub, _composite in INDEX_WORDS.items():
    lowers(_stub)(_index(_composite))


@lowers(language.softmax)
def softmax(low: Lowering, arguments: Arguments) -> FrontValue:
    source = TileSteps(low).tensor(arguments["x"])
    return composites.softmax(TileSteps(low), source, arguments.axis("axis", len(shape_of(source)))).value


@lowers(language.cumsum)
def cumsum(low: Lowering, arguments: Arguments) -> FrontValue:
    source = as_tile(low, composites.summed(TileSteps(low), arguments["x"])).value
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


@lowers(language.sort)
def sort(low: Lowering, arguments: Arguments) -> FrontValue:
    source = as_tile(low, arguments["x"]).value
    if not source.dtype.is_integer or source.dtype.bits < 8:
        low.fail("sort-dtype", dtype=source.dtype)
    return Tile(low.builder.emit(Sort, source=source, axis=arguments.axis("axis", len(source.shape))).result)


@lowers(stack_word)
def stack(low: Lowering, arguments: Arguments) -> FrontValue:
    sources = _sources(low, arguments, "tensors")
    for source in sources:
        if source.dtype != sources[0].dtype:
            low.fail("stack-dtypes", first=sources[0].dtype, second=source.dtype)
    axis = arguments.axis("axis", len(sources[0].shape) + 1)
    return Tile(low.builder.emit(Stack, sources=sources, axis=axis).result)


@lowers(language.scan)
def scan(low: Lowering, arguments: Arguments) -> FrontValue:
    sources = _sources(low, arguments)
    axis = arguments.axis("axis", len(sources[0].shape))
    reverse = arguments.flag("reverse")
    combiner = _combiner(low, arguments, sources)
    op = low.builder.emit(Scan, sources=sources, axis=axis, fn="custom", reverse=reverse, combiner=combiner)
    return _results(arguments, op.results)


def _sources(low: Lowering, arguments: Arguments, given: str = "x") -> list[Value]:
    """The tiles that are folded together, of one shape."""
    x = arguments[given]
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
