"""Calls, from arguments to results, with the reference executor as the back end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.bound_programs import compiled_text
from tests.support.kernels.call_kernels import accumulate, add, both, gemm, scale, sum_and_difference
from tiledsl import tile
from tiledsl.runtime.calls import dispatch
from tiledsl.support.errors import TileError

F32 = np.float32
ANY = tile.spec((None,), tile.f32)


def ramp(size: int = 10, dtype: Any = F32) -> Any:
    return np.arange(size).astype(dtype)


def compiled(kernel: Any, *specs: Any) -> Any:
    return kernel.compile(*specs, arch="reference")


@pytest.fixture(scope="module")
def any_add() -> Any:
    """`add` for any strides."""
    strided = np.zeros(4, F32)[::2]
    return compiled(add, strided, strided)


class ByInterface:
    """An array of another library."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = array.__array_interface__


# Arrays of every kind


def record_field() -> Any:
    """Strides that are not whole elements."""
    records: Any = np.zeros(10, np.dtype([("tag", "u1"), ("value", "f4")]))
    records["value"] = ramp()
    return records["value"]


def misaligned() -> Any:
    storage: Any = np.zeros(41, np.uint8)
    array = storage[1:].view(F32)
    array[:] = ramp()
    return array


def read_only() -> Any:
    array = ramp()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "make",
    [
        ramp,
        record_field,
        misaligned,
        read_only,
        lambda: ramp(20)[::2] / F32(2),
        lambda: ramp()[::-1][::-1],
        lambda: ramp()[::-1].copy()[::-1],
        lambda: np.ascontiguousarray(np.broadcast_to(ramp(), (3, 10)))[1],
    ],
)
def test_inputs_of_any_layout(any_add: Any, make: Callable[[], Any]) -> None:
    for _ in range(2):  # the second call may take the short way
        np.testing.assert_array_equal(any_add(make(), ramp()), ramp() * 2)


def test_broadcast_input(any_add: Any) -> None:
    np.testing.assert_array_equal(any_add(np.broadcast_to(F32(3), (10,)), ramp()), ramp() + 3)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 100])
def test_sizes(any_add: Any, size: int) -> None:
    np.testing.assert_array_equal(any_add(ramp(size), ramp(size)), ramp(size) * 2)


@pytest.mark.parametrize("shape", [(0, 4, 5), (3, 0, 5), (3, 4, 0), (1, 1, 1)])
def test_empty_and_single_axes(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    run = compiled(gemm, tile.spec(("M", "K"), tile.f32), tile.spec(("K", "N"), tile.f32))
    np.testing.assert_array_equal(run(np.ones((m, k), F32), np.ones((k, n), F32)), np.full((m, n), k, F32))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint8", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_dtypes(dtype: Any) -> None:
    x = ramp(dtype=dtype)
    result = compiled(add, x, x)(x, x)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, x + x)


# Scalars


@pytest.mark.parametrize("factor", [3.0, -0.0, float("inf")])
def test_python_numbers(factor: float) -> None:
    run = compiled(scale, ANY, float, int)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(run(ramp(), factor, 1), ramp() * F32(factor) + 1)


def test_numpy_numbers_are_strong() -> None:
    result = compiled(scale, ANY, np.float64, int)
    # a float64 factor makes the product float64, which the store casts back
    np.testing.assert_array_equal(result(ramp(), np.float64(0.1), 0), (ramp(dtype=np.float64) * 0.1).astype(F32))


def test_defaults_and_names() -> None:
    run = compiled(scale, ANY, float, int)
    np.testing.assert_array_equal(run(factor=2.0, x=ramp(), offset=0), ramp() * 2)


# Outputs


def test_out(any_add: Any) -> None:
    out = np.full(10, -1, F32)
    for _ in range(2):
        assert any_add(ramp(), ramp(), out=out) is out
        np.testing.assert_array_equal(out, ramp() * 2)


def test_strided_out(any_add: Any) -> None:
    whole = np.full(20, -1, F32)
    any_add(ramp(), ramp(), out=whole[::2])
    np.testing.assert_array_equal(whole[::2], ramp() * 2)
    np.testing.assert_array_equal(whole[1::2], np.full(10, -1))


def test_out_whose_strides_the_code_does_not_expect() -> None:
    """New tensors are taken to be contiguous along the last axis; the CPU back end makes use of it."""
    whole = np.full(20, -1, F32)
    for out in (whole[::2], whole[::-2]):
        for _ in range(2):
            add(ramp(), ramp(), out=out)
            np.testing.assert_array_equal(out, ramp() * 2)


@pytest.mark.parametrize("make", [record_field, misaligned])
def test_out_that_cannot_be_addressed(any_add: Any, make: Callable[[], Any]) -> None:
    out = make()
    for _ in range(2):
        assert any_add(ramp(), ramp(), out=out) is out
        np.testing.assert_array_equal(out, ramp() * 2)


def test_out_may_be_an_input(any_add: Any) -> None:
    x = ramp()
    for factor in (2, 4):
        any_add(x, x, out=x)
        np.testing.assert_array_equal(x, ramp() * factor)


def test_out_may_overlap_an_input(any_add: Any) -> None:
    whole = ramp(15)
    any_add(whole[:10], whole[:10], out=whole[5:])
    np.testing.assert_array_equal(whole[5:], ramp() * 2)


def test_two_outputs() -> None:
    run = compiled(sum_and_difference, ANY, ANY)
    plus, minus = run(ramp(), ramp())
    np.testing.assert_array_equal(plus, ramp() * 2)
    np.testing.assert_array_equal(minus, ramp() * 0)
    out = (np.zeros(10, F32), np.zeros(10, F32))
    for _ in range(2):
        result = run(ramp(), ramp(), out=out)
        assert [a is b for a, b in zip(result, out)] == [True, True]
        np.testing.assert_array_equal(out[0], ramp() * 2)


def test_out_of_another_library_is_what_is_returned(any_add: Any) -> None:
    for array in (np.zeros(10, F32), record_field()):
        out = ByInterface(array)
        assert any_add(ramp(), ramp(), out=out) is out
        np.testing.assert_array_equal(array, ramp() * 2)


def test_out_and_a_written_parameter_are_two_arrays() -> None:
    text = """
    func @f(%x: tensor<f32, [N]>) {
      %a = tile.empty() {shape = [N], dtype = f32}
      %t = tile.load(%x, [:])
      tile.store(%a, [:], %t)
      tile.store(%x, [:], %t)
      tile.return([%a])
    }
    """
    x = ramp()
    with pytest.raises(TileError, match="`x` and `out` share memory"):
        compiled_text(text)(x, out=x)
    np.testing.assert_array_equal(x, ramp())


def test_outputs_that_share_memory_are_refused() -> None:
    one = np.zeros(10, F32)
    with pytest.raises(TileError, match="share memory"):
        compiled(sum_and_difference, ANY, ANY)(ramp(), ramp(), out=(one, one))


# Parameters that are written


def test_written_parameter_is_returned() -> None:
    total, x = ramp(), ramp()
    run = compiled(accumulate, ANY, ANY)
    assert run(total, x) is total
    np.testing.assert_array_equal(total, np.full(10, 9))


def test_written_parameter_may_overlap_another() -> None:
    run = compiled(accumulate, ANY, ANY)
    total = ramp()
    assert run(total, total) is total
    np.testing.assert_array_equal(total, np.full(10, 9))
    whole = ramp(11)
    run(whole[1:], whole[:10])
    np.testing.assert_array_equal(whole, [0] + [10] * 10)


@pytest.mark.parametrize("make", [record_field, misaligned])
def test_written_parameter_that_cannot_be_addressed(make: Callable[[], Any]) -> None:
    total = make()
    assert compiled(accumulate, ANY, ANY)(total, ramp()) is total
    np.testing.assert_array_equal(total, np.full(10, 9))


def test_nothing_is_returned() -> None:
    x, y = ramp(), ramp()
    assert compiled(both, ANY, ANY)(x, y) is None
    np.testing.assert_array_equal(x, ramp() + 1)
    np.testing.assert_array_equal(y, ramp() + 2)


def test_nothing_is_written_when_a_check_fails(any_add: Any) -> None:
    x, y, out = ramp(), read_only(), np.full(10, -1, F32)
    with pytest.raises(TileError, match="`y` is read-only"):
        compiled(both, ANY, ANY)(x, y)
    with pytest.raises(TileError, match="size"):
        any_add(x, ramp(9), out=out)
    np.testing.assert_array_equal(x, ramp())
    np.testing.assert_array_equal(out, np.full(10, -1))


def test_nothing_is_copied_back_when_the_kernel_fails() -> None:
    text = """
    func @f(%x: tensor<f32, [N]>) {
      %t = tile.load(%x, [:])
      %u = tile.map([%t, %t]) {fn = add}
      tile.store(%x, [:], %u)
      %no = tile.constant() {value = false, dtype = bool}
      tile.assert(%no) {text = "never"}
      tile.return([])
    }
    """
    array = record_field()
    with pytest.raises(TileError, match="never"):
        compiled_text(text)(array)
    np.testing.assert_array_equal(array, ramp())


# What is remembered


def test_temporaries_are_allocated() -> None:
    text = """
    func @f(%x: tensor<f32, [N]>) {
      %a = tile.empty() {shape = [N], dtype = f32}
      %b = tile.empty() {shape = [2 * N], dtype = i64}
      %c = tile.empty() {shape = [N], dtype = f32}
      %t = tile.load(%x, [:])
      tile.store(%c, [:], %t)
      tile.store(%a, [:], %t)
      tile.return([%c, %x, %a, %c])
    }
    """
    run: Any = compiled_text(text)
    x = ramp()
    c, same, a, again = run(x)
    assert same is x
    assert again is c
    np.testing.assert_array_equal(np.stack([a, c]), np.stack([x, x]))
    outs = (np.zeros(10, F32), np.zeros(10, F32))
    c, same, a, again = run(x, out=outs)
    assert (c is outs[0], a is outs[1], again is outs[0], same is x) == (True, True, True, True)


def test_launches_are_forgotten_in_time(any_add: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "MOST_LAUNCHES", 3)
    for size in range(20, 40):
        np.testing.assert_array_equal(any_add(ramp(size), ramp(size)), ramp(size) * 2)


def test_calls_like_an_earlier_one_look_at_their_arguments() -> None:
    x: Any = np.arange(12, dtype=np.float32)
    y: Any = np.ones(12, np.float32)
    read_only = x.copy()
    read_only.flags.writeable = False
    memory: Any = np.zeros(49, np.uint8)
    odd: Any = np.ndarray(12, np.float32, memory, 1)
    odd[...] = x
    for _ in range(3):  # the second and the third time the short way is tried first
        for other in (x, read_only, odd, x[::-1], np.repeat(x, 2)[::2], x[:5], x.astype(np.float64)):
            np.testing.assert_array_equal(add(other, np.ones(other.shape, other.dtype)), other + 1)
        for wrong in ((x,), (x, y, y), (x, None), (x, y[:2])):
            with pytest.raises(TileError):
                add(*wrong)
        np.testing.assert_array_equal(add(x, y), x + 1)


def test_calls_like_an_earlier_one_look_at_their_outputs() -> None:
    x, y = np.arange(12, dtype=np.float32), np.ones(12, np.float32)
    memory = np.zeros(40, np.float32)
    read_only = np.zeros(12, np.float32)
    read_only.flags.writeable = False
    for _ in range(3):  # the second and the third time the short way is tried first
        for out in (memory[:12], memory[20:32], memory[0:24:2], memory[11::-1]):
            assert add(x, y, out=out) is out
            np.testing.assert_array_equal(out, x + 1)
            memory[:12] = x
            np.testing.assert_array_equal(add(memory[:12], y, out=memory[4:16]), x + 1)  # they overlap
        for wrong in (read_only, memory[:11], (memory[:12], memory[12:24])):
            with pytest.raises(TileError):
                add(x, y, out=wrong)
    assert not read_only.any()


def test_written_parameters_of_calls_like_an_earlier_one() -> None:
    memory = np.zeros(40, np.float32)
    read_only = np.zeros(12, np.float32)
    read_only.flags.writeable = False
    x = np.arange(12, dtype=np.float32)
    for turn in range(1, 4):
        total = memory[:12]
        assert accumulate(total, x) is total
        np.testing.assert_array_equal(total, x[::-1] * turn)
        overlapping = np.arange(24, dtype=np.float32)
        accumulate(overlapping[4:16], overlapping[:12])
        np.testing.assert_array_equal(overlapping[4:16], x + 4 + x[::-1])
        with pytest.raises(TileError):
            accumulate(read_only, x)
    assert not read_only.any()


def test_calls_from_several_threads(any_add: Any) -> None:
    wrong: list[int] = []

    def work(size: int) -> None:
        for _ in range(5):
            if not np.array_equal(any_add(ramp(size), ramp(size)), ramp(size) * 2):
                wrong.append(size)

    threads = [threading.Thread(target=work, args=(size,)) for size in (50, 50, 51, 52)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@tile.kernel
def with_an_unused_output(x: tile.Tensor) -> Any:
    """2 * x; a tensor is made for nothing."""
    (N,) = x.shape
    _ = tile.empty((N, N), x.dtype)
    z = tile.empty((N,), x.dtype)
    for n in tile.grid(N):
        z[n] = x[n] * 2
    return z


@pytest.mark.parametrize("arch", ["cpu", "reference"])
def test_a_new_tensor_that_nobody_uses_is_not_made(arch: str) -> None:
    np.testing.assert_array_equal(with_an_unused_output.compile(ANY, arch=arch)(ramp()), ramp() * 2)
