"""Calls of a module on the CPU: arguments checked, outputs made, the schedule run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiledsl.ir.dtypes import from_numpy, to_numpy
from tiledsl.runtime.arrays import Array, as_array, fail_not_array, is_array, numpy_array, overlap, pointer
from tiledsl.runtime.dispatch import CPU
from tiledsl.runtime.launch import NewArray
from tiledsl.runtime.missed import MISSED
from tiledsl.runtime.module_on_cpu import ModuleOnCpu, expected_array
from tiledsl.runtime.output_memory import empty
from tiledsl.runtime.outputs import as_tuple, check_outputs_of
from tiledsl.runtime.schedule import Buffer
from tiledsl.runtime.specialise import is_numpy_number
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail


class CpuCalls:
    """Safe to use from several threads at once."""

    def __init__(self, module: ModuleOnCpu) -> None:
        self.module = module
        schedule = module.schedule
        self._name = schedule.name
        self._inputs = [schedule.buffers[n] for n in schedule.inputs]
        self._outputs = [schedule.buffers[n] for n in schedule.outputs]
        self._expected = [expected_array(buffer) for buffer in self._inputs]
        self._new = [(buffer.shape, to_numpy(buffer.dtype)) for buffer in self._outputs]
        self._misaligned_bits = max((buffer.dtype.bytes for buffer in self._inputs), default=1) - 1
        self._run, self._run_on = module.run, module.run_on

    def quick(self, args: Sequence[object], out: object) -> object:
        """Runs the module on arrays of NumPy that are as it was built for; gives `MISSED` for others."""
        if out is not None or len(args) != len(self._expected):
            return MISSED
        made = [empty(shape, dtype) for shape, dtype in self._new]
        if not self._run_on((*args, *made)) and not self._run_on_arrays(args, made):
            return MISSED
        return made[0] if len(made) == 1 else tuple(made)

    def _run_on_arrays(self, args: Sequence[object], made: Sequence[Array]) -> bool:
        """As `ModuleOnCpu.run_on`, where that cannot look at arrays or does not know one of them."""
        addresses: list[int] = []
        bits = 0
        for value, (dtype, shape, _) in zip(args, self._expected):
            if value.__class__ is not np.ndarray:
                return False
            array = numpy_array(value)
            if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
                return False
            address = pointer(array)
            bits |= address
            addresses.append(address)
        if bits & self._misaligned_bits:
            return False
        self._run([*addresses, *map(pointer, made)])
        return True

    def call(self, args: Sequence[object], out: object) -> object:
        """Runs the module. Raises TileError before anything is written if the arguments do not fit."""
        arrays = [self._accepted(value, buffer) for value, buffer in zip(args, self._inputs)]
        targets: tuple[Array, ...] | None = None
        made = [empty(shape, dtype) for shape, dtype in self._new]
        if out is not None:
            new = [NewArray(shape, dtype) for shape, dtype in self._new]
            targets = check_outputs_of(CPU, self._name, new, out)
            made = [target if _can_write(target, arrays) else fresh for target, fresh in zip(targets, made)]
        self._run([*map(pointer, arrays), *map(pointer, made)])
        if targets is None:
            return made[0] if len(made) == 1 else tuple(made)
        for target, array in zip(targets, made):
            if target is not array:
                np.copyto(target, array)
        given = as_tuple(out)
        return given[0] if len(given) == 1 else tuple(given)

    def _accepted(self, value: object, buffer: Buffer) -> Array:
        """An argument as a row-major array; a copy where it is not one. Raises TileError if it does not fit."""
        array = number_or_array(value, buffer)
        check_argument(array.dtype, array.shape, buffer, self._name)
        if not array.flags.c_contiguous or not array.flags.aligned:
            array = np.array(array, order="C")
        return array


def number_or_array(value: Any, buffer: Buffer) -> Array:
    """An argument in CPU memory; a number for a tensor of rank 0. Raises TileError for anything else."""
    if is_array(value):
        return as_array(value, buffer.name)
    is_number = isinstance(value, (int, float)) or is_numpy_number(value)
    if buffer.shape != () or not is_number:
        fail_not_array(value, buffer.name)
    return np.asarray(value, to_numpy(buffer.dtype))


def check_argument(dtype: np.dtype[Any], shape: tuple[int, ...], buffer: Buffer, module: str) -> None:
    """Raises TileTypeError or TileShapeError for an array that is not what the module was built for."""
    actual = from_numpy(dtype)
    if actual != buffer.dtype:
        fail(
            "module-dtype", caller_location(),
            parameter=buffer.name, actual=actual or dtype, module=module, expected=buffer.dtype,
        )  # fmt: skip
    if shape != buffer.shape:
        fail(
            "module-shape", caller_location(),
            parameter=buffer.name, actual=list(shape), module=module, expected=list(buffer.shape),
        )  # fmt: skip


def _can_write(target: Array, arrays: Sequence[Array]) -> bool:
    return target.flags.c_contiguous and target.flags.behaved and not any(overlap(target, array) for array in arrays)
