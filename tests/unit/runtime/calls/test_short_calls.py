"""Calls like an earlier one: how few functions of Python they take, and what they still look at."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.fakes.fake_cuda import FakeCuda, fake_cuda
from tiledsl import tile
from tiledsl.support.errors import TileError

SCALE = 2.0
HERE = str(Path(tiledsl.__file__).parent)


@tile.kernel
def kernel(x: tile.Tensor, y: tile.Tensor) -> tile.Tensor:
    """x + 2 * y"""
    (N,) = x.shape
    z = tile.empty((N,), x.dtype)
    for n in tile.grid(N):
        z[n] = x[n] + y[n] * 2
    return z


@tile.kernel
def formula(x: tile.Tensor, y: tile.Tensor) -> Any:
    """x + 2 * y"""
    return x + y * SCALE


@tile.kernel
def scaled(x: tile.Tensor, factor: float, y: tile.Tensor, shift: float = 0.0) -> Any:
    """x + factor * y + shift"""
    return x + y * factor + shift


SPECS = tile.spec((8,), tile.f32), tile.spec((8,), tile.f32)


def module(arch: str | None = None) -> Any:
    return tiledsl.fuse(tiledsl.trace(_doubled, *SPECS)).build(arch)


def _doubled(x: Any, y: Any) -> Any:
    return x + y * 2


def values(start: int = 0) -> Any:
    return np.arange(start, start + 8, dtype=np.float32)


def functions_of(call: Callable[[], object]) -> int:
    """How many functions of the package one call runs, once it has been made a few times."""
    for _ in range(3):
        call()
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(HERE)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def targets() -> list[Any]:
    return [kernel, formula, module(), module("cpu")]


@pytest.mark.parametrize("number", range(4), ids=["kernel", "formula", "module", "module for the CPU"])
def test_calls_on_arrays_of_numpy_take_four_functions(number: int) -> None:
    call = targets()[number]
    most = 5 if call is formula else 4  # what it reads from outside is looked at
    x, y, out = values(), values(3), values()
    assert functions_of(lambda: call(x, y)) <= most
    assert functions_of(lambda: call(x, y, out=out)) <= most
    np.testing.assert_array_equal(out, x + 2 * y)


@pytest.mark.parametrize("number", range(4), ids=["kernel", "formula", "module", "module for the CPU"])
def test_calls_on_tensors_in_cpu_memory_take_few_functions(number: int) -> None:
    torch = pytest.importorskip("torch")
    call = targets()[number]
    x, y, out = (torch.from_numpy(values(start)) for start in (0, 3, 0))
    assert functions_of(lambda: call(x, y)) <= 12
    assert functions_of(lambda: call(x, y, out=out)) <= 8
    np.testing.assert_array_equal(out.numpy(), values() + 2 * values(3))


def test_calls_on_a_device_take_few_functions() -> None:
    with fake_cuda() as cuda:
        x, y, out = (cuda.tensor(values(start)) for start in (0, 3, 0))
        plain = functions_of(lambda: kernel(x, y)), functions_of(lambda: kernel(x, y, out=out))
        for call in (formula, module(), module("sm_90")):
            assert functions_of(lambda call=call: call(x, y)) <= plain[0] + 2
            assert functions_of(lambda call=call: call(x, y, out=out)) <= plain[1] + 2
            np.testing.assert_array_equal(out.host, x.host + 2 * y.host)


def wrong_for(call: Any, out: bool, tensor: Callable[[Any], Any]) -> list[tuple[Any, ...]]:
    """Calls that are refused: arguments, and `out`."""
    x, y = tensor(values()), tensor(values(3))
    wide, long = tensor(values().astype(np.float64)), tensor(np.arange(9, dtype=np.float32))
    if out:
        return [(x, y, wide), (x, y, long), (x, y, (x, y)), (x, y, 1.0)]
    always = [(x,), (x, y, y), (x, long)]
    return always if call is formula else [*always, (x, None), (wide, y), (x, [y])]


def check_calls(call: Any, tensor: Callable[[Any], Any], host: Callable[[Any], Any]) -> None:
    """Calls that are like an earlier one, and calls that are not, in turn."""
    x, y = tensor(values()), tensor(values(3))
    for _ in range(3):
        np.testing.assert_array_equal(host(call(x, y)), values() + 2 * values(3))
        for wrong in wrong_for(call, False, tensor):
            with pytest.raises(TileError):
                call(*wrong)
        out = tensor(np.zeros(8, np.float32))
        assert call(x, y, out=out) is out
        np.testing.assert_array_equal(host(out), values() + 2 * values(3))
        for *arguments, wrong in wrong_for(call, True, tensor):
            with pytest.raises(TileError):
                call(*arguments, out=wrong)
        strided = tensor(np.arange(24, dtype=np.float32))[::3]
        np.testing.assert_array_equal(host(call(strided, y)), values() * 3 + 2 * values(3))
        assert call(x, y, out=strided) is strided
        np.testing.assert_array_equal(host(strided), values() + 2 * values(3))
        memory = tensor(np.arange(20, dtype=np.float32))
        for start in range(12):  # `out` lies behind the first argument, partly on it, on it, and before it
            memory[:] = tensor(np.arange(20, dtype=np.float32))
            call(memory[6:14], y, out=memory[start : start + 8])
            np.testing.assert_array_equal(host(memory[start : start + 8]), values(6) + 2 * values(3))


@pytest.mark.parametrize("make", [lambda: formula, module, lambda: module("cpu")])
def test_calls_on_arrays_look_at_them(make: Callable[[], Any]) -> None:
    call = make()
    check_calls(call, np.array, np.asarray)
    read_only = values()
    read_only.flags.writeable = False
    for _ in range(2):
        with pytest.raises(TileError):
            call(values(), values(), out=read_only)
        np.testing.assert_array_equal(call(read_only, read_only), values() * 3)


@pytest.mark.parametrize("make", [lambda: kernel, lambda: formula, module])
def test_calls_on_tensors_look_at_them(make: Callable[[], Any]) -> None:
    torch = pytest.importorskip("torch")
    call = make()
    if call is not kernel:  # which takes any dtype and length
        check_calls(call, torch.from_numpy, lambda tensor: np.asarray(tensor))
    x, y = torch.from_numpy(values()), torch.from_numpy(values(3))
    for _ in range(3):
        out = torch.zeros(8)
        assert call(x, y, out=out) is out
        np.testing.assert_array_equal(out.numpy(), values() + 2 * values(3))
        with pytest.raises(TileError):
            call(x, y.clone().requires_grad_())
        odd = torch.zeros(36, dtype=torch.uint8)[1:33].view(torch.uint8)
        moved = torch.from_numpy(odd.numpy().view(np.float32))  # not a multiple of 4
        moved[:] = y
        np.testing.assert_array_equal(np.asarray(call(x, moved)), values() + 2 * values(3))
        np.testing.assert_array_equal(np.asarray(call(values(), values(3))), values() + 2 * values(3))


def test_weights_are_not_written_over_while_they_are_read() -> None:
    weight: Any = np.outer(values(1), values(2))

    def multiplied(x: Any) -> Any:
        return x @ weight

    built = tiledsl.fuse(tiledsl.trace(multiplied, tile.spec((8, 8), tile.f32))).build("cpu")
    x = np.array(np.eye(8, dtype=np.float32)[::-1])
    before = np.array(weight)
    for _ in range(3):
        built(x, out=np.zeros((8, 8), np.float32))
        assert built(x, out=weight) is weight
        np.testing.assert_array_equal(weight, before[::-1])
        weight[:] = before


def test_what_a_formula_reads_from_outside_is_looked_at() -> None:
    module_globals = globals()
    x, y = values(), values(3)
    try:
        for scale in (2.0, 3.0, 3.0, 2.0):
            module_globals["SCALE"] = scale
            for _ in range(3):
                np.testing.assert_array_equal(formula(x, y), x + scale * y)
                np.testing.assert_array_equal(formula(x, y, out=values()), x + scale * y)
    finally:
        module_globals["SCALE"] = 2.0


def test_numbers_of_a_formula_are_looked_at() -> None:
    x, y = values(), values(3)
    for factor in (2.0, 2, -0.0, 0.0, True, 2.0):
        for _ in range(3):
            np.testing.assert_array_equal(scaled(x, factor, y), x + factor * y)
            np.testing.assert_array_equal(scaled(x, factor, y, 1.0), x + factor * y + 1)
            np.testing.assert_array_equal(scaled(x, factor, y=y, shift=2.0), x + factor * y + 2)
    assert functions_of(lambda: scaled(x, 2.0, y)) <= 7


def test_shapes_and_places_in_turn() -> None:
    with fake_cuda() as cuda:
        _check_in_turn(cuda)


def _check_in_turn(cuda: FakeCuda) -> None:
    for _ in range(3):
        for size in (8, 5, 1):
            x = np.arange(size, dtype=np.float32)
            np.testing.assert_array_equal(formula(x, x), x * 3)
            np.testing.assert_array_equal(formula(cuda.tensor(x), cuda.tensor(x)).host, x * 3)
            out = cuda.tensor(np.zeros_like(x))
            formula(cuda.tensor(x), cuda.tensor(x), out=out)
            np.testing.assert_array_equal(out.host, x * 3)


def test_threads() -> None:
    x = values()

    def call_often(start: int) -> bool:
        y, out = values(start), values()
        results = [(formula(x, y), np.array(formula(x, y, out=out))) for _ in range(50)]
        return all(np.array_equal(one, x + 2 * y) and np.array_equal(two, one) for one, two in results)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call_often, range(8)))
