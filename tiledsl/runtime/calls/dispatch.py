"""From a call to a launch: the short way for arguments like those of an earlier call, the careful way for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from tiledsl.ir.dtypes import DType
from tiledsl.runtime.arrays.arrays import (
    Array,
    as_array,
    fail_not_array,
    is_addressable,
    is_array,
    is_foreign_array,
    is_numpy,
    numpy_array,
    overlap,
)
from tiledsl.runtime.arrays.frameworks import torch_of
from tiledsl.runtime.calls import specialise
from tiledsl.runtime.calls.binding import bind_sizes
from tiledsl.runtime.calls.launch import Launch, Outputs, new_arrays
from tiledsl.runtime.calls.missed import MISSED
from tiledsl.runtime.calls.outputs import as_tuple, can_write, check_apart, check_outputs, shared_with_others
from tiledsl.runtime.calls.parameters import Parameters
from tiledsl.runtime.calls.short_calls import Quick
from tiledsl.runtime.calls.specialise import ArgumentKey
from tiledsl.runtime.programs.interface import Interface, TensorParameter
from tiledsl.runtime.programs.program import AnyLoadedProgram, DeviceProgram, LoadedProgram
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

if TYPE_CHECKING:
    from tiledsl.runtime.calls.cuda_dispatch import CudaDispatcher
    from tiledsl.runtime.calls.cuda_launch import CudaLaunch
    from tiledsl.runtime.calls.torch_calls import TorchCalls
    from tiledsl.runtime.programs.device_services import Services

MOST_LAUNCHES = 2048
"""Launches that are remembered; past it all are forgotten (a program with ever new shapes must not grow)."""

_NUMBERS = (int, float, bool)


@dataclass(frozen=True)
class Variant:
    """One specialisation of a kernel, loaded."""

    interface: Interface
    program: AnyLoadedProgram


Choose: TypeAlias = "Callable[[tuple[ArgumentKey, ...], int | None], Variant]"
"""Finds or compiles the specialisation for the keys of a call, for the CPU (None) or for a CUDA device."""


@dataclass(frozen=True)
class _Call:
    """A call that has been looked at. `copies` has the originals of arguments that a copy stands for, by position;
    `targets` the arrays of `out`, which are `direct` too where the kernel can write to them itself."""

    launch: Launch
    addresses: list[int]
    arguments: list[object]
    copies: dict[int, Array]
    targets: Outputs | None
    direct: Outputs | None


class _Cpu:
    """Arrays in CPU memory, as NumPy's."""

    def read(self, value: object, parameter: str) -> Array:
        return as_array(value, parameter)

    def overlap(self, a: Array, b: Array) -> bool:
        return overlap(a, b)

    def addressable(self, array: Array) -> bool:
        return is_addressable(array)

    def check_writeable(self, array: Array, parameter: str, kernel: str) -> None:
        if not array.flags.writeable:
            fail("out-read-only", caller_location(), parameter=parameter, kernel=kernel)


CPU = _Cpu()


class Dispatcher:
    """Calls one kernel. Safe to use from several threads at once."""

    def __init__(
        self, parameters: Parameters, choose: Choose, threads: Callable[[], int], services: Services | None = None
    ) -> None:
        """`threads` is asked, for each new launch, how many threads to run it on; `services` for CUDA devices."""
        self.parameters = parameters
        self._choose = choose
        self._threads = threads
        self._constant = tuple(name in parameters.constants for name in parameters.names)
        self._launches: dict[tuple[object, ...], Launch] = {}
        self._services = services
        self._cuda: CudaDispatcher | None = None
        """Made when the first array of another library than NumPy is passed."""
        self._torch_calls: TorchCalls | None = None
        """The short way for tensors of PyTorch in CPU memory, once such were passed."""
        self.quick: Quick | None = None
        """The short way for calls with arguments in order and no `out`, like the last one of these."""
        self.quick_into: Quick | None = None
        """The same, with `out`."""

    @property
    def launches(self) -> list[Launch | CudaLaunch]:
        """What was prepared for the calls so far."""
        return [*self._launches.values(), *(self._cuda.launches if self._cuda is not None else ())]

    def _for_devices(self, args: tuple[object, ...], out: object) -> CudaDispatcher | None:
        """What makes a call that has an array on a device; None for all others."""
        if self._cuda is None:
            if self._services is None or not any(map(is_foreign_array, (*args, *as_tuple(out)))):
                return None
            from tiledsl.runtime.calls.cuda_dispatch import CudaDispatcher  # costs start-up time

            made = CudaDispatcher(self.parameters, self._choose_for_device, argument_key, self._services)
            self._cuda = self._cuda or made
        return self._cuda if self._cuda.wants(args, out) else None

    def _choose_for_device(self, keys: tuple[ArgumentKey, ...], device: int) -> tuple[Interface, DeviceProgram]:
        variant = self._choose(keys, device)
        return variant.interface, cast(DeviceProgram, variant.program)

    def call(self, args: tuple[object, ...], kwargs: Mapping[str, object], out: object) -> object:
        """Runs the kernel. Raises TileError before anything is written if the arguments do not fit."""
        if kwargs or len(args) != len(self._constant):
            args = self.parameters.arrange(args, kwargs)
            quick = self.quick if out is None else self.quick_into
            if quick is not None:
                result = quick(args, out)
                if result is not MISSED:
                    return result
        outputs: Any = (out,) if out.__class__ is np.ndarray else out if out.__class__ is tuple else None
        if out is None or outputs is not None:
            signature = self._signature(args, outputs)
            launch = self._launches.get(signature) if signature is not None else None
            if launch is not None:
                addresses = launch.addresses(args, outputs)
                if addresses is not None:
                    self._next(launch.quick, out)
                    return launch.run(addresses, args, outputs, args)
        cuda = self._for_devices(args, out)
        if cuda is not None:
            result = cuda.call(args, out)
            self._next(None if cuda.torch_calls is None else cuda.torch_calls.call, out)
            return result
        return self._call_carefully(args, out)

    def _next(self, quick: Quick | None, out: object) -> None:
        """The next calls with `out`, or without, try that way first."""
        if quick is not None:
            if out is None:
                self.quick = quick
            else:
                self.quick_into = quick

    def prepare(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], out: object, stream: int | None
    ) -> tuple[Callable[[], object], object, object]:
        """A call that is ready to go: what runs it, what it gives, and what must be kept alive for it.

        Raises TileError if the arguments do not fit, also where they overlap so that they would have to be copied.
        """
        if kwargs or len(args) != len(self._constant):
            args = self.parameters.arrange(args, kwargs)
        cuda = self._for_devices(args, out)
        if cuda is not None:
            return cuda.prepare(args, out, stream)
        call = self._looked_at(args, out)
        if call.copies or (call.targets is not None and call.direct is None):
            fail("bind-overlap", caller_location(), kernel=call.launch.interface.name)
        return call.launch.prepare(call.addresses, call.arguments, call.direct, args)

    def _signature(self, args: Sequence[Any], outputs: Outputs | None) -> tuple[object, ...] | None:
        """What a launch is remembered by; None for arguments that must be looked at first."""
        signature: list[object] = []
        for value, constant in zip(args, self._constant):
            kind: Any = value.__class__
            if kind is np.ndarray:
                signature += (value.dtype, value.shape, value.strides)
            elif constant or kind is str or kind is DType or value is None:
                # repr tells -0.0 from 0.0, and (1,) from (True,)
                signature += (kind, value if kind is int else repr(value))
            elif kind in _NUMBERS or specialise.is_numpy_number(value):
                signature.append(kind)
            else:
                return None
        if outputs is not None:
            for output in outputs:
                if output.__class__ is not np.ndarray:
                    return None
                signature += ("out", output.dtype, output.shape, output.strides)
        return tuple(signature)

    # The careful way

    def _call_carefully(self, given: tuple[object, ...], out: object) -> object:
        call = self._looked_at(given, out)
        result = call.launch.run(call.addresses, call.arguments, call.direct, given)
        interface = call.launch.interface
        written = self._written(interface)
        for position, original in call.copies.items():
            if position in written:
                np.copyto(original, numpy_array(call.arguments[position]))
        if not call.copies and (call.targets is None or call.direct is not None):
            self._learn(call, given, out)
        if call.targets is None:
            return result
        return _delivered(interface, result, call.targets, as_tuple(out))

    def _learn(self, call: _Call, given: tuple[object, ...], out: object) -> None:
        """The next call like this one goes the short way, if it is one with tensors of PyTorch."""
        torch = next((torch for torch in map(torch_of, given) if torch is not None), None)
        if torch is None:
            return
        from tiledsl.runtime.calls.host_launch import HostLaunch, host_stream  # it costs start-up time
        from tiledsl.runtime.calls.torch_calls import TorchCalls

        if self._torch_calls is None:
            self._torch_calls = TorchCalls(torch, host_stream, self._constant)
        self._torch_calls.learn(given, out, HostLaunch(call.launch, call.arguments, call.direct))
        self._next(self._torch_calls.call, out)

    def _looked_at(self, given: tuple[object, ...], out: object) -> _Call:
        arguments, copies = self._accept(given)
        keys = self._keys(arguments)
        interface = self._choose(keys, None).interface
        copies |= self._separate(interface, arguments)
        # a copy has other strides, and so perhaps another key
        variant = self._choose(self._keys(arguments) if copies else keys, None)
        interface = variant.interface
        positions = self.positions(interface)
        tensors = [
            numpy_array(arguments[i]) for i, p in zip(positions, interface.parameters) if isinstance(p, TensorParameter)
        ]
        sizes = bind_sizes(interface, [array.shape for array in tensors])
        made = new_arrays(interface, sizes)
        targets = None if out is None else check_outputs(CPU, interface, [made[i] for i in interface.outputs], out)
        written = [(p.name, numpy_array(arguments[i])) for i, p in self._written(interface).items()]
        check_apart(CPU, interface, written, targets or ())
        direct = targets if targets is not None and can_write(CPU, interface, targets, tensors) else None
        signature = self._signature(arguments, direct)
        assert signature is not None
        launch = self._launches.get(signature)
        if launch is None:
            program = cast(LoadedProgram, variant.program)
            launch = Launch(interface, positions, program, sizes, arguments, direct, self._threads())
            if len(self._launches) >= MOST_LAUNCHES:
                self._launches = {}
            self._launches[signature] = launch
        addresses = launch.addresses(arguments, direct)
        assert addresses is not None, "an argument is still misaligned, or overlaps one that is written"
        return _Call(launch, addresses, arguments, copies, targets, direct)

    def positions(self, interface: Interface) -> list[int]:
        """Where the interface's parameters stand among the arguments."""
        names = self.parameters.names
        return [names.index(parameter.name) for parameter in interface.parameters]

    def _written(self, interface: Interface) -> dict[int, TensorParameter]:
        """The parameters that the kernel writes to, by position."""
        return {
            position: parameter
            for position, parameter in zip(self.positions(interface), interface.parameters)
            if isinstance(parameter, TensorParameter) and parameter.written
        }

    def _accept(self, given: Sequence[object]) -> tuple[list[object], dict[int, Array]]:
        """The arguments with every array as a NumPy array that code can address, and the originals of those copied."""
        arguments: list[object] = []
        originals: dict[int, Array] = {}
        for position, (name, value, constant) in enumerate(zip(self.parameters.names, given, self._constant)):
            if constant or not is_array(value):
                arguments.append(value)
                continue
            array = as_array(value, name)
            if not is_addressable(array):
                originals[position] = array
                array = np.array(array, order="C")
            arguments.append(array)
        return arguments, originals

    def _keys(self, arguments: Sequence[object]) -> tuple[ArgumentKey, ...]:
        return tuple(
            argument_key(name, value, constant)
            for name, value, constant in zip(self.parameters.names, arguments, self._constant)
        )

    def _separate(self, interface: Interface, arguments: list[object]) -> dict[int, Array]:
        """Copies every written tensor that shares memory with another one. Gives the originals by position.

        Raises TileTypeError for tensors that cannot be written, and for two written ones that share memory.
        """
        arrays = {i: value for i, value in enumerate(arguments) if is_numpy(value)}
        written = list(self._written(interface))
        sharing = shared_with_others(CPU, interface.name, self.parameters.names, arrays, written)
        for position in sharing:
            arguments[position] = np.array(arrays[position], order="C")
        return {position: arrays[position] for position in sharing}


def argument_key(name: str, value: object, constant: bool) -> ArgumentKey:
    """What a call specialises on for one argument. Raises TileTypeError for a value that can be no argument."""
    if constant or value is None or isinstance(value, (str, DType)):
        return specialise.constant_key(value, name)
    if is_numpy(value):
        return specialise.tensor_key(value)
    key = specialise.scalar_key(value)
    if key is not None:
        return key
    fail_not_array(value, name)


def _delivered(interface: Interface, result: object, targets: Outputs, given: Sequence[object]) -> object:
    """The results in the arrays of `out`: what could not be written while the kernel ran is copied there now.

    `given` are these arrays as the user passed them, which is what the call returns.
    """
    results = result if specialise.is_tuple(result) else (result,)
    place = dict(zip(interface.outputs, zip(targets, given)))
    final: list[object] = []
    for value, returned in zip(results, interface.results):
        if returned.kind == "new":
            target, passed = place[returned.index]
            if value is not target:
                np.copyto(target, numpy_array(value))
            final.append(passed)
        else:
            final.append(value)
    return final[0] if len(final) == 1 else tuple(final)
