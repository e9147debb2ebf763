"""Calls of a module on a CUDA device: arguments checked, outputs made, the schedule run on the caller's stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiledsl.ir.dtypes import to_numpy
from tiledsl.runtime.arrays.arrays import is_array, row_major
from tiledsl.runtime.arrays.cuda_arrays import ArrayReader, DeviceView, is_on_cuda
from tiledsl.runtime.arrays.frameworks import Framework, Torch
from tiledsl.runtime.calls.cuda_dispatch import OnDevice
from tiledsl.runtime.calls.device_calls import one_device, streams_of
from tiledsl.runtime.calls.launch import NewArray
from tiledsl.runtime.calls.outputs import as_tuple, check_outputs_of
from tiledsl.runtime.calls.short_calls import Quick
from tiledsl.runtime.calls.torch_calls import TorchCalls
from tiledsl.runtime.modules.module_calls import check_argument, number_or_array
from tiledsl.runtime.modules.module_launch import ModuleLaunch
from tiledsl.runtime.modules.module_on_cuda import Allocate, ModuleOnCuda
from tiledsl.runtime.programs.device_services import DeviceServices
from tiledsl.runtime.programs.program import WIDEST
from tiledsl.runtime.programs.schedule import Buffer
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail


class CudaCalls:
    """Calls on one device. Safe to use from several threads at once."""

    def __init__(self, module: ModuleOnCuda, reader: ArrayReader, services: DeviceServices) -> None:
        self.module = module
        self._reader = reader
        self._services = services
        schedule = module.schedule
        self._name = schedule.name
        self._inputs = [schedule.buffers[n] for n in schedule.inputs]
        self._outputs = [schedule.buffers[n] for n in schedule.outputs]
        self._torch_calls: TorchCalls | None = None
        self._launches: dict[bool, ModuleLaunch] = {}
        """For calls with `out`, and without."""

    @property
    def quick(self) -> Quick | None:
        """What makes calls with tensors like those of an earlier one, and gives `MISSED` for others."""
        return None if self._torch_calls is None else self._torch_calls.call

    def call(self, args: Sequence[object], out: object) -> object:
        """Runs the module. Raises TileError before anything is written if the arguments do not fit."""
        views = {n: self._view(value, self._inputs[n]) for n, value in enumerate(args) if is_on_cuda(value)}
        given = () if out is None else as_tuple(out)
        targets = [self._reader.read(value, "out") for value in given if is_on_cuda(value)]
        every = [*views.values(), *targets]
        device = self._one_device(args, views, targets, given)
        framework, stream, others = streams_of(every, device, None)
        for other in others:
            self._services.run_after(device, stream, other)
        kept: list[object] = []
        inputs = [
            self._fitting(views[n], buffer, kept)
            if n in views
            else self._number(args[n], buffer, framework, stream, kept)
            for n, buffer in enumerate(self._inputs)
        ]
        result = self._run(inputs, framework, stream, out)
        for other in others:
            self._services.run_after(device, other, stream)
        if isinstance(framework, Torch) and not others and len(views) == len(args) and all(map(self._is_plain, every)):
            self._learn(args, out, framework)
        return result

    def _learn(self, args: Sequence[object], out: object, torch: Torch) -> None:
        """The next call like this one goes the short way."""
        if self._torch_calls is None:
            self._torch_calls = TorchCalls(torch.torch, torch.raw_stream, [False] * len(self._inputs))
        launch = self._launches.get(out is not None)
        if launch is None:
            schedule, device = self.module.schedule, self.module.device
            launch = self._launches[out is not None] = ModuleLaunch(
                schedule, self.module.launcher(_allocator(torch, device)),
                [torch.maker(b.shape, to_numpy(b.dtype), device) for b in self._outputs], torch.address, device,
                self.module.kept, WIDEST, into=out is not None,
            )  # fmt: skip
        self._torch_calls.learn(tuple(args), out, launch)

    def _run(self, inputs: Sequence[int], framework: Framework, stream: int, out: object) -> object:
        device = self.module.device
        targets: tuple[DeviceView, ...] | None = None
        if out is not None:
            new = [NewArray(buffer.shape, to_numpy(buffer.dtype)) for buffer in self._outputs]
            targets = check_outputs_of(OnDevice(self._reader), self._name, new, out)
        spans = [(start, start + buffer.bytes) for start, buffer in zip(inputs, self._inputs)]
        spans += [(start, start + size) for start, size in self.module.kept]
        made: list[Any] = []
        addresses = list(inputs)
        for number, buffer in enumerate(self._outputs):
            target = None if targets is None else targets[number]
            if target is not None and self._is_plain(target) and _apart(target, spans):
                made.append(None)
                addresses.append(target.address)
            else:
                made.append(framework.maker(buffer.shape, to_numpy(buffer.dtype), device)(stream))
                addresses.append(framework.address(made[-1]))
        self.module.run(addresses, stream, _allocator(framework, device))
        if targets is None:
            return made[0] if len(made) == 1 else tuple(made)
        for target, array in zip(targets, made):
            if array is not None and not target.framework.assign(target, self._reader.read(array, "out")):
                fail("array-overlap", caller_location(), first="out", second="an argument", kernel=self._name)
        given = as_tuple(out)
        return given[0] if len(given) == 1 else tuple(given)

    def _view(self, value: object, buffer: Buffer) -> DeviceView:
        view = self._reader.read(value, buffer.name)
        check_argument(view.dtype, view.shape, buffer, self._name)
        return view

    def _is_plain(self, view: DeviceView) -> bool:
        contiguous = view.strides == row_major(view.shape, view.itemsize) or view.size <= 1
        return contiguous and view.address % WIDEST == 0

    def _fitting(self, view: DeviceView, buffer: Buffer, kept: list[object]) -> int:
        """Where the argument lies, or a copy of it that is row-major and aligned."""
        if self._is_plain(view):
            return view.address
        copy = view.framework.copied(view)
        if copy is None:
            fail("module-strided", caller_location(), parameter=buffer.name, module=self._name, strides=view.strides)
        kept.append(copy)
        return self._reader.read(copy, buffer.name).address

    def _number(self, value: object, buffer: Buffer, framework: Framework, stream: int, kept: list[object]) -> int:
        """A number, or a tensor of rank 0 in CPU memory, on the device."""
        dtype = to_numpy(buffer.dtype)
        array = number_or_array(value, buffer)
        check_argument(array.dtype, array.shape, buffer, self._name)
        made = framework.maker((), dtype, self.module.device)(stream)
        kept.append(made)
        address = framework.address(made)
        host = np.array(array)
        self._services.copy_to_device(address, host.ctypes.data, host.nbytes, self.module.device, stream)
        return address

    def _one_device(
        self,
        args: Sequence[object],
        views: dict[int, DeviceView],
        targets: Sequence[DeviceView],
        given: Sequence[object],
    ) -> int:
        """The device that all arrays are on. Raises TileTypeError if they are not together."""
        placed = [(self._inputs[n].name, view) for n, view in views.items()] + [("out", view) for view in targets]
        name, first = placed[0]
        arrays = [(b.name, v) for b, v in zip(self._inputs, args)] + [("out", v) for v in given]
        for other, value in arrays:
            if is_array(value) and not is_on_cuda(value) and np.ndim(value) > 0:  # pyright: ignore[reportArgumentType]
                fail("array-mixed", caller_location(), first=name, device=first.device, second=other)
        return one_device(placed)


def _allocator(framework: Framework, device: int) -> Allocate:
    """Memory of the caller's library, for the time of a call."""

    def allocate(size: int, stream: int) -> tuple[int, object]:
        array = framework.maker((size,), np.dtype(np.uint8), device)(stream)
        return framework.address(array), array

    return allocate


def _apart(target: DeviceView, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether an array that is row-major shares no byte with these."""
    start, stop = target.address, target.address + target.size * target.itemsize
    return all(stop <= low or high <= start for low, high in spans)
