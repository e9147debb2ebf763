"""Conversions between element types."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.model import Array
from tiledsl.importers.onnx.register import operator
from tiledsl.ir.dtypes import DType, from_numpy, to_numpy


def dtype_of(kind: int) -> Any:
    """The dtype of an ONNX element type: ours, or NumPy's where graphs do not have it."""
    numpy_dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    return from_numpy(numpy_dtype) or numpy_dtype


_EIGHT = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


def _graph_casts(source: Any, target: Any) -> bool:
    """Whether a graph can convert: between the dtypes that it has, and not to 8-bit floats, which saturate here."""
    both = [d if isinstance(d, DType) else from_numpy(d) for d in (source, target)]
    return None not in both and not (both[1] is not None and both[1].is_float and both[1].bits == 8)


@operator("Cast", since=6, kind="values")
def cast(x: Any, *, to: int, saturate: int = 1, round_mode: str = "up", node: Call) -> Any:
    target = dtype_of(to)
    return _converted(x, target, to, saturate, round_mode, node)


@operator("CastLike", since=15, kind="values")
def cast_like(x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up", node: Call) -> Any:
    dtype = node.dtype(like)
    numpy_dtype = to_numpy(dtype) if isinstance(dtype, DType) else dtype
    target = from_numpy(numpy_dtype) or numpy_dtype
    return _converted(x, target, helper.np_dtype_to_tensor_dtype(numpy_dtype), saturate, round_mode, node)


def _converted(x: Any, target: Any, kind: int, saturate: int, round_mode: str, node: Call) -> Any:
    if x.array is None and _graph_casts(node.dtype(x), target):
        return node.formula(lambda t: t.to(target), x)
    numpy_dtype = to_numpy(target) if isinstance(target, DType) else target
    is_string = kind == onnx.TensorProto.STRING

    def run(array: Array) -> list[Array]:
        if is_string:
            return [_to_text(array)]
        return [converted(array, numpy_dtype, bool(saturate), round_mode)]

    if x.array is not None and x.array.dtype == object and x.array.size and not isinstance(x.array.flat[0], str):
        return x  # sizes that are left open
    return run(x.array) if x.array is not None else tuple(node.host(run, [x], 1))


def _to_text(array: Array) -> Array:
    texts = [str(n.item() if n.dtype.kind != "V" else float(n)) for n in array.ravel()]
    return np.array(texts, object).reshape(array.shape)


def converted(array: Array, target: Any, saturate: bool = True, round_mode: str = "up") -> Array:
    """An array in another dtype, as ONNX converts: integers wrap, 8-bit floats saturate if that is wanted."""
    if array.dtype == object:
        array = np.array([float(text) for text in array.ravel().tolist()], np.float64).reshape(array.shape)
    target = np.dtype(target)
    with np.errstate(all="ignore"):
        if target.name == "bool":
            return array.astype(np.float32) != 0 if array.dtype.kind == "V" else array.astype(bool)
        if target.name in _EIGHT:
            return _to_eight(array, target, saturate)
        if target.name == "float8_e8m0fnu":
            return _to_powers(array, target, saturate, round_mode)
        if target.name == "float4_e2m1fn":
            return array.astype(np.float32).astype(target)
        if target.name in ("int4", "uint4", "int2", "uint2"):
            return _to_small_integers(array, target)
        if array.dtype.kind == "V" or array.dtype.name.startswith(("float8", "float4", "int4", "uint4", "bfloat")):
            array = array.astype(np.float32)
        return array.astype(target)


def _to_small_integers(array: Array, target: Any) -> Array:
    wide = array.astype(np.float32) if array.dtype.kind in "fV" else array
    return wide.astype(np.int64).astype(np.int8).astype(target)


def _to_eight(array: Array, target: Any, saturate: bool) -> Array:
    wide = array.astype(np.float32)
    result = wide.astype(target)
    if saturate:
        largest = float(ml_dtypes.finfo(target).max)
        result = np.where(np.isnan(wide), wide, np.clip(wide, -largest, largest)).astype(target)
    return result


def _to_powers(array: Array, target: Any, saturate: bool, round_mode: str) -> Array:
    """E8M0: powers of two, rounded up, down or to the nearest one."""
    wide = array.astype(np.float64)
    exponent = np.log2(np.abs(wide))
    rounded = {"up": np.ceil, "down": np.floor, "nearest": lambda e: np.floor(e + (np.exp2(e % 1) >= 1.5))}[round_mode](
        exponent
    )
    if saturate:
        rounded = np.clip(rounded, -127, 127)
    return np.where(np.isnan(wide), np.nan, np.exp2(rounded)).astype(np.float32).astype(target)
