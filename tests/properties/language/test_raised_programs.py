"""Random tile programs that are plain compute the same as ops of a graph."""

from __future__ import annotations

from hypothesis import given, note, settings

from tests.support.compare import assert_close
from tests.support.generators.random_modules import RandomProgram, tile_programs
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir import graph_ops
from tiledsl.ir.core import Block, Function, Module, Value
from tiledsl.ir.substitute import substitute_in_shape
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.tile_ops import Assert, Grid, Print, Range
from tiledsl.ir.types import AxisType, BlockSize, TensorType
from tiledsl.passes.graph.raising.raise_body import raise_body
from tiledsl.passes.graph.raising.raise_programs import with_sizes
from tiledsl.passes.graph.raising.raised import NotPlainError


def made_plainer(function: Function) -> None:
    """Takes out what is said to people, and contracts on blocks."""
    for op in list(function.walk()):
        if isinstance(op, (Print, Assert)):
            op.erase()
        elif isinstance(op, (Grid, Range)):
            blocked = [isinstance(a.type, AxisType) for a in op.body.arguments[: len(op.blocks)]]
            blocks = zip(op.blocks, blocked)
            op.attributes["blocks"] = tuple(BlockSize.auto() if is_axis else size for size, is_axis in blocks)


def call_of(function: Function, sizes: dict[str, int]) -> graph_ops.Call:
    def whole(value: Value) -> TensorType:
        assert not isinstance(value.type, AxisType)
        return TensorType(value.type.dtype, substitute_in_shape(value.type.shape, dict(sizes)))

    body = Block()
    inputs = [body.add_argument(whole(p), p.name) for p in function.parameters]
    last = function.body.terminator
    types = [] if last is None else [whole(v) for v in last.operands]
    return graph_ops.Call(function.location, types=types, inputs=inputs, callee=function.name)


@given(program=tile_programs())
@settings(max_examples=60, deadline=None)
def test_plain_programs_compute_the_same_as_graphs(program: RandomProgram) -> None:
    function = program.module.entry
    made_plainer(function)
    try:
        graph = raise_body(with_sizes(function, call_of(function, program.sizes)))
    except NotPlainError:
        return
    note(print_module(program.module))
    note(print_module(Module([graph])))
    expected = program.execute()
    for actual, wanted in zip(execute_graph(graph, program.arguments()), expected, strict=True):
        assert_close(actual, wanted)
