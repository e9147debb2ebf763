"""Graphs of whole tensors: how formulas are traced and fused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, TilePerformanceWarning, fail

if TYPE_CHECKING:
    from tiledsl.api.graphs.fused import FusedGraph
    from tiledsl.api.graphs.graph import Graph


def trace(fn: Callable[..., Any], /, *specs: object, **named: object) -> Graph:
    """Writes down what a function of whole tensors computes, by running it once on tensors that only take notes.

    `specs` and `named` are the arguments of `fn`. An array (NumPy's, PyTorch's ..., of which only dtype and shape are
    read) or a `tile.spec(shape, dtype)` stands for a tensor, and may be in nested tuples, lists and dicts; everything
    else (numbers, strings, functions, objects) is handed to `fn` as it is. `fn` returns a tensor, or a nested
    structure of them. Arrays that it reads from outside become weights: `Graph.constants`.

    >>> graph = tiledsl.trace(lambda x, w: tile.gelu(x @ w), tile.spec((8, 4), tile.f32), weights)

    Raises TileErrors at the line of the formula. Warns (TilePerformanceWarning) of inputs that are not used.
    """
    from tiledsl.api.graphs.graph import Graph  # costs start-up time, as all that tracing needs
    from tiledsl.frontend.trace.trace_function import trace_function, unused_inputs

    try:
        traced = trace_function(fn, specs, named)
    except TileError as error:
        raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's
    for name in unused_inputs(traced):
        text = f"`{traced.name}` does not use its input `{name}`"
        warnings.warn(text, TilePerformanceWarning, stacklevel=2)
    return Graph(traced.module, traced.inputs, traced.constants, traced.arguments, traced.result)


def fuse(graph: object, *, fusion: bool = True) -> FusedGraph:
    """A graph that is to be cut into groups of ops, each of them one kernel: `tiledsl.fuse(graph).build(arch="sm_90")`.

    `fusion=False` gives each op a kernel of its own, to compare with. Raises TileTypeError for what is no graph.
    """
    from tiledsl.api.graphs.fused import FusedGraph  # costs start-up time
    from tiledsl.api.graphs.graph import Graph

    if not isinstance(graph, Graph):
        fail("fuse-no-graph", caller_location(), kind=type(graph).__name__)
    return FusedGraph(graph, fuse=fusion)
