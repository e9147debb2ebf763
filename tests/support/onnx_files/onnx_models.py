"""Small ONNX models, from text."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import onnx.parser


def onnx_model(signature: str, body: str, opset: int = 22, weights: str = "", functions: str = "") -> Any:
    """A model of the inputs and outputs `(float[N, 4] x) => (float[N, 4] y)` and a body `y = Relu(x)`."""
    head = f'<ir_version: 10, opset_import: ["" : {opset}, "own" : 1]>'
    return onnx.parser.parse_model(f"{head} model {signature} {weights} {{ {body} }} {functions}")
