"""f32 products by planes: the graph means the same, and kernels give what f32 gives, whatever the numbers are."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.gpu_code.f32_planes import Formula, assert_digits, exact_of, normals_of, remarks_of
from tiledsl import ops, tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.backend_ref.scalar_functions import apply
from tiledsl.passes.graph.rewrites import split_floats
from tiledsl.passes.graph.rewrites.split_floats import SplitFloats
from tiledsl.passes.graph.rewrites.windows.copy_windows import CopyWindows
from tiledsl.passes.manager import PassContext, PassManager

DIGITS = 2.0**-22
"""Of the sum of magnitudes: what f32 products and sums of a few elements are off at most."""
TINY = 40 * 2.0**-150
"""What sums of 40 numbers are off that have no digits below 2**-149."""

FORMULAS: dict[str, tuple[Formula, tuple[int, ...], tuple[int, ...]]] = {
    "rows of both": (lambda x, w: x @ w, (100, 40), (40, 70)),
    "columns of the left one": (lambda x, w: x.T @ w, (40, 72), (40, 64)),
    "rows along the sum": (lambda x, w: x @ w.T, (64, 48), (33, 48)),
    "a batch": (lambda x, w: x @ w, (2, 33, 40), (2, 40, 24)),
    "one right operand": (lambda x, w: x @ w, (2, 33, 40), (40, 24)),
    "windows": (lambda x, w: ops.conv2d(x, w, padding=1), (2, 16, 5, 6), (24, 16, 3, 3)),
    "every other window": (lambda x, w: ops.conv2d(x, w, padding=1, stride=2), (1, 8, 9, 7), (16, 8, 3, 3)),
    "something behind it": (lambda x, w: tile.maximum(x @ w, 0.0) + 1.0, (64, 40), (40, 32)),
}


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_floats, "GAIN", 1e9)


def _assert_as_f32(actual: Any, exact: Any, size: Any) -> None:
    assert_digits(actual, exact, size, DIGITS, TINY)


@pytest.mark.parametrize("name", FORMULAS)
def test_it_means_the_same(name: str) -> None:
    formula, *shapes = FORMULAS[name]
    arrays = normals_of(*shapes)
    graph = tiledsl.trace(formula, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    context = PassContext()
    module = PassManager([CopyWindows("sm_90"), SplitFloats("sm_90")]).run(graph.module.clone(), context)
    assert any(remark.pass_name == "split-floats" for remark in context.remarks)
    (actual,) = execute_graph(module.entry, arrays, module)
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("plan", [0, 2, 99])
@pytest.mark.parametrize("name", FORMULAS)
def test_kernels_have_the_digits_of_f32(name: str, plan: int) -> None:
    formula, *shapes = FORMULAS[name]
    arrays = normals_of(*shapes)
    result = emulate_graph(tiledsl.trace(formula, *arrays), arrays, {}, None, Request(arch="sm_90", plan=plan)).result
    if name != "something behind it":
        _assert_as_f32(result, *exact_of(lambda x, w: formula(x, w), arrays))
    else:
        exact, size = exact_of(lambda x, w: x @ w, arrays)
        _assert_as_f32(result, np.maximum(exact, 0) + 1, size + 1)


def _special(x: Any, w: Any) -> None:
    x[3, 5], w[2, 9], x[7] = np.inf, -np.inf, np.nan
    x[20, 0], x[21], w[4, 4] = 3.4e38, 3e30, 2.0**120
    x[22, 1], x[30] = 1e-40, 1e-42 * np.arange(x.shape[1])
    w[1, 3], w[5, 6] = 1e30, 1e-39


@pytest.mark.parametrize("plan", [0, 1, 99])
def test_special_numbers_are_those_of_f32(plan: int) -> None:
    formula: Formula = lambda x, w: x @ w  # noqa: E731
    arrays = normals_of((64, 40), (40, 32))
    _special(*arrays)
    result = emulate_graph(tiledsl.trace(formula, *arrays), arrays, {}, None, Request(arch="sm_90", plan=plan)).result
    _assert_as_f32(result, *exact_of(formula, arrays))


@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-30, 1.0, 1e15, 1e30])
def test_planes_have_all_digits(scale: float) -> None:
    random = np.random.default_rng(1)
    x = (random.standard_normal((8, 64)) * scale).astype(np.float32)
    planes: Any = [apply(f"plane_{number}", x) for number in (1, 2, 3)]
    for plane in planes:
        bits = plane.view(np.uint32) & 0xFFFF
        assert not bits.any()  # bf16 has it
    np.testing.assert_array_equal(sum(plane.astype(np.float64) for plane in planes) * 2.0**-16, x.astype(np.float64))


def _remarks(formula: Formula, *shapes: tuple[int, ...], arch: str = "sm_90") -> list[Any]:
    return remarks_of(SplitFloats(arch), formula, *shapes)


def test_only_large_products_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    product: Formula = lambda x, w: x @ w  # noqa: E731
    assert _remarks(product, (2048, 2048), (2048, 2048))
    assert not _remarks(product, (128, 128), (128, 128))
    assert not _remarks(product, (8, 8192), (8192, 8192))
    assert not _remarks(product, (2048, 2048), (2048, 2048), arch="sm_80")
    assert not _remarks(product, (2048, 2048), (2048, 2048), arch="cpu")


def test_attention_is_left_to_one_kernel() -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        return ops.softmax(q @ k.mT, axis=-1) @ v

    assert not _remarks(attention, (8, 2048, 64), (8, 2048, 64), (8, 2048, 64))


def test_an_operand_of_two_products_is_split_once() -> None:
    graph = tiledsl.trace(lambda x, w, u: (x @ w, x @ u), *normals_of((64, 64), (64, 64), (64, 64)))
    module = PassManager([SplitFloats("sm_90")]).run(graph.module.clone(), PassContext())
    assert sum(function.name.startswith("planes") for function in module.functions) == 3
