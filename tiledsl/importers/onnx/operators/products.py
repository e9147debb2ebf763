"""Products of matrices."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.importers.onnx.operators.floats import narrowed
from tiledsl.importers.onnx.register import operator


@operator("MatMul", since=1)
def matmul(a: Any, b: Any) -> Any:
    if a.dtype.is_integer and a.dtype.bits > 8:
        return _product_of_integers(a, b)
    return a @ b


def _product_of_integers(a: Any, b: Any) -> Any:
    """Of integers that products do not take: multiplied elementwise, and summed."""
    left = a if a.ndim > 1 else a[None, :]
    right = b if b.ndim > 1 else b[:, None]
    result = tile.sum(left[..., :, :, None] * right[..., None, :, :], axis=-2).to(a.dtype)
    if b.ndim == 1:
        result = result[..., 0]
    return result[..., 0, :] if a.ndim == 1 and b.ndim > 1 else result[..., 0] if a.ndim == 1 else result


@operator("Gemm", since=7)
def gemm(
    a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0
) -> Any:
    dtype = a.dtype
    left, right = a.mT if transA else a, b.mT if transB else b
    if dtype.is_integer and dtype.bits > 8:
        product = _product_of_integers(left, right)
        return product if c is None else product + c
    product = tile.dot(left, right)
    product = product if alpha == 1 else product * alpha
    if c is None:
        return product.to(dtype)
    return narrowed(lambda p, c: p + (c if beta == 1 else c * beta), product, c.to(product.dtype)).to(dtype)
