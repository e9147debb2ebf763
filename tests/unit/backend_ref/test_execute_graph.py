"""The reference executor of GRAPH against NumPy, op by op, and a few whole graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given

from tests.support.every_op import GRAPH
from tests.support.generators.random_graphs import RandomGraph, graph_modules
from tiledsl.backend_ref.execute_graph import EXECUTORS, execute_graph
from tiledsl.ir import graph_ops
from tiledsl.ir.core import OPS
from tiledsl.ir.text.parser import parse_module
from tiledsl.support.errors import TileShapeError

Array = npt.NDArray[Any]

X: Array = np.array([[-5, -4, -3, -2], [-1, 0, 1, 2], [3, 4, 5, 6]], np.float32)
Y: Array = np.array([[0, 1], [2, 3], [4, 5], [6, 7]], np.float32)
XT: Array = np.transpose(X)


def run(op: str, *arrays: Array) -> Array:
    """The result of one op on parameters %a, %b ... of the arrays' shapes."""
    kinds = {"f": "f32", "i": "i64", "b": "bool"}
    parameters = [
        f"%{name}: tensor<{kinds[array.dtype.kind]}, {list(array.shape)}>" for name, array in zip("abc", arrays)
    ]
    module = parse_module(f"func @f({', '.join(parameters)}) {{\n%r = {op}\ngraph.return([%r])\n}}")
    (result,) = execute_graph(module.entry, arrays, module)
    return result


def test_every_op_has_an_executor() -> None:
    kinds = {kind for name, kind in OPS.items() if name.startswith("graph.")}
    assert kinds - {graph_ops.Call, graph_ops.Loop, graph_ops.Return} == set(EXECUTORS)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("graph.constant() {value = -2.5, dtype = f32}", np.asarray(-2.5, np.float32)),
        ("graph.size() {value = 7}", np.asarray(7, np.int64)),
        ("graph.iota() {shape = [2, 3], axis = 1}", np.array([[0, 1, 2], [0, 1, 2]])),
        ("graph.map([%a, %a]) {fn = mul}", X * X),
        ("graph.cast(%a) {dtype = i64}", X.astype(np.int64)),
        ("graph.reduce(%a) {axes = [1], fn = add}", X.sum(1)),
        ("graph.reduce(%a) {axes = [0, 1], fn = max, keepdims = true}", X.max(keepdims=True)),
        ("graph.reduce(%a) {axes = [0], fn = argmin}", X.argmin(0)),
        ('graph.contract(%a, %b) {axes = "m k, k n -> m n", dtype = f32}', X @ Y),
        ('graph.contract(%a, %a) {axes = "m k, n k -> n m", dtype = f32}', X @ XT),
        ('graph.contract(%a, %a) {axes = "m k, m k -> m k", dtype = f32}', X * X),
        ("graph.transpose(%a) {permutation = [1, 0]}", XT),
        ("graph.reshape(%a) {shape = [2, 6]}", np.reshape(X, (2, 6))),
        ("graph.broadcast(%a) {shape = [2, 3, 4]}", np.stack([X, X])),
        ("graph.slice(%a) {starts = [1, 0], stops = [3, 4], steps = [1, 3]}", X[1:3, 0:4:3]),
        ("graph.pad(%a) {low = [1, 0], high = [0, 2], value = 9.0}", np.pad(X, [(1, 0), (0, 2)], constant_values=9)),
        ("graph.concat([%a, %a]) {axis = 1}", np.concatenate([X, X], 1)),
    ],
)
def test_ops(op: str, expected: Array) -> None:
    result = run(op, X, Y)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_scalars_go_with_any_shape() -> None:
    result = run("graph.map([%a, %b]) {fn = sub}", X, np.asarray(2, np.float32))
    np.testing.assert_array_equal(result, X - 2)


def test_integers_are_contracted_exactly() -> None:
    large = np.full((1, 3), 2**61, np.int64)
    result = run('graph.contract(%a, %a) {axes = "m k, n k -> m n", dtype = i64}', large)
    assert result == np.multiply(large, large).sum()
    narrow = run('graph.contract(%a, %a) {axes = "m k, n k -> m n", dtype = i32}', np.full((1, 3), 2**16, np.int64))
    assert (narrow.dtype, narrow.item()) == (np.int32, 0)


def test_windows() -> None:
    fields = "{axes = [0], sizes = [3], strides = [2], dilations = [2]}"
    result = run(f"graph.window(%a) {fields}", np.arange(10))
    np.testing.assert_array_equal(result, [[0, 2, 4], [2, 4, 6], [4, 6, 8]])


def test_windows_of_two_axes() -> None:
    fields = "{axes = [1, 0], sizes = [2, 3], strides = [1, 1], dilations = [1, 1]}"
    result = run(f"graph.window(%a) {fields}", X)
    expected: Array = np.swapaxes(np.lib.stride_tricks.sliding_window_view(X, (3, 2)), 2, 3)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_reads_0_outside(axis: int) -> None:
    indices: Array = np.array([[2, 0], [-1, 9]])
    result = run(f"graph.gather(%a, %b) {{axis = {axis}}}", X, indices)
    expected: Array = np.take(X, [[2, 0], [0, 0]], axis)
    inside: Array = np.array([[1, 1], [0, 0]])
    np.testing.assert_array_equal(result, expected * (inside[:, :, None] if axis == 0 else inside))
    empty = run(f"graph.gather(%a, %b) {{axis = {axis}}}", np.zeros((0, 0), np.float32), indices[:0])
    assert empty.shape == ((0, 2, 0) if axis == 0 else (0, 0, 2))


CONVOLUTION = """
func @convolution(%image: tensor<f32, [B, C, H, W]>, %weights: tensor<f32, [O, C, 3, 3]>) {
  %padded = graph.pad(%image) {low = [0, 0, 1, 1], high = [0, 0, 1, 1], value = 0.0}
  %windows = graph.window(%padded) {axes = [2, 3], sizes = [3, 3], strides = [2, 1], dilations = [1, 1]}
  %result = graph.contract(%windows, %weights) {axes = "b c h w i j, o c i j -> b o h w", dtype = f32}
  graph.return([%result])
}
"""


def test_a_convolution() -> None:
    generator = np.random.default_rng(0)
    image = generator.standard_normal((2, 3, 7, 5), np.float32)
    weights = generator.standard_normal((4, 3, 3, 3), np.float32)
    (result,) = execute_graph(parse_module(CONVOLUTION).entry, [image, weights])
    padded = np.pad(image, [(0, 0), (0, 0), (1, 1), (1, 1)])
    expected = np.zeros((2, 4, 4, 5))
    for i in range(3):
        for j in range(3):
            part = padded[:, :, i : i + 7 : 2, j : j + 5]
            expected += np.einsum("bchw,oc->bohw", part, weights[:, :, i, j])
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


SOFTMAX = """
func @softmax(%x: tensor<f16, [M, N]>) {
  %top = graph.reduce(%x) {axes = [1], fn = max, keepdims = true}
  %tops = graph.broadcast(%top) {shape = [M, N]}
  %low = graph.map([%x, %tops]) {fn = sub}
  %e = graph.map([%low]) {fn = exp}
  %sum = graph.reduce(%e) {axes = [1], fn = add, keepdims = true}
  %sums = graph.broadcast(%sum) {shape = [M, N]}
  %y = graph.map([%e, %sums]) {fn = div}
  graph.return([%y])
}
"""


def test_softmax() -> None:
    x: Array = np.array([[-4, -1, 0.5, 2], [3, 3, 3, 3], [0, 4, 0, -4]], np.float16)
    (result,) = execute_graph(parse_module(SOFTMAX).entry, [x])
    e: Array = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(result, e / e.sum(1, keepdims=True), rtol=3e-3)


def test_calls_run_on_copies() -> None:
    text = """
    func @f(%x: tensor<f32, [M]>, %s: tensor<f32, []>) {
      %y = graph.call([%x, %s]) {callee = fill} : tensor<f32, [M]>
      %z = graph.call([%x]) {callee = inner} : tensor<f32, [M]>
      graph.return([%x, %y, %z])
    }
    func @inner(%x: tensor<f32, [N]>) {
      %z = graph.map([%x, %x]) {fn = add}
      graph.return([%z])
    }
    func @fill(%x: tensor<f32, [N]>, %s: f32) {
      %t = tile.broadcast(%s) {shape = [N]}
      tile.store(%x, [:], %t)
      tile.return([%x])
    }
    """
    module = parse_module(text)
    x, y, z = execute_graph(module.entry, [np.ones(3, np.float32), np.asarray(7, np.float32)], module)
    assert (x.tolist(), y.tolist(), z.tolist()) == ([1, 1, 1], [7, 7, 7], [2, 2, 2])


def test_sizes_are_checked() -> None:
    with pytest.raises(TileShapeError):
        execute_graph(parse_module(GRAPH).entry, [X, X, np.zeros(2, np.int64)])


@given(graph_modules())
def test_random_graphs_run(graph: RandomGraph) -> None:
    arguments = graph.arguments()
    before = [np.array(a) for a in arguments]
    results = execute_graph(graph.module.entry, arguments, graph.module)
    assert len(results) == len(graph.module.entry.body.ops[-1].operands)
    for argument, copy in zip(arguments, before):
        np.testing.assert_array_equal(argument, copy)
