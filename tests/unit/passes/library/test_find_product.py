"""What is a product that a library computes, and what is none: docs/search.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings

import tiledsl
from tests.support.fakes.fake_library import DTYPES, compute
from tests.support.generators.random_library_products import (
    BEHIND,
    BESIDE,
    FUNCTION_OF,
    WrittenProduct,
    written_products,
)
from tiledsl import tile
from tiledsl.api.graphs.fused import FusedGraph
from tiledsl.api.schedules.schedule_graph import schedule_graph
from tiledsl.passes.library.find_product import find_product
from tiledsl.passes.library.library_product import (
    LibraryProduct,
    MatmulCall,
    NoLibraryCallError,
    call_of,
    product_from_json,
    product_to_json,
)

PLAIN = WrittenProduct((24, 8, 12), 0, (False, True, False), "nothing", "nothing", False, tile.f16)
Formula = Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]
BY_COLUMNS = "its result lies column by column, and a bias is added to rows"


def S(*shape: int, d: Any = tile.f16) -> Any:  # noqa: N802
    return tile.spec(shape, d)


def found(formula: Any, *specs: Any) -> tuple[LibraryProduct, MatmulCall]:
    """What the only launch of a formula is. Raises NoLibraryCallError."""
    fused = FusedGraph(tiledsl.trace(formula, *specs))
    lowered, _ = fused.lowered_before("sm_90", {}, {})
    made = schedule_graph(lowered, fused.graph.inputs, fused.graph.constants)
    (step,) = made.schedule.steps
    product = find_product(made.functions[step.program], dict(step.sizes))
    return product, call_of(product, [tensor.view.strides for tensor in step.tensors])


def specs_of(written: WrittenProduct) -> list[Any]:
    return [tile.spec(shape, written.dtype) for shape in written.shapes]


def why_none(formula: Any, *specs: Any) -> str:
    with pytest.raises(NoLibraryCallError) as caught:
        found(formula, *specs)
    return str(caught.value)


@pytest.mark.parametrize("behind", BEHIND)
def test_what_is_done_to_sums_is_known_by_what_it_gives(behind: str) -> None:
    written = replace(PLAIN, beside="bias", behind=behind)
    if behind in FUNCTION_OF:
        product, call = found(written, *specs_of(written))
        assert (product.activation, call.activation, call.bias) == (FUNCTION_OF[behind],) * 2 + (2,)
    else:
        why = why_none(written, *specs_of(written))
        assert why in (
            "what it does to sums is no activation that a library has",
            "beside its product it has `graph.map`",
        )


@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize("beside", BESIDE)
def test_a_residual_and_a_column_are_no_bias(beside: str, square: bool) -> None:
    written = replace(PLAIN, beside=beside, sizes=(12, 12, 12) if square else PLAIN.sizes)
    if written.activation is None:
        why = why_none(written, *specs_of(written))
        assert why in ("beside its product it has more than a bias for each column", "something is laid out anew")
    else:
        assert found(written, *specs_of(written))[0].bias == (-1 if beside == "nothing" else 2)


NONE: list[tuple[str, Formula, list[Any]]] = [
    ("an operand is computed", lambda x, w: (x * 2) @ w, [S(16, 32), S(32, 8)]),
    ("it is no product of f16 or bf16 with sums of f32", lambda x, w: x @ w,
     [S(16, 32, d=tile.f32), S(32, 8, d=tile.f32)]),
    ("it rounds to bf16", lambda x, w: tile.dot(x, w).to(tile.bf16).to(tile.f16), [S(16, 32), S(32, 8)]),
    ("it sums an axis of one operand", lambda x, w: tile.sum(x @ w, -1), [S(16, 32), S(32, 8)]),
    ("it is not one product with one result", lambda x, w: x @ w, [S(16, 32), S(32)]),
    ("its bias is f16, and its result f32", lambda x, w, b: tile.dot(x, w) + b, [S(16, 32), S(32, 8), S(8)]),
    ("what it does to sums is no activation that a library has", lambda x, w, b: tile.relu(x @ w) + b,
     [S(16, 32), S(32, 8), S(8)]),
    ("what it does to sums is no activation that a library has", lambda x, w, b: x @ w - b,
     [S(16, 32), S(32, 8), S(8)]),
    ("beside its product it has more than a bias for each column", lambda x, w: x @ w + x,
     [S(32, 32), S(32, 32)]),
    ("its bias is one for several columns", lambda x, w, b: tile.einsum("mk,kab->mab", x, w) + b,
     [S(16, 32), S(32, 4, 8), S(8, d=tile.f32)]),
    (BY_COLUMNS, lambda x, w, b: (x @ w + b).T, [S(16, 32), S(32, 16), S(16)]),
    ("beside its product it has more than a bias for each column", lambda x, w, b: x @ w + b,
     [S(3, 16, 32), S(3, 32, 8), S(3, 1, 8)]),
    ("axes m_1 and n_1 do not lie as one", lambda x, w: tile.einsum("bmhd,bnhd->bhmn", x, w),
     [S(2, 16, 3, 32), S(2, 24, 3, 32)]),
]  # fmt: skip


@pytest.mark.parametrize(("why", "formula", "specs"), NONE)
def test_why_there_is_no_call(why: str, formula: Any, specs: list[Any]) -> None:
    assert why_none(formula, *specs) == why


LYING: list[tuple[Formula, list[Any], MatmulCall]] = [
    (lambda x, w: (x @ w.T).T, [S(16, 32), S(8, 32)],  # D is 16 x 8, column by column
     MatmulCall((0, 1, 2), 16, 8, 32, (True, False), (32, 32, 16), "f16", "f16")),
    (lambda x, w: x[:, 8:40] @ w, [S(16, 64), S(32, 8)],
     MatmulCall((1, 0, 2), 8, 16, 32, (False, False), (8, 64, 8), "f16", "f16")),
    (lambda x, w: x @ w, [S(5, 16, 32), S(32, 8)],  # rows of all batches are rows of one matrix
     MatmulCall((1, 0, 2), 8, 80, 32, (False, False), (8, 32, 8), "f16", "f16")),
    (lambda x, w: x @ w, [S(2, 5, 16, 32), S(2, 5, 32, 8)],
     MatmulCall((1, 0, 2), 8, 16, 32, (False, False), (8, 32, 8), "f16", "f16", 10, (256, 512, 128))),
    (lambda x, w: tile.einsum("mhd,nhd->hmn", x, w), [S(16, 3, 32), S(24, 3, 32)],
     MatmulCall((1, 0, 2), 24, 16, 32, (True, False), (96, 96, 24), "f16", "f32", 3, (32, 32, 384))),
    (lambda x: x @ x.T, [S(16, 32)],
     MatmulCall((1, 0, 2), 16, 16, 32, (True, False), (32, 32, 16), "f16", "f16")),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "specs", "call"), LYING)
def test_how_tensors_lie_in_a_call(formula: Any, specs: list[Any], call: MatmulCall) -> None:
    assert found(formula, *specs)[1] == call


def test_a_product_as_text_and_as_data() -> None:
    written = replace(PLAIN, beside="bias", behind="relu")
    product, _ = found(written, *specs_of(written))
    assert str(product) == (
        "tensor 3[m, n] f16 = relu(tensor 0[m, k] * tensor 1[n, k] + tensor 2[n]), f16, m = 24, k = 12, n = 8"
    )
    assert product_from_json(product_to_json(product)) == product


@settings(max_examples=6)
@given(written_products())
def test_what_is_found_computes_the_formula(written: WrittenProduct) -> None:
    by_columns = written.turned[2] and BESIDE[written.beside][0](1, 1) != ()
    if written.activation is None or by_columns:
        event("none")
        why = why_none(written, *specs_of(written))
        assert written.activation is None or why == BY_COLUMNS
        return
    product, call = found(written, *specs_of(written))
    assert product.activation == written.activation
    dtype = DTYPES[written.dtype.name]
    random = np.random.default_rng(0)
    arrays = [random.integers(-2, 3, shape).astype(dtype) for shape in written.shapes]
    wanted = by_numpy(written, *(array.astype(np.float64) for array in arrays))
    out = np.zeros(wanted.shape, dtype)
    places = [*(array.ctypes.data for array in arrays), out.ctypes.data]
    compute(call, [*(places[number] for number in call.tensors), places[call.bias] if call.bias >= 0 else 0])
    np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=1e-2, atol=1e-6)


def by_numpy(written: WrittenProduct, x: Any, w: Any, beside: Any = 0.0) -> Any:
    """The formula in f64."""
    left, right, out = written.turned
    made = (np.swapaxes(x, -1, -2) if left else x) @ (np.swapaxes(w, -1, -2) if right else w) + beside
    if written.activation == "relu":
        made = np.maximum(made, 0)
    elif written.activation == "gelu":
        made = made * (1 + np.tanh(np.sqrt(2 / np.pi) * (made + 0.044715 * made**3))) / 2
    return np.swapaxes(made, -1, -2) if out else made
