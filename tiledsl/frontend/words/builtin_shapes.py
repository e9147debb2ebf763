"""Words that make tensors and tiles, and those that change shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiledsl.frontend.language import math as language_math
from tiledsl.frontend.language import program as language_program
from tiledsl.frontend.language.element_counts import counts_differ, filled_hole
from tiledsl.frontend.language.promotion import fill_dtype
from tiledsl.frontend.words.builtin_table import Arguments, Handler, dim_from, lowers, normal_axis, shape_from
from tiledsl.frontend.words.elementwise import apply
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.operands import as_tile, coerce, operand_like, reshape, shape_of, strength_of
from tiledsl.frontend.words.values import FrontValue, Operand, Static, Tensor, Tile, Tuple, static_integer
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ir.symbolic import Dim, ceildiv
from tiledsl.ir.tile_ops import Arange, Broadcast, Empty, Transpose
from tiledsl.ir.type_rules import broadcast_shapes
from tiledsl.ir.types import Shape, format_shape


@lowers(language_program.empty)
def empty(low: Lowering, arguments: Arguments) -> FrontValue:
    if low.grid is not None:
        low.fail("empty-in-grid")
    return new_tensor(low, arguments.shape("shape"), arguments.dtype("dtype"), None)


def new_tensor(low: Lowering, shape: Shape, dtype: DType, fill: Value | None) -> Tensor:
    """A tensor that the kernel makes, outside of grids."""
    result = low.builder.emit(Empty, fill=fill, shape=shape, dtype=dtype).result
    return Tensor(result, "", tuple(range(len(shape))), is_parameter=False)


def filled(low: Lowering, shape: Shape, value: Operand, dtype: DType) -> FrontValue:
    """One value everywhere: a tile in a grid, a tensor outside."""
    scalar = coerce(low, value, dtype)
    if low.grid is None:
        return new_tensor(low, shape, dtype, scalar)
    return Tile(low.builder.broadcast(scalar, shape))


def _filled_with(number: int) -> Handler:
    def handler(low: Lowering, arguments: Arguments) -> FrontValue:
        value = Operand(Static(number), str(number), low.location)
        return filled(low, arguments.shape("shape"), value, arguments.dtype("dtype"))

    return handler


lowers(language_program.zeros)(_filled_with(0))
lowers(language_program.ones)(_filled_with(1))


@lowers(language_program.full)
def full(low: Lowering, arguments: Arguments) -> FrontValue:
    value = arguments.read("value")
    if shape_of(value):
        low.fail_at(value, "full-value")
    dtype = arguments.dtype("dtype") if arguments.given("dtype") else fill_dtype(strength_of(value))
    return filled(low, arguments.shape("shape"), value, dtype)


@lowers(language_program.arange)
def arange(low: Lowering, arguments: Arguments) -> FrontValue:
    first = _bound(low, arguments["start"])
    start, stop = (first, _bound(low, arguments["stop"])) if arguments.given("stop") else (0, first)
    step: int = arguments.static("step", int, "an int above 0, known at compile time")
    if step <= 0:
        low.fail_at(arguments["step"], "arange-step")
    low.require_in_grid("tile.arange")
    value: FrontValue = Tile(low.builder.emit(Arange, extent=ceildiv(stop - start, step)).result)
    for fn, number in (("mul", step), ("add", start)):
        if number != (1 if fn == "mul" else 0):
            factor = Tile(low.integer(number), weak=True)
            value = apply(low, fn, operand_like(arguments["start"], value), operand_like(arguments["start"], factor))
    dtype = arguments.dtype("dtype")
    return value if dtype == i64 else Tile(coerce(low, operand_like(arguments["start"], value), dtype))


def _bound(low: Lowering, operand: Operand) -> Dim:
    dim = dim_from(low, operand.value)
    if dim is None:
        low.fail_at(operand, "arange-bound")
    return dim


@lowers(language_math.reshape)
def reshape_to(low: Lowering, arguments: Arguments) -> FrontValue:
    source = as_tile(low, arguments.read("x"))
    before = source.value.shape
    shape = filled_hole(before, _with_hole(low, arguments["shape"]))
    why = counts_differ(before, shape)
    if why:
        text, after = arguments["x"].text, format_shape(shape)
        low.fail("reshape-size", name=text, before=format_shape(before), after=after, why=why)
    return Tile(reshape(low, source.value, shape), source.weak)


def _with_hole(low: Lowering, wanted: Operand) -> Shape:
    """A shape in which one size may be -1."""
    items = wanted.value.items if isinstance(wanted.value, Tuple) else (wanted.value,)
    holes = [i for i, item in enumerate(items) if static_integer(item) == -1]
    if not holes:
        return shape_from(low, wanted)
    if len(holes) > 1:
        low.fail_at(wanted, "reshape-holes")
    parts = [operand_like(wanted, Tuple(part)) for part in (items[: holes[0]], items[holes[0] + 1 :])]
    return (*shape_from(low, parts[0]), -1, *shape_from(low, parts[1]))


@lowers(language_math.transpose)
def transpose(low: Lowering, arguments: Arguments) -> FrontValue:
    source = as_tile(low, arguments.read("x"))
    rank = len(source.value.shape)
    permutation = tuple(reversed(range(rank)))
    if arguments.given("axes"):
        operand = arguments["axes"]
        items = operand.value.items if isinstance(operand.value, Tuple) else (operand.value,)
        axes = [static_integer(item) for item in items]
        permutation = tuple(normal_axis(low, operand, a, rank) for a in axes if a is not None)
        if sorted(permutation) != list(range(rank)):
            low.fail_at(operand, "not-a-permutation", rank=rank)
    return permuted(low, source, permutation)


def permuted(low: Lowering, source: Tile, permutation: tuple[int, ...]) -> Tile:
    """Axis i of the result is axis permutation[i] of the source."""
    if permutation == tuple(range(len(permutation))):
        return source
    return Tile(low.builder.emit(Transpose, source=source.value, permutation=permutation).result, source.weak)


@lowers(language_math.broadcast_to)
def broadcast_to(low: Lowering, arguments: Arguments) -> FrontValue:
    source = as_tile(low, arguments.read("x"))
    shape = arguments.shape("shape")
    return Tile(broadcast_exactly(low, source.value, shape, arguments["x"].text), source.weak)


def broadcast_exactly(low: Lowering, value: Value, shape: Shape, name: str) -> Value:
    """A value under exactly this shape. Raises TileShapeError if it does not broadcast to it."""
    for left, right in zip(reversed(value.shape), reversed(shape)):
        if left != 1:
            low.sizes.unify(left, right)
    shape = low.sizes.resolve_shape(shape)
    if len(value.shape) > len(shape) or broadcast_shapes(value.shape, shape) != shape:
        low.fail("broadcast-to", name=name, before=format_shape(value.shape), after=format_shape(shape))
    return value if value.shape == shape else low.builder.emit(Broadcast, source=value, shape=shape).result


NOT_IN_EXPRESSIONS: tuple[Callable[..., Any], ...] = (language_program.grid, language_program.range)
"""Words that stand in the head of a `for` only."""


@lowers(*NOT_IN_EXPRESSIONS)
def loop_word(low: Lowering, arguments: Arguments) -> FrontValue:
    low.fail("loop-word", name=arguments.name)
