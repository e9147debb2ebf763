"""Convolutions that passes make wider, and what holds of each: the graph means the same, in the emulator too."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import F16, normal
from tiledsl import ops
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.passes.manager import Pass, PassContext, PassManager

Formula = Callable[..., Any]
Shape = tuple[int, ...]


def conv(rank: int = 2, **options: Any) -> Formula:
    """A convolution of so many axes."""
    word = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}[rank]
    return lambda x, w: word(x, w, **options)


def turned(rank: int = 2, **options: Any) -> Formula:
    """The same, transposed."""
    word = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}[rank]
    return lambda x, w: word(x, w, **options)


def assert_means_the_same(
    widening: Pass, remark: str, formula: Formula, shapes: list[Shape], op: str = "gpu.tma_windows"
) -> None:
    """That a pass does something, says so, and changes no result; nor does the whole pipeline, of
    which a kernel has that `op` then."""
    arrays = [normal(*shape, dtype=F16) for shape in shapes]
    graph = tiledsl.trace(formula, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    context = PassContext()
    module = PassManager([widening]).run(graph.module.clone(), context)
    assert remark in str(context.remarks)
    (widened,) = execute_graph(module.entry, arrays, module)
    assert_close(widened, expected, relative=4e-3, terms=32 * 16)
    kernels = tiledsl.fuse(graph).build(arch="sm_90").kernels
    assert any(op in kernel.ir("gpu") for kernel in kernels.values())
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), expected, relative=4e-3, terms=32 * 16)
