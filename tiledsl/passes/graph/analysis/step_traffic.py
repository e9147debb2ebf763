"""Bytes that ops of a graph and steps of a module read and write: the count that fusion is judged by.

Each operand counts once, by the places in memory that it has (a broadcast row is one row), and each result once.
Of an operand that is read by computed coordinates count at most as many elements as are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiledsl.ir import graph_ops
from tiledsl.ir.core import Function, Op, Value
from tiledsl.ir.strided_views import StridedView, numbers, view_of, whole
from tiledsl.ir.tile_ops import Atomic, Dot, Load, Map, Random, Reduce, Scan, Store
from tiledsl.ir.types import AxisType, TensorType
from tiledsl.passes.analysis.effects import tensors_in_order
from tiledsl.passes.analysis.sizes import blocks_in


def step_traffic(function: Function, places: Sequence[tuple[int, StridedView]]) -> tuple[int, int]:
    """Bytes read and written by a tile program on its tensors, parameters, then what it makes.

    `places` has for each the number of a buffer, and the view of it: what is passed twice counts once.
    """
    blocks = blocks_in(function)
    read: set[Value] = set()
    sought: set[Value] = set()
    written: set[Value] = set()
    for op in function.walk():
        match op:
            case Load():
                computed = any(_is_computed(index) and index not in blocks for index in op.indices)
                (sought if computed else read).add(op.tensor)
            case Store():
                written.add(op.tensor)
            case Atomic():
                read.add(op.tensor)
                written.add(op.tensor)
            case _:
                pass
    tensors = list(zip(tensors_in_order(function.body), places))
    made = sum(view.distinct for tensor, (_, view) in tensors if tensor in written)
    loaded: dict[tuple[int, StridedView], int] = {}
    stored: dict[tuple[int, StridedView], int] = {}
    for tensor, place in tensors:
        count, item = place[1].distinct, _tensor(tensor).dtype.bytes
        if tensor in read or tensor in sought:
            loaded[place] = max(loaded.get(place, 0), (count if tensor in read else min(count, made)) * item)
        if tensor in written:
            stored[place] = count * item
    return sum(loaded.values()), sum(stored.values())


def _is_computed(index: object) -> bool:
    return isinstance(index, Value) and not isinstance(index.type, AxisType)


def ops_of(function: Function) -> tuple[str, ...]:
    """What a tile program computes, op by op, for people; conversions and what only moves tiles left out."""
    names: list[str] = []
    for op in function.walk():
        match op:
            case Map():
                names.append(op.fn)
            case Dot():
                names.append("dot")
            case Reduce():
                names.append(f"{op.fn} over an axis")
            case Scan():
                names.append(f"running {op.fn}")
            case Atomic():
                names.append(f"atomic {op.fn}")
            case Random():
                names.append("random")
            case _:
                pass
    return tuple(names)


def graph_traffic(function: Function) -> int:
    """Bytes read and written if each op of a graph, whose sizes are numbers, ran by itself. Views cost nothing."""
    views: dict[Value, StridedView] = {p: whole(numbers(_tensor(p).shape)) for p in function.parameters}
    places = {value: view.distinct for value, view in views.items()}
    total = 0
    for op in function.body.ops:
        if isinstance(op, (graph_ops.Return, graph_ops.Constant, graph_ops.Size)):
            continue
        source = op.operands[0] if op.operands else None
        view = view_of(op, views[source]) if source in views else None
        if view is not None:
            views[op.result] = view
            places[op.result] = view.distinct
        else:
            total += _op_bytes(op, places)
            made = {result: whole(numbers(_tensor(result).shape)) for result in op.results}
            views.update(made)
            places.update((result, view.distinct) for result, view in made.items())
    return total


def _op_bytes(op: Op, places: Mapping[Value, int]) -> int:
    """Of an op that runs by itself; `places` has how many elements its operands have, but for constants."""
    made = {result: whole(numbers(_tensor(result).shape)).count for result in op.results}
    total = sum(count * _tensor(result).dtype.bytes for result, count in made.items())
    for value in dict.fromkeys(op.operands):
        if value in places:
            sought = isinstance(op, graph_ops.Gather) and value is op.source
            count = min(places[value], made[op.result]) if sought else places[value]
            total += count * _tensor(value).dtype.bytes
    return total


def _tensor(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type
