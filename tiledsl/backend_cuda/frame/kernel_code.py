"""What the emitter gives and the launch takes: CUDA C with the calling convention of each of its kernels.

Every kernel parameter but tensor maps is eight bytes wide, so that a launch packs them as words: pointers, sizes and
strides as they are, integer scalars as 64-bit integers, floats of every width as doubles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tiledsl.ir.symbolic import Dim
from tiledsl.support.location import Location

ParameterKind = Literal["tensor", "map", "size", "stride", "scalar", "failure"]


@dataclass(frozen=True)
class KernelParameter:
    """One of a kernel's parameters: a word, or a tensor map.

    tensor: the address of tensor number `index` (the tensor parameters, the new tensors, scratch, each in order). map:
    tensor map number `index` of the program, 128 bytes. size: the value of `symbol`. stride: of tensor `index` along
    `axis`, in elements. scalar: number `index` of the scalar parameters, of dtype `symbol`. failure: the address of the
    failure record (see `failures.py`).
    """

    kind: ParameterKind
    index: int = 0
    axis: int = 0
    symbol: str = ""


@dataclass(frozen=True)
class KernelCode:
    """One CUDA function. Those of a program are launched in order, on one stream."""

    name: str
    """As people see it; its C function is `names.function_of` of it."""
    programs: Dim | None
    """How many programs there are, over size symbols; a program is a cluster of `cluster` blocks. None: only the device
    knows, and the kernel goes through its programs itself, however many blocks are launched."""
    threads: int
    """Per block."""
    cluster: int
    """Blocks per cluster; 1 for none."""
    shared_bytes: int
    """Dynamic shared memory per block."""
    parameters: tuple[KernelParameter, ...]
    overlaps: bool = False
    """Whether it may begin before the kernel before it in the program is done: the code then waits for that where it
    must (see `overlap_kernels.py`). A launch need not make use of it."""
    waits_first: bool = False
    """Whether it waits before it touches any tensor, so that it may begin beside what others put on the stream."""


@dataclass(frozen=True)
class TensorMapCode:
    """A tensor map that the launch makes. `tensor`: the number of the tensor, whose `shape` is over size symbols.

    `axes`: those of the tensor as TMA counts them, the one of unit stride first; `box`: how many elements along each
    are copied at once. `swizzle`: over so many bytes, 0 for none. `name` is the tensor's, for messages. `windows`: of
    boxes that are pixels of windows, their positions, strides and first pixels along each axis of pixels.
    """

    tensor: int
    name: str
    dtype: str
    shape: tuple[Dim, ...]
    axes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    windows: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class ScratchCode:
    """A tensor that the launch has memory for while the program runs: row-major, its `shape` over size symbols."""

    shape: tuple[Dim, ...]
    dtype: str


@dataclass(frozen=True)
class Assertion:
    """A `tile.assert_` of the program, for the message when it fails. Numbered from 1 in the order of the program."""

    text: str
    location: Location


@dataclass(frozen=True)
class CudaSource:
    """A program as CUDA C."""

    text: str
    kernels: tuple[KernelCode, ...]
    assertions: tuple[Assertion, ...]
    maps: tuple[TensorMapCode, ...] = ()
    scratch: tuple[ScratchCode, ...] = ()
