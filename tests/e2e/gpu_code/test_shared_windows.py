"""Windows that overlap are loaded once by each thread: what comes of it is what comes of loading each by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tiledsl
from tests.support.gpu_code.sass import disassemble
from tiledsl import ops, tile
from tiledsl.api.schedules.schedule_graph import schedule_graph
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.gpu.gpu_ops import Load, Slice
from tiledsl.ir.symbolic import evaluate
from tiledsl.ir.types import TensorType
from tiledsl.passes.gpu.plan import WRITTEN_OUT, GridPlan, Plan
from tiledsl.passes.gpu.plans.facts.grid_shape import grids_of
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline, gpu_pipeline


def depthwise(**options: Any) -> Callable[..., Any]:
    def formula(x: Any, w: Any) -> Any:
        conv = {3: ops.conv1d, 4: ops.conv2d, 5: ops.conv3d}[x.ndim]
        return conv(x, w, groups=w.shape[0], **options)

    return formula


def largest(stride: int) -> Callable[..., Any]:
    def formula(x: Any) -> Any:
        return ops.max_pool2d(x, 3, stride, 1, layout="NHWC")

    return formula


def residual(x: Any, w: Any, r: Any) -> Any:
    return tile.relu(ops.conv2d(x, w, groups=16, padding=1, layout="NHWC") + r)


def along(fn: Callable[..., Any], *window: int, **options: Any) -> Callable[..., Any]:
    def formula(x: Any) -> Any:
        return fn(x, *window, **options)

    return formula


class Case(NamedTuple):
    """A formula, its arguments, the blocks of its last axes and threads; how many elements of a thread are one load."""

    name: str
    formula: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    blocks: tuple[int, ...]
    run: int
    dtype: Any = tile.f16
    threads: int = 32
    aligned: tuple[int, ...] = (16,) * 4


IMAGE, PLACES = (2, 11, 16, 16), (16, 3, 3, 1)
LONG = (2, 5, 127, 16)
CASES = (
    Case("rows", depthwise(padding=1, layout="NHWC"), (IMAGE, PLACES), (2, 16, 16), 4 * 8),
    Case("patches", depthwise(padding=1, layout="NHWC"), (IMAGE, PLACES), (8, 16, 16), 4 * 6 * 8),
    Case("f32", depthwise(padding=1, layout="NHWC"), (IMAGE, PLACES), (2, 16, 16), 6 * 4, tile.f32),
    Case("dilated", depthwise(padding=4, dilation=2, layout="NHWC"), (IMAGE, (16, 5, 5, 1)), (4, 16, 16), 12 * 8),
    Case("every other", depthwise(padding=1, stride=2, layout="NHWC"), (LONG, PLACES), (64, 16), 9 * 8),
    Case("channels first", depthwise(padding=1), ((2, 6, 11, 32), (6, 1, 3, 3)), (8, 32), 3 * 8),
    Case("along time", depthwise(padding=2, layout="NWC"), ((2, 30, 16), (16, 5, 1)), (32, 16), 6 * 8),
    Case("largest", largest(1), (IMAGE,), (2, 16, 16), 4 * 8),
    Case("largest of every other", largest(2), (LONG,), (64, 16), 9 * 8),
    Case("along rows", along(ops.max_pool1d, 8, 1, 4, dilation=3), ((3, 2, 256),), (1, 256), 5 * 8, aligned=(16, 2)),
    Case("along rows, f32", along(ops.avg_pool1d, 5, 1, 2), ((3, 2, 320),), (1, 128), 4 * 3, tile.f32),
    Case("rows of 4 bytes", along(ops.max_pool1d, 5, 1, 2), ((3, 2, 250),), (1, 256), 12, aligned=(4, 4)),
    Case("rows that begin anywhere", along(ops.max_pool1d, 5, 1, 2), ((3, 2, 251),), (1, 256), 12, aligned=(2, 2)),
    Case(
        "images, channels first", along(ops.max_pool2d, 4, 1, 1), ((2, 3, 9, 64),), (1, 4, 64), 3 * 8, aligned=(16, 2)
    ),
    Case("with a residual", residual, (IMAGE, PLACES, IMAGE), (2, 16, 16), 4 * 8),
)


def lowered(case: Case, arch: str = "sm_90") -> tuple[Module, Module, dict[str, int]]:
    """The kernel of a case as a TILE program, and as GPU IR by the case's plan."""
    specs = [tile.spec(shape, case.dtype) for shape in case.shapes]
    fused = tiledsl.fuse(tiledsl.trace(case.formula, *specs))
    schedule = schedule_graph(fused.lowered(arch), fused.graph.inputs, fused.graph.constants)
    step = schedule.schedule.steps[-1]
    placed = PassManager(gpu_front_pipeline()).run(Module([schedule.functions[step.program]]), PassContext())
    (grid,) = grids_of(placed.entry)
    sizes = [1] * len(grid.open) + list(case.blocks)
    blocks = dict(zip(grid.open, sizes[-len(grid.open) :]))
    short = {str(b.total) for b in grid.blocks if b.extent is None} & set(step.sizes)
    exact = tuple((name, step.sizes[name]) for name in sorted(short) if step.sizes[name] <= WRITTEN_OUT)
    plan = Plan((GridPlan(case.threads),), blocks=tuple(blocks.items()), sizes=exact, alignment=case.aligned)
    return placed, PassManager(gpu_pipeline(plan, arch)).run(placed.clone(), PassContext()), dict(step.sizes)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_results_are_those_of_the_program(case: Case) -> None:
    placed, program, sizes = lowered(case)
    random = np.random.default_rng(0)
    arguments: list[Any] = []
    for parameter in placed.entry.parameters:
        assert isinstance(parameter.type, TensorType)
        shape = [evaluate(dim, sizes) for dim in parameter.type.shape]
        arguments.append(random.standard_normal(shape).astype(to_numpy(parameter.type.dtype)))
    (wanted,) = execute(placed.entry, arguments)
    for seed in (None, 1):
        (found,) = emulate(program.entry, arguments, seed=seed, output=lambda line: None).results
        np.testing.assert_array_equal(found, wanted)
    loads = {op.source.op for op in program.walk() if isinstance(op, Slice)}
    assert loads
    assert {op.result.layout.slots for op in loads if isinstance(op, Load)} == {case.run}


def test_what_a_thread_does_for_each_result() -> None:
    """2 x 4 results of 8 channels: 24 loads of windows where one by one it would be 72. Each element is converted once,
    and there are fewer than 26 instructions for each result, weights included."""
    case = Case("sass", depthwise(padding=1, layout="NHWC"), ((32, 112, 112, 96), (96, 3, 3, 1)), (4, 16, 32), 0)
    _, program, _ = lowered(case)
    cubin = compile_cubin(emit_program(program, 90).text, "sm_90", program.entry.name)
    (code,) = disassemble(cubin).values()
    assert not code.local
    assert code.counts["FFMA"] == 9 * 64
    assert code.counts["HADD2"] <= (24 + 9) * 8
    assert sum(opcode.startswith("LDG.E.128") for opcode in code.opcodes) == 24
    assert len(code.opcodes) < 26 * 64


@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
def test_other_generations_take_it(arch: str) -> None:
    _, program, _ = lowered(CASES[1], arch)
    compile_cubin(emit_program(program, int(arch[3:])).text, arch, program.entry.name)
