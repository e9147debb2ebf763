"""Random lowered graphs: calls of tile programs, and views that strides can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.support.graph_texts import CALLEES
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir import graph_ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Module, Value
from tiledsl.ir.dtypes import f32
from tiledsl.ir.strided_views import StridedView, numbers, view_of, whole
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.types import TensorType
from tiledsl.support.location import BUILTIN


@dataclass(frozen=True)
class RandomLowered:
    """A lowered graph. The last of its parameters is a weight."""

    module: Module
    seed: int

    @property
    def names(self) -> list[str]:
        return [p.name for p in self.module.entry.parameters]

    def arguments(self) -> list[Any]:
        """Arrays for all parameters: small whole numbers, so that sums are exact."""
        generator = np.random.default_rng(self.seed)
        types = [p.type for p in self.module.entry.parameters]
        shapes = [numbers(t.shape) for t in types if isinstance(t, TensorType)]
        return [generator.integers(-4, 5, shape).astype(np.float32) for shape in shapes]

    def expected(self) -> tuple[Any, ...]:
        """What the reference executor gives."""
        return execute_graph(self.module.entry, self.arguments(), self.module)


@st.composite
def lowered_graphs(draw: st.DrawFn, max_steps: int = 12) -> RandomLowered:
    """A graph of at most `max_steps` calls and views."""
    body = Block()
    builder = Builder(body, BUILTIN)
    callees = parse_module(CALLEES).functions
    views: dict[Value, StridedView] = {}
    sizes = st.sampled_from((3, 1, 4, 0, 5))
    for name in ("x", "y", "w"):
        shape = (draw(sizes), draw(sizes))
        views[body.add_argument(TensorType(f32, shape), name)] = whole(shape)
    limit = builder.emit(graph_ops.Constant, value=draw(st.integers(-2, 2)), dtype=f32).result

    def pick(rank: int | None = None, shape: tuple[int, ...] | None = None) -> Value:
        pool = [v for v, s in views.items() if rank in (None, len(s.shape)) and shape in (None, s.shape)]
        return draw(st.sampled_from(pool))

    def call() -> None:
        callee = draw(st.sampled_from(callees))
        first = pick(2)
        second = limit if callee.name in ("shift", "parts") else pick(shape=views[first].shape)
        inputs = [first, second][: len(callee.parameters)]
        types = graph_ops.call_types(callee, inputs)
        op = graph_ops.Call(BUILTIN, types=types, inputs=inputs, callee=callee.name)
        body.append(op)
        views.update((result, whole(numbers(type_.shape))) for result, type_ in zip(op.results, types))

    def view() -> None:
        source = pick()
        shape = views[source].shape
        kind = draw(st.sampled_from(("transpose", "slice", "reshape", "broadcast")))
        fields: dict[str, Any]
        match kind:
            case "transpose":
                op_type: type[Any] = graph_ops.Transpose
                fields = {"permutation": tuple(draw(st.permutations(range(len(shape)))))}
            case "slice":
                op_type = graph_ops.Slice
                starts = tuple(draw(st.integers(0, n)) for n in shape)
                stops = tuple(draw(st.integers(start, n)) for start, n in zip(starts, shape))
                fields = {"starts": starts, "stops": stops, "steps": tuple(draw(st.integers(1, 3)) for _ in shape)}
            case "reshape":
                op_type = graph_ops.Reshape
                merged = (shape[0] * shape[1], *shape[2:]) if len(shape) > 1 and draw(st.booleans()) else (1, *shape)
                fields = {"shape": merged[1:] if merged[:2] == (1, 1) and len(merged) > 2 else merged}
            case _:
                op_type = graph_ops.Broadcast
                wide = tuple(draw(st.sampled_from((n, 3))) if n == 1 else n for n in shape)
                fields = {"shape": (draw(st.integers(1, 2)), *wide) if len(shape) < 3 else wide}
        op = op_type(BUILTIN, source=source, **fields)
        seen = view_of(op, views[source])
        if seen is not None and len(seen.shape) <= 4:
            body.append(op)
            views[op.result] = seen
        else:
            op.erase() if op.parent is not None else source.users.pop(op, None)

    for _ in range(draw(st.integers(1, max_steps))):
        draw(st.sampled_from((call, call, view)))()
    results = draw(st.lists(st.sampled_from(list(views)), min_size=1, max_size=3)) + list(views)[-1:]
    builder.emit(graph_ops.Return, values=results)
    used = {op.callee for op in body.ops if isinstance(op, graph_ops.Call)}
    functions = [Function("random", body, (), BUILTIN), *(c for c in callees if c.name in used)]
    return RandomLowered(Module(functions), draw(st.integers(0, 2**16)))
