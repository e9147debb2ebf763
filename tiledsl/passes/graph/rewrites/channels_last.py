"""Has images between products stored with their channels last, where all who read them can have them so.

    %y = contract(%x, %w)                          n c h w, k c -> n k h w
 =>
    %y = contract(%x, %w)
    %t = transpose(%y)                             [n, h, w, k]: what `group` stores, and products read
    %b = transpose(%t)                             [n, k, h, w]: what all others read

Products that sum over the channels of an image have those of a pixel side by side then, and the pixels of all images
are one axis of rows, which no block ends before its time, whatever the size of an image. Copies of an image in that
order, as `lay-images` makes them, are what is stored anyway. Elementwise ops, pools and products of the channels one by
one hand the wish on; what is given back to the caller, joined, or read by a program stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Module, Op, Value
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu_machine import machine_with_warpgroups
from tiledsl.passes.graph.analysis.outline import is_soft
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.rewrites.placed_copies import is_copy
from tiledsl.passes.manager import PassContext

Wish: TypeAlias = Literal["last", "any", "as it is"]
"""Of who reads a value: that an axis of it is the last one in memory, nothing, or that it stays where it is."""

LEAST_ROWS = 2
"""Axes of an image besides that of its channels: those of its pixels, or of images and pixels."""
COMPUTED = (ops.Map, ops.Cast, ops.Contract, ops.Reduce)
"""Ops whose results may be stored."""
NEAR = 256
"""Values behind one that are looked at."""


@dataclass(frozen=True)
class ChannelsLast:
    """Of the entry, where `arch` has products by warpgroups."""

    name: ClassVar[str] = "channels-last"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        if machine_with_warpgroups(self.arch) is None:
            return module
        readers = _Readers({f.name: f for f in module.functions})
        chosen: dict[Value, int] = {}
        for op in module.entry.body.ops:
            if isinstance(op, ops.Contract):
                for axis in _axes_of_weights(op):
                    if readers.wish(op.result, axis) == "last":
                        chosen.update(readers.alike(op.result, axis))
                        break
        position = {op: number for number, op in enumerate(module.entry.body.ops)}
        for value, axis in chosen.items():
            if value.users:
                _store_last(value, axis, min(value.users, key=position.__getitem__))
        if chosen:
            text = f"{len(chosen)} values between products are stored with their channels last"
            context.remark(self.name, module.entry.location, text)
        return module


def _axes_of_weights(op: ops.Contract) -> list[int]:
    """The axes of a product's result that only one operand has, and behind which lie axes of the other one alone: if
    these are in front of it in memory, they are rows side by side."""
    a, b, result = op.axis_names()
    if op.plane_axes() or set(a) & set(b) & set(result):
        return []
    sizes = sizes_of(op.result)
    found: list[int] = []
    for mine, other in ((a, b), (b, a)):
        for axis, name in enumerate(result):
            behind = [n for n, size in zip(result[axis + 1 :], sizes[axis + 1 :]) if size != 1]
            rows = [n for n, size in zip(result, sizes) if size != 1 and n in other]
            if name in mine and behind and set(behind) <= set(other) and len(rows) >= LEAST_ROWS:
                found.append(axis)
    return found


class _Readers:
    """What those who read a value wish of it. `functions`: of the module, by name."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions
        self._known: dict[tuple[Value, int], Wish] = {}

    def wish(self, value: Value, axis: int) -> Wish:
        """What all of them together wish of an axis: `last` if some do and all others can have it so. Those behind a
        value that several read cannot refuse: that is stored, and may be read in another order than it is."""
        key = (value, axis)
        if key not in self._known:
            wishes: set[Wish] = set()
            refused = False
            for one, (place, is_alone) in self._seen(value, axis).items():
                found: set[Wish] = {self._of_reader(user, one, place) for user in one.users}
                wishes |= found
                refused = refused or (is_alone and "as it is" in found)
            self._known[key] = "as it is" if refused else "last" if "last" in wishes else "any"
        return self._known[key]

    def alike(self, value: Value, axis: int) -> dict[Value, int]:
        """The value, and those computed of it along its axis whose readers wish the same, each with the place of that
        axis, if others than the last axis are behind it."""
        return {
            one: place
            for one, (place, _) in self._seen(value, axis).items()
            if isinstance(one.op, COMPUTED)
            and any(size != 1 for size in sizes_of(one)[place + 1 :])
            and self.wish(one, place) == "last"
        }

    def _seen(self, value: Value, axis: int) -> dict[Value, tuple[int, bool]]:
        """A value, and all that is read or computed of it with its axis in it: the place of the axis, and whether
        nothing in between has other readers."""
        found = {value: (axis, True)}
        pending = [value]
        while pending and len(found) < NEAR:
            one = pending.pop()
            place, is_alone = found[one]
            for user in one.users:
                carried = _carried(user, one, place)
                if carried is not None and user.results[0] not in found:
                    found[user.results[0]] = (carried, is_alone and len(one.users) == 1)
                    pending.append(user.results[0])
        return found

    def _of_reader(self, user: Op, value: Value, axis: int) -> Wish:
        """What one that does not carry the axis on wishes of it, or `any`."""
        if _carried(user, value, axis) is not None:
            return "any"
        match user:
            case ops.Contract():
                a, b, result = user.axis_names()
                of_weights = not (set(a) & set(b) & set(result))
                is_summed = value in (user.a, user.b) and (a if value is user.a else b)[axis] not in result
                return "last" if is_summed and of_weights and not user.plane_axes() else "as it is"
            case ops.Call():
                is_read_so = axis == len(sizes_of(value)) - 1 and is_copy(self._functions[user.callee])
                return "last" if is_read_so else "as it is"
            case ops.Reduce():
                return "any" if axis in user.axes else "last"  # rows are added then, where each was a fold of its own
            case _:
                return "as it is"


def _carried(user: Op, value: Value, axis: int) -> int | None:
    """Where the axis of a value is in what an op gives; None where it has no such axis."""
    match user:
        case ops.Map() | ops.Cast() | ops.Pad():
            return axis
        case ops.Transpose():
            return user.permutation.index(axis)
        case ops.Window() if axis not in user.axes:
            return axis
        case ops.Contract() if value in (user.a, user.b):  # of the channels one by one
            a, b, result = user.axis_names()
            name = (a if value is user.a else b)[axis]
            return result.index(name) if name in a and name in b and name in result else None
        case ops.Reshape() if is_soft(user) and sizes_of(value)[axis] != 1:
            before = sum(size != 1 for size in sizes_of(value)[:axis])
            longer = [place for place, size in enumerate(sizes_of(user.result)) if size != 1]
            return longer[before]
        case ops.Reduce() if axis not in user.axes and any(
            size != 1 for place, size in enumerate(sizes_of(value)) if place > axis and place not in user.axes
        ):  # else it is the last one that is left
            return axis if user.keepdims else axis - sum(other < axis for other in user.axes)
        case _:
            return None


def _store_last(value: Value, axis: int, first: Op) -> None:
    """Has all read a value, `first` before the others, through a transpose of one whose last axis is that one."""
    order = [*(n for n in range(len(sizes_of(value))) if n != axis), axis]
    users, block = list(value.users), first.parent
    assert block is not None
    stored = ops.Transpose(first.location, source=value, permutation=tuple(order))
    back = ops.Transpose(
        first.location, source=stored.result, permutation=tuple(order.index(n) for n in range(len(order)))
    )
    for op in (stored, back):
        block.insert_before(first, op)
    for user in users:
        user.replace_operand(value, back.result)
