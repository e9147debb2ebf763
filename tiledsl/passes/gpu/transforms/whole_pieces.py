"""Rows of windows by whole pieces of up to 16 bytes: what a thread needs begins within one, and ends within another.

f16, 8 windows of 8 neighbours from 4 elements in front of a block on:    29 elements
    by elements 29 loads; by pieces of 8 bytes 8; of 16 bytes, 4 elements earlier, 5
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tiledsl.ir.core import Value
from tiledsl.ir.facts import Facts
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import TensorType
from tiledsl.passes.gpu.layouts.linear_indices import LinearIndex

PIECE_BYTES = 16


@dataclass(frozen=True)
class Pieces:
    """`vector` elements at a time, from `before` elements in front of the first one on, `elements` in all."""

    vector: int
    before: int
    elements: int


@dataclass(frozen=True)
class WholePieces:
    """What is known of tensors: the bytes that their rows start at multiples of, and of sizes."""

    alignment: Mapping[Value, int]
    facts: Facts

    def of(self, load: gpu.Load, start: LinearIndex, apart: int, needed: int) -> Pieces:
        """How threads load `needed` neighbours of a row from `start` on, each `apart` coordinates further than the one
        before it. By elements where the ends of rows, or of what threads have, are within pieces."""
        assert isinstance(load.tensor.type, TensorType)
        bytes_, unit = load.result.dtype.bytes, load.tensor.type.unit
        assert unit is not None
        grid = math.gcd(apart, *(factor * _multiple(value) for value, factor in start.terms))
        most = min(PIECE_BYTES, self.alignment.get(load.tensor, bytes_)) // bytes_
        found = Pieces(1, 0, needed)
        vector = 2
        while vector <= most and grid % vector == 0 and self._is_multiple(load.tensor.type.shape[unit], vector):
            before = start.constant % vector
            count = -(-(before + needed) // vector)
            if count < found.elements // found.vector:
                found = Pieces(vector, before, count * vector)
            vector *= 2
        return found

    def _is_multiple(self, size: Dim, divisor: int) -> bool:
        return size % divisor == 0 if isinstance(size, int) else self.facts.divisible(size, divisor)


def _multiple(value: Value) -> int:
    """What a scalar is a multiple of: the first coordinate of a block of its size."""
    launch = getattr(value.owner, "parent", None)
    if isinstance(launch, gpu.Launch) and value in launch.body.arguments:
        return launch.blocks[launch.body.arguments.index(value)]
    return 1
