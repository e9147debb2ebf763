"""A small network in ONNX's format: imported, fused, compiled and run, beside the same in NumPy."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tiledsl
from beside_numpy import Array, normal


def network(width: int) -> tuple[Any, dict[str, Array]]:
    """y = softmax(gelu(x @ w1 + b1) @ w2), as an `onnx.ModelProto`, and its weights."""
    weights = {
        "w1": normal(width, 4 * width) / width**0.5,
        "b1": normal(4 * width, seed=1),
        "w2": normal(4 * width, 10, seed=2) / width**0.5,
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["m1"], name="first"),
        helper.make_node("Add", ["m1", "b1"], ["a1"]),
        helper.make_node("Gelu", ["a1"], ["g1"], approximate="tanh"),
        helper.make_node("MatMul", ["g1", "w2"], ["m2"], name="second"),
        helper.make_node("Softmax", ["m2"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["B", size]) for n, size in (("x", width), ("y", 10)))
    initial = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    return helper.make_model(helper.make_graph(nodes, "network", [x], [y], initial)), weights


def in_numpy(x: Array, weights: dict[str, Array]) -> Array:
    """The same, in f64."""
    a = x.astype(np.float64) @ weights["w1"] + weights["b1"]
    g = 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)))
    e = g @ weights["w2"]
    e = np.exp(e - e.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=256)
    width: int = parser.parse_args().width
    model, weights = network(width)
    graph = tiledsl.from_onnx(model)
    print(graph)
    module = tiledsl.fuse(graph).build("cpu")
    for batch in (1, 32):  # the size is open: each gets a module, and they share kernels
        x = normal(batch, width, seed=3)
        error = np.abs(module(x) - in_numpy(x, weights)).max()
        print(f"batch {batch}: max error {error:.1e}")
        if not error < 1e-4:
            raise SystemExit("the results differ")
    print(module.explain())


if __name__ == "__main__":
    main()
