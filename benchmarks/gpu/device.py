"""The device and the software that a run is from; and what is missing, in a sentence."""

from __future__ import annotations

import importlib
import platform
import subprocess
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchmarks.figures import commit
from tiledsl.backend_cuda.driver.devices import devices_at_hand
from tiledsl.passes.gpu_machine import in_steps


def missing() -> str:
    """Why nothing can be measured on a GPU here; empty if it can."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return "no CUDA device: PyTorch, which would find it, is not installed"
    return "" if torch.cuda.is_available() else "no CUDA device: PyTorch sees none"


def optional(name: str) -> Any | None:
    """A module, or None where it cannot be imported."""
    try:
        return importlib.import_module(name)
    except Exception:  # a broken installation fails in ways of its own
        return None


def describe(torch: Any) -> dict[str, str]:
    """Device, driver, versions, commit and date."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": str(torch.cuda.get_device_name(0)),
        "multiprocessors": str(properties.multi_processor_count),
        "driver": driver_version(),
        "cuda": str(torch.version.cuda),
        **software(),
    }


def software() -> dict[str, str]:
    """Versions of what takes part, commit and date."""
    return {
        "python": platform.python_version(),
        "torch": installed("torch"),
        "triton": installed("triton"),
        "cuda-bindings": installed("cuda-bindings"),
        "nvrtc": installed("nvidia-cuda-nvrtc"),
        "commit": commit(),
        "date": date.today().isoformat(),
    }


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def driver_version() -> str:
    """The driver's version as nvidia-smi tells it."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def machine_at_hand() -> str:
    """The first device as audits take it, by its own multiprocessors and memory: `sm_90:132x3350` is an H100. Plans may
    be those for its neighbour in the table (see `machine_of_device`). `sm_90` where there is none."""
    for facts in devices_at_hand():
        return f"{facts.arch}:{facts.multiprocessors}x{in_steps(facts.memory_bytes_per_second)}"
    return "sm_90"
