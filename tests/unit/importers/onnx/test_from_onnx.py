"""Models as graphs, and as programs in parts."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import helper, numpy_helper

import tiledsl
from tests.support.onnx_files.onnx_models import onnx_model
from tiledsl import TilePerformanceWarning
from tiledsl.importers.onnx import backend

X = np.arange(8, dtype=np.float32).reshape(2, 4) - 3


def test_nodes_become_formulas_with_their_names_and_places() -> None:
    weights = "<float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}>"
    model = onnx_model("(float[B, 4] x) => (float[B, 2] y)", "[mm] m = MatMul(x, w) y = Relu(m)", weights=weights)
    graph = tiledsl.from_onnx(model)
    text = graph.ir(locations=True)
    assert "%m = graph.contract(%x, %w)" in text
    assert "tensor<f32, [B, 4], unit=1>" in text
    assert "<model>" in text
    expected = np.maximum(X @ np.arange(1, 9, dtype=np.float32).reshape(4, 2), 0)
    assert np.array_equal(graph(X), expected)
    assert np.array_equal(tiledsl.fuse(graph).build("cpu")(X), expected)


def test_arithmetic_of_shapes_never_reaches_the_graph_with_open_sizes_too() -> None:
    body = """
        s = Shape(x) b = Gather<axis = 0>(s, zero) b1 = Unsqueeze(b, axes) t = Concat<axis = 0>(b1, minus)
        y = Reshape(x, t)
    """
    weights = "<int64 zero = {0}, int64[1] axes = {0}, int64[2] minus = {2, -1}>"
    graph = tiledsl.from_onnx(onnx_model("(float[B, 4] x) => (float[B, 2, 2] y)", body, weights=weights))
    assert [op.name for op in graph.module.entry.body.ops] == ["graph.reshape", "graph.return"]
    assert graph(X).shape == (2, 2, 2)


def test_an_input_that_sizes_depend_on_is_given_as_a_value() -> None:
    model = onnx_model("(float[2, 4] x, int64[2] s) => (float[N, M] y)", "y = Reshape(x, s)")
    graph = tiledsl.from_onnx(model, values={"s": np.array([8, 1])})
    assert graph.inputs == ("x",)
    assert graph(X).shape == (8, 1)


def test_the_back_end_reads_it_at_each_call() -> None:
    prepared = backend.prepare(onnx_model("(float[2, 4] x, int64[2] s) => (float[N, M] y)", "y = Reshape(x, s)"))
    for shape in ((8, 1), (1, 8), (8, 1)):
        assert prepared.run([X, np.array(shape)])[0].shape == shape
    assert len(prepared.program.parts) == 2


def test_parts_that_the_host_runs_are_named_once() -> None:
    body = "a = Mul(x, x) [found] i = NonZero(a) j = Cast<to = 1>(i) y = Add(j, j)"
    prepared = backend.prepare(onnx_model("(float[2, 4] x) => (float[2, N] y)", body))
    with pytest.warns(TilePerformanceWarning, match=r"node `found` \(NonZero\)") as caught:
        first, second = (prepared.run([x]) for x in (X, np.zeros_like(X)))
    assert len(caught) == 1
    assert np.array_equal(first[0], 2 * np.array(np.nonzero(X)))
    assert second[0].shape == (2, 0)
    assert "on the host: node `found` (NonZero)" in prepared.program.explain()


def test_branches_and_loops_that_depend_on_data() -> None:
    body = """
        limit = Constant<value_float = 100.0>()
        s = ReduceSum<keepdims = 0>(x)
        c = Less(s, limit)
        y = Loop(, c, x) <body = turn (int64 i, bool going, float[2, 4] a) => (bool more, float[2, 4] b) {
            b = Add(a, a) t = ReduceSum<keepdims = 0>(b) more = Less(t, limit)
        }>
    """
    prepared = backend.prepare(onnx_model("(float[2, 4] x) => (float[2, 4] y)", body))
    assert np.array_equal(prepared.run([X + 4])[0], (X + 4) * 4)  # the sum is 36, then 72, then 144
    assert np.array_equal(prepared.run([X + 40])[0], X + 40)


SCAN = """
    h, ys = Scan<num_scan_inputs = 2, scan_input_axes = [1, 1], scan_input_directions = [{0}],
                 scan_output_axes = [1], scan_output_directions = [{1}],
                 body = turn (float[2] a, float[2] b, float[2] c) => (float[2] next, float[2] out) {{
        half = Constant<value_float = 0.5>() d = Mul(a, half) e = Add(d, b) next = Sub(e, c) out = Tanh(next)
    }}>(h0, x, z)
"""


@pytest.mark.parametrize(("inputs", "outputs"), [("0, 0", "0"), ("1, 1", "1"), ("0, 1", "0"), ("1, 0", "1")])
def test_scans_are_loops_of_the_graph(inputs: str, outputs: str) -> None:
    model = onnx_model("(float[2] h0, float[2, 4] x, float[2, 4] z) => (float[2] h, float[2, 4] ys)",
                       SCAN.format(inputs, outputs))  # fmt: skip
    graph = tiledsl.from_onnx(model)
    assert graph.ir().count("graph.loop") == 1
    z = np.arange(8, dtype=np.float32).reshape(2, 4)[:, ::-1] * 0.3
    h, ys = np.ones(2, np.float32), np.zeros((2, 4), np.float32)
    ways = [way == "1" for way in (*inputs.split(", "), outputs)]
    for t in range(4):
        places = [3 - t if way else t for way in ways]
        h = h * 0.5 + X[:, places[0]] - z[:, places[1]]
        ys[:, places[2]] = np.tanh(h)
    last, stacked = graph(np.ones(2, np.float32), X, z)
    assert np.allclose(last, h, atol=1e-5)
    assert np.allclose(stacked, ys, atol=1e-5)


@pytest.mark.parametrize(
    ("step", "loops"), [("s = Cast<to = 1>(i) b = Add(a, s)", 1), ("s = Gather<axis = 1>(x, i) b = Add(a, s)", 1),
                        ("k = Cast<to = 7>(i) o = Constant<value_ints = [1]>() r = Reshape(k, o)"
                         " m = Add(r, o) s = Slice(x, r, m, o) t = ReduceSum<keepdims = 0>(s) b = Add(a, t)", 0)]
)  # fmt: skip
def test_loops_whose_turns_are_alike_are_loops_of_the_graph(step: str, loops: int) -> None:
    """A turn that cuts tensors by its number is not like the others: such a loop is unrolled."""
    body = f"""
        n = Constant<value = int64 {{2}}>() c = Constant<value = bool {{1}}>()
        h0 = Constant<value_floats = [1.0, 2.0]>()
        y, ys = Loop(n, c, h0) <
            body = turn (int64 i, bool going, float[2] a) => (bool more, float[2] b, float[2] out) {{
            {step} more = Identity(going) out = Mul(b, b)
        }}>
    """
    graph = tiledsl.from_onnx(onnx_model("(float[2, 4] x) => (float[2] y, float[2, 2] ys)", body))
    assert graph.ir().count("graph.loop") == loops
    a, ys = np.array([1.0, 2.0], np.float32), []
    for i in range(2):
        a = a + {"s = C": np.float32(i), "s = G": X[:, i], "k = C": X[:, i].sum()}[step[:5]]
        ys.append(a * a)
    last, stacked = graph(X)
    assert np.allclose(last, a)
    assert np.allclose(stacked, np.stack(ys))


def test_functions_of_the_model_are_inlined() -> None:
    function = """
        <domain: "own", opset_import: ["" : 22]>
        twice <factor: float = 2.0> (a) => (b) { f = Constant<value_float: float = @factor>() b = Mul(a, f) }
    """
    model = onnx_model(
        "(float[2, 4] x) => (float[2, 4] y)", "m = own.twice(x) y = own.twice<factor = 3.0>(m)", functions=function
    )
    assert np.array_equal(tiledsl.from_onnx(model)(X), X * 6)


def test_weights_in_files_beside_the_model(tmp_path: Path) -> None:
    weight = np.arange(2000, dtype=np.float32).reshape(4, 500)
    info = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in (("x", [2, 4]), ("y", [2, 500]))]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", info[:1], info[1:], [numpy_helper.from_array(weight, "w")]
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph), path, save_as_external_data=True, location="weights", size_threshold=10)
    assert (tmp_path / "weights").exists()
    assert np.array_equal(tiledsl.from_onnx(path)(X), X @ weight)


def test_one_node() -> None:
    node: Any = helper.make_node("Relu", ["x"], ["y"])
    assert np.array_equal(backend.run_node(node, [X])[0], np.maximum(X, 0))


def test_classes_are_drawn_by_their_probabilities() -> None:
    model = onnx_model("(float[2, 3] x) => (int32[2, 600] y)", "y = Multinomial<sample_size = 600, seed = 3.0>(x)")
    logits = np.log(np.array([[1, 2, 1], [1, 0, 3]], np.float32) + 1e-30)
    drawn: Any = tiledsl.from_onnx(model)(logits)
    shares = np.stack([(drawn == each).mean(1) for each in range(3)], 1)
    assert np.abs(shares - [[0.25, 0.5, 0.25], [0.25, 0, 0.75]]).max() < 0.08
