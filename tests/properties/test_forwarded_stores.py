"""What is kept in registers is what a program would have read again, by the reference executor and in the emulator."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.support.generators.random_recurrences import RandomRecurrence, recurrences
from tests.support.gpu_code.gpu_lowering import lowered, plans_for, run_as_launched
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.ir.core import Module
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.split_candidates import program_of
from tiledsl.passes.manager import Pass, PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline
from tiledsl.passes.tile.bounds import Bounds
from tiledsl.passes.tile.infer_shapes import InferShapes
from tiledsl.passes.tile.loops.forward_stores import ForwardStores
from tiledsl.passes.tile.loops.load_ahead import LoadAhead
from tiledsl.passes.tile.loops.unroll_loops import UnrollLoops, sizes_to_know


def results(module: Module, program: RandomRecurrence) -> bytes:
    arguments = program.arguments()
    execute(module.entry, list(arguments))
    return arguments[1].tobytes()


@given(program=recurrences(), known=st.sampled_from([True, True, False]), unrolled=st.sampled_from([True, True, False]))
@settings(max_examples=25, deadline=None)
def test_stores_are_forwarded(program: RandomRecurrence, known: bool, unrolled: bool) -> None:
    before = program.module
    sizes = (("P", program.p), ("Q", program.q)) if known and program.symbols else ()
    passes: list[Pass] = [InferShapes(sizes=sizes), Bounds(), ForwardStores(), LoadAhead()]
    if unrolled:
        passes[1:1] = [UnrollLoops()]
    context = PassContext()
    after = PassManager(passes).run(program.module, context)
    event(", ".join(sorted({remark.pass_name for remark in context.remarks} - {"bounds"})))
    assert results(after, program) == results(before, program), print_module(after)


@given(program=recurrences(), arch=st.sampled_from(["sm_80", "sm_90"]), seed=st.integers(0, 9))
@settings(max_examples=8, deadline=None)
def test_plans_of_forwarded_programs_are_right_in_the_emulator(program: RandomRecurrence, arch: str, seed: int) -> None:
    placed = PassManager(gpu_front_pipeline()).run(program.module)
    known = {"P": program.p, "Q": program.q}
    sizes = tuple((name, known[name]) for name in sorted(sizes_to_know(placed.entry)))
    written_out = program_of(placed.entry, Plan((), sizes=sizes, forwarded=True))
    arguments = program.arguments()
    _, (plan, *_) = plans_for(Module([written_out]), arguments, arch)
    plan = replace(plan, sizes=(*sizes, *plan.sizes), forwarded=True)
    run_as_launched(lowered(placed, plan, arch).entry, arguments, seed=seed)
    assert arguments[1].tobytes() == results(program.module, program), f"{plan}\n{print_module(placed)}"
