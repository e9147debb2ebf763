"""What a trace asks of an array of any library: its dtype and its shape. The data is not read."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tiledsl.ir.dtypes import DType, from_array_name, from_numpy


def is_array(value: object) -> bool:
    """Whether `value` is an array (NumPy's, PyTorch's, CuPy's, JAX's ...), rather than a number or anything else."""
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, (np.generic, type)):
        return False
    offers = ("__dlpack__", "__array_interface__", "__cuda_array_interface__")
    return hasattr(value, "shape") and hasattr(value, "dtype") and any(hasattr(value, name) for name in offers)


def array_dtype(array: Any) -> DType | None:
    """The dtype of an array; None for one that kernels do not have."""
    dtype: Any = array.dtype
    if isinstance(dtype, np.dtype):
        return from_numpy(dtype)  # pyright: ignore[reportUnknownArgumentType] - the dtype of anything
    return from_array_name(str(dtype).rpartition(".")[2])


def array_shape(array: Any) -> tuple[int, ...]:
    """The shape of an array."""
    return tuple(int(size) for size in array.shape)


def identity(array: Any) -> object:
    """Equal for arrays that are one view of one memory: `w.T` is a new object each time that it is written."""
    if isinstance(array, np.ndarray):
        view = cast("Any", array)
        return ("memory", view.__array_interface__["data"][0], view.shape, view.strides, view.dtype.str)
    return ("object", id(array))


def as_dtype(named: Any) -> DType | None:
    """The dtype that a value names: ours, NumPy's, or that of another library; None if it names none."""
    if isinstance(named, DType):
        return named
    if isinstance(named, np.dtype) or (isinstance(named, type) and issubclass(named, (np.generic, float, int))):
        kind = cast("Any", named)
        return from_numpy(np.dtype(kind))
    other = cast("object", named)
    return from_array_name(str(other).rpartition(".")[2]) if type(other).__name__ == "dtype" else None
