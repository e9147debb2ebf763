"""In which order a tensor's axes lie in memory, told by its strides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tiledsl import tile


@dataclass(frozen=True)
class Layout:
    """How a tensor lies: `order` has its axes as they lie in memory, `repeated` those that are one element repeated.

    `copied`: no order of the axes is row-major, so that it takes a copy.
    """

    order: tuple[int, ...]
    repeated: tuple[int, ...] = ()
    copied: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the tensor goes as it is."""
        return not self.repeated and not self.copied and self.order == tuple(range(len(self.order)))

    def stored(self, tensor: Any) -> Any:
        """The tensor as it is passed: row-major."""
        for axis in self.repeated:
            tensor = tensor.narrow(axis, 0, 1)
        tensor = tensor.permute(self.order)
        return tensor.contiguous() if self.copied else tensor

    def seen(self, stored: Any, shape: tuple[int, ...]) -> Any:
        """The tensor of the graph that the model sees, from what is passed."""
        back = tuple(self.order.index(axis) for axis in range(len(self.order)))
        value = stored if self.order == tuple(range(len(self.order))) else tile.transpose(stored, back)
        return tile.broadcast_to(value, shape) if self.repeated else value


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    """How a tensor of these sizes and strides is passed."""
    rank = len(shape)
    repeated = tuple(i for i in range(rank) if strides[i] == 0 and shape[i] > 1)
    if 0 in shape:
        return Layout(tuple(range(rank)))
    moving = [i for i in range(rank) if shape[i] > 1 and i not in repeated]
    slots = iter(sorted(moving, key=lambda i: -strides[i]))
    order = tuple(next(slots) if i in moving else i for i in range(rank))
    step = 1
    for axis in reversed(order):
        if axis in moving:
            if strides[axis] != step:
                return Layout(tuple(range(rank)), repeated, copied=True)
            step *= shape[axis]
    return Layout(order, repeated)
