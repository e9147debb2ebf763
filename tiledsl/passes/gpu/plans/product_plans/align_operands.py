"""Ways to operands whose rows TMA cannot take: copied before, or by threads of the grid.

Rows that start at multiples of 4 or 8 bytes can go either way. All others are copied before, or else the grid is left
to all threads alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.gpu.tensor_maps import LINE_BYTES, MOST_AXES, UNIT_BYTES
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import TensorType
from tiledsl.passes.analysis.effects import tensors_in_order
from tiledsl.passes.gpu.products.streamed_loads import COPIED_BYTES, source_load
from tiledsl.passes.gpu_machine import GpuMachine

COPY_LAUNCH = 1.5e-6
"""Seconds that a kernel before the product costs, whatever it does."""
LEAST_SECONDS = 5e-6
"""Of any product, however small."""
WORTH_COPYING = 2
"""Of what a product takes beyond that, what copies of its operands may take before. (Where all threads load odd rows
themselves it takes four times as long.)"""
LONG_ROW = 4 * LINE_BYTES
"""Rows from which on copies have rows of whole lines: they take a quarter more at most. Of others it would be more than
what is gained."""


@dataclass(frozen=True)
class Way:
    """`copied`: the operands that are copied before; `numbers`: theirs among the tensors of the function. `by_lines`:
    those whose copies have rows that start at lines of the cache; `lines`: their numbers."""

    copied: tuple[Value, ...]
    numbers: tuple[int, ...]
    by_lines: tuple[Value, ...]
    lines: tuple[int, ...]
    seconds: float
    """Of the copies."""
    given: Callable[[Value], int]

    def alignment_of(self, tensor: Value) -> int:
        """The bytes that every row of a tensor, or of its copy, starts at a multiple of."""
        if tensor in self.by_lines:
            return LINE_BYTES
        return UNIT_BYTES if tensor in self.copied else self.given(tensor)

    def is_worth(self, seconds: float) -> bool:
        """Whether the copies may gain anything, before a product that takes so long."""
        return self.seconds <= WORTH_COPYING * max(0.0, seconds - LEAST_SECONDS)


def ways_to_operands(
    grid: ops.Grid, machine: GpuMachine, size_of: Callable[[Dim | None], int], alignment_of: Callable[[Value], int]
) -> Iterator[Way]:
    """Those to the operands of a grid's products; one without any copy where TMA can take them all."""
    dots = [op for op in grid.body.walk() if isinstance(op, ops.Dot)]
    loads = [load for dot in dots for load in (source_load(dot.a), source_load(dot.b)) if load is not None]
    operands = dict.fromkeys(load.tensor for load in loads)
    odd = [tensor for tensor in operands if alignment_of(tensor) % UNIT_BYTES and can_be_copied(tensor)]
    hopeless = [tensor for tensor in odd if alignment_of(tensor) not in COPIED_BYTES]
    for copied in [odd, hopeless] if len(hopeless) < len(odd) else [odd]:
        seconds = sum(_seconds_of_copy(tensor, machine, size_of) for tensor in copied)
        by_lines = [tensor for tensor in copied if _row_bytes(tensor, size_of) >= LONG_ROW]
        numbers = _numbers(grid, copied), _numbers(grid, by_lines)
        yield Way(tuple(copied), numbers[0], tuple(by_lines), numbers[1], seconds, alignment_of)


def _numbers(grid: ops.Grid, tensors: Sequence[Value]) -> tuple[int, ...]:
    """As plans count them: parameters of the function, then new tensors."""
    body = grid.parent
    assert isinstance(body, Block)
    known = tensors_in_order(body)
    return tuple(sorted(known.index(tensor) for tensor in tensors))


def _seconds_of_copy(tensor: Value, machine: GpuMachine, size_of: Callable[[Dim | None], int]) -> float:
    """A launch, and the way through memory and back."""
    type_ = tensor.type
    assert isinstance(type_, TensorType)
    bytes_ = math.prod(map(size_of, type_.shape)) * type_.dtype.bytes
    return COPY_LAUNCH + 2 * bytes_ / machine.copied_bytes_per_second


def _row_bytes(tensor: Value, size_of: Callable[[Dim | None], int]) -> int:
    """Of a tensor that can be copied."""
    type_ = tensor.type
    assert isinstance(type_, TensorType)
    assert type_.unit is not None
    return size_of(type_.shape[type_.unit]) * type_.dtype.bytes


def can_be_copied(tensor: Value) -> bool:
    """Whether there is a copy that TMA could take: the tensor is whole, and its elements lie side by side."""
    type_ = tensor.type
    if not isinstance(type_, TensorType):
        return False
    return type_.unit is not None and 2 <= len(type_.shape) <= MOST_AXES and type_.dtype.bits >= 8
