"""Calls with arrays on a CUDA device, from arguments to results: a fake driver, and the reference executor for code."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.fakes.fake_cuda import FakeArray, FakeCuda, FakeParameter, FakeTensor, aligned, fake_cuda
from tests.support.kernels.call_kernels import accumulate, add, both, power, scale, sum_and_difference
from tiledsl import tile
from tiledsl.runtime.arrays import address_rules
from tiledsl.runtime.arrays.device_array import DeviceArray
from tiledsl.runtime.calls.cuda_launch import CudaLaunch
from tiledsl.support.errors import TileError

F32 = np.float32


@pytest.fixture
def cuda() -> Any:
    with fake_cuda(devices=2) as fake:
        yield fake


@pytest.fixture(autouse=True)
def fresh_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel remembers of one fake driver is nothing to another."""
    this = sys.modules[__name__]
    for kernel in (accumulate, add, both, copy, power, scale, sum_and_difference):
        monkeypatch.setattr(this, kernel.__name__, tile.kernel(kernel.__wrapped__))


def ramp(size: int = 10, dtype: Any = F32) -> Any:
    return np.arange(size).astype(dtype)


def failure(act: Any) -> TileError:
    with pytest.raises(TileError) as caught:
        act()
    return caught.value


# What a call gives


def test_results_are_tensors_of_the_caller(cuda: FakeCuda) -> None:
    x, y = cuda.tensor(ramp()), cuda.tensor(ramp() * 2)
    for _ in range(3):  # the first call goes the careful way, the others the short one
        z: Any = add(x, y)
        assert isinstance(z, FakeTensor)
        np.testing.assert_array_equal(z.host, ramp() * 3)
    assert cuda.programs[0].binds == 1
    assert len(cuda.torch.allocated) == 3


def test_out_is_written_and_returned(cuda: FakeCuda) -> None:
    x = cuda.tensor(ramp())
    for _ in range(3):
        out = cuda.tensor(ramp() * 0)
        assert add(x, x, out=out) is out
        np.testing.assert_array_equal(out.host, ramp() * 2)
    assert cuda.torch.allocated == []


def test_several_outputs(cuda: FakeCuda) -> None:
    x, y = cuda.tensor(ramp()), cuda.tensor(ramp() * 3)
    for _ in range(3):
        plus, minus = sum_and_difference(x, y)
        np.testing.assert_array_equal(plus.host, ramp() * 4)
        np.testing.assert_array_equal(minus.host, ramp() * -2)
        out = cuda.tensor(ramp()), cuda.tensor(ramp())
        assert sum_and_difference(x, y, out=out) == out
        np.testing.assert_array_equal(out[1].host, ramp() * -2)
    error = failure(lambda: sum_and_difference(x, y, out=(x,)))
    assert error.code == "out-count"


def test_scalars_and_constants_of_the_short_way(cuda: FakeCuda) -> None:
    x = cuda.tensor(ramp())
    for factor, offset in ((2.0, 1), (3.0, 0), (2.0, 5)):
        np.testing.assert_array_equal(scale(x, factor, offset).host, ramp() * factor + offset)
    for exponent in (2, 3, 2, 3):
        np.testing.assert_array_equal(power(x, exponent).host, ramp() ** exponent)
        np.testing.assert_array_equal(power(x, exponent=exponent).host, ramp() ** exponent)
    np.testing.assert_array_equal(power(x).host, ramp() ** 2)
    assert failure(lambda: scale(x, 1.0, 2**70)).code == "scalar-range"


def test_too_many_arguments_are_never_taken_for_out(cuda: FakeCuda) -> None:
    x = cuda.tensor(ramp())
    call: Any = add
    for _ in range(2):
        add(x, x, out=cuda.tensor(ramp()))
        assert failure(lambda: call(x, x, cuda.tensor(ramp()))).code == "call-extra"
        assert failure(lambda: call(x, out=x)).code == "call-missing"


def test_shapes_in_turn(cuda: FakeCuda) -> None:
    """More of them than checks are kept for."""
    for _ in range(3):
        for size in (3, 16, 5, 32, 7, 9, 11, 13):
            np.testing.assert_array_equal(add(cuda.tensor(ramp(size)), cuda.tensor(ramp(size))).host, ramp(size) * 2)


def test_parameters_of_modules(cuda: FakeCuda) -> None:
    weight = FakeParameter(aligned(ramp()))
    for _ in range(3):
        np.testing.assert_array_equal(add(weight, weight).host, ramp() * 2)


def test_a_gradient_is_asked_for_at_every_call(cuda: FakeCuda) -> None:
    x, leaf = cuda.tensor(ramp()), cuda.tensor(ramp(), requires_grad=True)
    for _ in range(2):
        add(x, x)
        assert failure(lambda: add(leaf, x)).code == "array-requires-grad"
        with cuda.torch.no_grad():
            np.testing.assert_array_equal(add(leaf, x).host, ramp() * 2)
    assert failure(lambda: add(x, cuda.tensor(ramp(), negated=True))).code == "array-lazy"


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.float16, np.int32, np.uint8])
def test_dtypes(cuda: FakeCuda, dtype: Any) -> None:
    x = cuda.tensor(ramp(5, dtype))
    z: Any = add(x, x)
    assert z.host.dtype == dtype
    np.testing.assert_array_equal(z.host.astype(F32), ramp(5) * 2)
    assert failure(lambda: add(cuda.tensor(ramp(5, np.complex64)), x)).code == "array-dtype"


def test_empty_tensors(cuda: FakeCuda) -> None:
    x = cuda.tensor(ramp(0))
    for _ in range(2):
        assert add(x, x).shape == (0,)


# Alignment


@pytest.mark.parametrize(("offset", "bytes_"), [(0, 16), (4, 4), (8, 8), (12, 4), (16, 16), (32, 16)])
def test_alignment_follows_the_address(cuda: FakeCuda, offset: int, bytes_: int) -> None:
    other = cuda.tensor(ramp())
    for _ in range(2):
        x = cuda.tensor(ramp(), offset=offset)
        np.testing.assert_array_equal(add(x, other).host, ramp() * 2)
        assert cuda.runs[-1].alignment == (bytes_, 16, 16)


def test_one_launch_has_code_for_each_alignment(cuda: FakeCuda) -> None:
    other, out = cuda.tensor(ramp()), cuda.tensor(ramp())
    for _ in range(2):
        for offset in (0, 4, 8, 0):
            add(cuda.tensor(ramp(), offset=offset), other, out=out)
    assert [run.alignment[0] for run in cuda.runs] == [16, 4, 8, 16] * 2
    assert cuda.programs[0].binds == 3
    assert "aligned to (4, 16, 16)" in add.explain()


@tile.kernel
def copy(x: tile.Tensor) -> Any:
    """A copy of two axes."""
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        y[m, :] = x[m, :]
    return y


@pytest.mark.parametrize(
    ("shape", "view", "aligned_to"),
    [
        ((4, 16), slice(None), (16, 16)),
        ((4, 17), slice(None), (4, 4)),
        ((4, 18), slice(None), (8, 8)),
        ((1, 17), slice(None), (16, 16)),  # of one row, its length does not matter
        ((8, 17), slice(None, None, 4), (16, 4)),
    ],
)
def test_alignment_follows_the_strides(cuda: FakeCuda, shape: Any, view: slice, aligned_to: tuple[int, ...]) -> None:
    values = ramp(shape[0] * shape[1]).reshape(shape)
    storage = cuda.tensor(values).host
    z: Any = copy(FakeTensor(storage[view]))
    np.testing.assert_array_equal(z.host, values[view])
    assert cuda.runs[-1].alignment == aligned_to


def test_few_addresses_are_remembered(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_rules, "MOST_ADDRESSES", 4)
    tensors = [cuda.tensor(ramp()) for _ in range(10)]
    for tensor in tensors * 2:
        np.testing.assert_array_equal(add(tensor, tensors[0]).host, ramp() * 2)
    (launch,) = add._current.dispatchers.default.launches  # pyright: ignore[reportPrivateUsage]
    assert isinstance(launch, CudaLaunch)
    assert len(launch.accepted) <= 4


# Overlap


def test_an_output_that_is_an_input(cuda: FakeCuda) -> None:
    x, y = cuda.tensor(ramp()), cuda.tensor(ramp() * 2)
    for step in range(1, 4):
        assert add(x, y, out=x) is x
        np.testing.assert_array_equal(x.host, ramp() * (1 + 2 * step))


def test_outputs_that_partly_overlap(cuda: FakeCuda) -> None:
    storage = cuda.tensor(ramp(20)).host
    x, y = FakeTensor(storage[:10]), cuda.tensor(ramp())
    add(x, y, out=cuda.tensor(ramp()))  # so that the short way knows the launch
    add(x, y, out=FakeTensor(storage[5:15]))
    np.testing.assert_array_equal(storage[5:15], ramp() * 2)


def test_written_parameters_that_overlap(cuda: FakeCuda) -> None:
    total = cuda.tensor(ramp())
    for _ in range(2):
        before = total.host.copy()
        assert accumulate(total, total) is total
        np.testing.assert_array_equal(total.host, before + before[::-1])
    storage = cuda.tensor(ramp(20)).host
    even, odd = storage[::2], storage[1::2]
    want = even + odd[::-1]
    accumulate(FakeTensor(even), FakeTensor(odd))  # no element is shared, though they lie between each other
    np.testing.assert_array_equal(even, want)
    x = cuda.tensor(ramp())
    assert failure(lambda: both(x, x)).code == "out-shared"
    wide = FakeTensor(np.broadcast_to(aligned(ramp(1)), (10,)))
    assert failure(lambda: accumulate(wide, cuda.tensor(ramp()))).code == "out-repeats"


def test_out_is_checked(cuda: FakeCuda) -> None:
    x = cuda.tensor(ramp())
    assert failure(lambda: add(x, x, out=cuda.tensor(ramp(11)))).code == "out-shape"
    assert failure(lambda: add(x, x, out=cuda.tensor(ramp(10, np.float64)))).code == "out-dtype"
    assert failure(lambda: add(x, x, out=3)).code == "out-not-array"
    assert failure(lambda: both(x, cuda.tensor(ramp()), out=x)).code == "out-nothing"
    pair = cuda.tensor(ramp()), cuda.tensor(ramp())
    assert failure(lambda: add(x, x, out=pair)).code == "out-count"
    same = cuda.tensor(ramp())
    assert failure(lambda: sum_and_difference(x, x, out=(same, same))).code == "out-shared"


# Devices and streams


def test_streams_are_the_callers(cuda: FakeCuda) -> None:
    x = cuda.tensor(ramp())
    for stream in (0, 77, 78, 77):
        cuda.torch.streams[0] = stream
        add(x, x)
        assert cuda.runs[-1].stream == stream


def test_devices(cuda: FakeCuda) -> None:
    cuda.torch.streams[1] = 5
    for _ in range(2):
        for device in (0, 1):
            x = cuda.tensor(ramp(), device)
            z: Any = add(x, x)
            assert z.get_device() == device
            run = [run for run in cuda.runs if run.device == device][-1]
            assert run.stream == (5 if device else 0)
    first, second = cuda.tensor(ramp()), cuda.tensor(ramp(), 1)
    assert failure(lambda: add(first, second)).code == "array-devices"
    assert failure(lambda: add(first, first, out=second)).code == "array-devices"


def test_the_cpu_and_a_device_side_by_side(cuda: FakeCuda) -> None:
    x = cuda.tensor(ramp())
    for _ in range(2):
        np.testing.assert_array_equal(add(ramp(), ramp()), ramp() * 2)
        np.testing.assert_array_equal(add(x, x).host, ramp() * 2)
        assert failure(lambda: add(ramp(), x)).code == "array-mixed"
        assert failure(lambda: add(x, x, out=ramp())).code == "array-mixed"
        assert failure(lambda: add(ramp(), ramp(), out=x)).code == "array-mixed"
        assert failure(lambda: add(x, FakeTensor(ramp(), -1))).code == "array-mixed"


def test_threads(cuda: FakeCuda) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        x = cuda.tensor(ramp() * number)
        for _ in range(50):
            z: Any = add(x, x)
            if not np.array_equal(z.host, ramp() * number * 2):
                wrong.append(z.host)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# Other libraries


def test_arrays_with_the_interface(cuda: FakeCuda) -> None:
    x = cuda.array(ramp())
    for _ in range(2):
        z: Any = add(x, x)
        assert isinstance(z, DeviceArray)
        np.testing.assert_array_equal(z.numpy(), ramp() * 2)
        assert cuda.runs[-1].stream == 0
        assert isinstance(add(z, z), DeviceArray)
    out = cuda.array(ramp())
    assert add(x, x, out=out) is out
    np.testing.assert_array_equal(out.host, ramp() * 2)
    out.read_only = True
    assert failure(lambda: add(x, x, out=out)).code == "out-read-only"
    assert failure(lambda: add(x, x, out=x)).code == "array-overlap"


def test_the_stream_of_the_interface(cuda: FakeCuda) -> None:
    x, y = cuda.array(ramp(), stream=9), cuda.array(ramp(), stream=1)
    z: Any = add(x, y)
    assert cuda.runs[-1].stream == 9
    assert z.stream == 9
    waits = [call for call in cuda.driver.calls if call == "cuStreamWaitEvent"]
    assert len(waits) == 2  # for what made y, and for what uses it next


def test_tensors_decide_the_stream_and_the_outputs(cuda: FakeCuda) -> None:
    cuda.torch.streams[0] = 4
    z: Any = add(cuda.array(ramp()), cuda.tensor(ramp()))
    assert isinstance(z, FakeTensor)
    assert cuda.runs[-1].stream == 4


def test_an_interface_that_lies(cuda: FakeCuda) -> None:
    class Empty:
        __cuda_array_interface__: dict[str, object] = {}

    error = failure(lambda: add(Empty(), cuda.array(ramp())))
    assert error.code == "array-foreign"
    assert "'shape'" in error.message


class Shared:
    """An array of which only DLPack is known."""

    def __init__(self, values: Any) -> None:
        self.host = values

    def __dlpack__(self, stream: int | None = None) -> object:
        assert stream == 1
        return self.host.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


def test_arrays_with_dlpack(cuda: FakeCuda) -> None:
    """The capsule says that it is the CPU's, which nobody asks: the array has been asked before."""
    x = Shared(aligned(ramp(20))[::2])
    for _ in range(2):
        z: Any = add(x, x)
        np.testing.assert_array_equal(z.numpy(), ramp(20)[::2] * 2)


def test_no_library_is_imported(cuda: FakeCuda) -> None:
    with pytest.MonkeyPatch.context() as patch:  # which ends before the fake PyTorch does
        patch.delitem(sys.modules, "torch")
        add(cuda.array(ramp()), cuda.array(ramp()))
        assert not {"torch", "cupy", "jax"} & set(sys.modules)


# Prepared calls, compiled kernels


def test_prepared_calls(cuda: FakeCuda) -> None:
    x, y = cuda.tensor(ramp()), cuda.tensor(ramp())
    cuda.torch.streams[0] = 3
    prepared: Any = add.bind(x, y)
    assert cuda.runs == []
    for step in range(3):
        x.host[...] = step
        assert prepared() is prepared.result
        np.testing.assert_array_equal(prepared.result.host, ramp() + step)
    assert {run.stream for run in cuda.runs} == {3}
    assert len(cuda.torch.allocated) == 1
    out = cuda.tensor(ramp())
    prepared.update(y, y, out=out)
    assert prepared() is out
    np.testing.assert_array_equal(out.host, ramp() * 2)
    assert failure(lambda: prepared.update(y, cuda.tensor(ramp(11)))).code == "size-mismatch"
    assert prepared() is out
    assert failure(lambda: add.bind(x, y, out=x)).code == "bind-overlap"
    add.bind(x, y, stream=8)()
    assert cuda.runs[-1].stream == 8


def test_prepared_calls_on_the_cpu() -> None:
    x = ramp()
    prepared: Any = scale.bind(x, 2.0, offset=1)
    for step in range(2):
        x[...] = step
        np.testing.assert_array_equal(prepared(), ramp() * 0 + step * 2 + 1)


def test_compiled_kernels(cuda: FakeCuda) -> None:
    x = cuda.tensor(ramp())
    compiled: Any = add.compile(x, x)
    assert compiled.arch == "sm_90"
    np.testing.assert_array_equal(compiled(x, x).host, ramp() * 2)
    assert (compiled.source, compiled.cubin, compiled.ir("gpu")) == ("// CUDA C", b"cubin", "gpu ir")
    assert compiled.resources == {"k": {"registers": 32}}
    older: Any = add.compile(x, x, arch="sm_80")
    newer: Any = add.compile(x, x, arch="sm_100")
    exact: Any = add.compile(x, x, arch="sm_90a")
    assert failure(lambda: older(x, x)).code == "argument-place"
    assert failure(lambda: newer(x, x)).code == "argument-place"
    np.testing.assert_array_equal(exact(x, x).host, ramp() * 2)
    on_cpu = add.compile(ramp(), ramp())
    assert failure(lambda: on_cpu(x, x)).code == "argument-place"


def test_compiling_for_a_gpu_takes_no_driver() -> None:
    gc.collect()  # or what an earlier test left in a cycle is freed by this driver
    with fake_cuda(devices=0) as cuda:
        spec = tile.spec(("N",), tile.f32)
        assert add.compile(spec, spec, arch="sm_90").source == "// CUDA C"
        assert cuda.driver.calls == []


def test_arrays_that_are_strided_differently_are_told_apart(cuda: FakeCuda) -> None:
    values = aligned(ramp(40))
    for _ in range(2):
        for step in (1, 2, 4):
            x = FakeTensor(values[: 10 * step : step])
            np.testing.assert_array_equal(add(x, x).host, x.host * 2)


def test_fake_arrays_are_on_a_device(cuda: FakeCuda) -> None:
    """Or else the tests above would test the CPU."""
    add(FakeArray(aligned(ramp()), cuda.driver), cuda.tensor(ramp()))
    assert len(cuda.runs) == 1
