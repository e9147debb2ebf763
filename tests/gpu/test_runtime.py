"""The runtime on a device: streams, graphs, threads, frameworks, alignment, overlap, faults.

A fault breaks the process it happens in, so tests of faults have processes of their own.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from softmax import softmax
from tests.support.compare import assert_close
from tests.support.gpu_code.cuda_arrays import framework
from tests.support.kernels.call_kernels import accumulate, add, column_totals, relay, scale, sum_and_difference
from tiledsl.runtime.arrays.device_array import DeviceArray
from tiledsl.support.errors import TileError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def torch() -> Any:
    """PyTorch, which most of these tests need."""
    found = framework("torch")
    if isinstance(found, str):
        pytest.skip(found)
    return importlib.import_module("torch")


def ramp(torch: Any, size: int = 1000, **named: Any) -> Any:
    return torch.arange(size, dtype=torch.float32, device="cuda", **named)


def failure(act: Any) -> TileError:
    with pytest.raises(TileError) as caught:
        act()
    return caught.value


# Calls


def test_short_and_careful_calls_agree(torch: Any) -> None:
    x, y = ramp(torch), ramp(torch)
    out = torch.empty_like(x)
    for _ in range(4):
        assert torch.equal(add(x, y), x + y)
        assert add(x, y, out=out) is out
        assert torch.equal(out, x + y)
    assert torch.equal(scale(x, 3.0, 2), x * 3 + 2)
    assert torch.equal(scale(x, 4.0, 1), x * 4 + 1)  # the same code with other numbers


def test_several_outputs(torch: Any) -> None:
    x, y = ramp(torch), ramp(torch) * 3
    plus, minus = sum_and_difference(x, y)
    assert torch.equal(plus, x + y)
    assert torch.equal(minus, x - y)
    out = torch.empty_like(x), torch.empty_like(x)
    for _ in range(3):
        plus, minus = sum_and_difference(x, y, out=out)
        assert plus is out[0]
        assert torch.equal(minus, x - y)


def test_every_shape_again_and_again(torch: Any) -> None:
    for _ in range(3):
        for size in (1, 7, 16, 100, 1000, 4099, 65536):
            x = ramp(torch, size)
            assert torch.equal(add(x, x), x + x), size


@pytest.mark.parametrize("offset", [1, 2, 3, 4, 8])
def test_misaligned_addresses(torch: Any, offset: int) -> None:
    storage = ramp(torch, 4096 + 8)
    aligned, x = storage[:4096], storage[offset : 4096 + offset]
    for _ in range(2):  # after an aligned call of the same shape
        assert torch.equal(add(aligned, aligned), aligned + aligned)
        assert torch.equal(add(x, aligned), x + aligned)
        out = torch.zeros_like(storage)
        add(aligned, x, out=out[offset : 4096 + offset])
        assert torch.equal(out[offset : 4096 + offset], aligned + x)
        assert out[:offset].abs().sum() == 0
        assert out[4096 + offset :].abs().sum() == 0


def test_odd_strides(torch: Any) -> None:
    x = torch.randn(64, 129, device="cuda")
    want = torch.softmax(x, 1)
    for view in (x, torch.nn.functional.pad(x, (0, 3))[:, :129], torch.cat([x, x])[:64], x.t().contiguous().t()):
        assert_close(softmax(view).cpu().numpy(), want.cpu().numpy())


def test_empty_arrays(torch: Any) -> None:
    x = ramp(torch, 0)
    assert add(x, x).shape == (0,)
    assert softmax(torch.empty(0, 5, device="cuda")).shape == (0, 5)


def test_outputs_that_overlap_what_is_read(torch: Any) -> None:
    x, total = ramp(torch), ramp(torch)
    assert accumulate(total, total) is total  # reads what it writes, in another order: from a copy
    assert torch.equal(total, x + x.flip(0))
    both = ramp(torch, 2000)
    accumulate(both[::2], both[1::2])  # interleaved: no element is shared
    assert torch.equal(both[::2], ramp(torch, 2000)[::2] + ramp(torch, 2000)[1::2].flip(0))
    assert failure(lambda: add(x, x, out=x[:1].expand(1000))).code == "out-repeats"


def test_parameters_and_gradients(torch: Any) -> None:
    weight = torch.nn.Parameter(ramp(torch))
    assert failure(lambda: add(weight, weight)).code == "array-requires-grad"
    for _ in range(3):
        with torch.no_grad():
            assert torch.equal(add(weight, weight), weight + weight)
        with torch.inference_mode():
            assert torch.equal(add(weight, weight), weight + weight)
    assert failure(lambda: add(weight, weight)).code == "array-requires-grad"


def test_arrays_that_do_not_go_together(torch: Any) -> None:
    x = ramp(torch)
    assert failure(lambda: add(x, x.cpu())).code == "array-mixed"
    assert failure(lambda: add(x, np.zeros(1000, np.float32))).code == "array-mixed"
    assert failure(lambda: add(x, x, out=np.zeros(1000, np.float32))).code == "array-mixed"
    assert failure(lambda: add(x, x.to(torch.complex64))).code == "array-dtype"
    assert failure(lambda: add(x, x[:999])).code == "size-mismatch"


# Streams, graphs, threads


def test_the_current_stream_is_used(torch: Any) -> None:
    """On a stream that is busy, what the kernel reads is written just before it runs."""
    stream = torch.cuda.Stream()
    x, y = torch.zeros(1 << 20, device="cuda"), torch.ones(1 << 20, device="cuda")
    torch.cuda.synchronize()
    for _ in range(3):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            x.fill_(5)
            z = add(x, y)
            x.fill_(0)
        stream.synchronize()
        assert z.eq(6).all()


def test_prepared_calls(torch: Any) -> None:
    x, y = ramp(torch), ramp(torch)
    prepared = add.bind(x, y)
    for step in range(3):
        x.fill_(step)
        assert torch.equal(prepared(), x + y)
    out = torch.empty_like(x)
    prepared.update(y, y, out=out)
    assert prepared() is out
    assert torch.equal(out, y + y)
    stream = torch.cuda.Stream()
    other = add.bind(x, y, stream=stream.cuda_stream)
    torch.cuda.synchronize()
    result = other()
    stream.synchronize()
    assert torch.equal(result, x + y)


@pytest.mark.parametrize("prepared", [False, True])
def test_a_graph_is_captured_after_the_first_call(torch: Any, prepared: bool) -> None:
    x, y = torch.randn(64, 1024, device="cuda"), torch.randn(64, 1024, device="cuda")
    out = torch.empty_like(x)
    softmax(x)
    softmax(x, out=out)
    call = softmax.bind(x, out=out) if prepared else lambda: softmax(x, out=out)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        if prepared:
            call = softmax.bind(x, out=out)
        with torch.cuda.graph(graph, stream=stream):
            call()
            fresh = softmax(y)  # allocates in the graph's pool
    for _ in range(3):
        x.normal_()
        y.normal_()
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert_close(out.cpu().numpy(), torch.softmax(x, 1).cpu().numpy())
        assert_close(fresh.cpu().numpy(), torch.softmax(y, 1).cpu().numpy())


@pytest.mark.parametrize("captured", [False, True])
def test_kernels_of_a_program_come_after_each_other(torch: Any, captured: bool) -> None:
    """Though they overlap: each program's kernels need what the kernel before has written, also in the last block."""
    rounds = 50
    rows = torch.empty(rounds, 4, 1 << 20, device="cuda")
    lines = torch.empty(rounds, 100_000, device="cuda")

    def every() -> list[tuple[Any, Any]]:
        return [(column_totals(x), relay(line)) for x, line in zip(rows, lines)]

    def renew() -> None:
        rows.random_(-8, 8)  # whole numbers: sums are exact
        lines.random_(-8, 8)

    renew()
    column_totals(rows[0])
    relay(lines[0])
    graph = torch.cuda.CUDAGraph()
    results: list[tuple[Any, Any]] = []
    if captured:
        with torch.cuda.graph(graph):
            results = every()
    for _ in range(4):
        renew()
        before = lines.clone()
        if captured:
            graph.replay()
        else:
            results = every()
        assert torch.equal(torch.stack([totals for totals, _ in results]), rows.sum(1))
        assert torch.equal(torch.stack([twice for _, (twice, _) in results]), before * 4)
        assert torch.equal(torch.stack([reversed_ for _, (_, reversed_) in results]), before.flip(1) * 4)
        assert torch.equal(lines, before + 1)


def test_threads(torch: Any) -> None:
    """Some have streams of their own, and none has used CUDA before."""
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            stream = torch.cuda.Stream() if number % 2 else torch.cuda.current_stream()
            with torch.cuda.stream(stream):
                for step in range(100):
                    x = torch.full((1000 + step % 3,), float(number), device="cuda")
                    z = add(x, x)
                    stream.synchronize()
                    if not z.eq(2 * number).all():
                        wrong.append((number, step))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_thread_without_a_context(torch: Any) -> None:
    x = ramp(torch)
    out = torch.empty_like(x)
    add(x, x, out=out)
    torch.cuda.synchronize()
    thread = threading.Thread(target=lambda: add(x, x, out=out.zero_()))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert torch.equal(out, x + x)


def test_several_devices(torch: Any) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device only")
    first, second = (torch.arange(1000, dtype=torch.float32, device=f"cuda:{number}") for number in range(2))
    for _ in range(3):
        for x in (second, first):  # whichever is current
            z = add(x, x)
            assert z.device == x.device
            assert torch.equal(z, x + x)
            with torch.cuda.device(1):
                assert torch.equal(add(x, x, out=torch.empty_like(x)), x + x)
    assert torch.cuda.current_device() == 0
    assert failure(lambda: add(first, second)).code == "array-devices"


# Other libraries


def test_cupy() -> None:
    found = framework("cupy")
    if isinstance(found, str):
        pytest.skip(found)
    cupy: Any = importlib.import_module("cupy")
    x = cupy.arange(1000, dtype=cupy.float32)
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream:
            for _ in range(2):
                z = add(x, x)
                assert isinstance(z, cupy.ndarray)
                assert bool((z == x + x).all())
            assert bool((scale(x[::2], 2.0) == x[::2] * 2).all())
    total = cupy.arange(1000, dtype=cupy.float32)
    accumulate(total, total)
    assert bool((total == x + x[::-1]).all())


def test_jax() -> None:
    try:
        jax: Any = importlib.import_module("jax")
        on_gpu = any(device.platform == "gpu" for device in jax.devices())
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"jax: {error}")
    if not on_gpu:
        pytest.skip("jax sees no CUDA device")
    x = jax.numpy.arange(1000, dtype=jax.numpy.float32)
    z: Any = add(x, x)
    assert isinstance(z, DeviceArray)
    assert_close(z.numpy(), np.asarray(x) * 2)
    back = jax.dlpack.from_dlpack(z)
    assert bool((back == x * 2).all())
    low = x.astype(jax.numpy.bfloat16)
    assert_close(add(low, low).numpy().astype(np.float32), np.asarray(low).astype(np.float32) * 2)
    assert failure(lambda: accumulate(x, x)).code == "array-immutable"


class OnlyInterface:
    """A tensor of which nothing but the CUDA array interface is seen."""

    def __init__(self, tensor: Any) -> None:
        self.kept = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


class OnlyDlpack:
    """A tensor of which nothing but DLPack is seen."""

    def __init__(self, tensor: Any) -> None:
        self.kept = tensor

    def __dlpack__(self, **named: Any) -> object:
        return self.kept.__dlpack__(**named)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kept.__dlpack_device__()


@pytest.mark.parametrize("offer", [OnlyInterface, OnlyDlpack])
def test_protocols(torch: Any, offer: Any) -> None:
    x = ramp(torch)
    torch.cuda.synchronize()
    z: Any = add(offer(x), offer(x))
    assert isinstance(z, DeviceArray)
    assert_close(z.numpy(), (x + x).cpu().numpy())
    again: Any = add(z, z)
    assert_close(again.numpy(), (x * 4).cpu().numpy())
    assert torch.equal(torch.as_tensor(again, device="cuda"), x * 4)
    if offer is OnlyDlpack:
        low = x.to(torch.bfloat16)
        bits: Any = add(OnlyDlpack(low), OnlyDlpack(low))
        assert_close(bits.numpy().astype(np.float32), (low + low).float().cpu().numpy())
        assert torch.equal(torch.from_dlpack(bits), low + low)


# Faults

FAULTY = """
import torch
import tiledsl
from tiledsl import tile


@tile.kernel
def twice(x):
    (N,) = x.shape
    y = tile.empty((N,), x.dtype)
    for n in tile.grid(N):
        y[n] = x[n] + x[n]
    return y


@tile.kernel
def checked(x):
    (N,) = x.shape
    y = tile.empty((N,), x.dtype)
    for n in tile.grid(N, block=1):
        tile.assert_(x[n] < 1000)
        y[n] = x[n] + 1
    return y


class Nowhere:  # an array of which there is no memory
    __cuda_array_interface__ = {"shape": (1000,), "typestr": "<f4", "data": (256, False), "version": 3}


x = torch.arange(1000.0, device="cuda")
twice(x)
checked(x)
tiledsl.synchronize()
"""


def run_faulty(body: str, folder: Path, **environment: str) -> str:
    """What a process prints that goes on with `body` after the kernels above."""
    path = folder / "faulty.py"
    path.write_text(FAULTY + textwrap.dedent(body))
    found_in = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": found_in, **environment},
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.parametrize("synchronous", ["0", "1"])
def test_a_fault_is_laid_to_a_kernel(torch: Any, tmp_path: Path, synchronous: str) -> None:
    body = """
    try:
        checked(x)
        twice(Nowhere())
        tiledsl.synchronize()
    except tiledsl.TileRuntimeError as error:
        print(error)
    """
    printed = run_faulty(body, tmp_path, TILEDSL_SYNC=synchronous)
    if synchronous == "1":
        assert "the device stopped in `twice`" in printed, printed
    else:
        assert "one of the kernels that were running: `twice`, `checked`" in printed, printed


def test_a_failed_assertion_is_raised_by_synchronize(torch: Any, tmp_path: Path) -> None:
    body = """
    checked(x + 1)
    try:
        tiledsl.synchronize()
    except tiledsl.TileRuntimeError as error:
        print(error.code, error)
    print(checked(x)[7].item())
    tiledsl.synchronize()
    """
    printed = run_faulty(body, tmp_path)
    assert "assertion-failed" in printed, printed
    assert "tile.assert_(x[n] < 1000)" in printed
    assert "(in program 999 of the grid)" in printed
    assert "8.0" in printed


def test_a_failed_assertion_is_raised_by_the_next_call(torch: Any, tmp_path: Path) -> None:
    body = """
    checked(x + 1)
    torch.cuda.synchronize()
    checked(x)
    """
    printed = run_faulty(body, tmp_path)
    assert "assertion failed" in printed, printed


def in_child(results: Any) -> None:
    """Uses CUDA in a process that was forked."""
    from tiledsl.backend_cuda.driver.devices import device_count

    try:
        device_count()
        results.put("nothing")
    except TileError as error:
        results.put(error.code)


def test_a_forked_process_is_told(torch: Any) -> None:
    add(ramp(torch), ramp(torch))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=in_child, args=(results,))
    child.start()
    assert results.get(timeout=60) == "cuda-forked"
    child.join()


def test_synchronize(torch: Any) -> None:
    x = ramp(torch)
    z = add(x, x)
    tiledsl.synchronize()
    assert torch.cuda.current_stream().query()
    tiledsl.synchronize(device=0, stream=torch.cuda.current_stream().cuda_stream)
    assert torch.equal(z, x + x)
