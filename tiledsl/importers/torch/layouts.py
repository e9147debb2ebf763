"""How tensors of PyTorch go into compiled graphs and come out of them: without a copy, where strides say a view.

A graph takes row-major arrays. A tensor whose axes lie in another order in memory (`channels_last`, a transposed
weight) is passed in that order, and transposed in the graph, where that costs nothing; so are results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tiledsl import tile
from tiledsl.frontend.language.values import TensorSpec
from tiledsl.frontend.trace.array_types import array_dtype
from tiledsl.ir.dtypes import to_numpy


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


def spec_of(tensor: Any, layout: Layout) -> TensorSpec:
    """What a tensor is to the trace, as it is passed."""
    shape = tuple(1 if axis in layout.repeated else int(tensor.shape[axis]) for axis in layout.order)
    dtype = array_dtype(tensor)
    assert dtype is not None, f"{tensor.dtype} goes to PyTorch"
    return TensorSpec(shape, dtype)


_BITS = {torch.bfloat16: torch.int16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}
"""Dtypes that NumPy does not know: they go there as their bits."""


def to_numpy_array(tensor: Any) -> Any:
    """A tensor in CPU memory as an array over the same memory."""
    tensor = tensor.detach()
    bits = _BITS.get(tensor.dtype)
    if bits is None:
        return tensor.numpy()
    dtype = array_dtype(tensor)
    assert dtype is not None
    return tensor.view(bits).numpy().view(to_numpy(dtype))


def to_tensor(array: Any, dtype: Any) -> Any:
    """An array as a tensor over the same memory."""
    bits = _BITS.get(dtype)
    if bits is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16 if bits is torch.int16 else np.uint8)).view(dtype)
