"""Weights of 4 bits in models of ONNX: they stay packed, and are unpacked where products read them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper

import tiledsl


def model(weights: Any, scales: Any, zeros: Any, **attributes: int) -> Any:
    """y = x @ DequantizeLinear(weights, scales, zeros)."""
    held = [numpy_helper.from_array(a, name) for a, name in ((weights, "w"), (scales, "s"), (zeros, "z"))]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], **attributes),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, size])
        for name, size in zip("xy", weights.shape)
    )  # fmt: skip
    graph = helper.make_graph(nodes, "packed", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
@pytest.mark.parametrize(
    ("axis", "block", "shape", "scales"),
    [(0, 32, (64, 7), (2, 7)), (1, 16, (6, 33), (6, 3)), (1, 0, (6, 8), (8,)), (0, 0, (5, 4), ())],
)
def test_products(dtype: Any, axis: int, block: int, shape: tuple[int, ...], scales: tuple[int, ...]) -> None:
    random = np.random.default_rng(shape)
    low, high = (-8, 8) if dtype is ml_dtypes.int4 else (0, 16)
    q, z = random.integers(low, high, shape), random.integers(0, 7, scales)
    s, x = random.random(scales).astype(np.float32), random.standard_normal((3, shape[0])).astype(np.float32)
    given = {"axis": axis, **({"block_size": block} if block else {})}
    graph = tiledsl.from_onnx(
        model(q.astype(np.int8).astype(dtype), s, np.asarray(z.astype(np.int8).astype(dtype)), **given)
    )

    def wide(part: Any) -> Any:
        return np.repeat(part, block, axis)[: shape[0], : shape[1]] if block else part

    wanted = x.astype(np.float64) @ ((q - wide(z)) * wide(s).astype(np.float64))
    assert np.abs(wanted).max() > 1
    assert np.allclose(np.asarray(tiledsl.fuse(graph).build("cpu")(x)), wanted, rtol=1e-4, atol=1e-4)
    held: Any = graph.constants["w"]
    assert (held.dtype, held.shape) == (np.uint8, (shape[0], (shape[1] + 1) // 2))
