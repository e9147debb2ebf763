"""Plans by which blocks with roles share a multiprocessor: their registers and their part of shared memory."""

from __future__ import annotations

import re

import pytest

from tests.support.gpu_code.gpu_lowering import lowered
from tests.support.kernels.product_nests import gemm_nest
from tests.unit.passes.gpu.plans.test_specialised_plans import product
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.async_ops import Role
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.gpu.plans.product_plans.footprint import consumer_registers, instruction_fits, registers_of
from tiledsl.passes.gpu.plans.product_plans.tilings import Tiling
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.support.errors import TileResourceError

HOPPER = gpu_machine("sm_90")


def module_of(resident: int, stages: int = 2, threads: int = 128) -> Module:
    text = f"m=64, n=64, k=64, {threads} threads, {threads // 32}x1 warps, {stages} stages, cooperative"
    return lowered(product(), parse_plan(f"{text.replace('m=64', f'm={threads // 2}')}, {resident} at once"))


@pytest.mark.parametrize(
    ("resident", "threads", "bounds", "registers"),
    [(1, 128, "256, 1", []), (2, 128, "256, 2", [216, 40]), (4, 128, "256, 4", [88, 40]), (2, 256, "384, 2", [96, 40])],
)
def test_registers(resident: int, threads: int, bounds: str, registers: list[int]) -> None:
    module = module_of(resident, threads=threads)
    assert [op.registers for op in module.walk() if isinstance(op, Role)] == (registers or [0, 0])
    source = emit_program(module, 90).text
    assert f"__launch_bounds__({bounds})" in source
    assert sorted(map(int, re.findall(r"setmaxnreg\S* (\d+);", source))) == sorted(registers)


def test_launches_say_it_in_their_text() -> None:
    module = module_of(2)
    assert [op.resident for op in module.walk() if isinstance(op, Launch)] == [2]
    text = print_module(module)
    assert "resident = 2" in text
    assert print_module(parse_module(text)) == text


def test_shared_memory_is_divided() -> None:
    assert HOPPER.shared_bytes_of_block(1) == HOPPER.shared_bytes_per_block
    assert HOPPER.shared_bytes_of_block(2) == (114 << 10) - 1024
    module_of(1, stages=6)
    with pytest.raises(TileResourceError, match="a block has 113 KiB on sm_90"):
        module_of(2, stages=8)


def test_an_instruction_fits_what_there_is_at_launch() -> None:
    assert consumer_registers(HOPPER, 1, 2) == 216
    nest = gemm_nest(4096, 4096, 4096)

    def fits(rows: int, columns: int, resident: int) -> bool:
        tiling = Tiling(rows, columns, 64, resident=resident)
        return instruction_fits(nest, tiling, HOPPER) and registers_of(nest, tiling, HOPPER).fit

    assert fits(128, 160, 2)
    assert not fits(64, 256, 2)
    assert fits(64, 256, 1)
