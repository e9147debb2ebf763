"""Formulas of whole tensors: what is recorded, and that it means what NumPy means."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import tiledsl
from tiledsl import TilePerformanceWarning, tile
from tiledsl.backend_ref import philox
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.verifier import Form, verify

F32 = np.float32


def random(*shape: int, dtype: Any = F32) -> Any:
    """Numbers that are exact in f16 and whose sums are exact in f32."""
    generator = np.random.default_rng(sum(shape))
    return (generator.integers(-8, 8, shape) / 4).astype(dtype)


def same(formula: Callable[..., Any], *arrays: Any, by_numpy: Callable[..., Any] | None = None) -> None:
    """Whether a formula gives what it gives for NumPy's arrays, with the same dtypes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilePerformanceWarning)
        graph = tiledsl.trace(formula, *arrays)
    verify(graph.module, Form.GRAPH)
    assert parse_module(graph.ir(locations=True)) == graph.module
    actual = graph(*arrays)
    with np.errstate(all="ignore"):
        expected = (by_numpy or formula)(*arrays)
    actual, expected = (v if isinstance(v, tuple) else (v,) for v in (actual, expected))
    for a, e in zip(actual, expected):
        assert a.dtype == e.dtype
        np.testing.assert_allclose(a, e, rtol=1e-2 if a.dtype == np.float16 else 1e-6, atol=1e-6)


X, Y, ROW, INTS = random(3, 4), random(4, 5), random(4), np.arange(12, dtype=np.int32).reshape(3, 4)
H = random(3, 4, dtype=np.float16)

ARITHMETIC: list[Callable[..., Any]] = [
    lambda x, r: x + r,
    lambda x, r: 2 - x * r / 3,
    lambda x, r: x**2 + abs(x) ** 0.5,
    lambda x, r: (x // 0.5, x % 0.75),
    lambda x, r: -x,
    lambda x, r: (x > r) & ~(x == 0) | (r != 1),
    lambda x, r: r[:, None] * r,
    lambda x, r: np.exp(x) + np.maximum(x, 0.0),
    lambda x, r: ROW * x + X,
    lambda x, r: F32(2) * x + np.float32(0.5) + np.array(3, F32),
]


@pytest.mark.parametrize("formula", ARITHMETIC)
def test_arithmetic(formula: Callable[..., Any]) -> None:
    same(lambda x, r: formula(x, r), X, ROW)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%", "**", "<"])
@pytest.mark.parametrize(
    ("a", "b"), [(H, X), (INTS, H), (INTS, INTS.astype(np.int8)), (INTS, 2), (INTS > 4, INTS), (H, 2.5), (INTS, 2.5)]
)
def test_dtypes_are_numpys(operator: str, a: Any, b: Any) -> None:
    formula = eval(f"lambda a, b: a {operator} b")
    if isinstance(b, (int, float)):
        formula = eval(f"lambda a: a {operator} {b!r}")
        b = None
    a, b = (v if v is None else np.abs(v) + (0 if v.dtype == bool else 1) for v in (a, b))
    same(formula, a, *([] if b is None else [b]))


SHAPES: list[Callable[..., Any]] = [
    lambda x: x.T,
    lambda x: x.mT if hasattr(np.ndarray, "mT") else x.swapaxes(-1, -2),
    lambda x: x.reshape(4, 3),
    lambda x: x.reshape((2, -1)),
    lambda x: x.transpose(1, 0),
    lambda x: x[1],
    lambda x: x[-1, ::2],
    lambda x: x[..., 0],
    lambda x: x[:, None, 1:3],
    lambda x: x[1:, -3:-1],
    lambda x: x[5:, None],
    lambda x: x[np.array([2, 0, 0])],
    lambda x: x[:, np.array([[2, 0], [1, 1]])],
    lambda x: x[1, np.array([2, 0])],
    lambda x: x.sum(),
    lambda x: x.sum(axis=1, keepdims=True),
    lambda x: (x.max(0), x.min((0, 1)), x.prod(-1)),
    lambda x: x.mean(-1),
    lambda x: (x.argmax(1), x.argmin(), x.argmax(0, keepdims=True)),
    lambda x: ((x > 0).any(0), (x > 0).sum(1), (x > -9).all()),
]


@pytest.mark.parametrize("formula", SHAPES)
@pytest.mark.parametrize("x", [X, INTS])
def test_shapes_and_folds(formula: Callable[..., Any], x: Any) -> None:
    same(formula, x)


PRODUCTS = [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)), ((1, 3, 4), (2, 4, 5)), ((1, 3, 4), (1, 4, 5)), ((2, 3, 4), (4,)),
    ((7, 2, 1, 3, 4), (2, 2, 4, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), PRODUCTS)
@pytest.mark.parametrize("dtype", [F32, np.float16])
def test_products(a: tuple[int, ...], b: tuple[int, ...], dtype: Any) -> None:
    same(lambda x, y: x @ y, random(*a, dtype=dtype), random(*b, dtype=dtype))


def test_axes_that_broadcast_are_left_out_of_a_product() -> None:
    text = tiledsl.trace(lambda x, y: tile.dot(x, y), random(7, 1, 3, 4), random(2, 4, 5)).ir()
    assert 'axes = "b m k, h k n -> b h m n"' in text
    assert "broadcast" not in text


def test_products_accumulate() -> None:
    h = random(4, 4, dtype=np.float16)
    graph = tiledsl.trace(lambda h, acc: (tile.dot(h, h), tile.dot(h, h, acc), h @ h), h, np.ones((4, 4), F32))
    assert [v.type.dtype for v in graph.module.entry.body.terminator.operands] == [tile.f32, tile.f32, tile.f16]  # pyright: ignore


WORDS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (lambda x: tile.softmax(x), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    (lambda x: tile.softmax(x, axis=0), lambda x: np.exp(x) / np.exp(x).sum(0, keepdims=True)),
    (lambda x: tile.where(x > 0, x, -math.inf), lambda x: np.where(x > 0, x, F32(-math.inf))),
    (lambda x: tile.clip(x, -1, 0.5), lambda x: np.clip(x, -1, 0.5)),
    (lambda x: tile.gelu(x), lambda x: (x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2).astype(F32)),
    (lambda x: tile.silu(x), lambda x: x / (1 + np.exp(-x))),
    (lambda x: tile.relu(x) + tile.rsqrt(abs(x) + 1), lambda x: np.maximum(x, 0) + 1 / np.sqrt(abs(x) + 1)),
    (lambda x: tile.zeros(x.shape) + tile.full((4,), 2), lambda x: np.zeros((3, 4), F32) + np.full(4, 2)),
    (lambda x: tile.arange(2, 14, 3), lambda x: np.arange(2, 14, 3)),
    (lambda x: tile.cast(x, tile.i32) + x.astype(np.int8), lambda x: x.astype(np.int32) + x.astype(np.int8)),
    (lambda x: tile.broadcast_to(x[:1], (2, 5, 4)), lambda x: np.broadcast_to(x[:1], (2, 5, 4))),
    (lambda x: tile.concat((x, x[:1], INTS)), lambda x: np.concatenate((x, x[:1], INTS))),
    (lambda x: tile.interleave((x, x + 1, x[:2]))[::3], lambda x: x),
    (lambda x: tile.interleave((x, x[:, :3]), axis=1), lambda x: x.repeat(2, 1)[:, :7]),
    (lambda x: tile.stack([x, x + 1], axis=-1), lambda x: np.stack([x, x + 1], axis=-1)),
    (lambda x: tile.split(x, 2, axis=1), lambda x: tuple(np.split(x, 2, axis=1))),
    (lambda x: tile.split(x, (1, 2)), lambda x: tuple(np.split(x, [1]))),
    (lambda x: tile.pad(x, ((1, 0), (0, 2)), -1), lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=-1)),
    (lambda x: (tile.pad(x, 1), tile.pad(x, (0, 1))), lambda x: (np.pad(x, 1), np.pad(x, (0, 1)))),
    (lambda x: tile.take(x, np.array([1, 1, 0]), axis=1), lambda x: np.take(x, [1, 1, 0], axis=1)),
    (lambda x: tile.window(x, 2, axes=1), lambda x: sliding_window_view(x, 2, axis=1)),
    (lambda x: tile.window(x, (2, 3), (0, 1)), lambda x: sliding_window_view(x, (2, 3), axis=(0, 1))),
    (lambda x: tile.einsum("ik,jk->ij", x, X), lambda x: np.einsum("ik,jk->ij", x, X)),
    (lambda x: tile.einsum("rows k, c k -> c rows", x, X), lambda x: X @ x.T),
    (lambda x: x.cumsum(1), lambda x: x.cumsum(1)),
    (lambda x: tile.cumsum(x.to(tile.i32), axis=0), lambda x: x.astype(np.int32).cumsum(0, np.int64)),
    (lambda x: tile.cumsum(x[0], reverse=True), lambda x: x[0, ::-1].cumsum()[::-1]),
    (lambda x: tile.scan(x, 1, tile.maximum), lambda x: np.maximum.accumulate(x, 1)),
    (lambda x: tile.reduce(x, 0, tile.minimum), lambda x: x.min(0)),
    (lambda x: (tile.mean(x), x.flatten(), x[None].squeeze(0)), lambda x: (np.mean(x), x.flatten(), x)),
    (lambda x: tile.rand(7, tile.arange(5)), lambda x: philox.uniform(np.asarray(7), np.arange(5))),
    (lambda x: (tile.floor(x), tile.round(x), tile.ceil(x)), lambda x: (np.floor(x), np.round(x), np.ceil(x))),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "by_numpy"), WORDS)
def test_words(formula: Callable[..., Any], by_numpy: Callable[..., Any]) -> None:
    same(formula, X, by_numpy=by_numpy)


def test_numpys_numbers_give_way_as_pythons_do() -> None:
    graph = tiledsl.trace(lambda x: x * np.sqrt(0.25) + np.float64(1), H)
    assert graph(H).dtype == np.float16


def attention(q: Any, k: Any, v: Any) -> Any:
    s = tile.dot(q, k.mT) * q.shape[-1] ** -0.5
    Q, K = s.shape[-2:]
    causal = tile.arange(Q)[:, None] >= tile.arange(K)[None, :]
    s = tile.where(causal, s, -math.inf)
    p = tile.softmax(s, axis=-1).to(v.dtype)
    return tile.dot(p, v)


ATTENTION = """
func @attention(PARAMETERS) {
  %0 = graph.transpose(%k) {permutation = [0, 2, 1]} : tensor<f16, [H, 64, 8]>
  %1 = graph.contract(%q, %0) {axes = "b m k, b k n -> b m n", dtype = f32} : tensor<f32, [H, 8, 8]>
  %2 = graph.constant() {value = 0.125, dtype = f32} : tensor<f32, []>
  %s = graph.map([%1, %2]) {fn = mul} : tensor<f32, [H, 8, 8]>
  %3 = graph.iota() {shape = [8], axis = 0} : tensor<i64, [8]>
  %4 = graph.reshape(%3) {shape = [8, 1]} : tensor<i64, [8, 1]>
  %5 = graph.iota() {shape = [8], axis = 0} : tensor<i64, [8]>
  %6 = graph.reshape(%5) {shape = [1, 8]} : tensor<i64, [1, 8]>
  %7 = graph.broadcast(%4) {shape = [8, 8]} : tensor<i64, [8, 8]>
  %8 = graph.broadcast(%6) {shape = [8, 8]} : tensor<i64, [8, 8]>
  %causal = graph.map([%7, %8]) {fn = ge} : tensor<bool, [8, 8]>
  %9 = graph.constant() {value = -inf, dtype = f32} : tensor<f32, []>
  %10 = graph.broadcast(%causal) {shape = [H, 8, 8]} : tensor<bool, [H, 8, 8]>
  %s_1 = graph.map([%10, %s, %9]) {fn = where} : tensor<f32, [H, 8, 8]>
  %11 = graph.reduce(%s_1) {axes = [2], fn = max, keepdims = true} : tensor<f32, [H, 8, 1]>
  %12 = graph.broadcast(%11) {shape = [H, 8, 8]} : tensor<f32, [H, 8, 8]>
  %13 = graph.map([%s_1, %12]) {fn = sub} : tensor<f32, [H, 8, 8]>
  %14 = graph.map([%13]) {fn = exp} : tensor<f32, [H, 8, 8]>
  %15 = graph.reduce(%14) {axes = [2], fn = add, keepdims = true} : tensor<f32, [H, 8, 1]>
  %16 = graph.broadcast(%15) {shape = [H, 8, 8]} : tensor<f32, [H, 8, 8]>
  %17 = graph.map([%14, %16]) {fn = div} : tensor<f32, [H, 8, 8]>
  %p = graph.cast(%17) {dtype = f16} : tensor<f16, [H, 8, 8]>
  %18 = graph.contract(%p, %v) {axes = "b m k, b k n -> b m n", dtype = f32} : tensor<f32, [H, 8, 64]>
  graph.return([%18])
}
"""


def test_attention_as_text() -> None:
    spec = tile.spec(("H", 8, 64), tile.f16)
    parameters = ", ".join(f"%{name}: tensor<f16, [H, 8, 64], unit=2>" for name in "qkv")
    assert tiledsl.trace(attention, spec, spec, spec).ir() == ATTENTION.lstrip().replace("PARAMETERS", parameters)


def test_sizes_that_are_not_known() -> None:
    def formula(x: Any, y: Any) -> Any:
        rows, columns = x.shape
        assert rows == y.shape[0]
        assert rows != columns
        flat = x.reshape(rows * columns, 1).reshape(-1, columns)
        return flat * columns + y.reshape(-1)[:rows][:, None] / (rows + 1) + tile.zeros((rows, 1)), x[
            -2:, : columns // 2
        ]

    graph = tiledsl.trace(formula, tile.spec(("M", "N"), tile.f32), tile.spec(("M",), tile.f32))
    verify(graph.module, Form.GRAPH)
    for rows, columns in ((3, 4), (5, 2), (1, 6)):
        x, y = random(rows, columns), random(rows)
        first, last = graph(x, y)
        np.testing.assert_allclose(first, x * columns + y[:, None] / (rows + 1), rtol=1e-6)
        np.testing.assert_array_equal(last, x[-2:, : columns // 2])


class Torch:
    """A tensor as PyTorch's, as far as tracing looks at it."""

    shape = (3, 4)
    dtype: Any = type("dtype", (), {"__str__": lambda self: "torch.float16"})()
    __dlpack__ = None

    def __add__(self, other: Any) -> Any:
        return other.__torch_function__(Torch.__add__, (), (self, other))


def test_tensors_of_pytorch_are_weights_and_specs() -> None:
    weight = Torch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = tiledsl.trace(lambda x: weight + x.to(weight.dtype) * weight, Torch())
    assert graph.constants["weight"] is weight
    assert str(graph.module.entry.body.ops[-1].operands[0].type) == "tensor<f16, [3, 4]>"


def test_sizes_without_a_name_get_one() -> None:
    graph = tiledsl.trace(lambda x, y: (x + 1, y), tile.spec((None, "x_0"), tile.f32), tile.spec(("max",), tile.f32))
    assert [str(p.type) for p in graph.module.entry.parameters] == [
        "tensor<f32, [x_0_1, x_0], unit=1>", "tensor<f32, [max_], unit=0>",
    ]  # fmt: skip
    assert parse_module(graph.ir()) is not None


def test_without_columns_a_place_is_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("tiledsl.frontend.trace.trace_places.HAS_COLUMNS", False)
        graph = tiledsl.trace(lambda x: x + 1, X)
    assert graph.module.entry.body.ops[0].location.source == "graph = tiledsl.trace(lambda x: x + 1, X)"


class Linear:
    """Holds weights as modules do."""

    def __init__(self) -> None:
        self.weight, self.bias = random(5, 4), random(5)

    def __call__(self, x: Any) -> Any:
        return x @ self.weight.T + self.bias


def test_weights_are_found_and_named() -> None:
    layer = Linear()
    table = {"w": random(3, 5)}

    def model(x: Any) -> Any:
        y = layer(layer(x)[:, :4])
        return y * table["w"] + ROW.sum() + y * table["w"]

    graph = tiledsl.trace(model, tile.spec((3, 4), tile.f32))
    assert list(graph.constants) == ["layer_weight", "layer_bias", "table_w"]
    assert graph.constants["layer_bias"] is layer.bias
    np.testing.assert_allclose(graph(X), model(X), rtol=1e-5)
    assert "3 inputs" not in repr(graph)


def test_structures_and_static_arguments() -> None:
    def model(x: Any, layers: Any, *, activation: Any, scale: float = 2.0) -> Any:
        for layer in layers:
            x = activation(x @ layer["w"] * scale)
        return {"x": x, "pair": (x.sum(), None), "heads": layers[0]["heads"]}

    layers = [{"w": random(4, 4), "heads": 3}, {"w": random(4, 5), "heads": 3}]
    graph = tiledsl.trace(model, X, layers, activation=tile.relu)
    assert graph.inputs == ("x", "layers_0_w", "layers_1_w")
    assert graph.statics.endswith("scale=2.0")
    result = graph(X, layers=layers)
    assert (result["pair"][1], result["heads"]) == (None, 3)
    by_numpy = model(X, layers, activation=lambda x: np.maximum(x, 0))
    np.testing.assert_allclose(result["x"], by_numpy["x"], rtol=1e-6)


def test_an_input_without_use_is_named() -> None:
    def pick(x: Any, y: Any) -> Any:
        return x + 1

    with pytest.warns(TilePerformanceWarning, match="`pick` does not use its input `y`"):
        graph = tiledsl.trace(pick, X, X)
    assert graph.inputs == ("x", "y")
