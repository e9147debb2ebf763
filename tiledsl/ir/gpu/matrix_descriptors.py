"""How tensor cores read operands of `gpu.wgmma` out of shared memory: descriptors, and the layouts that they can tell.

An operand is K-major if K counts fastest in its buffer, else MN-major. What an instruction reads is made of *atoms*:

- K-major, swizzled: 8 rows (of M or N) of `span` bytes, the span of the swizzle: 32, 64 or 128.
- K-major without swizzle: 8 rows of 16 bytes.
- MN-major, swizzled, of elements of 2 bytes: 8 of K, each `span` bytes along M or N.

A descriptor says where the first atom is and how far it is to the next ones, along K and along M or N. The swizzle XORs
bits of the absolute address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tiledsl.ir.gpu.warpgroup_instructions import WarpgroupInstruction
from tiledsl.ir.layouts.buffer_layout import SharedLayout, Swizzle
from tiledsl.ir.layouts.layout import Integers
from tiledsl.ir.types import TileType

GROUP = 8
"""Rows of an atom."""
COLUMN_BYTES = 16
"""Of a row of an atom that is not swizzled."""
SPANS = (32, 64, 128)
_UNIT = 16
_FIELD = (1 << 14) - 1
_MODES = {0: 0, 128: 1, 64: 2, 32: 3}


def span_of(swizzle: Swizzle | None) -> int | None:
    """The span in bytes of a swizzle that TMA and tensor cores know, 0 for none; None if they do not know it."""
    if swizzle is None:
        return 0
    span = 16 << swizzle.bits
    return span if (swizzle.base, swizzle.shift) == (4, 3) and span in SPANS else None


def swizzle_of(span: int) -> Swizzle | None:
    """The swizzle of a span of 32, 64 or 128 bytes; None for 0."""
    return Swizzle(SPANS.index(span) + 1, 4, 3) if span else None


@dataclass(frozen=True)
class MatrixDescriptor:
    """Where an operand begins and how it goes on, all in bytes and multiples of 16. `swizzle`: its span, or 0.

    `leading`: along K without a swizzle, along M or N for MN-major, and not used for K-major with a swizzle. `stride`:
    along M or N for K-major, along K for MN-major.
    """

    address: int
    leading: int
    stride: int
    swizzle: int

    def encode(self) -> int:
        """The 64 bits that the instruction takes."""
        fields = (self.address, self.leading, self.stride)
        assert all(value % _UNIT == 0 and 0 <= value // _UNIT <= _FIELD for value in fields), f"{self} is too far"
        address, leading, stride = (value // _UNIT for value in fields)
        return address | leading << 16 | stride << 32 | _MODES[self.swizzle] << 62

    @staticmethod
    def decode(bits: int) -> MatrixDescriptor:
        """The reverse of `encode`."""
        address, leading, stride = ((bits >> first & _FIELD) * _UNIT for first in (0, 16, 32))
        swizzle = next(span for span, mode in _MODES.items() if mode == bits >> 62 & 3)
        return MatrixDescriptor(address, leading, stride, swizzle)


def element_addresses(descriptor: MatrixDescriptor, k_major: bool, rows: int, k: int, width: int) -> Integers:
    """The byte addresses [rows, k] that an instruction reads: `rows` of M or N, `k` elements of `width` bytes."""
    outer, inner = np.arange(rows, dtype=np.int64)[:, None], np.arange(k, dtype=np.int64)[None, :]
    span, leading, stride = descriptor.swizzle, descriptor.leading, descriptor.stride
    linear = descriptor.address + _place(k_major, span, leading, stride, width, outer, inner)
    swizzle = swizzle_of(span)
    addresses: Integers = linear if swizzle is None else swizzle.apply(linear)
    return addresses


def _place(k_major: bool, span: int, leading: int, stride: int, width: int, outer: Any, k: Any) -> Any:
    """How far an element (ints or arrays) is from the first one, before the swizzle."""
    run = span or COLUMN_BYTES
    slow, fast = (outer, k * width) if k_major else (k, outer * width)
    return slow // GROUP * stride + slow % GROUP * run + fast // run * leading + fast % run


@dataclass(frozen=True)
class SharedOperand:
    """How `gpu.wgmma` reads one operand out of a buffer; distances in bytes, as in `MatrixDescriptor`.

    `leading` of a K-major operand with a swizzle leads from one panel of K to the next: no instruction sees it, as each
    reads within one panel.
    """

    k_major: bool
    swizzle: int
    leading: int
    stride: int
    width: int
    """Bytes of an element."""

    def step(self, outer: int, k: int) -> int:
        """How far from the operand's first element the instruction begins that starts at (`outer`, `k`).

        In bytes, before the swizzle. `outer` (along M or N) is a multiple of 64 for `a`, of n for `b`.
        """
        return _place(self.k_major, self.swizzle, self.leading, self.stride, self.width, outer, k)

    def descriptor(self, address: int) -> MatrixDescriptor:
        """What an instruction is given that begins at `address`, before the swizzle."""
        unused = self.k_major and self.swizzle
        return MatrixDescriptor(address, _UNIT if unused else self.leading, self.stride, self.swizzle)


def shared_operand(
    buffer: TileType, outer_axis: int, k_axis: int, instruction: WarpgroupInstruction, which: Literal["a", "b"]
) -> SharedOperand:
    """How an instruction reads `a` or `b` out of `buffer`, where M or N is `outer_axis`.

    Raises ValueError, with what is wrong in words that follow the buffer's name, if it cannot.
    """
    layout, dtype = buffer.layout, (instruction.a if which == "a" else instruction.b)
    rows = instruction.m if which == "a" else instruction.n
    if buffer.level != "shared" or not isinstance(layout, SharedLayout):
        raise ValueError("is not in shared memory")
    if buffer.dtype != dtype:
        raise ValueError(f"is of {buffer.dtype}, but {instruction} takes {dtype}")
    shape = [dim for dim in buffer.shape if isinstance(dim, int)]
    if layout.order[-2:] not in ((outer_axis, k_axis), (k_axis, outer_axis)):
        raise ValueError(f"does not have the axes {outer_axis} and {k_axis} as its fastest ones in {layout}")
    if shape[outer_axis] < rows or shape[k_axis] % instruction.k:
        axis, name = ("M", "m") if which == "a" else ("N", "n")
        raise ValueError(
            f"has {shape[outer_axis]} along {axis} and {shape[k_axis]} along K: no whole {name}{rows}k{instruction.k}"
        )
    k_major = layout.order[-1] == k_axis
    span = _span(layout, shape, dtype.bytes)
    if k_major:
        if shape[outer_axis] % GROUP:
            raise ValueError(f"has {shape[outer_axis]} rows, which are no whole groups of {GROUP}")
    else:
        _check_mn_major(instruction, shape[outer_axis], rows, span, dtype.bytes)
    run = span or COLUMN_BYTES
    slow = shape[outer_axis if k_major else k_axis]
    return SharedOperand(k_major, span, slow * run, GROUP * run, dtype.bytes)


def _span(layout: SharedLayout, shape: list[int], width: int) -> int:
    """The span of the swizzle (0: none), which is how wide the panels of the buffer must be."""
    if layout.padding:
        raise ValueError("is padded")
    span = span_of(layout.swizzle)
    if span is None:
        raise ValueError(f"has the swizzle {layout.swizzle}, which tensor cores do not know")
    wanted = (span or COLUMN_BYTES) // width
    found = layout.panel or shape[layout.order[-1]]
    if found != wanted:
        what = f"a swizzle over {span} bytes" if span else "no swizzle"
        raise ValueError(f"has rows of {found} elements in {layout}, but {what} needs panels of {wanted}")
    return span


def _check_mn_major(instruction: WarpgroupInstruction, size: int, rows: int, span: int, width: int) -> None:
    """Whether an MN-major operand can be read: `rows` of the `size` along M or N by each instruction."""
    if width != 2:
        raise ValueError(f"does not have K as its fastest axis, as elements of {width} bytes must")
    if not span:
        raise ValueError("has neither K as its fastest axis nor a swizzle")
    if rows * width % span and size >= 2 * rows:
        raise ValueError(f"has a swizzle over {span} bytes, of which {rows} columns of {instruction} are no multiple")
