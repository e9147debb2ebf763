"""GPU IR straight to a device: compiled as it is, launched on arrays of NumPy's that are copied there and back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tiledsl.backend_cuda.build.cubin import Cubin
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.driver.call_driver import call
from tiledsl.backend_cuda.driver.devices import current, device_of
from tiledsl.backend_cuda.driver.loaded import LoadedKernels
from tiledsl.backend_cuda.driver.services import synchronize
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.backend_cuda.frame.kernel_code import CudaSource
from tiledsl.backend_ref.arguments import bind_arguments
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.symbolic import evaluate
from tiledsl.ir.tile_ops import Empty, Return
from tiledsl.ir.types import TensorType
from tiledsl.passes.gpu_machine import gpu_machine

Array = npt.NDArray[Any]
GUARD_BYTES = 512
"""Before and after each array on the device: nobody may write there."""
GUARD = 0xA5


@dataclass(frozen=True)
class CompiledIr:
    """A module in GPU form, as code for an architecture."""

    module: Module
    arch: str = "sm_90"

    @cached_property
    def source(self) -> CudaSource:
        return emit_program(self.module, gpu_machine(self.arch).capability)

    @cached_property
    def cubin(self) -> Cubin:
        return compile_cubin(self.source.text, self.arch, self.module.entry.name)

    @cached_property
    def loaded(self) -> LoadedKernels:
        """On device 0."""
        entry = self.module.entry
        return LoadedKernels(
            self.cubin.code, self.source, 0, name=entry.name, arch=self.arch, location=entry.location
        )  # fmt: skip

    def run(self, arguments: Sequence[Any], launches: int = 1) -> list[Array]:
        """Runs on arrays, which may be written to, and numbers: what the function returns, after so many launches.

        Each launch finds the arguments as they were. Raises AssertionError where two of them leave different things,
        or anything is written outside of the arrays.
        """
        with current(device_of(0)):
            return self._run(arguments, launches)

    def _run(self, arguments: Sequence[Any], launches: int) -> list[Array]:
        entry = self.module.entry
        symbols, values = bind_arguments(entry, arguments)
        tensors = [v for v, p in zip(values, entry.parameters) if isinstance(p.type, TensorType)]
        scalars = [v.item() for v, p in zip(values, entry.parameters) if not isinstance(p.type, TensorType)]
        made = [op for op in entry.body.ops if isinstance(op, Empty) and not op.scratch]
        arrays = [*tensors, *(_new(op, symbols) for op in made)]
        strides = [tuple(s // a.itemsize for s in a.strides) for a in arrays]
        bound = self.loaded.bind(symbols, strides, "by hand")
        found: list[list[Array]] = []
        with ExitStack() as memory:
            held = [memory.enter_context(_OnDevice(array)) for array in arrays]
            for _ in range(launches):
                for one in held:
                    one.put()
                bound([one.address for one in held], scalars, 0)
                synchronize(0, None)
                found.append([one.taken() for one in held])
        for again in found[1:]:
            for one, other in zip(found[0], again):
                assert one.tobytes() == other.tobytes(), "launches differ"
        for array, result in zip(tensors, found[-1]):
            array[...] = result
        places = [p for p in entry.parameters if isinstance(p.type, TensorType)] + [op.result for op in made]
        (returned,) = (op for op in entry.body.ops if isinstance(op, Return))
        return [found[-1][places.index(value)] for value in returned.values]


def _new(op: Empty, symbols: dict[str, int]) -> Array:
    """An array for a new tensor, full of bytes that show where nothing is written."""
    shape, dtype = [evaluate(dim, symbols) for dim in op.shape], to_numpy(op.dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    return np.ndarray(shape, dtype, bytearray([GUARD]) * size)


class _OnDevice:
    """Memory for an array of any strides that are not negative."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self._span = sum((n - 1) * s for n, s in zip(array.shape, array.strides)) + array.itemsize if array.size else 0
        self._host: Array = np.full(self._span + 2 * GUARD_BYTES, GUARD, np.uint8)
        self._inside: Array = np.ndarray(array.shape, array.dtype, self._host.data, GUARD_BYTES, array.strides)
        self._inside[...] = array
        self._sent: Array = np.copy(self._host)
        self._memory = int(call("cuMemAlloc", self._host.nbytes))
        self.address = self._memory + GUARD_BYTES

    def put(self) -> None:
        call("cuMemcpyHtoD", self._memory, self._sent.ctypes.data, self._sent.nbytes)

    def taken(self) -> Array:
        call("cuMemcpyDtoH", self._host.ctypes.data, self._memory, self._host.nbytes)
        found = np.copy(self._inside)
        self._inside[...] = self._array  # what is left is what is not the array's
        assert self._host.tobytes() == self._sent.tobytes(), "memory outside of an array was written to"
        return found

    def __enter__(self) -> _OnDevice:
        return self

    def __exit__(self, *exception: object) -> None:
        if exception[0] is None:  # after a fault nothing can be freed
            call("cuMemFree", self._memory)
