"""Weights: arrays that a graph reads besides its arguments, given once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import numpy as np

from tiledsl.api.calls.targets import cuda_services
from tiledsl.ir.dtypes import DType, from_array_name, to_numpy
from tiledsl.ir.types import TensorType
from tiledsl.runtime.arrays.arrays import Array, as_array, fail_not_array, is_array, row_major
from tiledsl.runtime.arrays.cuda_arrays import ArrayReader, DeviceView, is_on_cuda
from tiledsl.runtime.arrays.frameworks import torch_of
from tiledsl.runtime.programs.program import WIDEST
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

Made = TypeVar("Made")


def check_weights(types: Mapping[str, TensorType], weights: Mapping[str, object], module: str) -> None:
    """Raises TileError unless there is an array of its dtype and shape for each weight that the graph reads.

    Arrays of any library, wherever they lie; they are only looked at.
    """
    for name, type_ in types.items():
        expected = f"{type_.dtype}{list(type_.shape)}"
        if name not in weights:
            fail("weight-missing", caller_location(), parameter=name, module=module, expected=expected)
        array: Any = weights[name]
        if not is_array(array):
            fail_not_array(array, name)
        shape = tuple(int(size) for size in array.shape)
        dtype = dtype_of(array)
        if dtype != type_.dtype:
            actual = dtype or array.dtype
            fail(
                "weight-dtype", caller_location(),
                parameter=name, actual=actual, module=module, expected=type_.dtype,
            )  # fmt: skip
        if shape != type_.shape:
            fail(
                "weight-shape", caller_location(),
                parameter=name, actual=list(shape), module=module, expected=list(type_.shape),
            )  # fmt: skip


def dtype_of(array: Any) -> DType | None:
    """The element type of an array of any library; None for one that kernels do not have."""
    dtype: Any = array.dtype
    return from_array_name(str(getattr(dtype, "name", dtype)).removeprefix("torch."))


def host_array(array: Any, name: str) -> Array:
    """A weight in CPU memory, row-major. Raises TileRuntimeError for one on a device."""
    array = _detached(array)
    torch, dtype = torch_of(array), dtype_of(array)
    if torch is not None and dtype is not None and dtype.is_float and dtype.name not in ("f16", "f32", "f64"):
        # NumPy's DLPack does not know bf16 and the 8-bit floats: as their bits
        bits = array.contiguous().view(torch.int16 if dtype.bytes == 2 else torch.uint8)
        plain: Any = host_array(bits, name)
        return plain.view(to_numpy(dtype))
    found = as_array(array, name)
    if found.strides != row_major(found.shape, found.itemsize) or not found.flags.aligned:
        found = np.array(found, order="C")
    return found


def saved_array(array: Any, name: str) -> Array:
    """A weight in CPU memory, row-major, from wherever it lies."""
    if not is_on_cuda(array):
        return host_array(array, name)
    reader = ArrayReader(cuda_services)
    _, kept = device_array(array, name, reader, reader.read(_detached(array), name).device)
    assert isinstance(kept, DeviceView)
    host: Array = np.empty(kept.shape, kept.dtype)
    stream = kept.framework.stream(kept.device)
    cuda_services().copy_to_host(host.ctypes.data, kept.address, host.nbytes, kept.device, stream)
    return host


def _detached(array: Any) -> Any:
    """The array without a record of what its gradient depends on."""
    return array.detach() if getattr(array, "requires_grad", False) else array


class WeightCache:
    """Weights where they are used, for all modules of one graph: each is copied to a device once.

    Safe to use from several threads at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._host: dict[str, Array] = {}
        self._device: dict[tuple[str, int], tuple[int, object]] = {}
        self._prepared: dict[object, Any] = {}

    def in_host(self, array: object, name: str) -> Array:
        """A weight in CPU memory, row-major. Raises TileRuntimeError for one on a device."""
        with self._lock:
            if name not in self._host:
                self._host[name] = host_array(array, name)
            return self._host[name]

    def on_device(self, array: object, name: str, device: int, reader: ArrayReader) -> tuple[int, object]:
        """Where a weight lies on a device, row-major, and what keeps it there.

        Raises TileTypeError for one on another device, TileResourceError where there is no memory left.
        """
        with self._lock:
            found = self._device.get((name, device))
            if found is None:
                found = self._device[name, device] = _placed(array, name, device, reader)
            return found

    def for_now_on_device(self, array: object, name: str, device: int, reader: ArrayReader) -> tuple[int, object]:
        """`on_device`, for a weight that is needed only now: a copy that is made for it is not kept."""
        with self._lock:
            found = self._device.get((name, device))
        return _placed(array, name, device, reader) if found is None else found

    def prepared(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What was made of the weights under that key, made now if it was not yet."""
        with self._lock:
            if key not in self._prepared:
                self._prepared[key] = make()
            return self._prepared[key]


def _placed(array: object, name: str, device: int, reader: ArrayReader) -> tuple[int, object]:
    return device_array(array, name, reader, device) if is_on_cuda(array) else _uploaded(array, name, device)


def _uploaded(array: object, name: str, device: int) -> tuple[int, object]:
    """A copy of a weight on a device, for use on any stream."""
    host, services = host_array(array, name), cuda_services()
    stream = services.own_stream(device)
    memory = services.allocate(max(1, host.nbytes), device, stream)
    services.copy_to_device(memory.address, host.ctypes.data, host.nbytes, device, stream)
    return memory.address, memory


def device_array(array: Any, name: str, reader: ArrayReader, device: int) -> tuple[int, object]:
    """Where a weight lies that is on a device already, row-major, and what keeps it there.

    Raises TileTypeError for one on another device.
    """
    view = reader.read(_detached(array), name)
    if view.device != device:
        fail(
            "array-devices", caller_location(),
            first="an argument", first_device=device, second=name, second_device=view.device,
        )  # fmt: skip
    if (view.strides != row_major(view.shape, view.itemsize) and view.size > 1) or view.address % WIDEST:
        copy = view.framework.copied(view)
        if copy is None:
            fail("module-strided", caller_location(), parameter=name, module="the graph", strides=view.strides)
        view = reader.read(copy, name)
    return view.address, view
