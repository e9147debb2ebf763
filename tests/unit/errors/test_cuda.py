"""One case for each message of `support/catalogue/cuda.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.fakes.fake_cuda import FakeArray, FakeCuda, aligned, fake_cuda
from tests.support.fakes.fake_driver import FakeDriver, Status, fake_driver
from tests.support.fakes.loaded_kernels import FAILURE, PARAMETERS, code, loaded, tensor_map
from tests.support.kernels.call_kernels import accumulate, add, both
from tiledsl import tile
from tiledsl.backend_cuda.driver import call_driver as driver
from tiledsl.backend_cuda.driver import devices
from tiledsl.backend_cuda.frame.kernel_code import KernelParameter
from tiledsl.runtime.arrays.cuda_arrays import is_on_cuda
from tiledsl.support.catalogue.cuda import ENTRIES
from tiledsl.support.errors import TileError

V = tile.spec(("N",), tile.f32)


def ramp(size: int = 10) -> Any:
    return np.arange(size, dtype=np.float32)


def on_driver(act: Callable[[FakeDriver], object], **fields: Any) -> object:
    with fake_driver(**fields) as fake:
        return act(fake)


def with_arrays(act: Callable[[FakeCuda], object], **fields: Any) -> object:
    with fake_cuda(**fields) as cuda:
        return act(cuda)


def not_started(module: Any) -> object:
    """The first use of a driver whose module is that, or cannot be imported (None)."""
    before = driver.replace_process(driver.Process())
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "cuda.bindings.driver", module)
            return devices.device_count()
    finally:
        driver.replace_process(before)


class NoDriver:
    """What cuda.bindings does without libcuda."""

    def cuInit(self, flags: int) -> object:  # noqa: N802
        raise RuntimeError("Failed to dlopen libcuda.so.1\nmore")


def forked() -> object:
    before = driver.replace_process(driver.Process(forked=True))
    try:
        return devices.device_count()
    finally:
        driver.replace_process(before)


def launch(failing: Status, *, synchronous: bool = False, at: str = "cuLaunchKernelEx", **fields: Any) -> object:
    """A launch that the driver refuses, or whose wait fails."""

    def act(fake: FakeDriver) -> None:
        fake.counts["k"] = len(PARAMETERS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TILEDSL_SYNC", str(int(synchronous)))
            bound = loaded(code(**fields)).bind({"N": 2}, [(1,), (1,)], "")
        bound((0, 0), (1, 1.0), 0)
        fake.failing[at] = failing
        bound((0, 0), (1, 1.0), 0)

    return on_driver(act)


def mapped() -> object:
    """Rows of 101 elements of 2 bytes."""
    kernel = code(parameters=(KernelParameter("map", 0),))
    return on_driver(lambda fake: loaded(kernel, maps=[tensor_map()]).bind({"N": 2}, [(101, 1)], ""))


def shared_call(cuda: FakeCuda) -> object:
    """A written array of a library that cannot be asked for a copy, which is read from too."""
    values = ramp()
    return accumulate(FakeArray(values, cuda.driver), FakeArray(values, cuda.driver))


def strided(cuda: FakeCuda) -> object:
    records = aligned(np.zeros(10, np.dtype([("value", "f4"), ("tag", "u1")])))
    return add(FakeArray(records["value"], cuda.driver), cuda.array(ramp()))


def misaligned(cuda: FakeCuda) -> object:
    return add(cuda.tensor(ramp(), offset=2), cuda.tensor(ramp()))


class JaxArray:
    """As one of jax."""

    def __init__(self, values: Any) -> None:
        self.host = values
        self.dtype = values.dtype
        self.shape = values.shape
        self.platform = "gpu"
        self.local_hardware_id = 0

    def devices(self) -> set[Any]:
        return {self}

    def block_until_ready(self) -> None: ...

    def unsafe_buffer_pointer(self) -> int:
        return self.host.ctypes.data

    def __dlpack__(self) -> object: ...

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


def immutable(cuda: FakeCuda) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "jax", type("Jax", (), {"Array": JaxArray}))
        assert is_on_cuda(JaxArray(ramp()))
        return both(JaxArray(ramp()), cuda.array(ramp()))


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "cuda-no-bindings": (lambda: not_started(None), "`cuda-bindings` is not installed"),
    "cuda-no-driver": (lambda: not_started(NoDriver()), "no NVIDIA driver here (Failed to dlopen libcuda.so.1)"),
    "cuda-no-device": (
        lambda: on_driver(lambda fake: devices.device_of(0), failing={"cuDeviceGetCount": Status.CUDA_ERROR_NO_DEVICE}),
        "the NVIDIA driver finds no device",
    ),
    "cuda-device-number": (
        lambda: on_driver(lambda fake: devices.device_of(3), devices=2),
        "there is no CUDA device 3: this process sees 2",
    ),
    "cuda-driver-old": (
        lambda: on_driver(lambda fake: loaded(), failing={"cuModuleLoadData": Status.CUDA_ERROR_NO_BINARY_FOR_GPU}),
        "the driver (for CUDA 12.8) cannot load `k`, compiled for sm_90: CUDA_ERROR_NO_BINARY_FOR_GPU",
    ),
    "cuda-memory": (
        lambda: with_arrays(
            lambda cuda: add(cuda.array(ramp()), cuda.array(ramp())),
            failing={"cuMemAllocAsync": Status.CUDA_ERROR_OUT_OF_MEMORY},
        ),
        "device 0 has no memory left for an output of 40 bytes",
    ),
    "cuda-forked": (forked, "was forked from one that uses CUDA"),
    "cuda-call": (
        lambda: on_driver(lambda fake: devices.device_of(0), failing={"cuDeviceGet": Status.CUDA_ERROR_INVALID_VALUE}),
        "the CUDA call cuDeviceGet failed: CUDA_ERROR_INVALID_VALUE (text of 1)",
    ),
    "cuda-resources": (
        lambda: launch(Status.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, threads=1024),
        "device 0 cannot launch `k`: 1024 threads and 0 bytes of shared memory",
    ),
    "cuda-capture": (
        lambda: on_driver(
            lambda fake: loaded(), failing={"cuModuleLoadData": Status.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED}
        ),
        "`k` was called while a CUDA graph is captured",
    ),
    "cuda-stream": (
        lambda: launch(Status.CUDA_ERROR_INVALID_HANDLE),
        "the stream 0x0 is not one of device 0, on which `k` runs",
    ),
    "cuda-programs": (
        lambda: on_driver(lambda fake: loaded().bind({"N": 2**31}, [(1,), (1,)], "")),
        "`k` would need 2147483648 blocks of threads, and a CUDA device launches 2147483647 at most",
    ),
    "cuda-tensor-map": (
        mapped,
        "`k` was compiled to copy `t0` by TMA, which cannot be: its stride along axis 0 is 202 bytes, and must be a"
        " multiple of 16",
    ),
    "cuda-fault": (
        lambda: launch(Status.CUDA_ERROR_ILLEGAL_ADDRESS),
        "CUDA_ERROR_ILLEGAL_ADDRESS: text of 700; the device stopped in one of the kernels that were running: `k`",
    ),
    "cuda-fault-kernel": (
        lambda: launch(Status.CUDA_ERROR_ILLEGAL_ADDRESS, synchronous=True, at="cuStreamSynchronize"),
        "CUDA_ERROR_ILLEGAL_ADDRESS: text of 700; the device stopped in `k`",
    ),
    "array-mixed": (
        lambda: with_arrays(lambda cuda: add(cuda.tensor(ramp()), ramp())),
        "`x` is on CUDA device 0, but `y` is in CPU memory",
    ),
    "array-devices": (
        lambda: with_arrays(lambda cuda: add(cuda.tensor(ramp()), cuda.tensor(ramp(), device=1)), devices=2),
        "`x` is on CUDA device 0, but `y` is on device 1",
    ),
    "array-requires-grad": (
        lambda: with_arrays(lambda cuda: add(cuda.tensor(ramp(), requires_grad=True), cuda.tensor(ramp()))),
        "`x` requires a gradient",
    ),
    "array-lazy": (
        lambda: with_arrays(lambda cuda: add(cuda.tensor(ramp(), negated=True), cuda.tensor(ramp()))),
        "`x` is a lazily negated view",
    ),
    "array-misaligned": (
        lambda: with_arrays(misaligned),
        "`x` starts at an address that is no multiple of the size of its elements, 4 bytes",
    ),
    "array-strides": (lambda: with_arrays(strided), "`x` has strides of (5,) bytes, which are no whole elements"),
    "array-immutable": (lambda: with_arrays(immutable), "`x` is a jax array, which cannot be changed"),
    "array-overlap": (
        lambda: with_arrays(shared_call),
        "`total`, which `accumulate` writes to, shares memory with `x`",
    ),
    "argument-place": (
        lambda: with_arrays(lambda cuda: add.compile(V, V, arch="sm_90")(ramp(), ramp())),
        "`add` was compiled for `sm_90`, but its arguments are in CPU memory",
    ),
}


@pytest.mark.parametrize("code", list(CASES))
def test_message(code: str) -> None:
    provoke, text = CASES[code]
    with pytest.raises(TileError) as caught:
        provoke()
    error = caught.value
    assert error.code == code
    assert type(error) is ENTRIES[code].kind
    assert text in error.message
    assert error.fix
    assert error.fix in str(error)
    assert error.location is not None
    assert Path(error.location.file).name in ("test_cuda.py", "loaded_kernels.py")


def test_every_message_has_a_case() -> None:
    assert set(CASES) == set(ENTRIES)


def test_a_failed_assertion_is_located_in_the_kernel() -> None:
    """The message is that of the CPU; `test_loaded.py` has the rest."""
    with fake_driver() as fake:
        fake.counts["k"] = 1
        kernels = loaded(code(parameters=(FAILURE,)))
        bound = kernels.bind({"N": 1}, [], "")
        bound((), (), 0)
        assert kernels.record is not None
        kernels.record.words[:] = 1, 5
        with pytest.raises(TileError) as caught:
            bound((), (), 0)
    assert caught.value.code == "assertion-failed"
    assert caught.value.message == "assertion failed: all is well (in program 5 of the grid)"
