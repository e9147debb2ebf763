"""Tensor maps, which tell TMA where a tensor is: made by the driver for the sizes, strides and addresses of a launch.

What is known of sizes and strides is computed once for each binding; the maps of the last addresses are kept, as
allocators give the same ones again and again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from tiledsl.backend_cuda.driver.call_driver import bindings, call
from tiledsl.backend_cuda.frame.kernel_code import TensorMapCode
from tiledsl.ir.dtypes import BY_NAME
from tiledsl.ir.gpu.tensor_maps import CORNERS, LINE_BYTES, last_corner
from tiledsl.ir.symbolic import evaluate
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

MAP_BYTES = 128
MAP_ALIGNMENT = 64
MOST_MAPS = 256
"""Addresses for which a map is remembered; past it all are forgotten."""
UNIT = 16
"""Addresses and strides are multiples of so many bytes."""
_MOST_SIZE = 1 << 32
_MOST_STRIDE = 1 << 40
_PROMOTED_BYTES = 128
"""Boxes with rows of so many bytes, each a line of the L2 cache, are fetched into it by 256 bytes, others by 128: where
rows start within lines, that would be up to four lines for one."""
_DTYPES = {
    "f64": "FLOAT64", "f32": "FLOAT32", "f16": "FLOAT16", "bf16": "BFLOAT16", "i64": "INT64", "i32": "INT32",
    "u64": "UINT64", "u32": "UINT32", "i16": "UINT16", "u16": "UINT16",
}  # fmt: skip
"""The driver's names; all others are bytes."""


class LaunchedMap:
    """One tensor map of a program, for certain sizes and strides (in elements)."""

    def __init__(
        self, code: TensorMapCode, symbols: Mapping[str, int], strides: Sequence[tuple[int, ...]], kernel: str
    ) -> None:
        """Raises TileUnsupportedError for strides that TMA cannot take."""
        self.tensor = code.tensor
        self._code = code
        self._kernel = kernel
        dtype = BY_NAME[code.dtype]
        sizes = [evaluate(code.shape[axis], symbols) for axis in code.axes]
        self._empty = 0 in sizes
        self._sizes = [max(size, 1) for size in sizes]
        steps = [strides[code.tensor][axis] * dtype.bytes for axis in code.axes]
        if sizes[0] > 1 and steps[0] != dtype.bytes:
            self._refuse(f"its elements along axis {code.axes[0]} are {steps[0]} bytes apart, not {dtype.bytes}")
        self._strides: list[int] = []
        for axis, size, step in zip(code.axes[1:], self._sizes[1:], steps[1:]):
            if size == 1 or self._empty:
                step = UNIT  # never taken
            if step % UNIT or not 0 <= step < _MOST_STRIDE:
                self._refuse(f"its stride along axis {axis} is {step} bytes, and must be a multiple of {UNIT}")
            self._strides.append(step)
        if any(size > _MOST_SIZE for size in sizes):
            self._refuse(f"it has {max(sizes)} elements along an axis, and TMA counts to 2**32")
        self._lasts = self._last_corners()
        at_lines = all(step % LINE_BYTES == 0 for step in self._strides)
        self._wide = at_lines and code.box[0] * dtype.bytes >= _PROMOTED_BYTES
        self._known: dict[int, bytes] = {}

    def encoded(self, pointer: int) -> bytes:
        """The map of the tensor at an address. Raises TileUnsupportedError for one that is no multiple of 16."""
        found = self._known.get(pointer)
        if found is None:
            found = self._encode(pointer)
            if len(self._known) >= MOST_MAPS:
                self._known.clear()
            self._known[pointer] = found
        return found

    def _encode(self, pointer: int) -> bytes:
        if self._empty:
            pointer = pointer // UNIT * UNIT or UNIT  # nothing is read
        if pointer % UNIT:
            self._refuse(f"it starts at an address that is no multiple of {UNIT}")
        code, driver = self._code, bindings()
        size, stride, box = driver.cuuint64_t, driver.cuuint64_t, driver.cuuint32_t
        swizzle = f"CU_TENSOR_MAP_SWIZZLE_{f'{code.swizzle}B' if code.swizzle else 'NONE'}"
        where = (
            getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_DTYPES.get(code.dtype, 'UINT8')}"),
            len(code.axes),
            pointer,
            [size(n) for n in self._sizes],
            [stride(n) for n in self._strides or [UNIT]],  # an empty list would be a null pointer, which is refused
        )
        how = (
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(driver.CUtensorMapSwizzle, swizzle),
            getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_L2_{256 if self._wide else 128}B"),
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        if code.windows:
            _, strides, lows = code.windows
            channels, pixels = code.box[:2]
            steps = [box(n) for n in (1, *strides, 1)]
            made = call("cuTensorMapEncodeIm2col", *where, list(lows), self._lasts, channels, pixels, steps, *how)
        else:
            boxes = [box(n) for n in code.box], [box(1) for _ in code.box]
            made = call("cuTensorMapEncodeTiled", *where, *boxes, *how)
        return _bytes_of(made)

    def _last_corners(self) -> list[int]:
        """Where the last window begins along each axis of pixels, from the last pixel on."""
        if not self._code.windows:
            return []
        lasts = list(map(last_corner, self._sizes[1:-1], *self._code.windows))
        most = CORNERS[len(self._sizes)]
        if any(not -most <= last < most for last in lasts):
            self._refuse(f"its last windows begin {lasts} from its last pixels, and TMA knows -{most} to {most - 1}")
        return lasts

    def _refuse(self, reason: str) -> None:
        fail("cuda-tensor-map", caller_location(), kernel=self._kernel, tensor=self._code.name, reason=reason)


def _bytes_of(made: Any) -> bytes:
    return ctypes.string_at(int(made.getPtr()), MAP_BYTES)
