"""Machine code for GPUs as text, by nvdisasm: a program of NVIDIA's that has a wheel of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

PACKAGE = "nvidia-cuda-nvdisasm"


def disassembly(code: bytes) -> str:
    """The instructions (SASS) of a cubin. Raises TileRuntimeError if nvdisasm is not installed, or cannot read it."""
    program = _program()
    if program is None:
        fail("disassembler-missing", caller_location(), reason="it is not installed")
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "program.cubin"
        file.write_bytes(code)
        command = [program, "--print-code", str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            fail("disassembler-missing", caller_location(), reason=f"`{program}` does not run: {error}")
    if done.returncode != 0:
        reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[0]
        fail("disassembler-missing", caller_location(), reason=f"`{program}` cannot read it: {reason}")
    return done.stdout


def _program() -> str | None:
    """Where nvdisasm lies: in the wheel if that is installed, else on the path."""
    try:
        listed = files(PACKAGE) or []
    except PackageNotFoundError:
        listed = []
    found = [str(entry.locate()) for entry in listed if entry.stem == "nvdisasm"]
    return found[0] if found else shutil.which("nvdisasm")
