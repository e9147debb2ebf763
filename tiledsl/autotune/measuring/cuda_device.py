"""A CUDA device as benches use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl.autotune.measuring.cases import Case, Number
from tiledsl.backend_cuda.driver.services import CudaServices, synchronize
from tiledsl.backend_cuda.driver.timing import device_seconds
from tiledsl.runtime.arrays.arrays import Array, pointer
from tiledsl.runtime.programs.plan_source import PlanQuestion
from tiledsl.runtime.programs.program import BoundDeviceProgram
from tiledsl.support.location import BUILTIN


class CudaDevice:
    """The device of a number, with a stream of its own."""

    def __init__(self, number: int) -> None:
        """Raises TileRuntimeError without a driver or a device."""
        self._services = CudaServices()
        self._number = number
        self._stream = self._services.own_stream(number)
        self._kept: list[Any] = []
        self._graphs: dict[tuple[object, int], Any] = {}

    def memory(self, size: int) -> int:
        allocated = self._services.allocate(size, self._number, self._stream)
        self._kept.append(allocated)
        return allocated.address

    def write(self, address: int, data: Array) -> None:
        self._services.copy_to_device(address, pointer(data), data.nbytes, self._number, self._stream)

    def read(self, address: int, data: Array) -> None:
        self._services.copy_to_host(pointer(data), address, data.nbytes, self._number, self._stream)

    def bind(self, program: Any, case: Case, question: PlanQuestion) -> BoundDeviceProgram:
        strides = [tensor.strides for tensor in case.tensors]
        return program.bind_cuda(dict(case.sizes), strides, question.alignment, self._number, question.lying)

    def run(self, bound: BoundDeviceProgram, pointers: Sequence[int], numbers: Sequence[Number]) -> None:
        bound(pointers, numbers, self._stream)
        synchronize(self._number, self._stream)

    def seconds(
        self, bound: BoundDeviceProgram, pointers: Sequence[int], numbers: Sequence[Number], calls: int, graph: bool
    ) -> float:
        if not graph:

            def launch() -> None:
                for _ in range(calls):
                    bound(pointers, numbers, self._stream)

            return device_seconds(self._number, self._stream, launch) / calls
        recorded = self._graphs.get((bound, calls))
        if recorded is None:
            launches = [(bound, pointers, numbers)] * calls
            recorded = self._graphs[bound, calls] = self._services.record(self._number, "tuned", BUILTIN, launches)
        return device_seconds(self._number, self._stream, lambda: recorded.launch(self._stream)) / calls
