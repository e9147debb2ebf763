"""`python -m benchmarks.gpu machine`: the row of a GPU in the table of machines (`passes/gpu_machine.py`), measured.

Rates are of small kernels that keep one part busy on every multiprocessor, per clock of that kernel. What is printed at
the end is the row as the table has it.
"""

from __future__ import annotations

import ctypes
import importlib
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu.device import describe
from benchmarks.gpu.machine_kernels import L2_WINDOW, Probe, nvrtc_options, probes
from benchmarks.gpu.results import Results
from benchmarks.gpu.timing import Clock, CudaClock
from tiledsl.passes.gpu_machine import COPY_SHARE, GPU_MACHINES, Speeds

COLUMNS = ("what", "measured", "unit", "table")
REPEATS = 5
TURNS = {"latency": 2000, "launch": 1, "l2_bytes": 512, "peer_bytes": 200}
"""Of a kernel; of the others OTHER_TURNS."""
OTHER_TURNS = 2000
LONG = 200
"""How many times as long products run until the device is as hot as it gets."""
COPIED = 1 << 30
FAR = 1 << 30
"""Bytes that a walk through memory is spread over: many times what L2 caches hold."""
SLOT = 256
"""Bytes between two places of a walk."""


@dataclass(frozen=True)
class Taken:
    """What the slowest block of a launch took."""

    clocks: float
    seconds: float


@dataclass(frozen=True)
class Limits:
    """What the driver tells of a device. Shared memory in bytes."""

    capability: int
    multiprocessors: int
    shared_bytes: int
    threads: int
    blocks: int
    l2_bytes: int


Run = Callable[[Probe, int, int, str], Taken]
"""Launches a probe in so many blocks, for so many turns, on data of a kind: zeros, random, near or far walks."""


def measure(torch: Any, only: str = "", clock: Clock | None = None) -> Results:
    """Measures the device at hand. `only` is not used: a row is whole."""
    del only
    results = Results("machine", "The machine", COLUMNS, describe(torch))
    results.start()
    device = _Device(torch)
    clock = clock or CudaClock(torch)
    speeds, copied = measure_speeds(device.limits, device.run), _copied(torch, clock)
    add_rows(results, device.limits, speeds, copied)
    results.note(
        f"as a row of GPU_MACHINES: {row_text(device.limits, speeds, copied, str(torch.cuda.get_device_name(0)))}"
    )
    return results


def measure_speeds(limits: Limits, run: Run) -> Speeds:
    """All rates, by running the probes that the architecture has the instructions for."""
    known, every = probes(limits.capability), limits.multiprocessors

    def taken(name: str, blocks: int, data: str = "zeros", times: int = 1) -> Taken:
        return run(known[name], blocks, TURNS.get(name, OTHER_TURNS) * times, data)

    def rate(name: str, blocks: int = every, data: str = "zeros") -> float:
        """Of one block, per clock."""
        return known[name].work * TURNS.get(name, OTHER_TURNS) / taken(name, blocks, data).clocks

    def latency(data: str) -> float:
        return taken("latency", 1, data).clocks / TURNS["latency"]

    best = "wgmma" if "wgmma_2" in known else "mma"
    single = rate(f"{best}_2")
    short, hot = taken(f"{best}_2", every), taken(f"{best}_2", every, "random", LONG)
    sustained = min(1.0, short.seconds * LONG / hot.seconds)
    return Speeds(
        clock=round(short.clocks / short.seconds, -6),
        products=tuple((size, round(rate(f"{best}_{size}"))) for size in (4, 2, 1)),
        mma_share=round(min(1.0, rate("mma_2") / single), 2),
        power_limit=round(sustained, 2),
        exponentials=round(rate("exponentials")),
        instructions=round(rate("instructions")),
        shared_bytes=round(rate("shared_bytes")),
        l2_bytes=float(round(rate("l2_bytes") * every)),
        l2_bytes_each=round(rate("l2_bytes", 1)),
        peer_bytes=round(rate("peer_bytes", every // 2 * 2)) if "peer_bytes" in known else 0,
        latency=round(latency("near")),
        memory_latency=round(latency("far")),
        launch=round(taken("launch", 1).seconds, 8),
        doubles=round(rate("doubles")),
        double_products=round(rate("mma_8")),
        measured=True,
    )


def row_text(limits: Limits, speeds: Speeds, copied: float, name: str) -> str:
    """The row: Python that makes a GpuMachine where `_machine` is. `copied`: bytes per second of a plain copy."""
    numbers = (
        limits.capability, limits.multiprocessors, limits.shared_bytes >> 10, limits.threads, limits.blocks,
        round(limits.l2_bytes / (1 << 20)), round(copied / COPY_SHARE / 1e9),
    )  # fmt: skip
    return f"_machine({', '.join(map(str, numbers))}, {speeds!r}),  # {name}"


def add_rows(results: Results, limits: Limits, speeds: Speeds, copied: float) -> None:
    """Each figure beside that of the table, where it has a row of that architecture."""
    row = GPU_MACHINES.get(f"sm_{limits.capability}")
    units = {"clock": "Hz", "launch": "s", "latency": "clocks", "memory_latency": "clocks"}
    for name in Speeds.__dataclass_fields__:
        if name != "measured":
            value, table = getattr(speeds, name), "" if row is None else str(getattr(row.speeds, name))
            _add(results, name, value, units.get(name, "a clock"), table)
    table = "" if row is None else f"{row.copied_bytes_per_second:.3g}"
    _add(results, "copied bytes", copied, "a second", table)


def _add(results: Results, name: str, value: object, unit: str, table: str) -> None:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    results.add([name, text, unit, table], {"what": name, "value": value, "bar": None, "met": None})


def _copied(torch: Any, clock: Clock) -> float:
    """Bytes per second that a large copy reads and writes."""
    source = torch.empty(COPIED, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * COPIED / statistics.median(clock.time(lambda: target.copy_(source), REPEATS))


class _Device:
    """The device of PyTorch: compiles probes with NVRTC for it, whether the table knows it or not, and runs them."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._driver: Any = importlib.import_module("cuda.bindings.driver")
        self._nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
        torch.cuda.init()
        major, minor = torch.cuda.get_device_capability()
        self.limits = Limits(
            10 * major + minor, self._tells("MULTIPROCESSOR_COUNT"), self._tells("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            self._tells("MAX_THREADS_PER_MULTIPROCESSOR"), self._tells("MAX_BLOCKS_PER_MULTIPROCESSOR"),
            self._tells("L2_CACHE_SIZE"),
        )  # fmt: skip
        self._functions: dict[str, Any] = {}
        self._data = {"zeros": torch.zeros(L2_WINDOW, dtype=torch.uint8, device="cuda")}
        self._data["random"] = torch.randint(0, 256, (L2_WINDOW,), dtype=torch.uint8, device="cuda") & 0xBF
        self._data["near"] = self._walk(L2_WINDOW // 4)
        self._data["far"] = self._walk(FAR)

    def _tells(self, what: str) -> int:
        attribute = getattr(self._driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{what}")
        return int(_checked(self._driver.cuDeviceGetAttribute(attribute, self._torch.cuda.current_device())))

    def _walk(self, size: int) -> Any:
        """Memory whose every slot begins with the number of the next: all of them once, in a random order."""
        torch, slots = self._torch, size // SLOT
        order = torch.randperm(slots - 1, device="cuda", dtype=torch.int64) + 1
        order = torch.cat([torch.zeros(1, dtype=torch.int64, device="cuda"), order])
        words = torch.zeros((slots, SLOT // 4), dtype=torch.int32, device="cuda")
        words[order, 0] = order.roll(-1).to(torch.int32)
        return words

    def run(self, probe: Probe, blocks: int, turns: int, data: str) -> Taken:
        """The median of some launches, after one that warms up; of a walk through memory each is the first."""
        torch = self._torch
        found: list[Taken] = []
        for _ in range(REPEATS + 1):
            out = torch.zeros((blocks, 2), dtype=torch.int64, device="cuda")
            if data == "far":
                self._data["far"] = self._walk(FAR)
            seconds = self._launch(probe, blocks, out, self._data[data], turns)
            clocks, nanoseconds = (float(n) for n in out.amax(0).tolist())
            found.append(Taken(clocks, nanoseconds * 1e-9 if nanoseconds else seconds))
        return sorted(found[1:], key=lambda taken: taken.seconds)[REPEATS // 2]

    def _launch(self, probe: Probe, blocks: int, out: Any, data: Any, turns: int) -> float:
        """Seconds between two events around a launch."""
        torch = self._torch
        values = (ctypes.c_uint64 * 3)(out.data_ptr(), data.data_ptr(), turns)
        addresses = (ctypes.c_void_p * 3)(*(ctypes.addressof(values) + 8 * i for i in range(3)))
        stream = self._driver.CUstream(torch.cuda.current_stream().cuda_stream)
        function = self._function(probe)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(400_000)  # the device is busy while the host launches
        start.record()
        _checked(
            self._driver.cuLaunchKernel(
                function, blocks, 1, 1, probe.threads, 1, 1, 0, stream, ctypes.addressof(addresses), 0
            )
        )
        end.record()
        torch.cuda.synchronize()
        return 1e-3 * float(start.elapsed_time(end))

    def _function(self, probe: Probe) -> Any:
        if probe.name not in self._functions:
            cubin, log = compiled(self._nvrtc, probe, self.limits.capability)
            if not cubin:
                raise RuntimeError(f"{probe.name} does not compile for sm_{self.limits.capability}: {log}")
            module = _checked(self._driver.cuModuleLoadData(cubin))
            self._functions[probe.name] = _checked(self._driver.cuModuleGetFunction(module, probe.name.encode()))
        return self._functions[probe.name]


def compiled(nvrtc: Any, probe: Probe, capability: int) -> tuple[bytes, str]:
    """The machine code of a probe (nothing where it does not compile), and what the compiler had to say."""
    program = _checked(nvrtc.nvrtcCreateProgram(probe.source.encode(), b"probe.cu", 0, None, None))
    options = [option.encode() for option in (*nvrtc_options(capability), "--ptxas-options=-v")]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = b" " * _checked(nvrtc.nvrtcGetProgramLogSize(program))
    _checked(nvrtc.nvrtcGetProgramLog(program, log))
    text = log.decode(errors="replace").rstrip("\0")
    if int(status) != 0:
        return b"", text
    code = b" " * _checked(nvrtc.nvrtcGetCUBINSize(program))
    _checked(nvrtc.nvrtcGetCUBIN(program, code))
    return code, text


def _checked(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(str(status))
    return values[0] if values else None
