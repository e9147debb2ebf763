"""The libraries whose arrays on CUDA devices are understood: how to allocate and copy theirs, and on which stream.

None of them is imported: a library whose array was passed has been imported by whoever made it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tiledsl.ir import dtypes
from tiledsl.runtime.arrays.arrays import row_major
from tiledsl.runtime.arrays.device_array import DeviceArray
from tiledsl.runtime.programs.device_services import Services
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

if TYPE_CHECKING:
    from tiledsl.runtime.arrays.cuda_arrays import DeviceView

DEFAULT_STREAM = 0


class Framework(Protocol):
    """One library."""

    @property
    def name(self) -> str: ...

    def stream(self, device: int) -> int:
        """The caller's current stream on that device."""
        ...

    def maker(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> Callable[[int], object]:
        """A function that makes row-major arrays, for use on the stream that it is given."""
        ...

    def address(self, array: Any, /) -> int:
        """Where an array that a `maker` made begins."""
        ...

    def copied(self, view: DeviceView) -> object | None:
        """A row-major copy, made on the current stream; None where the library cannot be asked for one."""
        ...

    def assign(self, target: DeviceView, source: DeviceView) -> bool:
        """Copies the elements, on the current stream. False where the library cannot be asked to."""
        ...


@cache
def numpy_dtype(name: str) -> np.dtype[Any] | None:
    """The NumPy dtype of that name (`float32`, `bfloat16`), or None if kernels have no such elements."""
    dtype = dtypes.from_array_name(name)
    return None if dtype is None else dtypes.to_numpy(dtype)


def numpy_name(dtype: Any) -> str:
    """What NumPy calls a dtype: `float32`. (Not annotated there.)"""
    return str(dtype.name)


def quick_empty(torch: Any) -> Callable[..., Any] | None:
    """Makes a tensor of a shape, strides and a dtype on the current device, in a third of the time of `torch.empty`.

    `torch.compile` has it for its own code. None where PyTorch has none that does this: it is no public part of it.
    """
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    made: Callable[..., Any] | None = getattr(guards, "_empty_strided_cuda", None)
    if made is None or not hasattr(torch._C, "_cuda_getDevice"):
        return None
    try:
        first = made((2, 3), (3, 1), torch.float16)
    except (TypeError, RuntimeError):
        return None
    at = torch.device("cuda", torch._C._cuda_getDevice())
    right = first.device == at and first.dtype == torch.float16 and not first.requires_grad
    return made if right and tuple(first.shape) == (2, 3) and first.is_contiguous() else None


class Torch:
    """PyTorch: its allocator, the current stream of its own."""

    name = "torch"

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.raw_stream = torch._C._cuda_getCurrentRawStream  # 0.07 us, where `torch.cuda.current_stream()` takes 3
        self.address: Callable[[Any], int] = torch.Tensor.data_ptr

    @cached_property
    def _quick_empty(self) -> Callable[..., Any] | None:
        return quick_empty(self.torch)

    def stream(self, device: int) -> int:
        return self.raw_stream(device)

    def maker(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> Callable[[int], object]:
        """The stream is PyTorch's current one, to which its allocator looks itself."""
        empty: Callable[..., object] = self.torch.empty
        # a dtype has the name that NumPy or ml_dtypes has for it
        named = {"dtype": getattr(self.torch, numpy_name(dtype)), "device": self.torch.device("cuda", device)}
        made, strides, element = self._quick_empty, row_major(shape), named["dtype"]
        if made is None:
            return lambda stream: empty(shape, **named)
        current: Callable[[], int] = self.torch._C._cuda_getDevice

        def make(stream: int) -> object:
            return made(shape, strides, element) if current() == device else empty(shape, **named)

        return make

    def copied(self, view: DeviceView) -> object | None:
        array: Any = view.array
        return array.detach().clone(memory_format=self.torch.contiguous_format)

    def assign(self, target: DeviceView, source: DeviceView) -> bool:
        with self.torch.no_grad():
            array: Any = target.array
            array.copy_(source.array)
        return True


class Cupy:
    """CuPy: its memory pool, its current stream."""

    name = "cupy"

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy

    def stream(self, device: int) -> int:
        with self.cupy.cuda.Device(device):
            return int(self.cupy.cuda.get_current_stream().ptr)

    def maker(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> Callable[[int], object]:
        def make(stream: int) -> object:
            with self.cupy.cuda.Device(device):
                return self.cupy.empty(shape, dtype)

        return make

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def copied(self, view: DeviceView) -> object | None:
        with self.cupy.cuda.Device(view.device):
            return self.cupy.array(view.array, order="C")

    def assign(self, target: DeviceView, source: DeviceView) -> bool:
        with self.cupy.cuda.Device(target.device):
            array: Any = target.array
            array[...] = source.array
        return True


@dataclass(frozen=True)
class Others:
    """Everything else that tells where its memory is, jax too: outputs are `DeviceArray`s."""

    services: Services
    name: str = "others"

    def stream(self, device: int) -> int:
        return DEFAULT_STREAM

    def maker(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> Callable[[int], object]:
        return lambda stream: DeviceArray(shape, dtype, device, stream, self.services())

    def address(self, array: Any) -> int:
        return array.address

    def copied(self, view: DeviceView) -> object | None:
        return None

    def assign(self, target: DeviceView, source: DeviceView) -> bool:
        return False


def torch_of(value: object) -> Any:
    """The module of PyTorch if `value` is a tensor of it, else None."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    return torch if tensor is not None and isinstance(value, tensor) else None


def cupy_of(value: object) -> Any:
    """The module of CuPy if `value` is an array of it, else None."""
    cupy = sys.modules.get("cupy")
    array = getattr(cupy, "ndarray", None)
    return cupy if array is not None and isinstance(value, array) else None


def is_jax(value: object) -> bool:
    """Whether `value` is an array of jax."""
    jax = sys.modules.get("jax")
    array = getattr(jax, "Array", None)
    return array is not None and isinstance(value, array)


def fail_dtype(parameter: str, dtype: object) -> Any:
    """Raises the error for elements that kernels do not have."""
    known = ", ".join(d.name for d in dtypes.ALL if d.bits >= 8)
    fail("array-dtype", caller_location(), parameter=parameter, dtype=dtype, known=known)
