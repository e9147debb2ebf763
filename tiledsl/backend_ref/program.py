"""The reference executor as a back end: kernels compiled for `arch="reference"` run op by op in NumPy.

Slow, and the meaning of every op: what a kernel gives on another back end can be held against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.core import Function, Module, Value
from tiledsl.ir.dtypes import DType, to_numpy
from tiledsl.ir.symbolic import evaluate
from tiledsl.ir.tile_ops import Empty
from tiledsl.ir.types import TensorType


@dataclass(frozen=True)
class ReferenceProgram:
    """A TILE module that runs as it is."""

    module: Module

    def to_bytes(self) -> bytes:
        """The module as IR text."""
        from tiledsl.ir.text.printer import print_module  # here and below: only the disk cache needs them

        return print_module(self.module, locations=True).encode()

    @staticmethod
    def from_bytes(data: bytes) -> ReferenceProgram:
        """The inverse of `to_bytes`."""
        from tiledsl.ir.text.parser import parse_module  # costs start-up time

        return ReferenceProgram(parse_module(data.decode()))

    def load(self) -> LoadedReference:
        return LoadedReference(self.module.entry)


@dataclass(frozen=True)
class LoadedReference:
    """The entry function."""

    function: Function

    def bind(self, symbols: Mapping[str, int], strides: Sequence[tuple[int, ...]], threads: int) -> BoundReference:
        """For those sizes; `strides` are in elements, a tuple for each tensor. One thread, whatever is asked."""
        del threads
        tensors = [value for value in self.function.parameters if isinstance(value.type, TensorType)]
        tensors += _made(self.function)
        views = [_view(value, symbols, stride) for value, stride in zip(tensors, strides)]
        return BoundReference(self.function, tuple(views))


@dataclass(frozen=True)
class View:
    """Where the elements of a tensor lie, but for the address. Strides are in bytes."""

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def at(self, address: int) -> Array:
        """The array over the memory at `address`."""
        dtype = to_numpy(self.dtype)
        if 0 in self.shape:
            return np.empty(self.shape, dtype)
        memory = _Memory({
            "version": 3,
            "data": (address, False),
            "shape": self.shape,
            "strides": self.strides,
            # as plain bits: bf16 and the 8-bit floats have no type string
            "typestr": f"<u{dtype.itemsize}",
        })  # fmt: skip
        bits: Any = np.asarray(memory)
        return bits.view(dtype)


@dataclass(frozen=True)
class _Memory:
    """What NumPy makes an array of without a copy."""

    __array_interface__: dict[str, Any]


@dataclass(frozen=True)
class BoundReference:
    """The function with the views of its tensors: parameters in order, then those that `tile.empty` makes."""

    function: Function
    views: tuple[View, ...]

    @property
    def description(self) -> str:
        return "run by NumPy, op by op"

    def __call__(self, pointers: Sequence[int], scalars: Sequence[int | float]) -> None:
        """Runs on tensors at these addresses. Raises TileRuntimeError for a failed `tile.assert_`."""
        arrays = [view.at(address) for view, address in zip(self.views, pointers)]
        tensors, numbers = iter(arrays), iter(scalars)
        arguments: list[Argument] = [
            next(tensors) if isinstance(value.type, TensorType) else next(numbers) for value in self.function.parameters
        ]
        results = execute(self.function, arguments)
        made = dict(zip(_made(self.function), tensors))
        returned = self.function.body.terminator
        for value, result in zip(returned.operands if returned else (), results):
            if value in made:
                np.copyto(made[value], result)


def _made(function: Function) -> list[Value]:
    """The tensors that the function makes, in order."""
    return [op.result for op in function.body.ops if isinstance(op, Empty)]


def _view(value: Value, symbols: Mapping[str, int], strides: tuple[int, ...]) -> View:
    assert isinstance(value.type, TensorType)
    dtype = value.type.dtype
    shape = tuple(evaluate(dim, symbols) for dim in value.type.shape)
    return View(dtype, shape, tuple(stride * to_numpy(dtype).itemsize for stride in strides))
