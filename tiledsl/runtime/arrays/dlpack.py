"""DLPack capsules, read and made without a library that knows them.

The layout is that of `dlpack.h`: a DLTensor, and behind it what its owner needs to free it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledsl.runtime.arrays.arrays import Array, row_major

CUDA_DEVICES = (2, 13)
"""DLPack's numbers for memory of a CUDA device, and for managed memory."""
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
_NARROW = {10: "float8_e4m3fn", 12: "float8_e5m2"}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class SharedTensor:
    """What a capsule says. `strides` are in elements; `dtype` is NumPy's name, None where it has none."""

    address: int
    device: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str | None
    described: str


def read_capsule(capsule: object) -> SharedTensor:
    """Reads a capsule and leaves it as it is: the memory is its owner's for as long as the capsule lives.

    ValueError for what is no capsule of a tensor.
    """
    pointer_of: Any = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(pointer_of(capsule, b"dltensor"))
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim))
    else:
        strides = row_major(shape)
    described = f"{_KINDS.get(tensor.kind, f'kind {tensor.kind}, bits ')}{tensor.bits}"
    name = _NARROW.get(tensor.kind) or {"bfloat16": "bfloat16", "bool8": "bool"}.get(described, described)
    dtype = name if tensor.lanes == 1 and (tensor.kind in _KINDS or tensor.kind in _NARROW) else None
    address = (tensor.data or 0) + tensor.byte_offset
    return SharedTensor(address, tensor.device, shape, strides, dtype, described)


class _Memory:
    """Memory of a capsule as NumPy takes it: bytes, for as long as an array over them lives."""

    def __init__(self, capsule: object, shared: SharedTensor, size: int) -> None:
        self.capsule = capsule
        self.__array_interface__ = {
            "version": 3,
            "shape": shared.shape,
            "typestr": f"<u{size}",
            "strides": tuple(step * size for step in shared.strides),
            "data": (shared.address, False),
        }


def array_of_capsule(capsule: object, dtype: np.dtype[Any]) -> Array:
    """The tensor of a capsule in CPU memory as an array over the same memory. ValueError if it is of another dtype."""
    shared = read_capsule(capsule)
    if shared.dtype != str(dtype):
        raise ValueError(f"its capsule is of {shared.described}")
    if 0 in shared.shape:
        return np.empty(shared.shape, dtype)  # it may be nowhere
    elements: Any = np.asarray(_Memory(capsule, shared, dtype.itemsize))
    return elements.view(dtype)


_KIND_OF = {
    "int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6, "float8_e4m3fn": 10, "float8_e5m2": 12,
}  # fmt: skip
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]


_shared: dict[int, tuple[object, ...]] = {}
"""What lives until its deleter is called, by the address of the structure."""


@_DELETER
def _drop(address: int, forget: Callable[[int, None], object] = _shared.pop) -> None:
    forget(address, None)


def make_capsule(owner: object, address: int, device: int, shape: tuple[int, ...], dtype: str, bits: int) -> object:
    """A capsule of a row-major array on a CUDA device, which keeps `owner` alive until its receiver is done with it.

    `dtype` is NumPy's name.
    """
    kind = _KIND_OF.get(dtype) if dtype.startswith("float8") else _KIND_OF[dtype.rstrip("0123456789")]
    lengths = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    steps = (ctypes.c_int64 * max(1, len(shape)))(*row_major(shape))
    places = [ctypes.cast(array, ctypes.POINTER(ctypes.c_int64)) for array in (lengths, steps)]
    tensor = _Tensor(address, CUDA_DEVICES[0], device, len(shape), kind, bits, 1, *places, 0)
    managed = _Managed(tensor, None, _drop)
    place = ctypes.addressof(managed)
    _shared[place] = (managed, lengths, steps, owner)
    new: Any = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(place, _NAME, ctypes.cast(_discard, ctypes.c_void_p))


_NAME = b"dltensor"


_IS_VALID = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_POINTER_OF = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _discard(
    capsule: int, valid: Any = _IS_VALID, pointer_of: Any = _POINTER_OF, drop: Any = _drop, name: bytes = _NAME
) -> None:
    """The destructor of a capsule: whoever took the array has renamed it, and calls the deleter later."""
    if valid(capsule, name):
        drop(pointer_of(capsule, name))


# A capsule may go when this module is gone: so what it calls reads no names of it, and never goes itself.
for _function in (_drop, _discard):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_function))
