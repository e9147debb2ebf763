"""A launch on the CPU as the short way of PyTorch's tensors makes it: `TorchCalls` takes it like one on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl.runtime.arrays.address_rules import Addresses, AddressRules, Go, placed, remember
from tiledsl.runtime.arrays.arrays import Array, numpy_array, pointer
from tiledsl.runtime.calls.launch import Launch, Outputs
from tiledsl.runtime.calls.short_calls import NewArrays

HOST = -1
"""What PyTorch calls the CPU where it numbers devices."""


def host_stream(device: int) -> int:
    """There are no streams on the CPU."""
    return 0


class HostLaunch:
    """Calls with tensors that lie like the arrays of a `Launch`. Threads may share it."""

    device = HOST

    def __init__(self, launch: Launch, arguments: Sequence[object], outputs: Outputs | None) -> None:
        """`arguments` and `outputs` are those that the launch was made for."""
        self.tensors = launch.tensors
        self._launch = launch
        self._new = NewArrays(launch.made)
        self._count = len(launch.tensors)
        self.plain = outputs is not None and self._new.is_out and launch.only_result == 0 and not launch.scalars
        self.accepted: dict[Addresses, Go] = {}
        arrays: list[Array] = [numpy_array(arguments[place]) for place in launch.tensors]
        written = [launch.tensors.index(place) for place in launch.written]
        written += range(len(arrays), len(arrays) + len(outputs or ()))
        arrays += outputs or ()
        self._rules = AddressRules([placed(array) for array in arrays], written, [array.itemsize for array in arrays])

    def accept(self, addresses: Addresses) -> Go | None:
        """What runs on tensors at these addresses; None where they must be looked at more closely."""
        if not self._rules.aligned(addresses) or not self._rules.apart(addresses):
            return None
        return remember(self.accepted, addresses, self._go)

    def _go(self, pointers: Sequence[int], numbers: Sequence[int | float], stream: int) -> None:
        self._launch.bound(pointers, numbers)

    def run(
        self, go: Go, addresses: Addresses, arguments: Sequence[Any], outputs: Sequence[Any] | None, stream: int
    ) -> object:
        """Makes what is not there yet, runs, and gives what the kernel returns."""
        launch, new, count = self._launch, self._new, self._count
        pointers = list(addresses[:count])
        made: list[Any] = []
        for (slot, _, _), make in zip(launch.made, new.makers):
            if outputs is None or slot < 0:
                made.append(make())
                pointers.append(pointer(made[-1]))
            else:
                made.append(outputs[slot])
                pointers.append(addresses[count + slot])
        go(pointers, launch.numbers(arguments) if launch.scalars else (), stream)
        return launch.returned(made, arguments)
