"""Parts of joins that one program makes: which become one call, that means the same, whose windows TMA brings."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import F16, normal
from tiledsl import ops, tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir import graph_ops
from tiledsl.ir.core import Module
from tiledsl.passes.graph.pipeline import graph_pipeline
from tiledsl.passes.manager import PassContext, PassManager

Formula = Callable[..., Any]
Shape = tuple[int, ...]


def _turned(rank: int = 2, **options: Any) -> Formula:
    conv = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}[rank]
    layout = {1: "NWC", 2: "NHWC", 3: "NDHWC"}[rank]
    return lambda x, w: conv(x, w, layout=layout, **options)


def _first(x: Any, w: Any) -> Any:
    return ops.conv_transpose2d(x, w, stride=2, padding=1)


def _with_gelu(x: Any, w: Any) -> Any:
    return tile.gelu(ops.conv_transpose2d(x, w, stride=2, padding=1, layout="NHWC"))


def _halves(x: Any, w: Any) -> Any:
    """A join of two products of one matrix."""
    return tile.concat((tile.einsum("m k, k n -> m n", x, w[0]), tile.einsum("m k, k n -> m n", x, w[1])), axis=0)


JOINED: dict[str, tuple[Formula, Shape, Shape, int]] = {
    "two along each axis": (_turned(stride=2, padding=1), (2, 3, 5, 64), (64, 4, 4, 24), 1),
    "no padding": (_turned(stride=2), (2, 3, 5, 64), (64, 4, 4, 24), 1),
    "a weight for each": (_turned(stride=2), (2, 3, 5, 64), (64, 2, 2, 24), 1),
    "one axis": (_turned(1, stride=2, padding=1), (3, 9, 64), (64, 4, 24), 1),
    "three axes": (_turned(3, stride=2, padding=1), (1, 2, 3, 4, 32), (32, 4, 4, 4, 16), 1),
    "channels first": (_first, (2, 64, 3, 5), (64, 24, 4, 4), 1),
    "activation": (_with_gelu, (2, 3, 5, 64), (64, 4, 4, 24), 1),
    "along one axis alone": (_turned(stride=(2, 2), padding=1), (2, 3, 5, 64), (64, 3, 4, 24), 2),
    "other numbers of weights": (_turned(stride=2, padding=1), (2, 3, 5, 64), (64, 3, 3, 24), 4),
    "behind each other": (_halves, (48, 64), (2, 64, 32), 1),
}
"""With the number of kernels that multiply."""


def _lowered(name: str, arch: str) -> tuple[Module, Module, list[Any]]:
    formula, *shapes, _ = JOINED[name]
    arrays = [normal(*shape, dtype=F16) for shape in shapes]
    graph = tiledsl.trace(formula, *arrays)
    return graph.module, PassManager(graph_pipeline(arch)).run(graph.module.clone(), PassContext()), arrays


@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_parts_are_one_call(name: str, arch: str) -> None:
    before, after, arrays = _lowered(name, arch)
    expected = execute_graph(before.entry, arrays, before)
    multiplied = {f.name for f in after.functions[1:] if any(op.name == "tile.dot" for op in f.walk())}
    calls = [op for op in after.entry.body.ops if isinstance(op, graph_ops.Call) and op.callee in multiplied]
    assert len(calls) == JOINED[name][-1]
    for actual, wanted in zip(execute_graph(after.entry, arrays, after), expected):
        assert_close(actual, wanted, relative=4e-3, terms=16 * 64)


@pytest.mark.parametrize("name", ["two along each axis", "a weight for each", "three axes", "along one axis alone"])
def test_in_the_emulator(name: str) -> None:
    formula, *shapes, _ = JOINED[name]
    arrays = [normal(*shape, dtype=F16) for shape in shapes]
    graph = tiledsl.trace(formula, *arrays)
    (wanted,) = execute_graph(graph.module.entry, arrays, graph.module)
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), wanted, relative=4e-3, terms=16 * 64)


@pytest.mark.parametrize("name", ["two along each axis", "three axes", "channels first"])
def test_windows_of_all_parts_go_by_tma(name: str) -> None:
    formula, *shapes, _ = JOINED[name]
    graph = tiledsl.trace(formula, *(normal(*shape, dtype=F16) for shape in shapes))
    kernels = tiledsl.fuse(graph).build(arch="sm_90").kernels.values()
    (product,) = (kernel for kernel in kernels if "gpu.wgmma" in kernel.ir("gpu"))
    assert "gpu.tma_windows" in product.ir("gpu")
    assert all(used["spills"] == 0 for used in product.resources.values())


@pytest.mark.parametrize("name", ["two along each axis", "one axis", "three axes", "a weight for each"])
def test_weights_are_read_as_they_lie(name: str) -> None:
    formula, *shapes, _ = JOINED[name]
    graph = tiledsl.trace(formula, *(normal(*shape, dtype=F16) for shape in shapes))
    module = PassManager(graph_pipeline("sm_90")).run(graph.module, PassContext())
    assert sum(isinstance(op, graph_ops.Call) for op in module.entry.body.ops) == 1
