"""Golden CUDA C of small programs: `tests/golden/cuda/CASE.tir` (GPU IR) and, beside it, what is emitted for sm_90.

`pytest --update-golden` writes the `.cu` files anew; read the difference before committing it. Each program is
compiled, and run on the host in place of a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tests.support.compare import assert_close
from tests.support.gpu_code.cuda_on_host import aligned, host_compiler, run_on_host
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.backend_ref.execute_gpu import execute_gpu
from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module

Array = npt.NDArray[Any]
Draw = Callable[[np.random.Generator], list[Array]]

FILES = sorted((Path(__file__).parent / "cuda").glob("*.tir"))


def normal(generator: np.random.Generator, *shape: int, dtype: Any = np.float32) -> Array:
    return aligned(generator.standard_normal(shape).astype(dtype))


ARGUMENTS: dict[str, Draw] = {
    "add": lambda g: [normal(g, 70, 132), normal(g, 70, 132)],
    "far": lambda g: [normal(g, 6, 132)],
    "gemm": lambda g: [normal(g, 72, 80, dtype=ml_dtypes.bfloat16), normal(g, 80, 88, dtype=ml_dtypes.bfloat16)],
    "gemm_roles": lambda g: [normal(g, 72, 80, dtype=ml_dtypes.bfloat16), normal(g, 88, 80, dtype=ml_dtypes.bfloat16)],
    "softmax": lambda g: [normal(g, 3, 4000, dtype=ml_dtypes.bfloat16)],
    "cluster_sum": lambda g: [normal(g, 3, 1024)],
    "running": lambda g: [normal(g, 512)],
    "total": lambda g: [normal(g, 5, 112)],
    "distances": lambda g: [aligned(np.zeros((16, 16), np.float32))],
    "pairs_of_bytes": lambda g: [
        aligned(g.integers(-9, 9, (16, 14)).astype(np.int8)),
        aligned(g.random((16, 14)) < 0.5),
        aligned(np.zeros((16, 14), np.int8)),
    ],
}


def module_of(file: Path) -> Module:
    return parse_module(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_cuda(file: Path, update_golden: bool) -> None:
    actual = emit_program(module_of(file), 90).text
    golden = file.with_suffix(".cu")
    if update_golden:
        golden.write_text(actual, encoding="utf-8")
    assert actual == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_compiles(file: Path) -> None:
    cubin = compile_cubin(emit_program(module_of(file), 90).text, "sm_90", file.stem)
    assert all(kernel.spill_store_bytes == kernel.stack_bytes == 0 for kernel in cubin.kernels)


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_runs(file: Path, tmp_path: Path) -> None:
    module = module_of(file)
    arguments = ARGUMENTS[file.stem](np.random.default_rng(0))
    actual = run_on_host(emit_program(module, 90), module.entry, arguments, tmp_path)
    expected = execute_gpu(module.entry, arguments)
    for got, want in zip(actual, expected):
        assert_close(got, want, terms=100)
