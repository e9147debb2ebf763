"""Arrays in: what may be passed for a tensor, and how it becomes a NumPy array over the same memory."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NoReturn, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np

from tiledsl.ir import dtypes
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

CPU_DEVICES = (1, 3)
"""DLPack's numbers for memory that the CPU can read: its own, and that pinned for CUDA."""
_DEVICE_NAMES = {
    2: "a CUDA device",
    4: "an OpenCL device",
    7: "a Vulkan device",
    8: "a Metal device",
    10: "a ROCm device",
}


class ArrayLayout(Protocol):
    """What is asked of an array wherever it lies: NumPy's, or the view of one on a device. Strides are in bytes."""

    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def size(self) -> int: ...


@runtime_checkable
class SharesByDlpack(Protocol):
    """An array of another library that offers its memory (torch, jax, cupy ...)."""

    def __dlpack__(self) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


def is_numpy(value: object) -> TypeGuard[Array]:
    """Whether `value` is a NumPy array."""
    return isinstance(value, np.ndarray)


def numpy_array(value: object) -> Array:
    """`value`, which is known to be a NumPy array."""
    assert is_numpy(value)
    return value


def is_array(value: object) -> bool:
    """Whether `value` is passed for a tensor, rather than for a scalar or a compile-time constant."""
    if isinstance(value, np.generic):  # NumPy's numbers offer __array_interface__ too
        return False
    offers = ("__dlpack__", "__array_interface__", "__cuda_array_interface__")
    return isinstance(value, np.ndarray) or any(hasattr(value, name) for name in offers)


def is_foreign_array(value: object) -> bool:
    """Whether `value` is an array of another library than NumPy, and so perhaps not in CPU memory."""
    return not isinstance(value, (np.ndarray, int, float, str, tuple)) and value is not None and is_array(value)


def as_array(value: object, parameter: str) -> Array:
    """`value` as a plain NumPy array over the same memory, of a dtype that kernels have.

    Raises TileTypeError for what is not an array, or of another dtype, TileRuntimeError for one on another device.
    """
    if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):  # importing numpy.ma takes 15 ms
        fail("array-masked", caller_location(), parameter=parameter)
    array: Array
    if is_numpy(value):
        array = np.asarray(value)
    elif hasattr(value, "__cuda_array_interface__"):
        _fail_device(value, parameter, _DEVICE_NAMES[2])
    elif isinstance(value, SharesByDlpack):
        array = _from_dlpack(value, parameter)
    elif hasattr(value, "__array_interface__"):
        array = np.asarray(value)
    else:
        fail_not_array(value, parameter)
    if dtypes.from_numpy(array.dtype) is None:
        _fail_dtype(array, parameter)
    return array


def _from_dlpack(value: SharesByDlpack, parameter: str) -> Array:
    try:
        device, _ = value.__dlpack_device__()
        if device not in CPU_DEVICES:
            _fail_device(value, parameter, _DEVICE_NAMES.get(device, f"device {device}"))
        found = _of_foreign_dtype(value)
        # NumPy asks for newer keywords than it needs
        return np.from_dlpack(value) if found is None else found  # pyright: ignore[reportArgumentType]
    except TileError:
        raise
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        fail("array-foreign", caller_location(), parameter=parameter, kind=type(value).__name__, reason=reason)


def _of_foreign_dtype(value: Any) -> Array | None:
    """An array of a dtype that NumPy cannot take over (bf16, floats of 8 bits); None for any other."""
    dtype = _foreign(getattr(value, "dtype", None))
    if dtype is None:
        return None
    from tiledsl.runtime.arrays.dlpack import array_of_capsule  # it knows this module

    return array_of_capsule(value.__dlpack__(), dtype)


@cache
def _foreign(dtype: object) -> np.dtype[Any] | None:
    """The dtype that a library names, if it is none of NumPy's own."""
    found = dtypes.from_array_name(str(dtype).rpartition(".")[2])
    made = None if found is None else dtypes.to_numpy(found)
    return None if made is None or made.isbuiltin == 1 else made


def fail_not_array(value: object, parameter: str) -> NoReturn:
    """Raises the error for a value that is neither an array nor a number."""
    kind = "None" if value is None else type(value).__name__
    advice = f"`np.asarray({parameter})`" if kind in ("list", "tuple", "range") else "one of NumPy's"
    if kind == "TensorSpec":
        advice = "a spec stands for one in `compile` and in `tiledsl.trace` only"
    fail("argument-not-array", caller_location(), parameter=parameter, kind=kind, advice=advice)


def _fail_device(value: object, parameter: str, device: str) -> NoReturn:
    fail("array-device", caller_location(), parameter=parameter, kind=type(value).__name__, device=device)


def _fail_dtype(array: Array, parameter: str) -> NoReturn:
    dtype: Any = array.dtype
    if dtypes.from_numpy(dtype.newbyteorder("=")) is not None:
        fail("array-byte-order", caller_location(), parameter=parameter, dtype=dtype)
    known = ", ".join(d.name for d in dtypes.ALL if d.bits >= 8)
    fail("array-dtype", caller_location(), parameter=parameter, dtype=dtype, known=known)


def is_addressable(array: Array) -> bool:
    """Whether elements lie where generated code can address them: aligned, and strides that are whole elements."""
    size = array.itemsize
    return array.flags.aligned and all(stride % size == 0 for stride in array.strides)


def element_strides(array: ArrayLayout) -> tuple[int, ...]:
    """Strides in elements; those of axes with at most one element are what they would be in a contiguous array.

    So that two arrays that differ only in strides which nothing can tell apart look the same.
    """
    strides = [0] * array.ndim
    contiguous = 1
    for axis in range(array.ndim - 1, -1, -1):
        size = array.shape[axis]
        strides[axis] = array.strides[axis] // array.itemsize if size > 1 and array.size else contiguous
        contiguous = strides[axis] * max(1, size)
    return tuple(strides)


def row_major(shape: tuple[int, ...], item: int = 1) -> tuple[int, ...]:
    """Strides of an array whose rows lie one after the other: in elements, or in bytes for items of so many."""
    strides = [item] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(1, shape[axis + 1])
    return tuple(strides)


_address_of = ctypes.addressof
_from_buffer = ctypes.c_char.from_buffer


def pointer(array: Array) -> int:
    """The address of the array's first element."""
    try:
        # a fifth of the time of `array.ctypes.data`
        return _address_of(_from_buffer(array))  # pyright: ignore[reportArgumentType]  # it has the buffer protocol
    except (TypeError, ValueError, BufferError):  # read-only, strided, empty, or a dtype without a buffer format
        return array.ctypes.data


def overlap(a: Array, b: Array) -> bool:
    """Whether two arrays may share an element. Exact where that is cheap to find out, else by their bounds."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=10_000))  # pyright: ignore[reportArgumentType]  # any int does
    except np.exceptions.TooHardError:
        return True


def byte_span(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> tuple[int, int]:
    """The bytes that an array covers, from its address: the first, and the one after the last. (0, 0) if empty."""
    if 0 in shape:
        return 0, 0
    reaches = [stride * (length - 1) for length, stride in zip(shape, strides)]
    return sum(r for r in reaches if r < 0), sum(r for r in reaches if r > 0) + item


def repeats_elements(array: ArrayLayout) -> bool:
    """Whether some elements plainly are one place in memory, as after a broadcast."""
    return any(stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape)) and array.size > 0
