"""`tiledsl new`: a kernel to begin with, its meaning in NumPy, a benchmark and a test, all of which run as they are.

tiledsl new row_norm
python row_norm.py                                           beside NumPy
pytest test_row_norm.py
tiledsl verify row_norm.py:row_norm --spec "f32[M,N]"        on sizes, layouts and values that go wrong first
tiledsl audit row_norm.py:row_norm --spec "f32[4096,1024]"   how far from the least that it could take
tiledsl tune row_norm.py:row_norm --spec "f32[4096,1024]"
"""

from __future__ import annotations

import argparse
import keyword
from pathlib import Path

from tiledsl.support.errors import fail

KERNEL = '''"""`{name}`: a kernel, what it means, and how fast it is. Change all three."""

import time

import numpy as np

from tiledsl import tile


@tile.kernel
def {name}(x: tile.Tensor) -> tile.Tensor:
    """Each row, divided by the root of the mean of its squares."""
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):  # parallel: one program for each block of rows
        row = x[m, :].to(tile.f32)
        scale = tile.rsqrt(tile.sum(row * row, axis=1, keepdims=True) / N + 1e-6)
        y[m, :] = row * scale  # a store casts to the dtype of the tensor
    return y


def reference(x):
    """The same in NumPy, in f64: what the test compares with."""
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide * wide).mean(axis=1, keepdims=True) + 1e-6)


def seconds(call, runs=20):
    """The least time of some calls, the first of which is not timed."""
    call()
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


if __name__ == "__main__":
    x = np.random.default_rng(0).standard_normal((4096, 1024)).astype(np.float32)
    print(f"largest difference from the reference: {{np.abs({name}(x) - reference(x)).max():.2g}}")
    print(f"{name}: {{seconds(lambda: {name}(x)) * 1e6:.0f}} us; NumPy: {{seconds(lambda: reference(x)) * 1e6:.0f}} us")
'''
TEST = '''"""`{name}` beside its reference, at sizes where blocks end well and badly."""

import numpy as np
import pytest

from {name} import {name}, reference


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float16, 2e-3)])
@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (64, 64), (100, 1000), (257, 33)])
def test_{name}(shape, dtype, tolerance):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    np.testing.assert_allclose({name}(x), reference(x), rtol=tolerance, atol=tolerance)


def test_{name}_has_no_races():
    x = np.random.default_rng(0).standard_normal((9, 20)).astype(np.float32)
    assert {name}.check(x).ok
'''


def add_new_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser("new", help="write a kernel to begin with, with a reference, a benchmark and a test")
    parser.add_argument("name", metavar="NAME", help="what it is to be called")
    parser.add_argument("--folder", type=Path, default=Path(), help="where the files go; default: here")
    parser.set_defaults(run=_new)


def _new(options: argparse.Namespace) -> int:
    kernel, test = written(options.name, options.folder)
    print(f"{kernel} has the kernel, its reference and a benchmark, {test} a test; they run as they are:")
    print(f"  python {kernel}")
    print(f"  python -m pytest {test}")
    print(f'  tiledsl verify {kernel}:{options.name} --spec "f32[M,N]"')
    return 0


def written(name: str, folder: Path) -> tuple[Path, Path]:
    """Writes the kernel and its test. Raises TileSyntaxError for what is no name, TileRuntimeError for files that are
    there already."""
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        fail("command-new-name", None, name=name)
    files = folder / f"{name}.py", folder / f"test_{name}.py"
    for file in files:
        if file.exists():
            fail("command-new-exists", None, file=file.name)
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in zip(files, (KERNEL, TEST)):
        file.write_text(text.format(name=name), encoding="utf-8")
    return files
