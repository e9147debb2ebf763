"""Values where control flow meets: what two branches, or a loop's entry and its body, have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

from tiledsl.frontend.language.promotion import Strength, promote_all
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.operands import coerce, shape_of, strength_of
from tiledsl.frontend.words.values import FrontValue, Operand, Size, Tile, Tuple, describe, static_number
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import bool_, promote_weak
from tiledsl.ir.tile_ops import If, Yield
from tiledsl.ir.types import format_shape


def is_number(value: FrontValue) -> bool:
    """Whether a value can be carried at run time as a tile or scalar."""
    return isinstance(value, (Tile, Size)) or static_number(value) is not None


def leaves(value: FrontValue) -> Iterator[FrontValue]:
    """The value, or those in a tuple, however nested."""
    if isinstance(value, Tuple):
        for item in value.items:
            yield from leaves(item)
    else:
        yield value


def rebuild(value: FrontValue, parts: Iterator[FrontValue]) -> FrontValue:
    """A value of the same structure with other leaves."""
    if isinstance(value, Tuple):
        return Tuple(tuple(rebuild(item, parts) for item in value.items))
    return next(parts)


def is_same(low: Lowering, a: FrontValue, b: FrontValue) -> bool:
    """Whether two values are known to be one and the same."""
    if isinstance(a, Tuple) and isinstance(b, Tuple):
        return len(a.items) == len(b.items) and all(is_same(low, p, q) for p, q in zip(a.items, b.items))
    if isinstance(a, Size) and isinstance(b, Size):
        return low.sizes.resolve(a.dim) == low.sizes.resolve(b.dim)
    if isinstance(a, Tile) and isinstance(b, Tile):
        return a.value is b.value
    return a is b or (type(a) is type(b) and a == b)


def is_strong(strength: Strength) -> bool:
    """A bool is never weak: no number gives way further."""
    return not strength.weak or strength.dtype == bool_


def join(a: Strength, b: Strength) -> Strength | None:
    """The dtype of a variable that is `a` on one way and `b` on the other; None if the dtypes differ.

    Two Python numbers promote; a Python number beside a tile takes its dtype if that can hold such a number.
    """
    if a.dtype == b.dtype and (is_strong(a) == is_strong(b) or a.dtype == bool_):
        return a if is_strong(a) else b
    if a.weak and b.weak:
        return promote_all([a, b])
    for weak, strong in ((a, b), (b, a)):
        if weak.weak and not strong.weak and promote_weak(strong.dtype, weak.dtype.kind) == strong.dtype:
            return strong
    return None


@dataclass
class _Leaf:
    """A value that the two branches yield."""

    yes: Operand
    no: Operand
    strength: Strength


_Plan: TypeAlias = Union[FrontValue, _Leaf, "list[_Plan]"]


class _DifferError(Exception):
    """Why two values cannot be merged."""


def merge_branches(
    low: Lowering,
    condition: Value,
    then: tuple[Block, Sequence[FrontValue]],
    otherwise: tuple[Block, Sequence[FrontValue]],
    names: Sequence[str] = (),
) -> list[FrontValue | str]:
    """Emits the `tile.if` of two finished bodies; gives each pair of their values merged, or why it cannot be.

    `names` are what the values go by in the kernel, for those that read the IR.
    """
    found: list[_Leaf] = []
    plans: list[_Plan | str] = []
    for i, (yes, no) in enumerate(zip(then[1], otherwise[1])):
        before = len(found)
        name = names[i] if i < len(names) else ""
        try:
            plans.append(_plan(low, name, yes, no, found))
        except _DifferError as error:
            del found[before:]
            plans.append(str(error))
    for block, values in ((then[0], [leaf.yes for leaf in found]), (otherwise[0], [leaf.no for leaf in found])):
        with low.builder.inside(block):
            results = [coerce(low, v, leaf.strength.dtype) for v, leaf in zip(values, found)]
            low.builder.emit(Yield, values=results)
    hints = [leaf.yes.text for leaf in found]
    op = low.builder.emit(If, condition=condition, then=then[0], otherwise=otherwise[0], result_names=hints)
    tiles = iter([Tile(r, leaf.strength.weak) for r, leaf in zip(op.results, found)])
    return [plan if isinstance(plan, str) else _apply(plan, tiles) for plan in plans]


def _plan(low: Lowering, name: str, yes: FrontValue, no: FrontValue, found: list[_Leaf]) -> _Plan:
    if is_same(low, yes, no):
        return yes
    if isinstance(yes, Tuple) and isinstance(no, Tuple) and len(yes.items) == len(no.items):
        return [_plan(low, name, a, b, found) for a, b in zip(yes.items, no.items)]
    if not is_number(yes) or not is_number(no):
        raise _DifferError(f"it is {describe(yes)} in one and {describe(no)} in the other")
    a, b = Operand(yes, name, low.location), Operand(no, name, low.location)
    strength = join(strength_of(a), strength_of(b))
    first, second = shape_of(a), shape_of(b)
    if strength is None:
        raise _DifferError(f"it is {describe(yes)} in one and {describe(no)} in the other")
    if len(first) != len(second) or not all(map(low.sizes.unify, first, second)):
        raise _DifferError(f"it has shape {format_shape(first)} in one and {format_shape(second)} in the other")
    leaf = _Leaf(a, b, strength)
    found.append(leaf)
    return leaf


def _apply(plan: _Plan, tiles: Iterator[Tile]) -> FrontValue:
    if isinstance(plan, _Leaf):
        return next(tiles)
    if isinstance(plan, list):
        return Tuple(tuple(_apply(part, tiles) for part in plan))
    return plan
