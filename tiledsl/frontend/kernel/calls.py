"""Calls of everything that can be called in a kernel: words of the language, methods, helpers, a little of Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

from tiledsl.frontend.kernel.expressions import frozen
from tiledsl.frontend.kernel.frame import HELPER, Frame
from tiledsl.frontend.kernel.statements import run
from tiledsl.frontend.language.values import constexpr
from tiledsl.frontend.language.word_advice import function_advice
from tiledsl.frontend.source.kernel_source import KernelFunction, KernelSource
from tiledsl.frontend.words import (
    builtin_dot,
    builtin_folds,
    builtin_math,
    builtin_memory,
    builtin_shapes,
    builtin_tensors,
)
from tiledsl.frontend.words.attributes import METHODS
from tiledsl.frontend.words.builtin_table import BUILTINS, bind, call_builtin
from tiledsl.frontend.words.elementwise import apply, cast, truth
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.operands import operand_like, read, shape_of
from tiledsl.frontend.words.values import (
    FrontValue,
    Method,
    Operand,
    Size,
    Static,
    Tile,
    Tuple,
    static_integer,
    static_number,
)
from tiledsl.ir.dtypes import DType, f64, i64
from tiledsl.support.errors import Label

HANDLERS = (builtin_dot, builtin_folds, builtin_math, builtin_memory, builtin_shapes, builtin_tensors)
"""The modules that fill the table of builtins; named here so that they are imported."""


def call(
    low: Lowering, function: Operand, positional: Sequence[Operand], keywords: Mapping[str, Operand]
) -> FrontValue:
    """The value of a call. Raises TileTypeError for what a kernel cannot call."""
    match function.value:
        case Method(receiver=receiver, name=name):
            return _call_method(low, receiver, name, positional, keywords)
        case Static(value=KernelFunction() as helper):
            return _inline(low, helper, positional, keywords)
        case Static(value=DType() as dtype):
            low.fail_at(function, "dtype-called", dtype=dtype)
        case Static(value=target) if callable(target):
            if target in BUILTINS:
                return call_builtin(low, target, positional, keywords)
            return _call_python(low, function, target, positional, keywords)
        case _:
            owner = function.text.removesuffix(".size")
            hint = "call a function" if owner == function.text else f"write `{owner}.shape[axis]`, or `{function.text}`"
            low.fail_at(function, "not-callable", hint=hint)


def _call_method(
    low: Lowering, receiver: Operand, name: str, positional: Sequence[Operand], keywords: Mapping[str, Operand]
) -> FrontValue:
    if name in ("reshape", "transpose") and len(positional) != 1:
        # x.reshape(2, 3) is x.reshape((2, 3))
        text = ", ".join(o.text for o in positional)
        together = Operand(Tuple(tuple(o.value for o in positional)), f"({text})", low.location)
        positional = [together] if positional else []
    return call_builtin(low, METHODS[name], [receiver, *positional], keywords)


def _inline(
    low: Lowering, helper: KernelFunction, positional: Sequence[Operand], keywords: Mapping[str, Operand]
) -> FrontValue:
    """Runs a helper's body here, with its own variables."""
    source = helper.source
    if source in low.inlining:
        label = Label(source.location(source.tree), f"`{source.name}` is being inlined already")
        low.fail("recursion", labels=[label], name=source.name)
    arguments = bind(low, f"{source.name}", source.signature, positional, keywords)
    caller = low.location
    frame = Frame(low, source, caller, {})
    for name, argument in arguments.operands.items():
        given = name in keywords or argument in positional
        value = argument.value if given else frame.constant(source.tree, _default(source, name))
        if is_constexpr(source, name) and not _is_known(value):
            low.fail_at(argument, "constexpr-run-time", name=name, function=source.name)
        frame.scope[name] = frozen(frame, value)
        frame.assigned[name] = argument.location
    low.inlining.append(source)
    returned = run(frame, source.tree.body)
    low.inlining.pop()
    low.builder.location = caller
    return Static(None) if returned is None else frozen(frame, returned.value)


def _default(source: KernelSource, name: str) -> object:
    default: object = source.signature.parameters[name].default
    return default


def is_constexpr(source: KernelSource, name: str) -> bool:
    """Whether a parameter is annotated as `tile.constexpr` (the annotation may be a string)."""
    annotation: object = source.signature.parameters[name].annotation
    if isinstance(annotation, str):
        head, _, member = annotation.rpartition(".")
        found, value = source.lookup(head or member)
        return found and (getattr(value, member, None) if head else value) is constexpr
    return annotation is constexpr


def _is_known(value: FrontValue) -> bool:
    if isinstance(value, Tuple):
        return all(map(_is_known, value.items))
    return isinstance(value, Static) or static_number(value) is not None


def _call_python(
    low: Lowering,
    function: Operand,
    target: Callable[..., object],
    positional: Sequence[Operand],
    keywords: Mapping[str, Operand],
) -> FrontValue:
    """A function of Python's: computed now if all arguments are known, else one of the few that mean something here."""
    operands = [read(low, o) for o in positional]
    if target in PYTHON_FUNCTIONS and not keywords:
        found = PYTHON_FUNCTIONS[target](low, operands)
        if found is not None:
            return found
    pure = target in COMPILE_TIME or getattr(target, "__module__", None) == "math"
    if pure and all(_is_known(o.value) for o in (*operands, *keywords.values())):
        try:
            result = target(*map(_python, operands), **{name: _python(o) for name, o in keywords.items()})
        except (TypeError, ValueError, ArithmeticError) as error:
            low.fail("compile-time-error", text=function.text, error=f"{type(error).__name__}: {error}")
        return Static(result)
    advice = function_advice(getattr(target, "__name__", ""))
    hint = "use numbers, dtypes, tuples and tiles only" if inspect.isclass(target) else advice or HELPER
    low.fail_at(function, "plain-call", hint=hint)


COMPILE_TIME: tuple[object, ...] = (len, min, max, abs, int, float, bool, round, str, repr, pow, divmod)
"""Python's own functions that may be called with what is known at compile time."""


def _python(operand: Operand) -> object:
    """A compile-time value as Python's."""
    value = operand.value
    if isinstance(value, Tuple):
        return tuple(_python(operand_like(operand, item)) for item in value.items)
    number = static_number(value)
    if number is not None:
        return number
    assert isinstance(value, Static)
    return value.value


def _length(low: Lowering, operands: Sequence[Operand]) -> FrontValue | None:
    """`len` of a tuple."""
    if len(operands) == 1 and isinstance(operands[0].value, Tuple):
        return Static(len(operands[0].value.items))
    return None


def _extremum(fn: str) -> Callable[[Lowering, Sequence[Operand]], FrontValue | None]:
    """`min` and `max` of two or more scalars."""

    def handler(low: Lowering, operands: Sequence[Operand]) -> FrontValue | None:
        if len(operands) < 2 or not all(isinstance(o.value, (Tile, Size, Static)) for o in operands):
            return None
        for operand in operands:
            if shape_of(operand):
                low.fail_at(operand, "scalars-only", fn=fn, word=f"tile.{fn}imum")
        result = operands[0]
        for operand in operands[1:]:
            result = operand_like(result, apply(low, f"{fn}imum", result, operand))
        return result.value

    return handler


def _absolute(low: Lowering, operands: Sequence[Operand]) -> FrontValue | None:
    run_time = len(operands) == 1 and isinstance(operands[0].value, (Tile, Size))
    return apply(low, "abs", operands[0]) if run_time else None


def _converted(kind: type) -> Callable[[Lowering, Sequence[Operand]], FrontValue | None]:
    """`int`, `float` and `bool` of a run-time scalar."""

    def handler(low: Lowering, operands: Sequence[Operand]) -> FrontValue | None:
        if len(operands) != 1 or not isinstance(operands[0].value, (Tile, Size)):
            return None
        if shape_of(operands[0]):
            low.fail_at(operands[0], "scalars-only", fn=kind.__name__, word="x.to(dtype)")
        if kind is bool:
            return truth(low, operands[0])
        if kind is int and isinstance(operands[0].value, Size):
            return operands[0].value
        return Tile(cast(low, operands[0], i64 if kind is int else f64).value, weak=True)

    return handler


def _columns(operands: Sequence[Operand]) -> list[tuple[FrontValue, ...]] | None:
    """The elements of operands that are all tuples."""
    columns = [o.value.items for o in operands if isinstance(o.value, Tuple)]
    return columns if len(columns) == len(operands) > 0 else None


def _enumerate(low: Lowering, operands: Sequence[Operand]) -> FrontValue | None:
    columns = _columns(operands)
    return None if columns is None else Tuple(tuple(Tuple((Static(i), v)) for i, v in enumerate(columns[0])))


def _zip(low: Lowering, operands: Sequence[Operand]) -> FrontValue | None:
    columns = _columns(operands)
    return None if columns is None else Tuple(tuple(Tuple(row) for row in zip(*columns)))


def _reversed(low: Lowering, operands: Sequence[Operand]) -> FrontValue | None:
    columns = _columns(operands)
    return None if columns is None else Tuple(tuple(reversed(columns[0])))


def _range(low: Lowering, operands: Sequence[Operand]) -> FrontValue | None:
    """A range that is known, as a tuple."""
    bounds = [static_integer(o.value) for o in operands]
    known = [bound for bound in bounds if bound is not None]
    if len(known) != len(bounds) or not 1 <= len(known) <= 3 or (len(known) == 3 and known[2] == 0):
        return None
    return Tuple(tuple(Static(i) for i in range(*known)))


PYTHON_FUNCTIONS: dict[object, Callable[[Lowering, Sequence[Operand]], FrontValue | None]] = {
    len: _length, min: _extremum("min"), max: _extremum("max"), abs: _absolute, int: _converted(int),
    float: _converted(float), bool: _converted(bool), enumerate: _enumerate, zip: _zip, reversed: _reversed,
    range: _range,
}  # fmt: skip
"""Python's own functions on run-time scalars and on tuples; None where the arguments are not for them."""
