"""Products with company on Hopper: operands that are computed, tiles that something else reads too.

They run with `wgmma` and TMA, right in the emulator under several seeds, and compile without spills or warnings.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.e2e.gpu_code.test_gpu_plans import module_of
from tests.e2e.products.test_specialised_grids import SEEDS, lowered_case
from tests.support.gpu_cases.gpu_cases import assert_same, expected, outcome
from tests.support.gpu_cases.neighbour_cases import NEIGHBOUR_CASES, products_with_readers
from tests.support.gpu_cases.shares import share
from tests.support.gpu_cases.specialised_cases import PlannedCase
from tests.support.gpu_code.gpu_lowering import plans_for, run_as_launched
from tests.support.gpu_code.sass import disassemble
from tests.support.kernels.computed_operands import dequantised_product, normed_product, product_and_sums
from tiledsl import Kernel
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.async_ops import TmaLoad, Wgmma, WgmmaWait
from tiledsl.ir.gpu.gpu_ops import Launch, Load
from tiledsl.ir.tile_ops import For
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_pipeline


@pytest.mark.parametrize("planned", NEIGHBOUR_CASES, ids=str)
def test_in_the_emulator(planned: PlannedCase) -> None:
    module = lowered_case(planned)
    wanted = expected(planned.case)
    for seed in SEEDS[:2]:
        changed = planned.case.arguments()
        returned = run_as_launched(module.entry, changed, seed=seed)
        actual = outcome(returned, changed, lambda value: isinstance(value, np.ndarray), np.asarray)
        assert_same(planned.case, actual, wanted)


@pytest.mark.parametrize("planned", share(NEIGHBOUR_CASES, 2), ids=str)
def test_compiles_without_spills_or_warnings(planned: PlannedCase) -> None:
    source = emit_program(lowered_case(planned), 90)
    assert refusals(compile_cubin(source.text, "sm_90", "kernel")) == []
    # or NVRTC 13.0 computes the next operand in registers that products still read, and waits for these (C7513)
    in_registers = [
        loop for loop in lowered_case(planned).walk() if isinstance(loop, For) and _multiplies_carried(loop)
    ]
    kept_apart = "moved_here(" in source.text or "computed_first(" in source.text
    assert kept_apart == bool(in_registers)


def _multiplies_carried(loop: For) -> bool:
    return any(isinstance(op, Wgmma) and op.a in loop.body.arguments for op in loop.body.ops)


@pytest.mark.parametrize("planned", NEIGHBOUR_CASES, ids=str)
def test_is_one_kernel_whose_matrices_come_by_tma(planned: PlannedCase) -> None:
    module = lowered_case(planned)
    ops = list(module.walk())
    assert sum(isinstance(op, Launch) for op in ops) == 1
    assert any(isinstance(op, Wgmma) for op in ops)
    matrices = [op for op in ops if isinstance(op, Load) and len(op.shape) > 1 and 1 not in op.shape]
    assert bool(matrices) == ("by threads" in planned.case.name and "gain" not in planned.case.name)
    assert sum(isinstance(op, TmaLoad) for op in ops) >= (1 if "x by threads" in planned.case.name else 2)


def test_integers_of_8_bits_become_floats_without_the_unit_for_conversions() -> None:
    planned = next(one for one in NEIGHBOUR_CASES if one.case.name == "dequantised_product cluster")
    source = emit_program(lowered_case(planned), 90)
    (kernel,) = disassemble(compile_cubin(source.text, "sm_90", "kernel")).values()
    assert kernel.counts["HGMMA"] > 0
    assert kernel.counts["I2F"] < 4  # those are of places of blocks


def test_a_wait_without_another_one_before_it_has_no_branch() -> None:
    """Measured: operands that are computed beside a product gain nothing by one, those of i8 lose 3%."""
    planned = next(one for one in NEIGHBOUR_CASES if one.case.kernel is normed_product and one.plan.grids[0].programs)
    text = emit_program(lowered_case(planned), 90).text
    assert "computed_first(" not in text
    assert "moved_here(" in text


@pytest.mark.parametrize(
    ("name", "remarks"),
    [
        (
            "normed_product x by threads",
            [
                "loaded by the threads that multiply, because rows of `x` do not start at multiples of 16 bytes",
                "its left operand is computed a turn ahead, beside the product before",
            ],
        ),
        (
            "dequantised_product turned",
            [
                "its right operand is computed, and written to shared memory",
                "its right operand is computed a turn ahead, beside the product before",
            ],
        ),
    ],
)
def test_explains_who_brings_and_who_computes(name: str, remarks: list[str]) -> None:
    planned = next(one for one in NEIGHBOUR_CASES if one.case.name == name)
    arguments = planned.case.arguments()
    placed, _ = plans_for(module_of(planned.case, arguments), arguments)
    context = PassContext()
    PassManager(gpu_pipeline(planned.plan, "sm_90")).run(placed, context)
    assert set(remarks) <= {remark.text for remark in context.remarks}


@pytest.mark.parametrize(
    ("kernel", "empty"),
    [
        (normed_product, [(72, 0), (72,), (0,), (0, 72)]),
        (product_and_sums, [(72, 0), (0, 72), (72,)]),
        (dequantised_product, [(72, 0), (0, 80)]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_nothing_to_add_up(kernel: Kernel, empty: list[tuple[int, ...]]) -> None:
    """K is 0 when it is called."""
    planned = next(one for one in NEIGHBOUR_CASES if one.case.kernel is kernel and one.plan.grids[0].programs)
    given = [np.ones(shape, array.dtype) for shape, array in zip(empty, planned.case.arguments())]
    (result,) = run_as_launched(lowered_case(planned).entry, given, seed=0)
    assert not result.any()


@pytest.mark.parametrize("planned", products_with_readers()[:3], ids=str)
def test_what_reads_beside_a_product_does_not_wait_for_it(planned: PlannedCase) -> None:
    """In the loops, with masks and without, one product is still under way at the end of a turn."""
    assert {op.groups for op in waits_in_loops(lowered_case(planned))} == {1}


def waits_in_loops(module: Module) -> list[WgmmaWait]:
    loops = [op for op in module.walk() if isinstance(op, For) and not any(isinstance(o, For) for o in op.body.walk())]
    return [op for loop in loops for op in loop.body.walk() if isinstance(op, WgmmaWait)]
