"""Malformed models are answered by an error of the catalogue, never by a traceback of something else."""

from __future__ import annotations

import warnings
from random import Random

import numpy as np
import pytest

pytest.importorskip("onnx")

import tiledsl
from tests.support.onnx_files.onnx_models import onnx_model
from tests.support.onnx_files.onnx_mutants import MUTATIONS, mutant, valid_models
from tiledsl.importers.onnx import backend
from tiledsl.importers.onnx.read import to_array
from tiledsl.support.errors import TileError

BATCHES = 20
EACH = 40


def answer(seed: int) -> str:
    """What a mutant gives: `graph`, or the code of the error. Anything else is raised, with the seed."""
    try:
        return _answer(mutant(Random(seed)))
    except Exception as error:
        raise AssertionError(f"the mutant of seed {seed}") from error


def _answer(data: bytes) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            graph = tiledsl.from_onnx(data)
            fused = tiledsl.fuse(graph)
            fused.ir("cpu", **dict.fromkeys(fused.symbols, 3))
        except TileError as error:
            return error.code if error.fix and str(error) else ""
        return "graph"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_mutants(batch: int) -> None:
    for seed in range(batch * EACH, (batch + 1) * EACH):
        assert answer(seed)


@pytest.mark.slow
def test_many_mutants() -> None:
    for seed in range(10_000, 20_000):
        assert answer(seed)


def test_mutants_are_of_all_kinds() -> None:
    """Some models stay whole, and errors are of many kinds: else nothing would be tested here."""
    found = {answer(seed) for seed in range(400)}
    assert {"graph", "onnx-invalid", "onnx-file", "onnx-formula"} <= found
    assert len(valid_models()) > 500
    assert len(MUTATIONS) > 20


def code_of(model: object) -> str:
    with pytest.raises(TileError) as caught:
        tiledsl.from_onnx(model)
    return caught.value.code


SIMPLE = "(float[2, 4] x) => (float[2, 4] y)"


def test_weights_that_are_cut_short() -> None:
    model = onnx_model(SIMPLE, "y = Add(x, w)", weights="<float[4] w = {1, 2, 3, 4}>")
    weight = model.graph.initializer[0]
    weight.dims[0] = 5
    assert code_of(model) == "onnx-invalid"
    with pytest.raises(ValueError, match="the tensor `w` cannot be read"):
        to_array(weight)


def test_attributes_that_have_to_be_there() -> None:
    model = onnx_model("(float[2, 4] x) => (float[2, 8] y)", "y = Concat<axis = 1>(x, x)")
    del model.graph.node[0].attribute[0]
    assert code_of(model) in ("onnx-node", "onnx-invalid")


def test_inputs_without_a_dtype() -> None:
    model = onnx_model(SIMPLE, "y = Relu(x)")
    model.graph.input[0].type.tensor_type.elem_type = 0
    assert code_of(model) in ("onnx-input", "onnx-invalid")


def test_a_size_below_zero_is_an_open_one() -> None:
    model = onnx_model(SIMPLE, "y = Relu(x)")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    graph = tiledsl.from_onnx(model)
    assert tiledsl.fuse(graph).symbols == ("x_0",)


def test_a_known_value_that_is_spread_over_an_open_size() -> None:
    """The shape of an Expand is known but for the batch, and what is spread is known: it waits for the batch."""
    body = "s = Shape(x) z = Constant<value = float {2}>() e = Expand(z, s) y = Add(x, e)"
    model = onnx_model("(float[B, 4] x) => (float[B, 4] y)", body)
    built = tiledsl.fuse(tiledsl.from_onnx(model)).build("cpu")
    x = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(built(x), x + 2)


def test_split_into_as_many_as_it_says() -> None:
    body = "y, z = Split<axis = 1, num_outputs = 1048576>(x)"
    assert code_of(onnx_model("(float[2, 4] x) => (float[2, 2] y, float[2, 2] z)", body)) in (
        "onnx-node",
        "onnx-invalid",
    )


def test_calls_of_models_with_faults() -> None:
    """What only a call finds: a model that says less of its sizes than its operators need."""
    body = "y = Attention<q_num_heads = 0, kv_num_heads = 0>(x, x, x)"
    model = onnx_model("(float[A, B, C] x) => (float[A, B, C] y)", body, opset=23)
    with pytest.raises(TileError):
        backend.run_model(model, [np.ones((2, 3, 8), np.float32)])
