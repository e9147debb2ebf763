"""What a module does when it is called: which programs run in which order, and which part of which buffer each sees.

Plain data, read off a lowered graph once and kept beside the programs in a saved module: to run one takes no compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, Union

from tiledsl.ir.dtypes import DType
from tiledsl.ir.strided_views import StridedView

Role = Literal["input", "constant", "inner", "output"]


@dataclass(frozen=True)
class Buffer:
    """Memory of one tensor, row-major. `inner` ones live within a call, and share memory with each other."""

    name: str
    role: Role
    dtype: DType
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        count = self.dtype.bytes
        for length in self.shape:
            count *= length
        return count


@dataclass(frozen=True)
class Operand:
    """A tensor as a step sees it: a view of a buffer, by the buffer's number.

    `unit`: the axis that the step's program takes to run through memory without gaps.
    """

    buffer: int
    view: StridedView
    unit: int | None = None


Number: TypeAlias = Union[int, float, Operand]
"""A run-time number of a step: known, or the one element of a tensor, which is read when the step runs."""


@dataclass(frozen=True)
class Step:
    """One run of a program. `tensors` are in the order of the program: its parameters, then what it makes."""

    name: str
    program: int
    tensors: tuple[Operand, ...]
    written: tuple[int, ...]
    """The tensors that it writes, by their place among `tensors`."""
    numbers: tuple[Number, ...]
    sizes: Mapping[str, int]
    read_bytes: int
    written_bytes: int
    ops: tuple[str, ...] = ()
    """What it computes, for people: `dot`, `add`, `max over an axis` .."""
    source: str = ""
    """The user's lines that it computes, for people: `model.py:12, 14-16`; or the node of a model."""

    @property
    def buffers(self) -> frozenset[int]:
        """Every buffer that it touches."""
        return frozenset(
            {*(t.buffer for t in self.tensors), *(n.buffer for n in self.numbers if isinstance(n, Operand))}
        )


@dataclass(frozen=True)
class Schedule:
    """A whole module. `inputs` and `outputs` are numbers of buffers, in the order of arguments and of results."""

    name: str
    buffers: tuple[Buffer, ...]
    inputs: tuple[int, ...]
    constants: tuple[int, ...]
    outputs: tuple[int, ...]
    steps: tuple[Step, ...]

    @property
    def traffic(self) -> int:
        """Bytes that all steps read and write."""
        return sum(step.read_bytes + step.written_bytes for step in self.steps)
