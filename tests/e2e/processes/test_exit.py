"""The end of a process that has objects on a device, and memory that it lent out: nobody hears of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BEGIN = """
import ctypes, gc, sys
import numpy as np
from tests.support.fakes.fake_cuda import fake_cuda
from tests.support.graph_texts import LINEAR
from tests.support.fakes.loaded_kernels import PARAMETERS, code, loaded
from tiledsl.api.modules.build_module import build_module
from tiledsl.backend_cuda.driver import services
from tiledsl.backend_cuda.driver.devices import device_of
from tiledsl.backend_cuda.driver.graphs import GraphLaunch, LaunchedGraph
from tiledsl.backend_cuda.frame.kernel_code import KernelParameter, ScratchCode
from tiledsl.backend_cuda.driver.scratch_memory import HeldScratch, ScratchMemory
from tiledsl.ir.text.parser import parse_module
from tiledsl.runtime.arrays.cuda_arrays import DeviceArray
from tiledsl.runtime.arrays.output_memory import empty
from tiledsl.support.location import BUILTIN

context = fake_cuda(devices=2)
fake = context.__enter__()
fake.driver.counts["k"] = len(PARAMETERS)
random = np.random.default_rng(0)
weights = {"w": random.random((8, 6), np.float32), "b": random.random(6, np.float32)}
module = build_module(parse_module(LINEAR), weights, ["x"], None)
results = [module(fake.tensor(random.random((5, 8), np.float32))) for _ in range(3)]
device, given = device_of(0), services.CudaServices()
kernels = loaded(code()).bind({"N": 3}, [(1,), (7,)], "")
array = DeviceArray((2, 3), np.dtype(np.float32), 0, 0, given)
objects = [
    module, results, given.event(0), given.allocate(100, 1, 7), array, array.__dlpack__(stream=-1),
    HeldScratch(ScratchMemory(device, [100]), device, 5), empty((1 << 20,), np.dtype(np.float32)),
    LaunchedGraph(device, "model", BUILTIN, [GraphLaunch(kernels, (0x100, 0x200), (1, 2.5))]),
]
ctypes.pythonapi.Py_IncRef(ctypes.py_object(context))  # the fake itself is to stay
"""
KEPT = {
    "by a module": "",
    "by a module that outlives ours": "import os; os.kept = objects, dict(sys.modules)",
    "by a cycle": "gc.disable(); objects.append(objects); del module, results, kernels, array, objects",
}


@pytest.mark.parametrize("kept", KEPT)
def test_nothing_is_said_at_the_end(kept: str, tmp_path: Path) -> None:
    path = [str(ROOT), str(ROOT / "examples"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    environment["TILEDSL_CACHE_DIR"] = str(tmp_path)
    program = f"{BEGIN}\n{KEPT[kept]}\nprint('done')\n"
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore", "-c", program], env=environment, capture_output=True, text=True,
        timeout=120, check=False, cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_nothing_has_a_method_for_its_end() -> None:
    """`__del__` is called at the end of the process too: `when_dropped` is not."""
    sources = sorted((ROOT / "tiledsl").rglob("*.py"))
    assert [file.name for file in sources if "def __del__" in file.read_text(encoding="utf-8")] == []
