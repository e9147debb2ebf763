"""The gallery of kernels on the device, at a small size and at the one that they are timed at."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, cast

import numpy as np
import pytest

from beside_numpy import largest_error
from examples.gallery.__main__ import NAMES, entry_of
from tests.gpu.test_examples import FOUND_IN, ROOT
from tests.support.gpu_code.cuda_arrays import Framework, framework


@pytest.mark.parametrize("full", [False, True], ids=["small", "full"])
@pytest.mark.parametrize("name", NAMES)
def test_kernel(name: str, full: bool, cuda: Framework) -> None:
    entry = entry_of(name)
    arguments = entry.arguments(entry.size if full else entry.small)
    result: Any = entry.kernel(*(cuda.put(one) if hasattr(one, "shape") else one for one in arguments))
    taken = tuple(map(cuda.take, cast("tuple[Any, ...]", result))) if isinstance(result, tuple) else cuda.take(result)
    expected = entry.numpys(*arguments)
    if not isinstance(taken, tuple) and taken.dtype.kind in "iu":  # multiply-adds round otherwise: a few counts differ
        assert np.mean(taken != expected) <= entry.tolerance
    else:
        assert largest_error(taken, expected) <= entry.tolerance


@pytest.mark.parametrize(("name", "printed"), [("top_k", "x PyTorch's speed"), ("quantise_rows", " ms\n")])
def test_script(name: str, printed: str) -> None:
    found = framework("torch")
    if isinstance(found, str):
        pytest.skip(found)
    command = [sys.executable, f"examples/gallery/{name}.py", "--size", "256", "--device", "cuda"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": FOUND_IN}
    )
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
