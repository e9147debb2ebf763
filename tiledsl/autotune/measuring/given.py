"""What a call is given: arrays that somebody has, or numbers that each process draws for itself, so that nobody sends
them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tiledsl.autotune.measuring.tensors import Tensor, tensors_of
from tiledsl.ir.dtypes import from_numpy
from tiledsl.runtime.arrays.arrays import Array
from tiledsl.runtime.programs.interface import Interface
from tiledsl.runtime.programs.stored_interface import Json, interface_from_json, interface_to_json

DRAWN = 65521
"""Numbers that are drawn for an array, which are then repeated. It is a prime, so that no two rows are alike."""


class Given(Protocol):
    """The arrays of a call, in the order of its tensors. It is pickled."""

    @property
    def nbytes(self) -> int:
        """How large they are together."""
        ...

    def arrays(self) -> tuple[Array, ...]:
        """The arrays. Made anew at each call."""
        ...


@dataclass(frozen=True)
class GivenArrays:
    """Arrays that somebody has."""

    known: tuple[Array, ...]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.known)

    def arrays(self) -> tuple[Array, ...]:
        return self.known


@dataclass(frozen=True)
class DrawnArrays:
    """Normal numbers for floats, and 0 for all else, which is a subscript wherever there is one. The same in each
    process."""

    interface: Json
    sizes: tuple[tuple[str, int], ...]
    strides: tuple[tuple[int, ...], ...] | None = None

    @staticmethod
    def of(
        interface: Interface, sizes: Mapping[str, int], strides: Sequence[tuple[int, ...]] | None = None
    ) -> DrawnArrays:
        """For a call of a program."""
        lying = None if strides is None else tuple(map(tuple, strides))
        return DrawnArrays(interface_to_json(interface), tuple(sizes.items()), lying)

    @property
    def nbytes(self) -> int:
        return sum(math.prod(tensor.shape) * tensor.dtype.itemsize for tensor in self._tensors())

    def arrays(self) -> tuple[Array, ...]:
        random = np.random.default_rng(0)
        return tuple(_drawn(tensor, random) for tensor in self._tensors())

    def _tensors(self) -> list[Tensor]:
        every = tensors_of(interface_from_json(self.interface), dict(self.sizes), self.strides)
        return [tensor for tensor in every if tensor.is_given]


def _drawn(tensor: Tensor, random: np.random.Generator) -> Array:
    dtype = from_numpy(tensor.dtype)
    if dtype is None or not dtype.is_float:
        return np.zeros(tensor.shape, tensor.dtype)
    return repeated(random, 0.0, 1.0, tensor.shape, tensor.dtype)


def repeated(
    random: np.random.Generator, mean: float, spread: float, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    """Normal numbers: a table of them, again and again. A large array of new ones takes seconds."""
    source: Any = random
    table: Array = source.normal(mean, spread, min(DRAWN, max(1, math.prod(shape)))).astype(dtype)
    return np.resize(table, shape)
