"""`kernel.tune` of a kernel in tile form: a call of it as a task for a search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiledsl.api.calls.cpu_tasks import cpu_task
from tiledsl.api.calls.targets import target_of
from tiledsl.api.calls.tuning import Prepared, TuneReport, TuneRequest, search_all
from tiledsl.api.programs.specialisations import Specialisations
from tiledsl.autotune.measuring.given import GivenArrays
from tiledsl.runtime.arrays.arrays import (
    as_array,
    element_strides,
    is_addressable,
    is_array,
    is_foreign_array,
    is_numpy,
)
from tiledsl.runtime.arrays.cuda_arrays import is_on_cuda
from tiledsl.runtime.calls.binding import bind_sizes
from tiledsl.runtime.calls.dispatch import argument_key
from tiledsl.runtime.calls.launch import new_arrays, number_of, scalars_of
from tiledsl.runtime.calls.parameters import Parameters
from tiledsl.runtime.programs.interface import TensorParameter


def tune_call(
    code: Specialisations, parameters: Parameters, args: Sequence[object], request: TuneRequest
) -> TuneReport:
    """Searches for a plan for a call. `args` are in the order of `parameters`. Raises TileError."""
    on_device = any(is_foreign_array(value) and is_on_cuda(value) for value in args)
    return search_all(
        (prepared_call(code, parameters, args, libraries=request.libraries) for _ in range(1)),
        request,
        0 if on_device else None,
    )


def prepared_call(
    code: Specialisations, parameters: Parameters, args: Sequence[object], *, libraries: bool = False
) -> Prepared:
    """A call as a task. `libraries`: as `TuneRequest` has it. Raises TileError as the call would."""
    if any(is_foreign_array(value) and is_on_cuda(value) for value in args):
        from tiledsl.api.programs.tune_on_device import prepared_on_device  # costs start-up time

        return prepared_on_device(code, parameters, args, libraries=libraries)
    arguments = [_accepted(name, value, name in parameters.constants) for name, value in zip(parameters.names, args)]
    keys = tuple(argument_key(n, value, n in parameters.constants) for n, value in zip(parameters.names, arguments))
    compiled = code.get(target_of("cpu"), keys)
    interface = compiled.interface
    positions = [parameters.names.index(parameter.name) for parameter in interface.parameters]
    arrays = [
        value for i, p in zip(positions, interface.parameters) if isinstance(p, TensorParameter)
        and is_numpy(value := arguments[i])
    ]  # fmt: skip
    sizes = bind_sizes(interface, [array.shape for array in arrays])
    strides = [element_strides(array) for array in arrays]
    strides += [new.strides for new in new_arrays(interface, sizes)]
    numbers = [number_of(scalar, arguments[scalar.position]) for scalar in scalars_of(positions, interface)]
    given = GivenArrays(tuple(np.array(array, order="C") for array in arrays))
    return cpu_task(compiled.program, interface, compiled.ir(stage="front"), sizes, strides, given, numbers)


def _accepted(name: str, value: object, constant: bool) -> object:
    """An argument as code takes it: arrays as NumPy's."""
    if constant or not is_array(value):
        return value
    array = as_array(value, name)
    return array if is_addressable(array) else np.array(array, order="C")
