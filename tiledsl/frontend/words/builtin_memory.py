"""Words that touch memory, draw random numbers, and speak to people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiledsl.frontend.language import program as language
from tiledsl.frontend.language.values import MemoryLevel
from tiledsl.frontend.words.access import (
    emit_load,
    resolved_indices,
    selected_shape,
    tensor_type,
    to_stored_order,
    to_written_order,
)
from tiledsl.frontend.words.builtin_shapes import broadcast_exactly
from tiledsl.frontend.words.builtin_table import Arguments, Handler, lowers
from tiledsl.frontend.words.elementwise import truth
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.operands import as_tile, coerce, read, shape_of, strength_of
from tiledsl.frontend.words.values import Access, FrontValue, Operand, Static, Tile, static_number
from tiledsl.ir.core import Index, Value
from tiledsl.ir.dtypes import bool_
from tiledsl.ir.tile_ops import Assert, Atomic, Print, Random, Store
from tiledsl.ir.types import Level, format_shape

NONE = Static(None)


@lowers(language.load)
def load(low: Lowering, arguments: Arguments) -> FrontValue:
    access = _access(arguments, "source")
    other = None
    if arguments.given("other"):
        operand = arguments.read("other")
        if shape_of(operand):
            low.fail_at(operand, "load-other")
        other = coerce(low, operand, tensor_type(access.tensor).dtype)
    level: Level | None = None
    if arguments.given("level"):
        given: MemoryLevel = arguments.static("level", MemoryLevel, "tile.register or tile.shared")
        level = "shared" if given.name == "shared" else "register"
    return Tile(emit_load(low, access, other, level))


def _access(arguments: Arguments, parameter: str) -> Access:
    operand = arguments[parameter]
    if not isinstance(operand.value, Access):
        arguments.low.fail_at(operand, "not-an-access", name=arguments.name)
    return operand.value


@lowers(language.store)
def store_call(low: Lowering, arguments: Arguments) -> FrontValue:
    store(low, _access(arguments, "target"), arguments["value"], arguments["target"].text)
    return NONE


def store(low: Lowering, access: Access, value: Operand, target: str) -> None:
    """Writes a value into what an access selects: cast to the tensor's dtype, broadcast."""
    indices, stored = _to_write(low, access, value, target)
    low.builder.emit(Store, tensor=access.tensor.value, indices=indices, value=stored)


def _to_write(low: Lowering, access: Access, value: Operand, target: str) -> tuple[tuple[Index, ...], Value]:
    """The subscripts, and the value in the dtype and shape that the tensor takes."""
    if low.grid is None:
        low.fail("store-outside-grid", name=target)
    converted = coerce(low, read(low, value), tensor_type(access.tensor).dtype)
    for left, right in zip(reversed(converted.shape), reversed(selected_shape(low, access))):
        if left != 1:
            low.sizes.unify(left, right)
    shape = selected_shape(low, access)
    if not _broadcasts(low, converted, access):
        low.fail(
            "store-shape",
            target=target,
            selected=format_shape(shape),
            name=value.text,
            shape=format_shape(converted.shape),
        )
    whole = broadcast_exactly(low, converted, shape, value.text)
    return resolved_indices(low, access), to_stored_order(low, access, whole)


def _broadcasts(low: Lowering, value: Value, access: Access) -> bool:
    shape = selected_shape(low, access)
    pairs = zip(reversed(value.shape), reversed(shape))
    return len(value.shape) <= len(shape) and all(left in (1, right) for left, right in pairs)


ATOMICS: dict[Callable[..., Any], str] = {
    language.atomic_add: "add", language.atomic_max: "max", language.atomic_min: "min", language.atomic_and: "and",
    language.atomic_or: "or", language.atomic_xor: "xor", language.atomic_exchange: "exchange",
}  # fmt: skip


def _atomic(fn: str) -> Handler:
    def handler(low: Lowering, arguments: Arguments) -> FrontValue:
        access = _access(arguments, "target")
        dtype = tensor_type(access.tensor).dtype
        if (fn in ("and", "or", "xor") and dtype.is_float) or (fn == "add" and dtype == bool_):
            low.fail_at(arguments["target"], "atomic-dtype", name=arguments.name, dtype=dtype)
        indices, value = _to_write(low, access, arguments["value"], arguments["target"].text)
        op = low.builder.emit(Atomic, tensor=access.tensor.value, indices=indices, value=value, fn=fn)
        return Tile(to_written_order(low, access, op.result))

    return handler


for _stub, _fn in ATOMICS.items():
    lowers(_stub)(_atomic(_fn))


def _random(fn: str) -> Handler:
    def handler(low: Lowering, arguments: Arguments) -> FrontValue:
        seed, offsets = arguments.read("seed"), arguments.read("offsets")
        for operand, name in ((seed, "seed"), (offsets, "offsets")):
            if not strength_of(operand).dtype.is_integer:
                expected = "an integer scalar" if operand is seed else "integers"
                low.fail_at(operand, "argument-kind", name=arguments.name, parameter=name, expected=expected)
        if shape_of(seed):
            low.fail_at(seed, "argument-kind", name=arguments.name, parameter="seed", expected="an integer scalar")
        values = [as_tile(low, o).value for o in (seed, offsets)]
        return Tile(low.builder.emit(Random, seed=values[0], offsets=values[1], fn=fn).result)

    return handler


lowers(language.rand)(_random("uniform"))
lowers(language.randn)(_random("normal"))


@lowers(language.print)
def print_values(low: Lowering, arguments: Arguments) -> FrontValue:
    low.require_in_grid("tile.print")
    texts = [_string(o) for o in arguments.rest]
    leading = next((i for i, text in enumerate(texts) if text is None), len(texts))
    for operand, text in zip(arguments.rest[leading:], texts[leading:]):
        if text is not None:
            low.fail_at(operand, "print-order")
    values = [as_tile(low, o).value for o in arguments.rest[leading:]]
    low.builder.emit(Print, values=values, text=" ".join(t for t in texts[:leading] if t is not None))
    return NONE


def _string(operand: Operand) -> str | None:
    """The text of a compile-time string."""
    value = operand.value.value if isinstance(operand.value, Static) else None
    return value if isinstance(value, str) else None


@lowers(language.assert_)
def assert_holds(low: Lowering, arguments: Arguments) -> FrontValue:
    low.require_in_grid("tile.assert_")
    message = arguments.text("message") or f"`{arguments['condition'].text}` does not hold"
    condition = arguments.read("condition")
    low.builder.emit(Assert, condition=truth(low, condition).value, text=message)
    return NONE


@lowers(language.static_assert)
def assert_statically(low: Lowering, arguments: Arguments) -> FrontValue:
    condition = arguments["condition"]
    number = static_number(condition.value)
    if number is None and not isinstance(condition.value, Static):
        low.fail_at(condition, "static-assert-run-time")
    if not (number if number is not None else condition.value != NONE):
        low.fail("static-assert", message=arguments.text("message") or f"`{condition.text}` does not hold")
    return NONE
