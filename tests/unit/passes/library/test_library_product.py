"""Calls for tensors that lie in any way: what BLAS computes by them is the product, or there is no call."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.support.fakes.fake_library import DTYPES, compute
from tests.support.generators.random_library_products import LyingProduct, drawn_tensors, lying_products
from tiledsl.passes.library.library_product import LibraryProduct, NoLibraryCallError, call_of, product_from_json
from tiledsl.passes.library.library_product import product_to_json as to_json

PRODUCT = LibraryProduct(
    0, 1, 2, (("m", "k"), ("k", "n"), ("m", "n")), (("m", 5), ("k", 7), ("n", 3)), "f16", "f32", 3
)  # fmt: skip
STRIDES = ((7, 1), (3, 1), (3, 1), (1,))


def test_a_tensor_that_lies_row_by_row_is_its_own_transpose() -> None:
    call = call_of(PRODUCT, STRIDES)
    assert (call.tensors, call.rows, call.columns, call.sums) == ((1, 0, 2), 3, 5, 7)
    assert (call.turned, call.lines, call.bias) == ((False, False), (3, 7, 3), 3)


@pytest.mark.parametrize(
    ("why", "strides"),
    [
        ("neither rows nor columns of an operand lie without gaps", ((14, 2), (3, 1), (3, 1), (1,))),
        ("neither rows nor columns of an operand lie without gaps", ((1, 0), (3, 1), (3, 1), (1,))),
        ("neither rows nor columns of an operand lie without gaps", ((-7, 1), (3, 1), (3, 1), (1,))),
        ("its result lies column by column, and a bias is added to rows", ((7, 1), (3, 1), (1, 5), (1,))),
        ("its bias does not lie without gaps", ((7, 1), (3, 1), (3, 1), (2,))),
        ("its bias does not lie without gaps", ((7, 1), (3, 1), (3, 1), (0,))),
    ],
)
def test_how_no_library_takes_tensors(why: str, strides: Any) -> None:
    with pytest.raises(NoLibraryCallError) as caught:
        call_of(PRODUCT, strides)
    assert str(caught.value) == why


def test_batches_that_lie_backwards() -> None:
    axes = (("b", "m", "k"), ("b", "k", "n"), ("b", "m", "n"))
    batched = replace(PRODUCT, axes=axes, sizes=(("b", 2), *PRODUCT.sizes), bias=-1)
    with pytest.raises(NoLibraryCallError, match="its batches lie backwards"):
        call_of(batched, ((-35, 7, 1), (21, 3, 1), (15, 3, 1)))
    assert call_of(batched, ((35, 7, 1), (0, 3, 1), (15, 3, 1))).steps == (0, 35, 15)


@given(lying_products(), st.integers(0, 9))
def test_a_call_computes_the_product(lying: LyingProduct, seed: int) -> None:
    product = lying.product
    assert product_from_json(to_json(product)) == product
    try:
        call = call_of(product, lying.strides)
    except NoLibraryCallError:
        event("none")
        assert not lying.plain
        return
    left, right, bias = drawn_tensors(lying, seed)
    sizes = dict(product.sizes)
    shape = [sizes[name] for name in product.axes[2]]
    places = [
        placed(left, lying.strides[0], product.dtype),
        placed(right, lying.strides[1], product.dtype),
        placed(np.full(shape, np.nan), lying.strides[2], "f32"),
        placed(np.zeros(sizes["n"]) if bias is None else bias, lying.strides[3], "f32"),
    ]
    a, b, _, c = (read.astype(np.float64) for _, _, read in places)
    letters = {name: chr(97 + number) for number, name in enumerate(sizes)}
    words = ["".join(letters[name] for name in axes) for axes in product.axes]
    wanted = np.einsum(f"{words[0]},{words[1]}->{words[2]}", a, b)
    if bias is not None:
        at = product.axes[2].index("n")
        wanted = wanted + c.reshape([-1 if n == at else 1 for n in range(wanted.ndim)])
    addresses = [places[number][1] for number in call.tensors]
    compute(call, [*addresses, places[3][1] if call.bias >= 0 else 0])
    np.testing.assert_allclose(places[2][2], activated(product.activation, wanted), rtol=1e-5, atol=1e-5)


def placed(values: Any, strides: tuple[int, ...], dtype: str) -> tuple[Any, int, Any]:
    """Memory in which an array lies so; the address of its first element; and the array there."""
    item = np.dtype(DTYPES[dtype]).itemsize
    ends = [step * (size - 1) for step, size in zip(strides, values.shape)]
    before, behind = -sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
    memory = np.zeros(before + behind + 1, DTYPES[dtype])
    view = np.lib.stride_tricks.as_strided(memory[before:], values.shape, [step * item for step in strides])
    view[...] = values
    return memory, memory.ctypes.data + before * item, view


def activated(name: str, x: Any) -> Any:
    if name == "gelu":
        return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    return np.maximum(x, 0) if name == "relu" else x
