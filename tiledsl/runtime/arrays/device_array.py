"""An output on a CUDA device, for callers whose library has no arrays that could be allocated from here."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tiledsl.runtime.arrays.arrays import row_major
from tiledsl.runtime.arrays.dlpack import CUDA_DEVICES, make_capsule
from tiledsl.runtime.programs.device_services import DeviceServices

_NO_TYPE_STRING = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


class DeviceArray:
    """A row-major array on a device: `.numpy()` copies it to the CPU; CuPy, PyTorch, jax and Numba take it as it is.

    `address` is where it begins, `device` the number of the device, `stream` the one that it is made on.
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: int, stream: int, services: DeviceServices
    ) -> None:
        """Allocates; the elements are whatever is there. Raises TileError without a driver or memory."""
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.stream = stream
        self.size = 1
        for length in shape:
            self.size *= length
        self._services = services
        self._memory = services.allocate(self.size * dtype.itemsize, device, stream)

    @property
    def address(self) -> int:
        return self._memory.address

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """In bytes."""
        return row_major(self.shape, self.dtype.itemsize)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        dtype: Any = self.dtype
        if str(dtype.name) in _NO_TYPE_STRING:
            raise AttributeError(f"{self.dtype} has no type string; use `__dlpack__` or `.numpy()`")
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": str(dtype.str),
            "data": (self.address, False),
            "strides": None,
            "stream": self.stream or 1,  # the interface calls the default stream 1
        }

    def __dlpack__(self, *, stream: int | None = None, **wishes: object) -> object:
        """A DLPack capsule; what comes on `stream` (1 or None: the default one) waits for what made the array.

        `wishes` are what newer versions of the protocol may ask for, which the receiver must be able to do without.
        """
        del wishes
        if stream != -1:  # the receiver does not want to wait
            self._services.run_after(self.device, 0 if stream in (None, 1) else stream or 0, self.stream)
        dtype: Any = self.dtype
        return make_capsule(self, self.address, self.device, self.shape, str(dtype.name), 8 * dtype.itemsize)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA_DEVICES[0], self.device

    def numpy(self) -> npt.NDArray[Any]:
        """A copy in CPU memory, once all that was launched on the stream has ended. Raises TileRuntimeError."""
        host = np.empty(self.shape, self.dtype)
        self._services.copy_to_host(host.ctypes.data, self.address, host.nbytes, self.device, self.stream)
        return host

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("an array on a device is copied to become one of NumPy")
        host = self.numpy()
        return host if dtype is None else host.astype(dtype)

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype}{list(self.shape)} on CUDA device {self.device}>"
