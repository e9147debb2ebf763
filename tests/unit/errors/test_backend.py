"""One case for each message of `support/catalogue/backend.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.support.gpu_code.cuda_sources import COPY
from tiledsl.backend_cuda.build import nvrtc
from tiledsl.backend_cuda.build.architectures import nvrtc_architecture
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.support.catalogue.backend import ENTRIES
from tiledsl.support.errors import TileError
from tiledsl.support.location import Location

HERE = Location("kernel.py", 3)


def without_nvrtc() -> object:
    """Compiles where `cuda.bindings.nvrtc` cannot be imported."""
    caches = (nvrtc.load_nvrtc, nvrtc.nvrtc_version, nvrtc.supported_capabilities)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
        patch.delattr("cuda.bindings.nvrtc", raising=False)
        for function in caches:
            function.cache_clear()
        try:
            return compile_cubin(COPY, "sm_90", "copy", [HERE])
        finally:
            for function in caches:
                function.cache_clear()


CASES: dict[str, Callable[[], object]] = {
    "cuda-compile-failed": lambda: compile_cubin("__device__ int x = y;", "sm_90", "broken", [HERE]),
    "nvrtc-missing": without_nvrtc,
    "nvrtc-arch": lambda: nvrtc_architecture(gpu_machine("sm_121"), [80, 90], "12.0", HERE),
}
MESSAGES: dict[str, str] = {
    "cuda-compile-failed": 'the CUDA C that was made of this does not compile: identifier "y" is undefined',
    "nvrtc-missing": "NVRTC, the compiler of CUDA C, cannot be used: ",
    "nvrtc-arch": "NVRTC 12.0 does not know the GPU architecture `sm_121`; it knows sm_80, sm_90",
}
WITHOUT_LOCATION = {"nvrtc-missing"}


def test_every_message_has_a_case() -> None:
    assert set(CASES) == set(ENTRIES) == set(MESSAGES)


@pytest.mark.parametrize("code", CASES)
def test_message(code: str) -> None:
    with pytest.raises(TileError) as caught:
        CASES[code]()
    error = caught.value
    assert error.code == code
    assert type(error) is ENTRIES[code].kind
    assert error.message.startswith(MESSAGES[code])
    assert error.fix
    assert (error.location is None) == (code in WITHOUT_LOCATION)
