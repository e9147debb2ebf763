"""What a planner knows of the sizes of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tiledsl.ir.core import Value
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tile_ops import Load
from tiledsl.passes.gpu.products.row_starts import of_copy, row_start


class Sizes(NamedTuple):
    """What a planner knows of a call: sizes of dims, every symbol by name, how rows of tensors are aligned, and what
    sizes are known to be multiples of wherever the plan is taken (powers of two)."""

    of: Callable[[Dim | None], int]
    symbols: Mapping[str, int]
    alignment_of: Callable[[Value], int]
    multiple_of: Callable[[Dim], int]

    copied: frozenset[Value] = frozenset()
    """Tensors that are copied before, to rows that TMA can take."""

    def row_start_of(self, load: Load) -> int:
        """The bytes that what a load reads of rows, or of those of a copy, starts at a multiple of."""
        start = row_start(load, self.alignment_of(load.tensor), self.multiple_of)
        return of_copy(start) if load.tensor in self.copied else start
