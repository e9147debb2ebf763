"""`tiledsl doctor`: what kernels can run on here, what is missing, and how to get it.

tiledsl doctor
tiledsl doctor --json
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, TypeAlias

import numpy as np

from tiledsl import tile
from tiledsl.api.calls.targets import worker_threads
from tiledsl.api.reports.text_tables import paragraph, size
from tiledsl.cli.arguments import add_json
from tiledsl.cli.as_json import show
from tiledsl.passes.machine import host
from tiledsl.support.errors import TileError
from tiledsl.support.options import read_options
from tiledsl.support.version import VERSION

State: TypeAlias = Literal["ok", "absent", "wrong"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `absent` is what one can do without, `wrong` what should work and does not.

    `facts` are numbers and names for scripts; `fix` is what to do, where it is not `ok`.
    """

    subject: str
    state: State
    text: str
    fix: str = ""
    facts: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True)
class Package:
    """An optional package: the version that is needed, what for, and what installs it."""

    name: str
    least: tuple[int, ...]
    what_for: str
    install: str


PACKAGES = (
    Package("torch", (2, 11), "models of PyTorch, and arrays of its tensors", "pip install 'tiledsl[torch]'"),
    Package("onnx", (1, 18), "models in ONNX's format", "pip install 'tiledsl[onnx]'"),
    Package(
        "nvidia-cuda-nvdisasm", (13, 0), "machine code of GPUs as text", "pip install 'nvidia-cuda-nvdisasm>=13.0'"
    ),
    Package("onnxruntime", (), "`tiledsl bench --against onnxruntime`", "pip install onnxruntime"),
)


@tile.kernel
def doubled(x: tile.Tensor) -> tile.Tensor:
    """2 * x, for x of shape [N]: the kernel that is run to see that kernels run."""
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        y[n] = x[n] * 2
    return y


def add_doctor_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser("doctor", help="say what kernels can run on here, what is missing, how to get it")
    add_json(parser)
    parser.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    findings = list(examined())
    where = {"tiledsl": VERSION, "python": platform.python_version(), "platform": platform.platform()}
    show(options, "\n".join(page(findings)), {**where, "findings": [asdict(finding) for finding in findings]})
    return 1 if any(finding.state == "wrong" for finding in findings) else 0


def page(findings: Sequence[Finding]) -> list[str]:
    """The lines for people: a paragraph for each, what to do below it."""
    lines = [f"tiledsl {VERSION}, Python {platform.python_version()} on {platform.system()} {platform.machine()}", ""]
    width = max(len(finding.subject) for finding in findings) + 2
    indent = 8 + width
    for finding in findings:
        lines += paragraph(f"{finding.state:8}{finding.subject:{width}}{finding.text}", 0, indent)
        if finding.fix:
            lines += paragraph(f"-> {finding.fix}", indent, indent + 3)
    return lines


def examined() -> Iterator[Finding]:
    """Everything, in the order in which one needs it."""
    yield _of("kernels on the CPU", _cpu)
    yield _of("disk cache", _cache)
    yield _of("code for GPUs", _nvrtc)
    yield from _devices()
    yield from map(_package, PACKAGES)


def _of(subject: str, look: Callable[[str], Finding]) -> Finding:
    """What looking finds; an error is what is wrong, with its fix."""
    try:
        return look(subject)
    except TileError as error:
        return Finding(subject, "wrong", error.message, error.fix)
    except Exception as error:  # whatever is broken here, the other findings are wanted all the more
        fix = "install tiledsl anew, with all that it needs: `pip install --force-reinstall tiledsl`"
        return Finding(subject, "wrong", f"{type(error).__name__}: {error}", fix)


def _cpu(subject: str) -> Finding:
    began = time.perf_counter()
    x = np.arange(1000, dtype=np.float32)
    if not np.array_equal(doubled(x), 2 * x):
        fix = "please report this, with what `tiledsl doctor --json` prints"
        return Finding(subject, "wrong", "a kernel gave a wrong result", fix)
    machine, threads, seconds = host(), worker_threads(), time.perf_counter() - began
    text = f"{threads} threads (TILEDSL_NUM_THREADS sets how many), vectors of {8 * machine.vector_bytes} bits, "
    text += f"llvmlite {version('llvmlite')}; the first kernel ran after {seconds:.2f} s"
    facts = {"features": sorted(machine.features), "cores": machine.cores, "threads": threads, "seconds": seconds}
    return Finding(subject, "ok", text, facts=facts)


def _cache(subject: str) -> Finding:
    options = read_options()
    folder = options.cache_directory
    if folder is None:
        fix = "unset TILEDSL_DISABLE_CACHE, or set TILEDSL_CACHE_DIR to a folder"
        return Finding(subject, "absent", "switched off, or no home directory: every process compiles anew", fix)
    facts: dict[str, object] = {"folder": str(folder), "limit": options.cache_bytes}
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            used = sum(entry.stat().st_size for entry in folder.rglob("*") if entry.is_file())
    except OSError as error:
        fix = "set TILEDSL_CACHE_DIR to a folder that can be written, or TILEDSL_DISABLE_CACHE=1"
        return Finding(subject, "wrong", f"{folder} cannot be written ({error.strerror})", fix, facts)
    text = f"{folder}, {size(used)} of {size(options.cache_bytes)}"
    return Finding(subject, "ok", text, facts={**facts, "used": used})


def _nvrtc(subject: str) -> Finding:
    from tiledsl.backend_cuda.build import nvrtc  # here, as below: other commands start without it

    try:
        nvrtc.compile_cubin('extern "C" __global__ void nothing() {}', "sm_90", "nothing")
    except TileError as error:
        state: State = "absent" if error.code == "nvrtc-missing" else "wrong"
        return Finding(subject, state, error.message, error.fix)
    capabilities = [number for number in nvrtc.supported_capabilities() if number >= 80]
    text = f"NVRTC {nvrtc.nvrtc_version()} compiles for sm_{min(capabilities)} to sm_{max(capabilities)}"
    facts = {"version": nvrtc.nvrtc_version(), "architectures": [f"sm_{number}" for number in capabilities]}
    return Finding(subject, "ok", f"{text}; no GPU is needed for that", facts=facts)


_WITHOUT_A_GPU = "nothing, if the CPU will do: code for GPUs is compiled, audited and emulated here all the same"


def _devices() -> Iterator[Finding]:
    """A finding for each GPU, or one that says why there is none."""
    from tiledsl.backend_cuda.driver.call_driver import call
    from tiledsl.backend_cuda.driver.devices import device_count

    try:
        count = device_count()
        driver = int(call("cuDriverGetVersion"))
    except TileError as error:
        if error.code == "cuda-no-bindings":
            yield Finding("GPU", "absent", "the package `cuda-bindings` is not installed", error.fix)
        elif error.code == "cuda-no-driver" or "NO_DEVICE" in error.message:
            yield Finding("GPU", "absent", error.message, _WITHOUT_A_GPU)
        else:
            yield Finding("GPU", "wrong", error.message, error.fix)
        return
    if count == 0:
        yield Finding("GPU", "absent", "the NVIDIA driver finds no device", _WITHOUT_A_GPU)
    for number in range(count):
        yield _of(f"GPU {number}", lambda subject, at=number: _device(subject, at, driver))


def _device(subject: str, number: int, driver: int) -> Finding:
    from tiledsl.backend_cuda.build.nvrtc import nvrtc_version
    from tiledsl.backend_cuda.driver.devices import device_of
    from tiledsl.passes.gpu_machine import gpu_machine

    device = device_of(number)
    gpu_machine(device.arch)  # raises for one that no code is made for
    major, minor = driver // 1000, driver % 1000 // 10
    text = f"{device.name}, {device.arch}, {device.multiprocessors} multiprocessors, driver for CUDA {major}.{minor}"
    facts: dict[str, object] = {"name": device.name, "arch": device.arch, "driver": f"{major}.{minor}"}
    if major < int(nvrtc_version().split(".")[0]):
        fix = f"update the NVIDIA driver to one for CUDA {nvrtc_version()}"
        return Finding(subject, "wrong", f"{text}: it cannot load code of NVRTC {nvrtc_version()}", fix, facts)
    return Finding(subject, "ok", text, facts=facts)


def _package(package: Package) -> Finding:
    try:
        found = version(package.name)
    except PackageNotFoundError:
        return Finding(package.name, "absent", f"for {package.what_for}", package.install)
    facts: dict[str, object] = {"version": found}
    if release(found) < package.least:
        least = ".".join(map(str, package.least))
        text = f"{found}, but {least} or later is needed for {package.what_for}"
        return Finding(package.name, "wrong", text, package.install, facts)
    return Finding(package.name, "ok", f"{found}, for {package.what_for}", facts=facts)


def release(text: str) -> tuple[int, ...]:
    """The numbers that a version begins with: `2.13.0+cpu` is (2, 13, 0)."""
    numbers: list[int] = []
    for part in text.partition("+")[0].split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)
