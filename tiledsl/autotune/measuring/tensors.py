"""The tensors of a call as they lie in memory: what is passed, what is written, what is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.symbolic import evaluate
from tiledsl.runtime.arrays.arrays import Array, row_major
from tiledsl.runtime.programs.interface import Interface

POISON = 0xFF
"""Every byte of what nobody has written yet: NaN in floats, -1 in integers."""

Use = Literal["input", "written", "result", "scratch"]


@dataclass(frozen=True)
class Tensor:
    """A tensor of a call. `strides` are in elements. A `result` is made by the call and returned, `scratch` only made;
    `written` is passed and changed."""

    name: str
    use: Use
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def is_given(self) -> bool:
        return self.use in ("input", "written")

    @property
    def is_compared(self) -> bool:
        """Whether it says what the call has done."""
        return self.use in ("written", "result")

    def allocated(self, content: Array | None) -> Array:
        """Memory of its own as it lies, with that content, or with poison."""
        spans = [(length - 1) * stride for length, stride in zip(self.shape, self.strides) if length]
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        before = -sum(span for span in spans if span < 0)
        count = before + sum(span for span in spans if span > 0) + 1
        memory: Any = np.full(count * self.dtype.itemsize, 1 if self.dtype == np.bool_ else POISON, np.uint8)
        steps = tuple(stride * self.dtype.itemsize for stride in self.strides)
        make: Any = np.ndarray
        array: Array = make(self.shape, self.dtype, memory, before * self.dtype.itemsize, steps)
        if content is not None:
            array[...] = content
        return array


def memory_of(array: Array) -> Array:
    """All the bytes that `Tensor.allocated` made for an array, gaps included; the array is a view of them."""
    memory: Any = array
    while hasattr(memory.base, "dtype"):
        memory = memory.base
    return memory.reshape(-1).view(np.uint8)


def tensors_of(
    interface: Interface, sizes: Mapping[str, int], strides: Sequence[tuple[int, ...]] | None = None
) -> tuple[Tensor, ...]:
    """The tensors of a call in the order of a program: parameters, then what it makes.

    `strides`: of all of them; default: row by row, but for the axis that code takes to have neighbouring elements.
    """
    every = [*interface.tensors, *interface.new_tensors]
    results = {len(interface.tensors) + number for number in interface.outputs}
    found: list[Tensor] = []
    for number, tensor in enumerate(every):
        shape = tuple(evaluate(dim, sizes) for dim in tensor.shape)
        lying = strides[number] if strides is not None else strides_with_unit(shape, tensor.unit)
        use: Use = "result" if number in results else "scratch"
        if number < len(interface.tensors):
            use = "written" if interface.tensors[number].written else "input"
        found.append(Tensor(tensor.name, use, shape, lying, to_numpy(tensor.dtype)))
    return tuple(found)


def strides_with_unit(shape: tuple[int, ...], unit: int | None) -> tuple[int, ...]:
    """Strides without gaps whose unit axis counts fastest; the others in their order."""
    if unit is None or unit == len(shape) - 1:
        return row_major(shape)
    order = [axis for axis in range(len(shape)) if axis != unit] + [unit]
    inner = dict(zip(order, row_major(tuple(shape[axis] for axis in order))))
    return tuple(inner[axis] for axis in range(len(shape)))
