"""A module on one device, as the short way of PyTorch's tensors launches it: `TorchCalls` takes it like a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledsl.runtime.arrays.address_rules import Addresses, AddressRules, Go, remember
from tiledsl.runtime.arrays.arrays import row_major
from tiledsl.runtime.programs.schedule import Schedule


class ModuleLaunch:
    """Calls with row-major tensors. Addresses are those of the inputs, then those of the arrays of `out`, if there is
    one. Threads may share it."""

    def __init__(
        self,
        schedule: Schedule,
        go: Go,
        makers: Sequence[Callable[[int], Any]],
        address: Callable[[Any], int],
        device: int,
        kept: Sequence[tuple[int, int]],
        alignment: int,
        *,
        into: bool,
    ) -> None:
        """`go` runs on inputs and outputs at addresses; `makers` make the outputs, for a stream, whose `address` is
        asked for. `kept`: memory that is not to be written to, with its bytes. `alignment`: what addresses have to be
        multiples of; 0: of an element's bytes."""
        self.device = device
        self.tensors = tuple(range(len(schedule.inputs)))
        self.plain = into and len(makers) == 1
        self.accepted: dict[Addresses, Go] = {}
        self._go = go
        self._makers = tuple(makers)
        self._one = makers[0] if len(makers) == 1 else None
        self._address = address
        self._kept = tuple(start for start, _ in kept)
        outer = (*schedule.inputs, *(schedule.outputs if into else ()))
        buffers = [schedule.buffers[number] for number in outer]
        arrays = [(b.shape, row_major(b.shape, b.dtype.bytes), b.dtype.bytes) for b in buffers]
        arrays += [((size,), (1,), 1) for _, size in kept]
        written = range(len(schedule.inputs), len(buffers))
        self._rules = AddressRules(arrays, written, [alignment or b.dtype.bytes for b in buffers])

    def accept(self, addresses: Addresses) -> Go | None:
        """What runs on tensors at these addresses; None where they must be looked at more closely."""
        if not self._rules.aligned(addresses) or not self._rules.apart((*addresses, *self._kept)):
            return None
        return remember(self.accepted, addresses, self._go)

    def run(
        self, go: Go, addresses: Addresses, arguments: Sequence[Any], outputs: Sequence[Any] | None, stream: int
    ) -> object:
        """Makes the outputs, unless these are given, runs, and gives them."""
        if outputs is not None:
            go(addresses, (), stream)
            return outputs[0] if len(outputs) == 1 else tuple(outputs)
        if self._one is not None:
            result = self._one(stream)
            go((*addresses, self._address(result)), (), stream)
            return result
        made = tuple([make(stream) for make in self._makers])
        go((*addresses, *map(self._address, made)), (), stream)
        return made
