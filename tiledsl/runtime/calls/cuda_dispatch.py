"""Calls with arrays on a CUDA device, the careful way: what the arguments are, whether they fit, what to launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tiledsl.runtime.arrays.address_rules import Addresses, Go
from tiledsl.runtime.arrays.arrays import is_array
from tiledsl.runtime.arrays.cuda_arrays import ArrayReader, DeviceView, is_on_cuda, views_overlap
from tiledsl.runtime.arrays.frameworks import Framework, Torch
from tiledsl.runtime.calls.binding import bind_sizes
from tiledsl.runtime.calls.cuda_launch import CudaLaunch
from tiledsl.runtime.calls.device_calls import one_device, streams_of
from tiledsl.runtime.calls.launch import new_arrays
from tiledsl.runtime.calls.outputs import as_tuple, can_write, check_apart, check_outputs, shared_with_others
from tiledsl.runtime.calls.parameters import Parameters
from tiledsl.runtime.calls.specialise import ArgumentKey, tensor_key
from tiledsl.runtime.calls.torch_calls import TorchCalls
from tiledsl.runtime.programs.device_services import Services
from tiledsl.runtime.programs.interface import Interface, TensorParameter
from tiledsl.runtime.programs.program import DeviceProgram
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

MOST_LAUNCHES = 2048
"""Launches that are remembered; past it all are forgotten."""

ChooseForDevice = Callable[[tuple[ArgumentKey, ...], int], tuple[Interface, DeviceProgram]]
"""Finds or compiles the specialisation for the keys of a call, for a device."""
KeyOf = Callable[[str, object, bool], ArgumentKey]


class OnDevice:
    """Arrays on a CUDA device, as the rules for outputs see them."""

    def __init__(self, reader: ArrayReader) -> None:
        self._reader = reader

    def read(self, value: object, parameter: str) -> DeviceView:
        return self._reader.read(value, parameter)

    def overlap(self, a: DeviceView, b: DeviceView) -> bool:
        return views_overlap(a, b)

    def addressable(self, array: DeviceView) -> bool:
        return True  # the reader refuses all others

    def check_writeable(self, array: DeviceView, parameter: str, kernel: str) -> None:
        if array.immutable:
            fail("array-immutable", caller_location(), parameter=parameter, kernel=kernel)
        if not array.writeable:
            fail("out-read-only", caller_location(), parameter=parameter, kernel=kernel)


@dataclass(frozen=True)
class _Call:
    """A call that has been looked at: what to launch on what.

    `copied`: originals of written tensors that a copy stands for, and those copies; `targets`: arrays of `out` that the
    results are copied to, where the kernel cannot write to them itself.
    """

    launch: CudaLaunch
    go: Go
    addresses: Addresses
    stream: int
    given: tuple[Any, ...]
    out: object
    direct: bool
    targets: tuple[DeviceView, ...] | None
    copied: tuple[tuple[DeviceView, DeviceView], ...]
    other_streams: tuple[int, ...]

    @property
    def outputs(self) -> tuple[object, ...] | None:
        return as_tuple(self.out) if self.direct and self.out is not None else None


class CudaDispatcher:
    """Calls of one kernel on CUDA devices. Safe to use from several threads at once."""

    def __init__(self, parameters: Parameters, choose: ChooseForDevice, key_of: KeyOf, services: Services) -> None:
        """`key_of` gives what a call specialises on for an argument that is no array."""
        self._parameters = parameters
        self._choose = choose
        self._key_of = key_of
        self._services = services
        self._reader = ArrayReader(services)
        self._place = OnDevice(self._reader)
        self._constant = tuple(name in parameters.constants for name in parameters.names)
        self._launches: dict[tuple[object, ...], CudaLaunch] = {}
        self.torch_calls: TorchCalls | None = None
        """The short way, once a tensor of PyTorch was passed."""

    @property
    def launches(self) -> list[CudaLaunch]:
        return list(self._launches.values())

    def wants(self, given: Sequence[object], out: object) -> bool:
        """Whether a call is one for a device: it has an array there."""
        return any(is_on_cuda(value) for value in (*given, *as_tuple(out)))

    def call(self, given: tuple[Any, ...], out: object) -> object:
        """Runs the kernel. Raises TileError before anything is written if the arguments do not fit."""
        call = self._looked_at(given, out, None)
        launch, device = call.launch, call.launch.device
        for other in call.other_streams:
            self._services().run_after(device, call.stream, other)
        if call.targets is None and not call.copied:
            result = launch.run(call.go, call.addresses, given, call.outputs, call.stream)
            if not call.other_streams:
                self._learn(call)
        else:
            result = self._run_with_copies(call)
        for other in call.other_streams:
            self._services().run_after(device, other, call.stream)
        return result

    def prepare(
        self, given: tuple[Any, ...], out: object, stream: int | None
    ) -> tuple[Callable[[], None], object, object]:
        """As `call`, without running: what launches, what it gives, and what must be kept alive for it."""
        call = self._looked_at(given, out, stream)
        if call.targets is not None or call.copied:
            kernel = call.launch.interface.name
            fail("bind-overlap", caller_location(), kernel=kernel)
        return call.launch.prepare(call.addresses, given, call.outputs, call.stream)

    def _run_with_copies(self, call: _Call) -> object:
        launch = call.launch
        pointers, made = launch.filled(call.addresses, call.outputs, call.stream)
        call.go(pointers, launch.numbers(call.given), call.stream)
        for original, copy in call.copied:
            original.framework.assign(original, copy)
        delivered = list(made)
        if call.targets is not None:
            passed = as_tuple(call.out)
            for slot, (number, target) in enumerate(zip(launch.interface.outputs, call.targets)):
                if not target.framework.assign(target, launch.new_view(number, made[number])):
                    self._fail_overlap("out", "another array", launch.interface)
                delivered[number] = passed[slot]
        return launch.result(delivered, call.given)

    def _learn(self, call: _Call) -> None:
        """The next call like this one goes the short way."""
        framework = call.launch.framework
        if isinstance(framework, Torch):
            if self.torch_calls is None:
                self.torch_calls = TorchCalls(framework.torch, framework.raw_stream, self._constant)
            self.torch_calls.learn(call.given, call.out, call.launch)

    def _looked_at(self, given: tuple[Any, ...], out: object, stream: int | None) -> _Call:
        names = self._parameters.names
        views = {
            position: self._reader.read(value, names[position])
            for position, value in enumerate(given)
            if not self._constant[position] and is_on_cuda(value)
        }
        outputs = self._read_outputs(out)
        device = self._one_device(views, outputs, given, out)
        every = [*views.values(), *(outputs or ())]
        framework, main, others = streams_of(every, device, stream)
        signature = self._signature(given, views, outputs, framework)
        launch = self._launches.get(signature)
        if launch is not None and (outputs is None or len(outputs) == len(as_tuple(out))):
            addresses = self._addresses(launch, views, outputs)
            go = launch.accept(addresses)
            if go is not None:
                return _Call(launch, go, addresses, main, given, out, True, None, (), others)
        return self._planned(given, out, views, outputs, framework, main, others)

    def _planned(
        self,
        given: tuple[Any, ...],
        out: object,
        views: dict[int, DeviceView],
        outputs: tuple[DeviceView, ...] | None,
        framework: Framework,
        stream: int,
        others: tuple[int, ...],
    ) -> _Call:
        place, names = self._place, self._parameters.names
        device = next(iter([*views.values(), *(outputs or ())])).device
        interface, program = self._choose(self._keys(given, views), device)
        written = _written(self._positions(interface), interface)
        sharing = shared_with_others(place, interface.name, names, views, list(written))
        copied: list[tuple[DeviceView, DeviceView]] = []
        for position, other in sharing.items():
            original = views[position]
            copy = original.framework.copied(original)
            if copy is None:
                self._fail_overlap(names[position], names[other], interface)
            views[position] = self._reader.read(copy, names[position])
            copied.append((original, views[position]))
        if copied:  # a copy has other strides, and so perhaps another key
            interface, program = self._choose(self._keys(given, views), device)
        positions = self._positions(interface)
        tensors = [views[i] for i, p in zip(positions, interface.parameters) if isinstance(p, TensorParameter)]
        sizes = bind_sizes(interface, [view.shape for view in tensors])
        made = new_arrays(interface, sizes)
        targets = None if out is None else check_outputs(place, interface, [made[i] for i in interface.outputs], out)
        by_name = [(parameter.name, views[position]) for position, parameter in written.items()]
        check_apart(place, interface, by_name, targets or ())
        direct = targets is None or can_write(place, interface, targets, tensors)
        if not direct:
            assert targets is not None
            for target in targets:
                if target.framework.name == "others":
                    self._fail_overlap("out", "another array, or its rows are not contiguous,", interface)
        signature = self._signature(given, views, targets if direct else None, framework)
        launch = self._launches.get(signature)
        if launch is None:
            into = targets if direct else None
            launch = CudaLaunch(interface, positions, program, sizes, tensors, into, device, framework)
            if len(self._launches) >= MOST_LAUNCHES:
                self._launches = {}
            self._launches[signature] = launch
        addresses = self._addresses(launch, views, targets if direct else None)
        go = launch.accept(addresses, known_apart=True)
        assert go is not None, "the reader let a misaligned array through"
        indirect = None if direct else targets
        return _Call(launch, go, addresses, stream, given, out, direct, indirect, tuple(copied), others)

    def _read_outputs(self, out: object) -> tuple[DeviceView, ...] | None:
        """The arrays of `out`, as far as they are on a device."""
        if out is None:
            return None
        given = as_tuple(out)
        names = ["out"] if len(given) == 1 else [f"out[{number}]" for number in range(len(given))]
        return tuple(self._reader.read(value, name) for value, name in zip(given, names) if is_on_cuda(value))

    def _one_device(
        self,
        views: Mapping[int, DeviceView],
        outputs: tuple[DeviceView, ...] | None,
        given: Sequence[object],
        out: object,
    ) -> int:
        """The device that all arrays are on. Raises TileTypeError if they are not together."""
        names = self._parameters.names
        placed = [(names[position], view) for position, view in views.items()]
        placed += [("out", view) for view in outputs or ()]
        name, first = placed[0]
        arrays = [(n, v) for n, v, c in zip(names, given, self._constant) if not c and is_array(v)]
        arrays += [("out", value) for value in (() if out is None else as_tuple(out)) if is_array(value)]
        for other, value in arrays:
            if not is_on_cuda(value):
                fail("array-mixed", caller_location(), first=name, device=first.device, second=other)
        return one_device(placed)

    def _positions(self, interface: Interface) -> list[int]:
        return [self._parameters.names.index(parameter.name) for parameter in interface.parameters]

    def _keys(self, given: Sequence[object], views: Mapping[int, DeviceView]) -> tuple[ArgumentKey, ...]:
        return tuple(
            tensor_key(views[i]) if i in views else self._key_of(name, value, constant)
            for i, (name, value, constant) in enumerate(zip(self._parameters.names, given, self._constant))
        )

    def _signature(
        self,
        given: Sequence[object],
        views: Mapping[int, DeviceView],
        outputs: Sequence[DeviceView] | None,
        framework: Framework,
    ) -> tuple[object, ...]:
        """What a launch is remembered by."""
        arguments = [
            _layout(views[i]) if i in views else self._key_of(name, value, constant)
            for i, (name, value, constant) in enumerate(zip(self._parameters.names, given, self._constant))
        ]
        return (framework.name, *arguments, outputs is None, *map(_layout, outputs or ()))

    def _addresses(
        self, launch: CudaLaunch, views: Mapping[int, DeviceView], outputs: Sequence[DeviceView] | None
    ) -> Addresses:
        return (*(views[i].address for i in launch.tensors), *(view.address for view in outputs or ()))

    def _fail_overlap(self, first: str, second: str, interface: Interface) -> NoReturn:
        fail("array-overlap", caller_location(), first=first, second=second, kernel=interface.name)


def _layout(view: DeviceView) -> tuple[object, ...]:
    return view.dtype, view.shape, view.strides, view.device, view.writeable


def _written(positions: Sequence[int], interface: Interface) -> dict[int, TensorParameter]:
    """The parameters that the kernel writes to, by position."""
    return {
        position: parameter
        for position, parameter in zip(positions, interface.parameters)
        if isinstance(parameter, TensorParameter) and parameter.written
    }
