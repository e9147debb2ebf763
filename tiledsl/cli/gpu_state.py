"""What else is to be known of a GPU whose kernels are timed: its clocks, and whether its counters may be read."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

ASKED = ("clocks.sm", "clocks.max.sm", "clocks.mem", "temperature.gpu", "power.draw")
PARAMETERS = Path("/proc/driver/nvidia/params")
_ADMINISTRATORS = "RmProfilingAdminOnly"


def answer(command: Sequence[str]) -> str:
    """The first line that a program prints. Raises OSError or SubprocessError where it cannot be run."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.strip().splitlines()[0]


def clocks(device: int, ask: Callable[[Sequence[str]], str] = answer) -> str:
    """The clocks of a device now, in a sentence; or why they are not known."""
    command = ["nvidia-smi", f"--query-gpu={','.join(ASKED)}", "--format=csv,noheader", f"--id={device}"]
    try:
        now, most, memory, heat, power = (part.strip() for part in ask(command).split(","))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return "clocks are not known: `nvidia-smi` does not tell them here"
    return f"clocks after the last launch: {now} of at most {most}, memory {memory}; {heat} degrees, {power}"


def counters(file: Path = PARAMETERS) -> str:
    """Whether hardware counters may be read, in a sentence."""
    try:
        lines = [line.partition(":") for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        lines = []
    said = {name.strip(): value.strip() for name, _, value in lines}.get(_ADMINISTRATORS)
    if said == "1":
        return (
            "hardware counters are not permitted here: the driver gives them to administrators alone "
            f"({_ADMINISTRATORS} is 1). Times and floors need none"
        )
    if said is None:
        return "whether hardware counters are permitted is not known here; times and floors need none"
    return "hardware counters are permitted: Nsight Compute (`ncu`) shows them for kernels of these names"
