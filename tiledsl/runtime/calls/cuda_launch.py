"""One kernel bound to the dtypes, shapes and strides of a call on a CUDA device.

Where arrays lie may differ from call to call, and with it what code may be used (16 bytes at a time need addresses that
are multiples of 16) and whether arrays overlap. Both are looked at once for each set of addresses, and remembered:
allocators give the same ones again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledsl.ir.lying import lying
from tiledsl.runtime.arrays.address_rules import Addresses, AddressRules, Go, placed, remember
from tiledsl.runtime.arrays.arrays import element_strides, row_major
from tiledsl.runtime.arrays.cuda_arrays import DeviceView
from tiledsl.runtime.arrays.frameworks import Framework
from tiledsl.runtime.calls.binding import Sizes
from tiledsl.runtime.calls.launch import new_arrays, number_of, only_result, scalars_of
from tiledsl.runtime.programs.alignment import lowest_bit, stride_bits
from tiledsl.runtime.programs.interface import Interface, TensorParameter
from tiledsl.runtime.programs.program import BoundDeviceProgram, DeviceProgram


class CudaLaunch:
    """Addresses are those of the tensor parameters in order, then those of the arrays of `out`."""

    def __init__(
        self,
        interface: Interface,
        positions: Sequence[int],
        program: DeviceProgram,
        sizes: Sizes,
        views: Sequence[DeviceView],
        outputs: Sequence[DeviceView] | None,
        device: int,
        framework: Framework,
    ) -> None:
        """`positions` are those of the interface's parameters among the arguments, `views` of its tensor parameters."""
        self.interface = interface
        self.program = program
        self.device = device
        self.framework = framework
        self._sizes = sizes
        pairs = list(zip(positions, interface.parameters))
        self.tensors = tuple(i for i, p in pairs if isinstance(p, TensorParameter))
        self.scalars = scalars_of(positions, interface)
        self._new = new_arrays(interface, sizes)
        self._slots = {number: slot for slot, number in enumerate(interface.outputs)} if outputs is not None else {}
        self._count = len(views)
        self._address = framework.address
        self._making = [
            (self._slots.get(number, -1), framework.maker(new.shape, new.dtype, device))
            for number, new in enumerate(self._new)
        ]
        """For each new tensor, which of the arrays of `out` it is (-1: none of them), and what makes one."""
        self._complete = list(self._slots) == list(range(len(self._new)))
        """Whether the addresses are those that the program takes, and nothing has to be allocated."""
        self._only_result = only_result(interface)
        self.plain = self._complete and not self.scalars and self._only_result == 0
        """Whether a call launches with nothing but the addresses, and gives its one output."""
        given = (*views, *(outputs or ()))
        places = [outputs[self._slots[n]] if outputs and n in self._slots else None for n in range(len(self._new))]
        self._strides = [element_strides(view) for view in views]
        self._strides += [
            new.strides if place is None else element_strides(place) for new, place in zip(self._new, places)
        ]
        shapes = [view.shape for view in views] + [new.shape for new in self._new]
        items = [view.itemsize for view in views] + [new.dtype.itemsize for new in self._new]
        units = [tensor.unit for tensor in (*interface.tensors, *interface.new_tensors)]
        self._stride_bits = [stride_bits(*one) for one in zip(shapes, self._strides, items, units)]
        self._laid = list(zip(shapes, self._strides, items))
        written = [n for n, p in enumerate(interface.tensors) if p.written]
        written += range(len(views), len(given))
        self._rules = AddressRules([placed(view) for view in given], written, [view.itemsize for view in given])
        self._variants: dict[tuple[tuple[int, ...], tuple[int, ...]], BoundDeviceProgram] = {}
        self.accepted: dict[Addresses, Go] = {}
        """What runs on arrays at these addresses."""

    @property
    def strides(self) -> list[tuple[int, ...]]:
        """Of the tensor parameters, then of the new tensors, in elements."""
        return list(self._strides)

    @property
    def variants(self) -> list[BoundDeviceProgram]:
        """What the calls so far ran on: one for each way that arrays were aligned."""
        return list(self._variants.values())

    def accept(self, addresses: Addresses, known_apart: bool = False) -> Go | None:
        """What runs on arrays at these addresses; None where they must be looked at more closely.

        That is so for a misaligned one, and where one that is written may share memory with another (which
        `known_apart` rules out).
        """
        found = self.accepted.get(addresses)
        if found is not None:
            return found
        if not self._rules.aligned(addresses) or not (known_apart or self._rules.apart(addresses)):
            return None
        return remember(self.accepted, addresses, self.variant(addresses).launcher)

    def variant(self, addresses: Addresses) -> BoundDeviceProgram:
        """The code for arrays that are aligned as these addresses are."""
        starts = list(addresses[: self._count])
        # what is allocated for the call is aligned as well as can be
        starts += [addresses[self._count + self._slots[n]] if n in self._slots else 0 for n in range(len(self._new))]
        alignment = tuple(lowest_bit(start | bits) for start, bits in zip(starts, self._stride_bits))
        laid = tuple(lying(shape, at, start, item) for start, (shape, at, item) in zip(starts, self._laid))
        variant = self._variants.get((alignment, laid))
        if variant is None:
            variant = self.program.bind_cuda(self._sizes, self._strides, alignment, self.device, laid)
            self._variants[alignment, laid] = variant
        return variant

    def run(
        self,
        go: Go,
        addresses: Addresses,
        arguments: Sequence[Any],
        outputs: Sequence[Any] | None,
        stream: int,
    ) -> object:
        """Allocates, launches, and gives what the kernel returns.

        `arguments` and `outputs` are the caller's own; a kernel that returns one of them returns that object.
        """
        pointers, made = self.filled(addresses, outputs, stream)
        go(pointers, self.numbers(arguments) if self.scalars else (), stream)
        return self.result(made, arguments)

    def numbers(self, arguments: Sequence[Any]) -> list[int | float]:
        """The run-time numbers of a call. Raises TileTypeError for one that does not fit its dtype."""
        return [number_of(scalar, arguments[scalar.position]) for scalar in self.scalars]

    def prepare(
        self,
        addresses: Addresses,
        arguments: Sequence[Any],
        outputs: Sequence[Any] | None,
        stream: int,
    ) -> tuple[Callable[[], None], object, object]:
        """As `run`, without running: what launches, what a launch gives, and what must be kept alive for it."""
        pointers, made = self.filled(addresses, outputs, stream)
        launch = self.variant(addresses).prepare(pointers, self.numbers(arguments), stream)
        return launch, self.result(made, arguments), (arguments, made)

    def filled(
        self, addresses: Addresses, outputs: Sequence[Any] | None, stream: int
    ) -> tuple[Sequence[int], Sequence[object]]:
        """The addresses and arrays of all tensors and new tensors of the program."""
        if self._complete:
            return addresses, outputs or ()
        pointers = list(addresses[: self._count])
        made: list[object] = []
        for slot, make in self._making:
            if outputs is None or slot < 0:
                array = make(stream)
                pointers.append(self._address(array))
            else:
                array = outputs[slot]
                pointers.append(addresses[self._count + slot])
            made.append(array)
        return pointers, made

    def result(self, made: Sequence[object], arguments: Sequence[object]) -> object:
        """What the kernel returns, given the arrays of its new tensors."""
        if self._only_result >= 0:
            return made[self._only_result]
        results = [
            made[r.index] if r.kind == "new" else arguments[self.tensors[r.index]] for r in self.interface.results
        ]
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    def new_view(self, number: int, array: object) -> DeviceView:
        """An array that was allocated for new tensor `number`, as a view."""
        new, framework = self._new[number], self.framework
        strides = row_major(new.shape, new.dtype.itemsize)
        return DeviceView(array, framework, new.dtype, new.shape, strides, framework.address(array), self.device)
