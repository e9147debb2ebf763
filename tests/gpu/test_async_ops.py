"""Programs with TMA, mbarriers, roles and warpgroup products on the device, launched several times over."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_code.run_gpu_ir import CompiledIr
from tests.support.hopper.async_programs import async_programs
from tests.support.hopper.hopper_programs import hopper_programs
from tests.support.hopper.hopper_text import HopperProgram
from tiledsl.backend_cuda.driver.devices import device_of
from tiledsl.support.errors import TileError

LAUNCHES = 5


@pytest.fixture(autouse=True)
def hopper() -> None:
    """They are for this architecture alone: its instructions are no later one's."""
    arch = device_of(0).arch
    if arch != "sm_90":
        pytest.skip(f"the device is of {arch}")


@pytest.mark.parametrize("program", [*async_programs(), *hopper_programs()], ids=str)
def test_program(program: HopperProgram) -> None:
    compiled = CompiledIr(program.module)
    program.check(lambda _, arguments: compiled.run(arguments, LAUNCHES))


def test_a_tensor_that_tma_cannot_take() -> None:
    program = next(one for one in async_programs() if one.name.startswith("shared columns"))
    a, b = program.arguments(np.random.default_rng(0))
    wide = np.zeros((b.shape[0], b.shape[1] + 1), b.dtype)
    wide[:, :-1] = b
    with pytest.raises(TileError) as caught:
        CompiledIr(program.module).run([a, wide[:, :-1]])
    assert caught.value.code == "cuda-tensor-map"
    assert "`b`" in caught.value.message
