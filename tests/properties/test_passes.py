"""A pass changes how a program is written, never what it computes: on random programs, by the reference executor."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.support.generators.random_modules import RandomProgram, results_agree, tile_programs
from tiledsl.ir.core import Module
from tiledsl.ir.symbolic import symbol_name
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.tile_ops import Grid, Range
from tiledsl.ir.types import BlockSize, TensorType
from tiledsl.ir.verifier import verify
from tiledsl.passes.machine import MACHINES
from tiledsl.passes.manager import APART, Pass, PassContext, PassManager
from tiledsl.passes.pipeline_text import required_options
from tiledsl.passes.pipelines import cpu_pipeline
from tiledsl.passes.registry import PASSES
from tiledsl.passes.tile.canonicalise import Canonicalise
from tiledsl.passes.tile.infer_shapes import InferShapes
from tiledsl.passes.tile.infer_tiling import InferTiling
from tiledsl.passes.tile.place_levels import PlaceLevels


def agrees(program: RandomProgram, *passes: Pass) -> None:
    """Fails unless the program computes the same bits after the passes, and prints the same."""
    module = PassManager(passes).run(program.module, PassContext(MACHINES["avx2"]))
    before: list[str] = []
    after: list[str] = []
    expected = program.with_module(with_chosen_blocks(program.module)).execute(output=before.append)
    actual = program.with_module(with_chosen_blocks(module)).execute(output=after.append)
    assert results_agree(actual, expected), print_module(module)
    assert after == before


def with_chosen_blocks(module: Module) -> Module:
    """A copy in which all blocks that are left open are the same, so that sums are rounded alike."""
    copy = module.clone()
    for op in copy.walk():
        if isinstance(op, (Grid, Range)):
            op.attributes["blocks"] = tuple(b if b.kind == "fixed" else BlockSize.fixed(4) for b in op.blocks)
    return copy


# Those of GPU form, and those that a plan must be made for, are tested in test_gpu_lowering.py.
STEPS: dict[str, list[Pass]] = {
    name: [kind()] for name, kind in PASSES.items() if kind.requires not in APART and not required_options(kind)
}
STEPS["infer-tiling"] = [PlaceLevels(), InferTiling(arch="avx2")]


@pytest.mark.parametrize("name", STEPS)
@given(program=tile_programs())
@settings(max_examples=15)
def test_every_pass_keeps_the_results(name: str, program: RandomProgram) -> None:
    agrees(program, *STEPS[name])


@given(program=tile_programs())
def test_the_pipeline_keeps_the_results(program: RandomProgram) -> None:
    agrees(program, *cpu_pipeline(arch="avx2"))


@given(program=tile_programs())
def test_known_sizes_keep_the_results(program: RandomProgram) -> None:
    shapes = [p.type.shape for p in program.module.entry.parameters if isinstance(p.type, TensorType)]
    names = {symbol_name(dim) for shape in shapes for dim in shape} & program.sizes.keys()
    sizes = tuple((name, program.sizes[name]) for name in sorted(filter(None, names)))
    agrees(program, InferShapes(sizes=sizes), *cpu_pipeline(arch="avx2"))


@given(program=tile_programs())
def test_passes_leave_the_given_module_as_it_is(program: RandomProgram) -> None:
    text = print_module(program.module, locations=True)
    PassManager(cpu_pipeline(arch="avx2")).run(program.module, PassContext(MACHINES["avx2"]))
    verify(program.module)
    assert print_module(program.module, locations=True) == text


@given(program=tile_programs())
@settings(max_examples=10)
def test_canonicalising_twice_is_canonicalising_once(program: RandomProgram) -> None:
    once = PassManager([Canonicalise()]).run(program.module)
    twice = PassManager([Canonicalise()]).run(once)
    assert print_module(twice) == print_module(once)
