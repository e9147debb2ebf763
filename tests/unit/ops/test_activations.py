"""Activations against NumPy in f64."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.support.op_checks import FLOATS, Array, agree, kernels_of, normal, wide
from tiledsl import TileError, ops, tile


def sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)


CASES: dict[str, tuple[Any, Any]] = {
    "relu": (ops.relu, lambda x: np.maximum(x, 0)),
    "leaky_relu": (lambda x: ops.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    "elu": (lambda x: ops.elu(x, 0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(np.minimum(x, 0)))),
    "gelu": (ops.gelu, lambda x: x * (1 + erf(x / math.sqrt(2))) / 2),
    "gelu tanh": (
        lambda x: ops.gelu(x, approximate="tanh"),
        lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    ),
    "silu": (ops.silu, lambda x: x * sigmoid(x)),
    "sigmoid": (ops.sigmoid, sigmoid),
    "tanh": (ops.tanh, np.tanh),
    "softplus": (lambda x: ops.softplus(x, 2.0), lambda x: np.where(2 * x > 20, x, np.logaddexp(0, 2 * x) / 2)),
    "hardswish": (ops.hardswish, lambda x: x * np.clip(x + 3, 0, 6) / 6),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CASES)
def test_each_is_its_formula(name: str, dtype: Any) -> None:
    op, formula = CASES[name]
    x = np.concatenate([normal(29, dtype=dtype, scale=3.0), np.array([0, -0.0, 1e4, -1e4, 88, -88], dtype)])
    agree(op, [x.reshape(5, 7)], formula(*wide(x.reshape(5, 7))))


@pytest.mark.parametrize("dtype", FLOATS)
def test_swiglu_of_two_tensors_and_of_halves(dtype: Any) -> None:
    x, gate = normal(3, 5, dtype=dtype), normal(3, 5, dtype=dtype, seed=1, scale=4.0)
    expected = wide(gate)[0] * sigmoid(wide(gate)[0]) * wide(x)[0]
    agree(ops.swiglu, [x, gate], expected)
    agree(ops.swiglu, [np.concatenate([gate, x], axis=1)], expected)
    agree(lambda both: ops.swiglu(both, axis=0), [np.concatenate([gate, x])], expected)


def test_called_with_arrays_they_run() -> None:
    x = normal(3, 4)
    assert np.allclose(ops.silu(x), x * sigmoid(x), atol=1e-6)
    assert np.array_equal(ops.relu(np.array([-2, 3], np.int32)), [0, 3])


def test_the_first_half_of_a_gated_mlp_is_one_kernel() -> None:
    x, w = tile.spec((256, 512), tile.f16), tile.spec((1024, 512), tile.f16)
    assert kernels_of(lambda x, g, u: ops.swiglu(ops.linear(x, u), ops.linear(x, g)), x, w, w) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.gelu(normal(2), "fast"), r"ops.gelu: `approximate` is 'fast', not \"none\" or \"tanh\""),
        (lambda: ops.softplus(normal(2), beta=0), r"`beta` is 0, not another number than 0"),
        (lambda: ops.swiglu(normal(2, 3)), r"ops.swiglu: `x` has the shape \[2, 3\], not one whose axis -1 has two"),
        (lambda: ops.swiglu(normal(2, 3), normal(2, 4)), r"`x` of shape \[2, 3\] does not fit `gate` of shape"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        call()
