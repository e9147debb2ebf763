"""What a user is told of kernels that a GPU cannot run, from the kernel to the message; and sizes at the edges.

Faults of devices and drivers are in tests/unit/errors/test_cuda.py, arrays that do not fit each other in
tests/unit/runtime/test_cuda_calls.py, the cache in tests/e2e/processes/test_gpu_cache.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gemm import gemm
from softmax import softmax
from tests.support.kernels.call_kernels import add
from tiledsl import tile
from tiledsl.backend_cuda.build import compile as compile_module
from tiledsl.backend_cuda.frame.kernel_code import CudaSource
from tiledsl.support.errors import TileError

MATRIX = tile.spec((4096, 4096), tile.bf16)


@tile.kernel
def greedy(a: tile.Tensor, b: tile.Tensor, stages: tile.constexpr) -> Any:
    """A product whose blocks are too large to have several at once."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N, block=(128, 128)):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K, block=256, num_stages=stages):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


def failure(act: Callable[[], object]) -> TileError:
    with pytest.raises(TileError) as caught:
        act()
    return caught.value


@pytest.mark.parametrize(("arch", "limit"), [("sm_80", "163 KiB"), ("sm_90", "227 KiB")])
def test_too_much_shared_memory_is_itemised(arch: str, limit: str) -> None:
    error = failure(lambda: greedy.compile(MATRIX, MATRIX, stages=4, arch=arch).cubin)
    assert error.code == "shared-too-much"
    assert f"this takes 512 KiB of shared memory, a block has {limit}" in str(error)
    assert "%a: 4 stages x 64 KiB = 256 KiB" in str(error)
    assert "for k in tile.range(K, block=256, num_stages=stages):" in str(error)
    assert error.fix == "`num_stages=1` fits"
    resources = greedy.compile(MATRIX, MATRIX, stages=1, arch=arch).resources["greedy"]
    assert resources["shared"] <= 128 << 10


@pytest.mark.parametrize(("arch", "code"), [("sm_75", "gpu-too-old"), ("sm_87", "gpu-unknown"), ("sm_", "gpu-unknown")])
def test_architectures_that_there_is_no_code_for(arch: str, code: str) -> None:
    spec = tile.spec((100,), tile.f32)
    assert failure(lambda: add.compile(spec, spec, arch=arch)).code == code


def test_a_failure_of_nvrtc_shows_the_users_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEDSL_CACHE_DIR", str(tmp_path))
    emit = compile_module.emit_program

    def emit_nonsense(*arguments: Any, **named: Any) -> CudaSource:
        source = emit(*arguments, **named)
        lines = source.text.splitlines()
        place = next(number for number, line in enumerate(lines) if "// call_kernels.py:" in line and "x[n]" in line)
        lines.insert(place + 1, "undeclared = 1;")
        return replace(source, text="\n".join(lines))

    monkeypatch.setattr(compile_module, "emit_program", emit_nonsense)
    spec = tile.spec((100,), tile.f32)
    error = failure(lambda: tile.kernel(add.__wrapped__).compile(spec, spec, arch="sm_90").cubin)
    assert "z[n] = x[n] + y[n]" in str(error)
    assert "undeclared" in str(error)
    assert error.location is not None
    assert error.location.file.endswith("call_kernels.py")


@pytest.mark.parametrize("shape", [(1 << 17, 1 << 15), (0, 5), (5, 0), (1, 1), (0, 0)])
def test_shapes_at_the_edges(shape: tuple[int, int]) -> None:
    assert softmax.compile(tile.spec(shape, tile.f32), arch="sm_90").cubin.startswith(b"\x7fELF")


@pytest.mark.parametrize("shape", [(0, 8, 8), (8, 0, 8), (8, 8, 0)])
def test_products_without_elements(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    specs = tile.spec((m, k), tile.f16), tile.spec((k, n), tile.f16)
    assert gemm.compile(*specs, arch="sm_90").cubin.startswith(b"\x7fELF")
