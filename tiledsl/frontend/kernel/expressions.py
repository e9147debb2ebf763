"""Runs the expressions of a kernel: syntax tree in, front-end value out, IR emitted on the way."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import NoReturn

from tiledsl.frontend.kernel.frame import Frame
from tiledsl.frontend.language import program as language
from tiledsl.frontend.language.promotion import OPERATOR_NAMES
from tiledsl.frontend.language.word_advice import language_words, member_advice, name_advice
from tiledsl.frontend.source.unsupported import UNSUPPORTED
from tiledsl.frontend.words.access import select
from tiledsl.frontend.words.attributes import attribute
from tiledsl.frontend.words.builtin_dot import product
from tiledsl.frontend.words.builtin_memory import ATOMICS
from tiledsl.frontend.words.elementwise import apply, choose, compare, truth
from tiledsl.frontend.words.merging import merge_branches
from tiledsl.frontend.words.operands import as_tile, fail_no_value, operand_like, read, shape_of, strength_of
from tiledsl.frontend.words.tile_subscripts import subscript_tile, subscript_tuple
from tiledsl.frontend.words.values import (
    FRONT_VALUES,
    Access,
    AxisBlock,
    FrontValue,
    Operand,
    Size,
    SliceText,
    Static,
    Subscript,
    Tensor,
    Tile,
    Tuple,
    static_integer,
    static_number,
)
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import bool_
from tiledsl.ir.tile_ops import Shift

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip


PLACE_WORDS = (language.load, language.store, *ATOMICS)
"""Words whose first argument is a place in a tensor, and is not read."""


def evaluate(frame: Frame, node: ast.expr) -> FrontValue:
    """The value of an expression. IR that it needs is emitted, located at the innermost expression."""
    builder = frame.low.builder
    outer = builder.location
    builder.location = frame.location(node)
    value = _evaluate(frame, node)
    builder.location = outer
    return value


def operand(frame: Frame, node: ast.expr) -> Operand:
    """An expression's value with its text and place."""
    return frame.operand(node, evaluate(frame, node))


def loaded(frame: Frame, node: ast.expr) -> Operand:
    """The same, with a subscripted tensor read right now: Python evaluates from left to right."""
    return read(frame.low, operand(frame, node))


def _evaluate(frame: Frame, node: ast.expr) -> FrontValue:
    match node:
        case ast.Constant():
            return _literal(frame, node)
        case ast.Name():
            return frame.read_name(node)
        case ast.Attribute():
            return _attribute(frame, node)
        case ast.Subscript():
            return _subscript(frame, node)
        case ast.Call():
            return _call(frame, node)
        case ast.BinOp():
            left, right = loaded(frame, node.left), loaded(frame, node.right)
            return binary(frame, node.op, left, right)
        case ast.UnaryOp():
            return _unary(frame, node)
        case ast.Compare():
            return _compare(frame, node)
        case ast.BoolOp():
            return _logic(frame, node)
        case ast.IfExp():
            return _conditional(frame, node)
        case ast.Tuple():
            return Tuple(tuple(frozen(frame, evaluate(frame, _no_star(frame, item))) for item in node.elts))
        case ast.JoinedStr():
            return _format_string(frame, node)
        case _:
            reject(frame, node)


def reject(frame: Frame, node: ast.AST) -> NoReturn:
    """Raises the error for Python that kernels do not have."""
    frame.fail(node, UNSUPPORTED.get(type(node), "python-other"), construct=type(node).__name__)


def frozen(frame: Frame, value: FrontValue) -> FrontValue:
    """What a variable or an argument holds: a subscripted tensor is read at once, for it may be written later."""
    if not isinstance(value, Access):
        return value
    return read(frame.low, Operand(value, "", frame.low.location)).value


def _literal(frame: Frame, node: ast.Constant) -> FrontValue:
    if isinstance(node.value, (bytes, complex)):
        frame.fail(node, "literal-kind", text=frame.source.segment(node), kind=type(node.value).__name__)
    return Static(node.value)


def _attribute(frame: Frame, node: ast.Attribute) -> FrontValue:
    if isinstance(node.value, ast.Name) and not frame.is_known(node.value.id):
        hint = name_advice(node.value.id, node.attr)
        if hint is not None:
            frame.fail(node.value, "name-unknown", name=node.value.id, hint=hint)
    owner = operand(frame, node.value)
    match owner.value:
        case Static(value=ModuleType() as module) if not hasattr(module, node.attr):
            names = language_words() if module.__name__ == "tiledsl.tile" else dir(module)
            hint = member_advice(owner.text, node.attr, names)
            frame.fail(node, "module-attribute", name=node.attr, module=owner.text, hint=hint)
        case _:
            found = attribute(frame.low, owner, node.attr)
    return found if isinstance(found, FRONT_VALUES) else frame.constant(node, found)


def subscripts(frame: Frame, node: ast.expr) -> list[Subscript]:
    """The entries between the brackets."""
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    entries: list[Subscript] = []
    for item in items:
        if isinstance(item, ast.Slice):
            step = 1 if item.step is None else _step(frame, item.step)
            bounds = [None if bound is None else _position(frame, bound) for bound in (item.lower, item.upper)]
            entries.append(SliceText(bounds[0], bounds[1], frame.location(item), step))
        else:
            entries.append(read(frame.low, _position(frame, _no_star(frame, item))))
    return entries


def _step(frame: Frame, node: ast.expr) -> int:
    """The step of a slice."""
    given = operand(frame, node)
    step = static_integer(given.value)
    if not step:
        frame.low.fail_at(given, "slice-step-kind")
    return step


def _position(frame: Frame, node: ast.expr) -> Operand:
    """An entry of a subscript, or a bound of a slice. `3` and `-3` are literals; `i - 1` is not, whatever `i` is."""
    number = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)) else node
    is_literal = isinstance(number, ast.Constant) and type(number.value) is int
    return replace(operand(frame, node), is_literal=is_literal)


def _no_star(frame: Frame, node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Starred):
        reject(frame, node)
    return node


def _subscript(frame: Frame, node: ast.Subscript) -> FrontValue:
    source = operand(frame, node.value)
    entries = subscripts(frame, node.slice)
    match source.value:
        case Tensor() as tensor:
            return select(frame.low, tensor, entries)
        case Tile() | Access():
            return subscript_tile(frame.low, source, entries)
        case Tuple() as items:
            return subscript_tuple(frame.low, source, items, entries)
        case _:
            frame.low.fail_at(source, "not-subscriptable")


def _call(frame: Frame, node: ast.Call) -> FrontValue:
    function = operand(frame, node.func)
    word = function.value.value if isinstance(function.value, Static) else None
    takes_place = any(word is place for place in PLACE_WORDS)
    return frame.low.call(function, *call_arguments(frame, node, operand if takes_place else loaded))


def call_arguments(
    frame: Frame, node: ast.Call, evaluated: Callable[[Frame, ast.expr], Operand]
) -> tuple[list[Operand], dict[str, Operand]]:
    """The positional and the keyword operands of a call."""
    positional = [evaluated(frame, _no_star(frame, argument)) for argument in node.args]
    keywords: dict[str, Operand] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            frame.fail(keyword.value, "python-star")
        keywords[keyword.arg] = evaluated(frame, keyword.value)
    return positional, keywords


def binary(frame: Frame, op: ast.operator, left: Operand, right: Operand) -> FrontValue:
    """A binary operator of Python."""
    low = frame.low
    if isinstance(op, ast.MatMult):
        return product(low, read(low, left), read(low, right))
    fn = BINARY[type(op)]
    if isinstance(left.value, AxisBlock) and fn in ("add", "sub"):
        return _shift(frame, left, right, fn)
    if isinstance(right.value, AxisBlock) and fn == "add":
        return _shift(frame, right, left, fn)
    return apply(low, fn, left, right)


def _shift(frame: Frame, block: Operand, offset: Operand, fn: str) -> FrontValue:
    """`m + 1`, `m - s`: a block moved by an integer scalar."""
    low = frame.low
    assert isinstance(block.value, AxisBlock)
    if isinstance(offset.value, (AxisBlock, Tuple, Tensor)):
        fail_no_value(block if isinstance(offset.value, AxisBlock) else offset)
    moved = read(low, offset)
    if shape_of(moved):
        fail_no_value(block)
    value = apply(low, "neg", moved) if fn == "sub" and isinstance(moved.value, (Tile, Static, Size)) else moved.value
    if not isinstance(value, (Tile, Static, Size)):
        fail_no_value(moved)
    by = coerce_integer(frame, operand_like(moved, value))
    shifted = low.builder.emit(Shift, axis=block.value.value, offset=by).result
    return AxisBlock(shifted, block.value.name, None, is_shifted=True)


def coerce_integer(frame: Frame, number: Operand) -> Value:
    """An integer scalar as IR. Raises TileTypeError for anything else."""
    value = as_tile(frame.low, number).value
    if value.shape or not value.dtype.is_integer:
        frame.low.fail_at(number, "integer-needed")
    return value


def _unary(frame: Frame, node: ast.UnaryOp) -> FrontValue:
    low = frame.low
    value = read(low, operand(frame, node.operand))
    match node.op:
        case ast.Not():
            if shape_of(value):
                low.fail_at(value, "logic-tile", word="not", sign="~", example=f"`~({value.text})`")
            known = static_truth(value.value)
            return (
                Static(not known)
                if known is not None
                else apply(low, "not", operand_like(value, condition(frame, value)))
            )
        case ast.UAdd():
            return apply(low, "add", value, operand_like(value, Static(0)))
        case ast.USub():
            if isinstance(value.value, Size):
                return apply(low, "sub", operand_like(value, Static(0)), value)
            return apply(low, "neg", value)
        case ast.Invert():
            return apply(low, "not", value)
        case _:
            reject(frame, node)


def static_truth(value: FrontValue) -> bool | None:
    """Whether a value is true, if that is known at compile time."""
    match value:
        case Static(value=known):
            return bool(known)
        case Tuple(items=items):
            return bool(items)
        case _:
            number = static_number(value)
            return None if number is None else bool(number)


def condition(frame: Frame, value: Operand) -> Tile:
    """A run-time condition as a bool scalar. Raises TileTypeError for tiles with axes."""
    if shape_of(value):
        frame.low.fail_at(value, "condition-tile")
    return truth(frame.low, value)


def _compare(frame: Frame, node: ast.Compare) -> FrontValue:
    if len(node.ops) > 1:
        parts = [frame.source.segment(n) for n in (node.left, *node.comparators)]
        fix = " & ".join(f"({a} {_sign(op)} {b})" for a, op, b in zip(parts, node.ops, parts[1:]))
        frame.fail(node, "python-chained-comparison", fix=fix)
    left, right = loaded(frame, node.left), loaded(frame, node.comparators[0])
    match node.ops[0]:
        case ast.Is() | ast.IsNot() as op:
            both = isinstance(left.value, Static) and isinstance(right.value, Static)
            none = Static(None) in (left.value, right.value)
            if not both and not none:
                frame.fail(node, "is-run-time", left=left.text, right=right.text)
            return Static((left.value == right.value) == isinstance(op, ast.Is))
        case ast.In() | ast.NotIn() as op:
            if not isinstance(right.value, Tuple) or not _is_known(left.value) or not _is_known(right.value):
                frame.fail(node, "in-run-time")
            return Static((left.value in right.value.items) == isinstance(op, ast.In))
        case op:
            return compare(frame.low, COMPARISONS[type(op)], left, right)


def _sign(op: ast.cmpop) -> str:
    return OPERATOR_NAMES.get(COMPARISONS.get(type(op), ""), "in")


def _is_known(value: FrontValue) -> bool:
    return isinstance(value, Static) or (isinstance(value, Tuple) and all(map(_is_known, value.items)))


def _logic(frame: Frame, node: ast.BoolOp) -> FrontValue:
    """`and` and `or` have Python's value: the operand that decides. For run-time scalars all sides are evaluated."""
    low = frame.low
    is_or = isinstance(node.op, ast.Or)
    result: Operand | None = None
    for part in node.values:
        value = read(low, operand(frame, part))
        known = static_truth(value.value)
        if result is None and known is not None:
            if known == is_or or part is node.values[-1]:
                return value.value
            continue
        if shape_of(value):
            word, sign = ("or", "|") if is_or else ("and", "&")
            low.fail_at(value, "logic-tile", word=word, sign=sign, example=f"`(a) {sign} (b)`, in parentheses")
        if result is None:
            result = value
        elif all(strength_of(side).dtype == bool_ for side in (result, value)):
            result = operand_like(value, apply(low, "or" if is_or else "and", result, value))
        else:
            holds = operand_like(result, condition(frame, result))
            yes, no = (result, value) if is_or else (value, result)
            result = operand_like(value, choose(low, holds, yes, no))
    assert result is not None
    return result.value


def _conditional(frame: Frame, node: ast.IfExp) -> FrontValue:
    low = frame.low
    test = read(low, operand(frame, node.test))
    known = static_truth(test.value)
    if known is not None:
        return evaluate(frame, node.body if known else node.orelse)
    choice = condition(frame, test)
    with low.body() as then:
        yes = frozen(frame, evaluate(frame, node.body))
    with low.body() as otherwise:
        no = frozen(frame, evaluate(frame, node.orelse))
    merged = merge_branches(low, choice.value, (then, [yes]), (otherwise, [no]))
    if isinstance(merged[0], str):
        low.fail(
            "branches-differ", yes=frame.source.segment(node.body), no=frame.source.segment(node.orelse), why=merged[0]
        )
    return merged[0]


def _format_string(frame: Frame, node: ast.JoinedStr) -> FrontValue:
    """An f-string of compile-time values."""
    parts: list[str] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = evaluate(frame, part.value)
            number = static_number(value)
            if number is None and not isinstance(value, Static):
                frame.fail(part.value, "python-f-string", text=frame.source.segment(part.value))
            shown = number if number is not None else value.value if isinstance(value, Static) else None
            spec = (
                _format_string(frame, part.format_spec) if isinstance(part.format_spec, ast.JoinedStr) else Static("")
            )
            shown = repr(shown) if part.conversion == ord("r") else shown
            parts.append(format(shown, str(spec.value) if isinstance(spec, Static) else ""))
        elif isinstance(part, ast.Constant):
            parts.append(str(part.value))
    return Static("".join(parts))
