"""What NVRTC is asked for."""

import pytest

from tests.support.gpu_code.cuda_sources import COPY
from tiledsl.backend_cuda.build.architectures import nvrtc_architecture
from tiledsl.backend_cuda.build.nvrtc import compile_cubin, nvrtc_version, supported_capabilities
from tiledsl.passes.gpu_machine import GPU_MACHINES, gpu_machine
from tiledsl.support.errors import TileUnsupportedError

ALL = [machine.capability for machine in GPU_MACHINES.values()]


@pytest.mark.parametrize(
    ("name", "asked"),
    [("sm_80", "sm_80"), ("sm_89", "sm_89"), ("sm_90", "sm_90a"), ("sm_100", "sm_100a"), ("sm_121", "sm_121a")],
)
def test_the_full_set_goes_by_a_letter(name: str, asked: str) -> None:
    assert nvrtc_architecture(gpu_machine(name), ALL) == asked


def test_an_nvrtc_that_is_too_old_says_what_it_knows() -> None:
    with pytest.raises(TileUnsupportedError, match=r"NVRTC 12\.4 does not know .*`sm_100`; it knows sm_80, sm_90"):
        nvrtc_architecture(gpu_machine("sm_100"), [90, 80], "12.4")


@pytest.mark.parametrize("arch", [name for name in GPU_MACHINES if gpu_machine(name).capability in ALL])
def test_every_architecture_of_the_table_compiles(arch: str) -> None:
    assert compile_cubin(COPY, arch, "copy").kernels[0].registers > 0


def test_the_version_and_what_it_knows() -> None:
    assert float(nvrtc_version()) >= 13
    assert {80, 90, 100} <= set(supported_capabilities())
