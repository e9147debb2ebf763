"""The state of one execution of a GPU function, and the error for GPU IR that is wrong.

A tile in registers is an array [threads, slots]: what each thread of the program holds in each slot. A buffer in shared
memory is the address where it starts, as an i64 of rank 0; its type tells the rest. Scalars are arrays of rank 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tiledsl.backend_ref.execution import AxisBlock, Execution, RuntimeValue
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.backend_ref.shared_memory import Places, SharedMemory
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import DType, to_numpy
from tiledsl.ir.types import Shape, TensorType, TileType
from tiledsl.support.location import Location


class GpuExecutionError(Exception):
    """GPU IR that breaks a rule of its vocabulary or of the machine: a fault of a pass, never of the user's program."""

    def __init__(self, op: Op, text: str) -> None:
        super().__init__(f"{op.location}: {op.name}: {text}")
        self.op_name = op.name
        self.location: Location = op.location
        self.text = text


@dataclass(frozen=True)
class Transfer:
    """The elements of a buffer that an access of shared memory is about, once it is known to be a legal one."""

    inside: Array
    """Which registers the buffer has an element for: [threads, slots]."""
    moved: Array
    """Those that are moved: of copies in several threads of a block, one writes."""
    places: Places
    """Where those lie that are moved."""


@dataclass
class GpuExecution(Execution):
    """What is known while a GPU function runs; what concerns threads holds for the program that is being run."""

    threads: int = 1
    """Of the program, all blocks of its cluster together."""
    threads_per_block: int = 1
    shared: SharedMemory = field(default_factory=lambda: SharedMemory(1, 0))
    buffers: dict[Op, int] = field(default_factory=dict[Op, int])
    """Where each `gpu.buffer` of the program starts."""
    transfers: dict[tuple[Op, tuple[int, ...]], Transfer] = field(
        default_factory=dict[tuple[Op, tuple[int, ...]], Transfer]
    )
    """What is known of accesses of shared memory, by op, buffer and offsets: loops come back to the same places."""
    addresses: dict[Value, int] = field(default_factory=dict[Value, int])
    """The address of each tensor modulo 16, if it is not 0."""
    first_only: set[Value] = field(default_factory=set[Value])
    """Tiles of which only the first replicas are defined."""

    def _fits(self, value: Value, result: RuntimeValue) -> bool:
        if isinstance(result, AxisBlock):
            return False
        type_ = value.type
        if isinstance(type_, TileType) and type_.shape:
            if type_.level == "shared":
                return result.shape == () and result.dtype == np.int64
            layout = value.layout
            if layout.threads != self.threads and value.op is not None:
                text = f"{layout} is of {layout.threads} threads, the program has {self.threads}"
                raise GpuExecutionError(value.op, text)
            return result.shape == (layout.threads, layout.slots) and result.dtype == to_numpy(type_.dtype)
        return isinstance(type_, TensorType | TileType) and super()._fits(value, result)


def static(shape: Shape) -> tuple[int, ...]:
    """A shape that is known, as those of all tiles are in GPU form."""
    sizes = tuple(size for size in shape if isinstance(size, int))
    assert len(sizes) == len(shape)
    return sizes


def poison(dtype: DType, shape: tuple[int, ...] = ()) -> Array:
    """What memory and registers hold that nothing was written to: NaN, -1, the largest unsigned, true."""
    kind = to_numpy(dtype)
    if dtype.kind == "bool":
        return np.ones(shape, kind)
    return np.full(shape, np.frombuffer(b"\xff" * kind.itemsize, kind)[0], kind)
