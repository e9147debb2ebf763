"""Slices of one tensor that overlap are read of it as shifted blocks, and so are slices of what is padded.

    %a = slice(%x) {1:n}, %b = slice(%x) {0:n-1}             %a = window(pad(%x, low = -1))
    %d = map([%a, %b]) {fn = sub}                      =>    %b = window(pad(%x, high = -1))
                                                             %d = map([%a, %b]) {fn = sub}

    %p = pad(%u, low = 1, high = 1)
    %a = slice(%p) {0:n}, %b = slice(%p) {2:n+2}       =>    %a = window(pad(%u, low = 1, high = -1))
                                                             %b = window(pad(%u, low = -1, high = 1))

A view of each would be a parameter of its own, of which nothing says that its elements are those of the others; what is
padded would be copied first. Windows of one element of the same tensor are one parameter: a group loads `u[i - 1]` and
`u[i + 1]`, and what overlaps is counted once. Where no group takes them, they are views again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.outline import is_read_by_element, is_soft
from tiledsl.passes.graph.analysis.shapes import sizes_of, volume
from tiledsl.passes.graph.rewrites.canonicalise_graph import drop_unread
from tiledsl.passes.manager import PassContext

OVERLAP = 1.5
"""As many elements has what is read of a tensor, compared with it, from which on reading it once is worth a mask."""

Ends = tuple[int, ...]


@dataclass(frozen=True)
class _Part:
    """What elementwise ops read of a tensor: `low` and `high` are added to its ends, or taken away where negative."""

    value: Value
    low: Ends
    high: Ends
    fill: float | None = None
    """What lies outside; None where nothing of it is read."""


@dataclass(frozen=True)
class ShiftSlices:
    """Of the entry, on GPUs: a CPU has each slice in vectors, and what lies between in its caches."""

    name: ClassVar[str] = "shift-slices"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        entry = module.entry
        if not self.arch.startswith("sm_"):
            return module
        sources = dict.fromkeys([*entry.parameters, *(v for op in entry.body.ops for v in op.results)])
        for source in sources:
            parts = _parts(source)
            axes = tuple(axis for axis in range(len(_shape(source))) if any(p.low[axis] or p.high[axis] for p in parts))
            if axes and _is_worth_it(source, parts) and all(_shape(source)[axis] > 1 for axis in axes):
                written = [_write(source, part, axes) for part in parts]
                context.remark(self.name, written[0].location, f"{len(written)} parts of a tensor are shifted blocks")
        drop_unread(entry.body)
        return module


def _shape(value: Value) -> Ends:
    return numbers(tensor_type(value).shape)


def _parts(source: Value) -> list[_Part]:
    """What elementwise ops read of a tensor by slices that leave no element out, and of what is padded of it; all of
    it, too, where a part has its shape, and may be read by the same ops."""
    none = (0,) * len(_shape(source))
    found = list(dict.fromkeys(_within(source, _Part(source, none, none))))
    alike = any(part.value is not source and _shape(part.value) == _shape(source) for part in found)
    return [part for part in found if alike or part.value is not source]


def _within(source: Value, part: _Part) -> Iterator[_Part]:
    """The parts of a part that are read."""
    for user in dict.fromkeys(part.value.users):
        match user:
            case ops.Slice() if all(step == 1 for step in user.steps) and volume(user.result):
                sizes = _shape(part.value)
                low = tuple(n - start for n, start in zip(part.low, numbers(user.starts)))
                high = tuple(n + stop - size for n, stop, size in zip(part.high, numbers(user.stops), sizes))
                yield from _within(source, _Part(user.result, low, high, part.fill))
            case ops.Pad() if _is_padded_once(part, user):
                low = tuple(n + more for n, more in zip(part.low, numbers(user.low)))
                high = tuple(n + more for n, more in zip(part.high, numbers(user.high)))
                yield from _within(source, _Part(user.result, low, high, user.value))
            case ops.Window() if all(n == 1 for n in (*user.sizes, *user.strides)):
                yield from _within(source, replace(part, value=user.result))
            case ops.Reshape() if isinstance(part.value.op, ops.Window) and is_soft(user):
                yield from _within(source, replace(part, value=user.result))
            case _:
                pass
    whole = part.value is source or isinstance(part.value.op, (ops.Slice, ops.Reshape))
    if whole and any(map(is_read_by_element, part.value.users)):
        yield part


def _is_padded_once(part: _Part, pad: ops.Pad) -> bool:
    """Whether what is taken away at an end is not padded again, and all is padded by one number."""
    ends = [*zip(part.low, numbers(pad.low)), *zip(part.high, numbers(pad.high))]
    return part.fill in (None, pad.value) and not any(before < 0 < more for before, more in ends)


def _is_worth_it(source: Value, parts: list[_Part]) -> bool:
    """Whether parts overlap by much, or some are of what is padded, which would be copied first."""
    return any(part.fill is not None for part in parts) or sum(volume(p.value) for p in parts) > OVERLAP * volume(
        source
    )


def _write(source: Value, part: _Part, axes: tuple[int, ...]) -> Op:
    """Windows of one element in place of a part; where they stand."""
    users = [user for user in dict.fromkeys(part.value.users) if is_read_by_element(user)]
    anchor = _first(users)
    rewriter, ones = Rewriter(anchor), (1,) * len(axes)
    fill = part.fill if part.fill is not None else False if tensor_type(source).dtype.name == "bool" else 0
    padded = rewriter.emit(ops.Pad, source=source, low=part.low, high=part.high, value=fill).result
    window = rewriter.emit(ops.Window, source=padded, axes=axes, sizes=ones, strides=ones, dilations=ones).result
    shifted = rewriter.emit(ops.Reshape, source=window, shape=sizes_of(part.value)).result
    for user in users:
        user.replace_operand(part.value, shifted)
    return anchor


def _first(users: Sequence[Op]) -> Op:
    block = users[0].parent
    assert block is not None
    return min(users, key=block.index)
