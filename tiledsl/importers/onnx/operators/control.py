"""Branches and loops. Loops whose turns are not alike are unrolled: what they depend on is read on the host."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl import tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.register import operator
from tiledsl.importers.onnx.session import NotOneStepError

LOOPED = 2
"""Turns from which on a loop is one of the graph."""


@operator("If", since=1, kind="values")
def branch(condition: Any, *, then_branch: Any, else_branch: Any, node: Call) -> Any:
    chosen = then_branch if np.ravel(node.read(condition, "which branch is taken"))[0] else else_branch
    return tuple(node.body(chosen, []))


@operator("Loop", since=1, kind="values")
def loop(trip_count: Any = None, condition: Any = None, *carried: Any, body: Any, node: Call) -> Any:
    """A count that is left out has no end, a condition that is left out is true."""
    most = None if trip_count is None else int(np.ravel(node.read(trip_count, "the number of turns"))[0])
    state, count = list(carried), len(carried)
    collected: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - count)]
    node.keep("collected", collected)
    turn = 0
    going = condition is None or bool(np.ravel(node.read(condition, "whether the loop begins"))[0])
    if going and most is not None and most >= LOOPED:
        alike = _alike(most, state, body, node)
        if alike is not None:
            return alike
    while going and (most is None or turn < most):
        first = node.known(np.array(turn, np.int64))
        results = node.body(body, [first, condition if condition is not None else node.known(np.array(True)), *state])
        condition, state = results[0], results[1 : 1 + count]
        node.keep("state", results)
        for column, result in zip(collected, results[1 + count :]):
            column.append(result)
        going = bool(np.ravel(node.read(condition, "whether the loop goes on"))[0])
        turn += 1
    return (*state, *(_stacked(node, column, 0, info) for column, info in zip(collected, body.outputs[1 + count :])))


def _alike(count: int, state: list[Any], body: Any, node: Call) -> tuple[Any, ...] | None:
    """What a loop gives that is begun, and goes on after every turn; None where no one step stands for all turns."""

    def step(before: list[Any], parts: list[Any]) -> tuple[list[Any], list[Any]]:
        more, *results = node.body(body, [parts[0], node.known(np.array(True)), *before])
        if more.array is None or not np.ravel(more.array)[0]:
            raise NotOneStepError
        return results[: len(before)], results[len(before) :]

    found = node.loop(step, state, [node.known(np.arange(count, dtype=np.int64))], count, reverse=False)
    return None if found is None else (*found.carried, *found.stacked)


def _stacked(node: Call, column: list[Any], axis: int, info: Any) -> Any:
    """What turns gave, along a new axis."""
    if column:
        return node.formula(lambda parts: tile.stack(parts, axis=axis), column)
    sizes = [n if isinstance(n, int) else 0 for n in info.shape or ()]
    return np.zeros((0, *sizes), node.numpy_dtype(info.kind))


@operator("Scan", since=9, kind="values")
def scan(
    *items: Any,
    body: Any,
    num_scan_inputs: int,
    scan_input_axes: Any = None,
    scan_input_directions: Any = None,
    scan_output_axes: Any = None,
    scan_output_directions: Any = None,
    node: Call,
) -> Any:
    count = len(items) - num_scan_inputs
    state, scanned = list(items[:count]), items[count:]
    axes = scan_input_axes or [0] * num_scan_inputs
    backwards = scan_input_directions or [0] * num_scan_inputs
    outputs = len(body.outputs) - count
    out_axes = scan_output_axes or [0] * outputs
    out_backwards = scan_output_directions or [0] * outputs
    turns = node.shape(scanned[0])[axes[0]]
    if turns >= LOOPED:

        def step(before: list[Any], parts: list[Any]) -> tuple[list[Any], list[Any]]:
            results = node.body(body, [*before, *parts])
            return results[:count], results[count:]

        back = all((*backwards, *out_backwards))
        sequences = [_along(node, x, axis, way and not back) for x, axis, way in zip(scanned, axes, backwards)]
        found = node.loop(step, state, sequences, turns, reverse=back)
        if found is not None:
            ways = zip(found.stacked, out_axes, out_backwards)
            return (*found.carried, *(_placed(node, y, axis, way and not back) for y, axis, way in ways))
    collected: list[list[Any]] = [[] for _ in range(outputs)]
    node.keep("collected", collected)
    for turn in range(turns):
        parts: list[Any] = []
        for x, axis, back in zip(scanned, axes, backwards):
            place = turns - 1 - turn if back else turn
            parts.append(node.formula(lambda t, at=axis, i=place: t[(slice(None),) * (at % t.ndim) + (i,)], x))
            node.keep("parts", parts)
        results = node.body(body, [*state, *parts])
        state = results[:count]
        node.keep("state", results)
        for column, result in zip(collected, results[count:]):
            column.append(result)
    stacked = [
        _stacked(node, column[::-1] if back else column, axis, info)
        for column, axis, back, info in zip(collected, out_axes, out_backwards, body.outputs[count:])
    ]
    return (*state, *stacked)


def _along(node: Call, x: Any, axis: int, back: Any) -> Any:
    """A sequence with the axis that is scanned in front, from its end if `back`."""

    def turned(t: Any) -> Any:
        at = axis % t.ndim
        moved = t.transpose((at, *(i for i in range(t.ndim) if i != at)))
        return moved[::-1] if back else moved

    return node.formula(turned, x)


def _placed(node: Call, y: Any, axis: int, back: Any) -> Any:
    """What is stacked with its axis of turns at a place, from the last turn if `back`."""

    def turned(t: Any) -> Any:
        order = list(range(1, t.ndim))
        order.insert(axis % t.ndim, 0)
        return (t[::-1] if back else t).transpose(order)

    return node.formula(turned, y)


@operator("Scan", since=8, kind="values")
def scan_of_batches(
    lengths: Any = None, *items: Any, body: Any, num_scan_inputs: int, directions: Any = None, node: Call
) -> Any:
    """Before opset 9 the first axis is that of the batch, and each sequence of it is scanned."""
    if lengths is not None:
        node.refuse("sequence_lens", "given", "none: sequences of one length")
    count = len(items) - num_scan_inputs
    batches: list[Any] = []
    node.keep("batches", batches)
    for b in range(node.shape(items[-1])[0]):
        parts = [node.formula(lambda t, i=b: t[i], item) for item in items]
        node.keep("parts", parts)
        batches.append(
            scan(*parts, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions, node=node)
        )
    columns = [list(column) for column in zip(*batches)]
    return tuple(node.formula(lambda p: tile.stack(p, axis=0), column) for column in columns[: count + node.outputs])
