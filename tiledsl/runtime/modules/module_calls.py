"""Calls of a module on the CPU: arguments checked, outputs made, the schedule run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tiledsl.ir.dtypes import from_numpy, to_numpy
from tiledsl.runtime.arrays.arrays import Array, as_array, fail_not_array, is_array, overlap, pointer
from tiledsl.runtime.arrays.frameworks import torch_of
from tiledsl.runtime.arrays.output_memory import empty
from tiledsl.runtime.calls.dispatch import CPU
from tiledsl.runtime.calls.host_launch import HOST, host_stream
from tiledsl.runtime.calls.launch import NewArray
from tiledsl.runtime.calls.outputs import as_tuple, check_outputs_of
from tiledsl.runtime.calls.short_calls import NewArrays, Quick, ShortCall, maker
from tiledsl.runtime.calls.specialise import is_numpy_number
from tiledsl.runtime.modules.module_launch import ModuleLaunch
from tiledsl.runtime.modules.module_on_cpu import ModuleOnCpu
from tiledsl.runtime.programs.schedule import Buffer
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

if TYPE_CHECKING:
    from tiledsl.runtime.calls.torch_calls import TorchCalls


class CpuCalls:
    """Safe to use from several threads at once."""

    def __init__(self, module: ModuleOnCpu) -> None:
        self.module = module
        schedule = module.schedule
        self._name = schedule.name
        self._inputs = [schedule.buffers[n] for n in schedule.inputs]
        self._outputs = [schedule.buffers[n] for n in schedule.outputs]
        self._new = [(buffer.shape, to_numpy(buffer.dtype)) for buffer in self._outputs]
        self._weights = list(module.constants.values())
        new = NewArrays([(number, shape, dtype) for number, (shape, dtype) in enumerate(self._new)])
        whole = len(self._new) == 1
        short = ShortCall(
            module.rooms, module.room, new, None if whole else lambda made, _: tuple(made), len(self._new),
            allocates=True,
        )  # fmt: skip
        self._short: Quick = short.call
        self.quick: Quick = short.call
        """The short way, for arrays that are as the module was built for, or tensors of PyTorch, whichever the last
        call had: `MISSED` for others."""
        self._torch_calls: TorchCalls | None = None
        self._launches: dict[bool, ModuleLaunch] = {}
        """For calls with `out`, and without."""

    def call(self, args: Sequence[object], out: object) -> object:
        """Runs the module. Raises TileError before anything is written if the arguments do not fit."""
        arrays = [self._accepted(value, buffer) for value, buffer in zip(args, self._inputs)]
        targets: tuple[Array, ...] | None = None
        made = [empty(shape, dtype) for shape, dtype in self._new]
        if out is not None:
            new = [NewArray(shape, dtype) for shape, dtype in self._new]
            targets = check_outputs_of(CPU, self._name, new, out)
            read = (*arrays, *self._weights)
            made = [target if _can_write(target, read) else fresh for target, fresh in zip(targets, made)]
        self.module.run([*map(pointer, arrays), *map(pointer, made)])
        self._learn(args, arrays, out, targets is None or all(t is array for t, array in zip(targets, made)))
        if targets is None:
            return made[0] if len(made) == 1 else tuple(made)
        for target, array in zip(targets, made):
            if target is not array:
                np.copyto(target, array)
        given = as_tuple(out)
        return given[0] if len(given) == 1 else tuple(given)

    def _learn(self, args: Sequence[object], arrays: Sequence[Array], out: object, direct: bool) -> None:
        """The next call like this one goes the short way."""
        self.quick = self._short
        torch = torch_of(args[0]) if args else None
        if torch is None or not direct or not all(map(_is_at, args, map(pointer, arrays))):
            return
        from tiledsl.runtime.calls.torch_calls import TorchCalls  # it costs start-up time

        if self._torch_calls is None:
            self._torch_calls = TorchCalls(torch, host_stream, [False] * len(self._inputs))
        launch = self._launches.get(out is not None)
        if launch is None:
            module, makers = self.module, [maker(shape, dtype) for shape, dtype in self._new]
            launch = self._launches[out is not None] = ModuleLaunch(
                module.schedule, lambda addresses, numbers, stream: module.run(addresses),
                [lambda stream, make=make: make() for make in makers], pointer, HOST,
                [(pointer(weight), weight.nbytes) for weight in self._weights], 0, into=out is not None,
            )  # fmt: skip
        self._torch_calls.learn(tuple(args), out, launch)
        self.quick = self._torch_calls.call

    def _accepted(self, value: object, buffer: Buffer) -> Array:
        """An argument as a row-major array; a copy where it is not one. Raises TileError if it does not fit."""
        array = number_or_array(value, buffer)
        check_argument(array.dtype, array.shape, buffer, self._name)
        if not array.flags.c_contiguous or not array.flags.aligned:
            array = np.array(array, order="C")
        return array


def _is_at(value: Any, address: int) -> bool:
    """Whether it is a tensor of PyTorch at that address, not one that was copied there."""
    return torch_of(value) is not None and value.data_ptr() == address


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
