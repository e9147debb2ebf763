"""What a call costs the host: seconds between one call and the next while the device keeps up.

Batches of 1000 calls on tensors of a few elements, with no wait in between but one after each batch; the median batch,
divided by its calls. Contenders take turns. The bare launch is `cuLaunchKernel` through cuda.bindings, its parameters
packed beforehand.
"""

from __future__ import annotations

import ctypes
import importlib
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import tiledsl
from benchmarks.gpu import kernels
from benchmarks.gpu.device import describe
from benchmarks.gpu.peers.common import first_line, triton_kernels
from benchmarks.gpu.results import Results, verdict
from tiledsl import tile

BATCHES = 11
CALLS = 1000
SIDE = 16
ELEMENTS = SIDE * SIDE
COLUMNS = ("what", "us", "bar", "", "fastest", "slowest")

SOURCE = """\
extern "C" __global__ void add(const float* x, const float* y, float* z, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
"""


def measure(torch: Any, only: str = "") -> Results:
    """Measures every contender whose name contains `only`."""
    results = Results("launch", "Host cost of a call", COLUMNS, describe(torch))
    results.start()
    vectors = [torch.randn(ELEMENTS, device="cuda") for _ in range(8)]
    ready: dict[str, tuple[Callable[[], object], float | None]] = {}
    for name, (make, bar) in makers(torch, vectors).items():
        if only not in name:
            continue
        try:
            call = make()
            call()
            torch.cuda.synchronize()
            ready[name] = call, bar
        except Exception as error:  # the others are still worth knowing
            results.note(f"{name} left out: {type(error).__name__}: {first_line(str(error))}")
            results.failures += bar is not None
    times = batch_times({name: call for name, (call, _) in ready.items()}, torch.cuda.synchronize)
    for name, (_, bar) in ready.items():
        results.add(*row(name, times[name], bar))
    return results


def makers(torch: Any, vectors: list[Any]) -> dict[str, tuple[Callable[[], Callable[[], object]], float | None]]:
    """How each call is made, and the bar for it in us."""
    x, y, *_, out = vectors
    add, seven = kernels.vector_add, kernels.add_seven
    squares = tuple(vector.view(SIDE, SIDE) for vector in (x, y, out))
    return {
        "call, 3 tensors": (lambda: lambda: add(x, y, out=out), 5.5),
        "call, 8 tensors": (lambda: lambda: seven(*vectors[:7], out=out), 7.0),
        "prepared call, 3 tensors": (lambda: bound(add, [x, y], out), 3.5),
        "prepared call, 8 tensors": (lambda: bound(seven, vectors[:7], out), None),
        "call, output allocated": (lambda: lambda: add(x, y), None),
        "module of one kernel": (lambda: module_call(sum_of_two, (x, y), out), 8.0),
        "module of one kernel, output allocated": (lambda: module_call(sum_of_two, (x, y)), 8.0),
        "module of two kernels": (lambda: module_call(gram, squares[:2], squares[2]), 8.0),
        "module of two kernels, output allocated": (lambda: module_call(gram, squares[:2]), 8.0),
        "compiled model": (lambda: compiled_model(torch, tiledsl.torch.backend, x, y), None),
        "compiled model, by inductor": (lambda: compiled_model(torch, "inductor", x, y), None),
        "bare cuLaunchKernel": (lambda: bare_launch(torch, x, y, out), None),
        "Triton, 3 tensors": (lambda: triton_add(x, y), None),
        "torch.add with out": (lambda: lambda: torch.add(x, y, out=out), None),
        "torch.add": (lambda: lambda: torch.add(x, y), None),
    }


def sum_of_two(x: Any, y: Any) -> Any:
    """One kernel."""
    return x + y


def gram(x: Any, y: Any) -> Any:
    """Two kernels: the second needs all rows of the first."""
    z = x @ y
    return z.T @ z


def module_call(formula: Callable[..., Any], arguments: tuple[Any, ...], out: Any = None) -> Callable[[], object]:
    """A call of the formula's module."""
    shape = tuple(arguments[0].shape)
    module = tiledsl.fuse(tiledsl.trace(formula, *[tile.spec(shape, tile.f32) for _ in arguments])).build()
    return (lambda: module(*arguments)) if out is None else (lambda: module(*arguments, out=out))


def compiled_model(torch: Any, backend: Any, x: Any, y: Any) -> Callable[[], object]:
    """A call of what torch.compile makes of a sum."""
    compiled = torch.compile(lambda: x + y, backend=backend)

    def call() -> object:
        with torch.no_grad():
            return compiled()

    return call


def bound(kernel: Any, arguments: list[Any], out: Any) -> Callable[[], object]:
    """A prepared call. Raises AttributeError where there is no `bind`."""
    return kernel.bind(*arguments, out=out)


def triton_add(x: Any, y: Any) -> Callable[[], object]:
    module = triton_kernels()
    if module is None:
        raise ImportError("Triton is absent")
    return module.add(x, y)


def bare_launch(torch: Any, x: Any, y: Any, out: Any) -> Callable[[], object]:
    """A launch with nothing around it. Raises RuntimeError where a step fails."""
    driver: Any = importlib.import_module("cuda.bindings.driver")  # here: the rest needs no cuda-bindings
    nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")

    def checked(result: tuple[Any, ...]) -> Any:
        code, *values = result
        if int(code) != 0:
            raise RuntimeError(str(code))
        return values[0] if values else None

    major, minor = torch.cuda.get_device_capability()
    program = checked(nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"add.cu", 0, None, None))
    checked(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=sm_{major}{minor}".encode()]))
    cubin = b" " * checked(nvrtc.nvrtcGetCUBINSize(program))
    checked(nvrtc.nvrtcGetCUBIN(program, cubin))
    function = checked(driver.cuModuleGetFunction(checked(driver.cuModuleLoadData(cubin)), b"add"))
    values = (ctypes.c_uint64 * 4)(x.data_ptr(), y.data_ptr(), out.data_ptr(), ELEMENTS)
    addresses = (ctypes.c_void_p * 4)(*(ctypes.addressof(values) + 8 * i for i in range(4)))
    packed = ctypes.addressof(addresses)
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    launch = driver.cuLaunchKernel
    keep = values, addresses

    def call() -> object:
        launch(function, 1, 1, 1, ELEMENTS, 1, 1, 0, stream, packed, 0)
        return keep

    return call


def batch_times(
    calls: Mapping[str, Callable[[], object]],
    drain: Callable[[], object],
    *,
    batches: int = BATCHES,
    per_batch: int = CALLS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """The seconds per call of each batch, in turns; one batch that is not counted comes first."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for batch in range(batches + 1):
        for name, call in calls.items():
            drain()
            start = clock()
            for _ in range(per_batch):
                call()
            taken = clock() - start
            drain()
            if batch:
                times[name].append(taken / per_batch)
    return times


def row(name: str, seconds: list[float], bar: float | None) -> tuple[list[str], dict[str, Any]]:
    """The cells of a row, and its numbers."""
    us = 1e6 * statistics.median(seconds)
    met = None if bar is None else us <= bar
    numbers = {"what": name, "us": us, "bar": bar, "met": met, "batches_us": [1e6 * each for each in seconds]}
    cells = [
        name, f"{us:.2f}", "" if bar is None else f"{bar:.1f}", "" if met is None else verdict(met),
        f"{1e6 * min(seconds):.2f}", f"{1e6 * max(seconds):.2f}",
    ]  # fmt: skip
    return cells, numbers
