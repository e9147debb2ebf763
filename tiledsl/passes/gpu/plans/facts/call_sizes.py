"""What a planner knows of the sizes of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tiledsl.ir.core import Value
from tiledsl.ir.symbolic import Dim


class Sizes(NamedTuple):
    """What a planner knows of a call: sizes of dims, every symbol by name, and how rows of tensors are aligned."""

    of: Callable[[Dim | None], int]
    symbols: Mapping[str, int]
    alignment_of: Callable[[Value], int]
