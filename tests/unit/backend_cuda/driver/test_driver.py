"""Starting the driver, devices, contexts, forks, memory: on a fake driver."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import sys
import threading
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.fakes.fake_driver import FakeDriver, Status, fake_driver
from tiledsl.backend_cuda.driver import call_driver as driver
from tiledsl.backend_cuda.driver import devices, services, streams
from tiledsl.runtime.arrays.device_array import DeviceArray
from tiledsl.runtime.arrays.dlpack import read_capsule
from tiledsl.runtime.arrays.frameworks import numpy_dtype
from tiledsl.support.errors import TileError, TileUnsupportedError


@pytest.fixture
def fake() -> Any:
    with fake_driver(devices=2) as made:
        yield made


def failure(act: Any) -> TileError:
    with pytest.raises(TileError) as caught:
        act()
    return caught.value


def test_devices(fake: FakeDriver) -> None:
    assert devices.device_count() == 2
    device = devices.device_of(1)
    assert (device.name, device.arch, device.multiprocessors) == ("Fake", "sm_90", 132)
    assert devices.device_of(1) is device
    assert fake.calls.count("cuDevicePrimaryCtxRetain") == 1
    assert failure(lambda: devices.device_of(-1)).code == "cuda-device-number"


@pytest.mark.parametrize("capability", [(8, 0), (10, 0), (12, 1)])
def test_architectures(capability: tuple[int, int]) -> None:
    with fake_driver(capability=capability):
        assert devices.device_of(0).arch == f"sm_{capability[0]}{capability[1]}"


@pytest.mark.parametrize(("capability", "arch"), [((9, 0), "sm_90"), ((8, 7), "sm_86"), ((12, 1), "sm_121")])
def test_a_device_runs_code_for_the_nearest_older_architecture(capability: tuple[int, int], arch: str) -> None:
    with fake_driver(capability=capability):
        assert services.CudaServices().arch(0) == arch


@pytest.mark.parametrize(("gigabytes", "arch"), [(4917, "sm_90"), (3352, "sm_90"), (2400, "sm_90:132x2400")])
def test_a_device_with_a_memory_of_its_own(gigabytes: int, arch: str) -> None:
    with fake_driver(gigabytes=gigabytes):
        assert services.CudaServices().arch(0) == arch
        for name in ("sm_90", arch):
            assert services.CudaServices().at_hand(name) == ["Fake, 132 multiprocessors"]


def test_a_device_that_is_too_old() -> None:
    with fake_driver(capability=(7, 5)), pytest.raises(TileUnsupportedError, match="`sm_75` is older than `sm_80`"):
        services.CudaServices().arch(0)


def test_the_driver_is_started_once() -> None:
    """By many threads at once."""
    gc.collect()  # what earlier tests left is given back to their drivers
    started: list[int] = []

    class Module(FakeDriver):
        def cuInit(self, flags: int) -> tuple[Status]:  # noqa: N802
            started.append(flags)
            return (Status.CUDA_SUCCESS,)

    before = driver.replace_process(driver.Process())
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "cuda.bindings.driver", Module())
            threads = [threading.Thread(target=devices.device_of, args=(0,)) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert started == [0]
        assert len(driver.process().devices) == 1
    finally:
        driver.replace_process(before)


def test_current_context(fake: FakeDriver) -> None:
    first, second = devices.device_of(0), devices.device_of(1)
    with devices.current(first):
        assert fake.contexts == [first.context]
    assert fake.contexts == [first.context]  # there was none: it stays
    with devices.current(first), devices.current(second):
        assert devices.is_current(second)
    assert fake.contexts == [first.context]
    with pytest.raises(RuntimeError), devices.current(second):
        raise RuntimeError
    assert fake.contexts == [first.context]


def _use_in_child(results: Any) -> None:
    try:
        devices.device_of(0)
        results.put("nothing")
    except TileError as error:
        results.put(error.code)


@pytest.mark.parametrize(("started", "told"), [(True, "cuda-forked"), (False, "nothing")])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_is_told_if_the_driver_was_started(started: bool, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Module(FakeDriver):
        def cuInit(self, flags: int) -> tuple[Status]:  # noqa: N802
            return (Status.CUDA_SUCCESS,)

    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", Module())
    before = driver.replace_process(driver.Process())
    try:
        if started:
            devices.device_of(0)
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        child = context.Process(target=_use_in_child, args=(results,))
        child.start()
        assert results.get(timeout=60) == told
        child.join()
    finally:
        driver.replace_process(before)


def test_memory_is_freed_on_its_stream(fake: FakeDriver) -> None:
    memory = services.CudaServices().allocate(100, 1, 7)
    assert memory.address % 512 == 0
    assert services.CudaServices().device_of_address(memory.address + 10) == 1
    del memory
    gc.collect()
    assert fake.calls.count("cuMemFreeAsync") == 1
    assert fake.memory == {}
    assert services.CudaServices().allocate(0, 1, 7).address == 0


def test_memory_of_a_device_that_failed_is_let_go(fake: FakeDriver) -> None:
    memory = services.CudaServices().allocate(100, 0, 0)
    fake.failing["cuMemFreeAsync"] = Status.CUDA_ERROR_ILLEGAL_ADDRESS
    del memory
    gc.collect()


def test_device_arrays(fake: FakeDriver) -> None:
    array = DeviceArray((2, 3), np.dtype(np.float32), 0, 9, services.CudaServices())
    assert (array.strides, array.ndim, array.size) == ((12, 4), 2, 6)
    storage, _ = fake.memory[array.address]
    start = array.address - storage.ctypes.data
    values: Any = np.arange(6, dtype=np.float32)
    storage[start : start + 24] = values.view(np.uint8)
    np.testing.assert_array_equal(array.numpy(), values.reshape(2, 3))
    np.testing.assert_array_equal(np.asarray(array, np.float64), values.reshape(2, 3))
    interface = array.__cuda_array_interface__
    assert interface["typestr"] == "<f4"
    assert interface["stream"] == 9
    assert repr(array) == "<DeviceArray float32[2, 3] on CUDA device 0>"


def test_streams_wait_for_each_other(fake: FakeDriver) -> None:
    device = devices.device_of(0)
    streams.run_after(device, 5, 5)
    assert "cuEventRecord" not in fake.calls
    streams.run_after(device, 5, 6)
    assert fake.calls[-4:] == ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy"]


def test_synchronize(fake: FakeDriver) -> None:
    tiledsl.synchronize()
    assert "cuCtxSynchronize" not in fake.calls  # no device was used
    devices.device_of(0)
    devices.device_of(1)
    tiledsl.synchronize()
    assert fake.calls.count("cuCtxSynchronize") == 2
    tiledsl.synchronize(device=1)
    assert fake.calls.count("cuCtxSynchronize") == 3
    tiledsl.synchronize(stream=5)
    assert fake.calls.count("cuStreamSynchronize") == 1
    assert failure(lambda: tiledsl.synchronize(device=7)).code == "cuda-device-number"


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_device_arrays_by_dlpack(fake: FakeDriver, dtype: str) -> None:
    known = numpy_dtype(dtype)
    assert known is not None
    array: Any = DeviceArray((2, 3), known, 1, 9, services.CudaServices())
    capsule = array.__dlpack__(stream=5, max_version=(1, 0))
    assert fake.calls[-3:] == ["cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy"]
    read = read_capsule(capsule)
    assert (read.dtype, read.shape, read.strides, read.device) == (dtype, (2, 3), (3, 1), 1)
    assert read.address == array.address
    assert array.__dlpack_device__() == (2, 1)
    del array
    gc.collect()
    assert fake.memory != {}
    del capsule  # nobody took it
    gc.collect()
    assert fake.memory == {}


def test_whoever_takes_a_capsule_frees_it(fake: FakeDriver) -> None:
    """NumPy takes one that says that it is the CPU's."""

    class OnCpu:
        def __dlpack__(self, **wishes: object) -> object:
            array = DeviceArray((3,), np.dtype(np.int32), 0, 0, services.CudaServices())
            capsule = array.__dlpack__(stream=-1)
            pointer_of: Any = ctypes.pythonapi.PyCapsule_GetPointer
            pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            ctypes.c_int32.from_address(pointer_of(capsule, b"dltensor") + 8).value = 1
            return capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    taken: Any = np.from_dlpack(OnCpu())  # pyright: ignore[reportArgumentType]
    gc.collect()
    assert len(fake.memory) == 1
    np.testing.assert_array_equal(taken, [0, 0, 0])
    del taken
    gc.collect()
    assert fake.memory == {}
