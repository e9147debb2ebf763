"""Tensors of PyTorch in CPU memory whose dtype NumPy does not have: kernels and modules read them where they lie."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
import tiledsl  # noqa: E402
from tiledsl import tile  # noqa: E402
from tiledsl.runtime.arrays.arrays import as_array  # noqa: E402

VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "turned": lambda x: x.t(),
    "strided": lambda x: x[1:, ::2],
    "one": lambda x: x[0, 0],
    "none": lambda x: x[:0],
    "repeated": lambda x: x.expand(3, 4, 6),
}
DTYPES = ["bfloat16", "float8_e4m3fn", "float8_e5m2"]


def drawn(dtype: str, *shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("view", VIEWS)
def test_they_are_read_where_they_lie(dtype: str, view: str) -> None:
    tensor = VIEWS[view](drawn(dtype, 4, 6))
    array: Any = as_array(tensor, "x")
    assert array.dtype.name == dtype
    assert array.shape == tuple(tensor.shape)
    assert np.array_equal(array.astype(np.float32), tensor.float().numpy())
    if array.size:
        assert array.__array_interface__["data"][0] == tensor.data_ptr()


def test_the_memory_lives_as_long_as_the_array() -> None:
    tensor = drawn("bfloat16", 1000)
    expected = tensor.float().numpy().copy()
    array = as_array(tensor, "x")
    del tensor
    gc.collect()
    others = [torch.full((1000,), 7.0, dtype=torch.bfloat16) for _ in range(20)]
    assert np.array_equal(array.astype(np.float32), expected)
    assert len(others) == 20


@tile.kernel
def double(x: Any) -> Any:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        y[m, n] = x[m, n] * 2
    return y


def softmax(x: Any) -> Any:
    return tile.softmax(x * 2, axis=-1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_and_modules_take_them_and_write_to_them(dtype: str) -> None:
    x = drawn(dtype, 4, 6)
    module = tiledsl.fuse(tiledsl.trace(softmax, x)).build("cpu")
    made, into = module(x), torch.empty_like(x)
    module(x, out=into)
    assert made.dtype.name == dtype
    assert np.array_equal(made.astype(np.float32), into.float().numpy())
    torch.testing.assert_close(into.float(), torch.softmax(x.float() * 2, -1), rtol=0.2, atol=0.02)
    for _ in range(3):  # the short way of later calls too
        into = torch.empty_like(x)
        double(x, out=into)
        assert torch.equal(into.float(), (x.float() * 2).to(x.dtype).float())


def test_a_gradient_is_asked_for() -> None:
    with pytest.raises(tiledsl.TileTypeError, match="`x`, a Parameter, does not share its data"):
        as_array(torch.nn.Parameter(drawn("bfloat16", 3)), "x")
