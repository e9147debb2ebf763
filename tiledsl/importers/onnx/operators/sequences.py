"""Sequences and optionals: Python's lists and None, while the model is walked."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl import tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.register import operator


def _place(node: Call, items: list[Any], position: Any, *, last: int) -> int:
    """A position in a sequence, counted from the front."""
    at = len(items) if position is None else int(np.ravel(node.read(position, "the position"))[0])
    if not -len(items) <= at <= last:
        node.invalid(f"position {at} is not in a sequence of {len(items)}")
    return at + len(items) if at < 0 else at


@operator("SequenceConstruct", since=11, kind="values")
def sequence_construct(x: Any, *others: Any) -> Any:
    return ([x, *others],)


@operator("SequenceEmpty", since=11, kind="values")
def sequence_empty(*, dtype: int = 1) -> Any:
    return ([],)


@operator("SequenceLength", since=11, kind="values")
def sequence_length(items: Any) -> Any:
    return np.array(len(items), np.int64)


@operator("SequenceAt", since=11, kind="values")
def sequence_at(items: Any, position: Any, *, node: Call) -> Any:
    return (items[_place(node, items, position, last=len(items) - 1)],)


@operator("SequenceInsert", since=11, kind="values")
def sequence_insert(items: Any, x: Any, position: Any = None, *, node: Call) -> Any:
    at = _place(node, items, position, last=len(items))
    return ([*items[:at], x, *items[at:]],)


@operator("SequenceErase", since=11, kind="values")
def sequence_erase(items: Any, position: Any = None, *, node: Call) -> Any:
    at = len(items) - 1 if position is None else _place(node, items, position, last=len(items) - 1)
    return ([*items[:at], *items[at + 1 :]],)


@operator("ConcatFromSequence", since=11, kind="values")
def concat_from_sequence(items: Any, *, axis: int, new_axis: int = 0, node: Call) -> Any:
    return node.formula(tile.stack if new_axis else tile.concat, items, axis=axis)


@operator("SplitToSequence", since=11, kind="values")
def split_to_sequence(x: Any, split: Any = None, *, axis: int = 0, keepdims: int = 1, node: Call) -> Any:
    length = node.shape(x)[axis]
    given: Any = 1 if split is None else node.read(split, "the sizes of parts")
    if np.ndim(given):
        sizes = [int(n) for n in given]
    else:
        each = int(given)
        sizes = [min(each, length - i) for i in range(0, length, each)]
    parts = node.formula(lambda t: list(tile.split(t, tuple(sizes), axis=axis)), x)
    if split is None and not keepdims:
        parts = [node.formula(lambda t: t.squeeze(axis), part) for part in parts]
    return (parts,)


@operator("SequenceMap", since=17, kind="values")
def sequence_map(items: Any, *others: Any, body: Any, node: Call) -> Any:
    results: list[list[Any]] = [[] for _ in range(node.outputs)]
    node.keep("results", results)
    for i, item in enumerate(items):
        inputs = [item, *(other[i] if isinstance(other, list) else other for other in others)]
        for column, result in zip(results, node.body(body, inputs)):
            column.append(result)
    return tuple(results)


@operator("Optional", since=15, kind="values")
def optional(x: Any = None, *, type: Any = None) -> Any:
    return (x,)


@operator("OptionalGetElement", since=15, kind="values")
def optional_get_element(x: Any, *, node: Call) -> Any:
    if x is None:
        node.invalid("the optional has no element")
    return (x,)


@operator("OptionalHasElement", since=15, kind="values")
def optional_has_element(x: Any = None) -> Any:
    return np.array(x is not None)
