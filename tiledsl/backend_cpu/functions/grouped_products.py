"""Products of operands narrower than their sums, several along k at a time: what a register tile asks of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tiledsl.backend_cpu.llvm.writer import FunctionWriter, VectorType
from tiledsl.ir.dtypes import DType


@dataclass(frozen=True)
class GroupedProduct(ABC):
    """How packed operands are multiplied: each lane of a sum takes `group` elements along k of both, as wide together
    as the sum."""

    left: DType
    """Of the packed left operand."""
    right: DType
    """Of the packed right operand."""
    group: int

    @property
    @abstractmethod
    def name(self) -> str:
        """What tells functions that use it, and what is packed for it, from others."""

    @abstractmethod
    def add(self, writer: FunctionWriter, vector: VectorType, total: str, left: str, right: str) -> str:
        """`total` with the products of a group each of `left` and `right` added in each lane. All have the type of the
        sums, `vector`."""
