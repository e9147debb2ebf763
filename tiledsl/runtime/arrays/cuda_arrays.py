"""Arrays on CUDA devices: recognising them, and where they lie, in the terms of NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from tiledsl.runtime.arrays.arrays import Array, byte_span, row_major
from tiledsl.runtime.arrays.device_array import DeviceArray
from tiledsl.runtime.arrays.dlpack import CUDA_DEVICES, read_capsule
from tiledsl.runtime.arrays.frameworks import (
    Cupy,
    Framework,
    Others,
    Torch,
    cupy_of,
    fail_dtype,
    is_jax,
    numpy_dtype,
    numpy_name,
    torch_of,
)
from tiledsl.runtime.programs.device_services import Services
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail


@dataclass(frozen=True, eq=False)
class DeviceView:
    """One array on a device. `strides` are in bytes, as NumPy's; `stream` is what must end before it may be read, if
    its library says so; `owner` keeps the memory alive where the array itself does not."""

    array: object
    framework: Framework
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    device: int
    writeable: bool = True
    immutable: bool = False
    stream: int | None = None
    owner: object = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def size(self) -> int:
        count = 1
        for length in self.shape:
            count *= length
        return count


class ArrayReader:
    """Reads arrays of any library. Holds what was found out about the libraries."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.others = Others(services)
        self._torch: Torch | None = None
        self._cupy: Cupy | None = None

    def torch(self, module: Any) -> Torch:
        if self._torch is None or self._torch.torch is not module:
            self._torch = Torch(module)
        return self._torch

    def read(self, value: object, parameter: str) -> DeviceView:
        """Where an array is that `is_on_cuda`. Raises TileError for one that a kernel cannot take."""
        torch = torch_of(value)
        if torch is not None:
            view = self._read_torch(value, parameter, self.torch(torch))
        elif (cupy := cupy_of(value)) is not None:
            view = self._read_cupy(value, parameter, cupy)
        elif isinstance(value, DeviceArray):
            view = DeviceView(
                value, self.others, value.dtype, value.shape, value.strides, value.address, value.device,
                stream=value.stream,
            )  # fmt: skip
        elif is_jax(value):
            view = self._read_jax(value, parameter)
        elif hasattr(value, "__cuda_array_interface__"):
            view = self._read_interface(value, parameter)
        else:
            view = self._read_dlpack(value, parameter)
        _check_addressable(view, parameter)
        return view

    def _read_torch(self, value: Any, parameter: str, torch: Torch) -> DeviceView:
        if value.requires_grad and torch.torch.is_grad_enabled():
            fail("array-requires-grad", caller_location(), parameter=parameter)
        if value.is_neg():
            fail("array-lazy", caller_location(), parameter=parameter)
        dtype = _known_dtype(str(value.dtype).removeprefix("torch."), value.dtype, parameter)
        size = dtype.itemsize
        try:
            strides, address = tuple(stride * size for stride in value.stride()), value.data_ptr()
        except (
            RuntimeError,
            NotImplementedError,
        ) as error:  # a sparse tensor, or one without memory (fake, functional)
            _fail_foreign(value, parameter, error)
        return DeviceView(value, torch, dtype, tuple(value.shape), strides, address, value.get_device())

    def _read_cupy(self, value: Any, parameter: str, cupy: Any) -> DeviceView:
        if self._cupy is None or self._cupy.cupy is not cupy:
            self._cupy = Cupy(cupy)
        dtype = _known_dtype(str(value.dtype.name), value.dtype, parameter)
        device = int(value.device.id)
        return DeviceView(value, self._cupy, dtype, tuple(value.shape), tuple(value.strides), value.data.ptr, device)

    def _read_jax(self, value: Any, parameter: str) -> DeviceView:
        """jax runs ahead on streams of its own, which cannot be asked for: the array is waited for."""
        dtype = _known_dtype(str(value.dtype.name), value.dtype, parameter)
        try:
            value.block_until_ready()
            device, address = int(next(iter(value.devices())).local_hardware_id), int(value.unsafe_buffer_pointer())
        except (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
            _fail_foreign(value, parameter, error)  # deleted, or spread over several devices
        shape = tuple(value.shape)
        strides = row_major(shape, dtype.itemsize)
        return DeviceView(
            value, self.others, dtype, shape, strides, address, device, writeable=False, immutable=True
        )  # fmt: skip

    def _read_interface(self, value: Any, parameter: str) -> DeviceView:
        try:
            offered: dict[str, Any] = value.__cuda_array_interface__
            shape = tuple(offered["shape"])
            address, read_only = offered["data"]
            type_string = offered["typestr"]
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            _fail_foreign(value, parameter, error)
        plain = np.dtype(type_string)
        dtype = None if plain.byteorder == ">" else numpy_dtype(numpy_name(plain))
        if dtype is None:
            return fail_dtype(parameter, plain)
        strides = offered.get("strides")
        strides = row_major(shape, dtype.itemsize) if strides is None else tuple(strides)
        stream = offered.get("stream")
        device = self.services().device_of_address(address) if address else 0
        return DeviceView(
            value, self.others, dtype, shape, strides, address or 0, device, writeable=not read_only,
            stream=0 if stream == 1 else stream,
        )  # fmt: skip

    def _read_dlpack(self, value: Any, parameter: str) -> DeviceView:
        try:
            capsule: object = value.__dlpack__(stream=1)  # what comes on the default stream waits for the array
            shared = read_capsule(capsule)
        except TileError:
            raise
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            _fail_foreign(value, parameter, error)
        dtype = None if shared.dtype is None else numpy_dtype(shared.dtype)
        if dtype is None:
            return fail_dtype(parameter, shared.described)
        strides = tuple(stride * dtype.itemsize for stride in shared.strides)
        return DeviceView(
            value, self.others, dtype, shared.shape, strides, shared.address, shared.device, owner=capsule
        )  # fmt: skip


def is_on_cuda(value: object) -> bool:
    """Whether `value` is an array on a CUDA device."""
    if isinstance(value, (np.ndarray, np.generic, int, float, str, tuple)) or value is None:
        return False
    if torch_of(value) is not None:
        tensor: Any = value
        return bool(tensor.is_cuda)
    if cupy_of(value) is not None or isinstance(value, DeviceArray):
        return True
    if is_jax(value):
        array: Any = value
        return any(device.platform in ("gpu", "cuda") for device in array.devices())
    if hasattr(value, "__cuda_array_interface__"):
        return True
    device_of = getattr(value, "__dlpack_device__", None)
    return device_of is not None and device_of()[0] in CUDA_DEVICES


def _known_dtype(name: str, dtype: object, parameter: str) -> np.dtype[Any]:
    known = numpy_dtype(name)
    return fail_dtype(parameter, dtype) if known is None else known


def _check_addressable(view: DeviceView, parameter: str) -> None:
    if view.address % view.itemsize and view.size:
        fail("array-misaligned", caller_location(), parameter=parameter, size=view.itemsize)
    if any(stride % view.itemsize for stride in view.strides):
        fail("array-strides", caller_location(), parameter=parameter, strides=view.strides, dtype=view.dtype)


def _fail_foreign(value: object, parameter: str, error: Exception) -> NoReturn:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    fail("array-foreign", caller_location(), parameter=parameter, kind=type(value).__name__, reason=reason)


class _Shadow:
    """Offers device memory to NumPy, which only ever computes with its addresses."""

    def __init__(self, view: DeviceView) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (view.address, False),
            "shape": view.shape,
            "strides": view.strides,
            "typestr": f"|V{view.itemsize}",
        }


def views_overlap(a: DeviceView, b: DeviceView) -> bool:
    """Whether two arrays may share an element. Exact where that is cheap to find out, else by their bounds."""
    if a.device != b.device or not a.size or not b.size or not _spans_meet(a, b):
        return False
    first: Array = np.asarray(_Shadow(a))
    second: Array = np.asarray(_Shadow(b))
    try:
        return bool(np.shares_memory(first, second, max_work=10_000))  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return True


def _spans_meet(a: DeviceView, b: DeviceView) -> bool:
    (low, high), (other_low, other_high) = (byte_span(v.shape, v.strides, v.itemsize) for v in (a, b))
    return a.address + low < b.address + other_high and b.address + other_low < a.address + high
