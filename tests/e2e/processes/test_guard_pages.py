"""Kernels on the CPU read and write nothing past the end of their arrays and scratch, where a page faults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.guard_pages import available

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = (
    "tests/properties/test_cpu.py",
    "tests/e2e/language/test_field_cases.py",
    "tests/unit/backend_cpu/test_programs.py",
)
MANY = "not reference and not test_gemm["  # what is slow for other reasons
FEW = f"{MANY} and (gather or scatter or softmax[ or axpy)"
PAST_THE_END = """
import sys
from tests.support.guard_pages import memory_before_a_guard

memory = memory_before_a_guard(int(sys.argv[1]))
address = memory.ctypes.data
import ctypes
ctypes.string_at(address, int(sys.argv[2]))
"""
ENDS_OF_NOTHING = """
import numpy as np
from tests.support.kernels.call_kernels import ends
from tests.support.guard_pages import memory_before_a_guard

x = np.ndarray((4, 8), np.float32, memory_before_a_guard(128))
rows = np.lib.stride_tricks.as_strided(x, (100, 0), x.strides)
print(*(part.any() for part in ends(rows, 0)))
"""

pytestmark = pytest.mark.skipif(not available, reason="guard pages need Linux")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("size", "read", "faults"), [(100, 100, False), (100, 101, True), (4096, 4097, True)])
def test_the_page_behind_is_guarded(size: int, read: int, faults: bool) -> None:
    assert (run("-c", PAST_THE_END, str(size), str(read)).returncode < 0) == faults


def test_an_end_of_nothing_is_not_read() -> None:
    done = run("-c", ENDS_OF_NOTHING)
    assert (done.returncode, done.stdout) == (0, "False False False\n"), done.stderr


@pytest.mark.parametrize("choice", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"])
def test_kernels_stay_within_their_memory(choice: str) -> None:
    options = ("--guard-pages", "-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow")
    done = run("-m", "pytest", *options, "-k", choice, *PROGRAMS)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
