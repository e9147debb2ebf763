"""`kernel.tune` with arrays on a CUDA device: the call is prepared as ever, by a source of plans that takes notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tiledsl.api.calls.cuda_tasks import cuda_task
from tiledsl.api.calls.targets import cuda_services
from tiledsl.api.calls.tuning import Prepared
from tiledsl.api.programs.specialisations import Specialisations
from tiledsl.autotune.measuring.given import GivenArrays
from tiledsl.autotune.measuring.tensors import Tensor, memory_of
from tiledsl.autotune.sources import NoPlans
from tiledsl.backend_cuda.program import LoadedCudaProgram
from tiledsl.runtime.arrays.arrays import Array, element_strides, pointer
from tiledsl.runtime.arrays.cuda_arrays import ArrayReader, DeviceView
from tiledsl.runtime.calls.cuda_launch import CudaLaunch
from tiledsl.runtime.calls.parameters import Parameters
from tiledsl.runtime.programs.plan_source import Answer, PlanQuestion


@dataclass(frozen=True, eq=False)
class Notes(NoPlans):
    """Has no plan for anything, and remembers what it was asked."""

    asked: list[PlanQuestion] = field(default_factory=list[PlanQuestion])

    def plan_for(self, question: PlanQuestion) -> Answer | None:
        self.asked.append(question)
        return None


def prepared_on_device(
    code: Specialisations, parameters: Parameters, args: Sequence[object], *, libraries: bool = False
) -> Prepared:
    """A call as a task. `args` are in the order of `parameters`; `libraries`: as `TuneRequest` has it. Raises TileError
    as the call would."""
    notes = Notes()
    dispatcher = code.dispatcher_by(notes)
    dispatcher.prepare(tuple(args), {}, None, None)
    (launch,) = (launch for launch in dispatcher.launches if isinstance(launch, CudaLaunch))
    loaded = launch.program
    assert isinstance(loaded, LoadedCudaProgram)
    (compiled,) = (known for known in code.compiled.values() if known.program is loaded.program)
    reader = ArrayReader(cuda_services)
    views = [reader.read(args[place], parameters.names[place]) for place in launch.tensors]
    question = notes.asked[-1]
    return cuda_task(
        loaded.program, launch.interface, compiled.ir(stage="front"), question, launch.strides,
        lambda: GivenArrays(tuple(_on_host(view, launch.device) for view in views)), launch.numbers(args),
        launch.device, libraries=libraries,
    )  # fmt: skip


def _on_host(view: DeviceView, device: int) -> Array:
    """A copy in CPU memory, row by row. Waits for what is on the stream of the array's library."""
    lying = Tensor("", "input", view.shape, element_strides(view), view.dtype).allocated(None)
    memory = memory_of(lying)
    before = sum(min(0, (length - 1) * stride) for length, stride in zip(view.shape, view.strides) if length)
    services = cuda_services()
    stream = view.framework.stream(device)
    services.copy_to_host(pointer(memory), view.address + before, memory.nbytes, device, stream)
    return np.array(lying, order="C")
