"""Kernel objects: when they compile, what they remember, what they say of it. Run by the reference executor."""

from __future__ import annotations

import inspect
import logging
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.kernels.call_kernels import add, gemm, power
from tiledsl import tile
from tiledsl.api.calls.targets import Target, target_of
from tiledsl.api.kernels.kernel import Kernel
from tiledsl.api.programs import specialisations
from tiledsl.runtime.programs.cache import DiskCache
from tiledsl.support.errors import TileError, TileTypeError

F32 = np.float32
FACTOR = 2


@pytest.fixture(autouse=True)
def by_reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Calls run by the reference executor, and each test has a cache of its own."""

    def reference(arch: str) -> Target:
        return target_of("reference" if arch == "cpu" else arch)

    monkeypatch.setattr(specialisations, "target_of", reference)
    monkeypatch.setenv("TILEDSL_CACHE_DIR", str(tmp_path))


def ramp(size: int = 10, dtype: Any = F32) -> Any:
    return np.arange(size).astype(dtype)


def fresh(kernel: Kernel) -> Kernel:
    """The same kernel, with nothing compiled."""
    return tile.kernel(kernel.__wrapped__)


def causes(kernel: Kernel) -> list[str]:
    return [compilation.cause for compilation in kernel.recompiles]


@tile.kernel
def times_factor(x: tile.Tensor) -> Any:
    """x * FACTOR."""
    (N,) = x.shape
    z = tile.empty((N,), x.dtype)
    for n in tile.grid(N):
        z[n] = x[n] * FACTOR
    return z


def test_a_kernel_looks_like_its_function() -> None:
    assert power.__name__ == "power"
    assert power.__doc__ == "x multiplied by itself, `exponent` times over."
    assert power.__module__ == "tests.support.kernels.call_kernels"
    assert repr(add).startswith("<tile.kernel add(x: ")
    assert list(inspect.signature(power).parameters) == ["x", "exponent"]  # pyright: ignore[reportArgumentType]


def test_what_shares_code() -> None:
    kernel = fresh(add)
    for size in (10, 11, 7, 10):
        np.testing.assert_array_equal(kernel(ramp(size), ramp(size)), ramp(size) * 2)
    assert causes(kernel) == ["first use"]


def test_each_recompilation_has_a_cause(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tiledsl")
    kernel = fresh(add)
    kernel(ramp(), ramp())
    kernel(ramp(16), ramp(16))
    kernel(ramp(dtype=np.float64), ramp(dtype=np.float64))
    kernel(ramp(20)[::2], ramp())
    assert causes(kernel) == [
        "first use",
        "`x`: the size of axis 0 is now a multiple of 16; `y`: the size of axis 0 is now a multiple of 16",
        "`x`: dtype f32 became f64; `y`: dtype f32 became f64",
        "`x`: unit stride moved from axis 0 to no axis",
    ]
    assert [record.getMessage().rpartition(" s: ")[2] for record in caplog.records] == causes(kernel)
    assert "unit stride moved" in kernel.explain()


def test_constants_are_compiled_in() -> None:
    kernel = fresh(power)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(ramp()), ramp() ** 2)
        np.testing.assert_array_equal(kernel(ramp(), exponent=3), ramp() ** 3)
        np.testing.assert_array_equal(kernel(ramp(), 1), ramp())
    assert causes(kernel) == ["first use", "`exponent`: 2 became 3", "`exponent`: 2 became 1"]


def test_changed_global_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fresh(times_factor)
    np.testing.assert_array_equal(kernel(ramp()), ramp() * 2)
    monkeypatch.setitem(globals(), "FACTOR", 5)
    np.testing.assert_array_equal(kernel(ramp()), ramp() * 5)
    np.testing.assert_array_equal(kernel(ramp()), ramp() * 5)
    assert causes(kernel) == ["first use", "`FACTOR`, read from outside of the kernel, has changed"]


def test_other_objects_of_the_same_kernel_find_it_on_disk() -> None:
    np.testing.assert_array_equal(fresh(gemm)(np.ones((3, 4), F32), np.ones((4, 5), F32)), np.full((3, 5), 4))
    again = fresh(gemm)
    np.testing.assert_array_equal(again(np.ones((3, 4), F32), np.ones((4, 5), F32)), np.full((3, 5), 4))
    assert [compilation.from_disk for compilation in again.recompiles] == [True]
    with pytest.raises(TileError) as caught:
        again(np.ones((3, 4), F32), np.ones((5, 5), F32))
    assert "K, N = b.shape" in str(caught.value)


def test_damaged_entry_is_made_anew(tmp_path: Path) -> None:
    fresh(add)(ramp(), ramp())
    (entry,) = [file for file in tmp_path.rglob("*") if file.is_file()]
    entry.write_bytes(entry.read_bytes()[:-10])
    again = fresh(add)
    np.testing.assert_array_equal(again(ramp(), ramp()), ramp() * 2)
    assert [compilation.from_disk for compilation in again.recompiles] == [False]
    assert [compilation.from_disk for compilation in compiled_once_more(add)] == [True]


def test_an_entry_that_is_whole_but_nonsense_is_made_anew(tmp_path: Path) -> None:
    fresh(add)(ramp(), ramp())
    (entry,) = [file for file in tmp_path.rglob("*") if file.is_file()]
    for content in (b"", b"x" * 100, (4).to_bytes(8, "little") + b"null"):
        DiskCache(tmp_path, 1 << 20).put(entry.parent.name + entry.name, content)
        again = fresh(add)
        np.testing.assert_array_equal(again(ramp(), ramp()), ramp() * 2)
        assert [compilation.from_disk for compilation in again.recompiles] == [False]


def compiled_once_more(kernel: Kernel) -> Any:
    again = fresh(kernel)
    again(ramp(), ramp())
    return again.recompiles


def test_disk_cache_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEDSL_DISABLE_CACHE", "1")
    fresh(add)(ramp(), ramp())
    assert list(tmp_path.iterdir()) == []


def test_global_is_part_of_the_disk_key(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh(times_factor)(ramp())
    monkeypatch.setitem(globals(), "FACTOR", 5)
    kernel = fresh(times_factor)
    np.testing.assert_array_equal(kernel(ramp()), ramp() * 5)
    assert [compilation.from_disk for compilation in kernel.recompiles] == [False]


def test_one_thread_compiles_and_the_others_wait() -> None:
    kernel = fresh(add)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(kernel(ramp(), ramp()))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kernel.recompiles) == 1
    assert all(np.array_equal(result, ramp() * 2) for result in results)
    assert len(results) == 6


def test_failed_compilation_can_be_tried_again() -> None:
    kernel = fresh(add)
    for _ in range(2):
        with pytest.raises(TileError):
            kernel(ramp(), ramp().reshape(2, 5))
    np.testing.assert_array_equal(kernel(ramp(), ramp()), ramp() * 2)


def test_kernels_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(add)) is add


def test_kernel_with_a_parameter_called_out() -> None:
    @tile.kernel
    def double(x: tile.Tensor, out: tile.Tensor) -> None:
        (N,) = x.shape
        (N,) = out.shape
        for n in tile.grid(N):
            out[n] = x[n] * 2

    target = ramp()
    assert double(ramp(), out=target) is None
    np.testing.assert_array_equal(target, ramp() * 2)
    double(ramp(), target)
    run: Any = double.compile(target, target, arch="reference")
    run(target, out=ramp())


def test_what_cannot_be_a_kernel() -> None:
    with pytest.raises(TileTypeError):
        tile.kernel(len)


def test_nothing_compiled_yet() -> None:
    assert fresh(add).explain() == "add: not compiled yet"
