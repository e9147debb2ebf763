"""Memory for large outputs, kept when they are dropped and used again for the next ones.

The first touch of new memory costs a page fault and the zeroing of the page: for a kernel that only streams through its
arrays that is as much time as the kernel itself takes. Small arrays come from NumPy, whose allocator does as well.
"""

from __future__ import annotations

from collections import deque
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tiledsl.support.when_dropped import when_dropped

SMALLEST = 1 << 20
"""Bytes from which on memory is kept."""
STEP = 1 << 18
"""Sizes are rounded up to this many bytes, so that outputs of nearly one size share memory."""
MOST_KEPT = 256 << 20
"""Bytes that may lie idle. What comes back beyond that goes to the system, the longest idle first."""
ALIGNMENT = 64

_Memory = npt.NDArray[np.uint8]


class _Idle:
    """Memory that nobody uses.

    Every step is an operation of a deque, which is atomic: a lease may end anywhere, also while another thread, or this
    very one, is in the middle of taking memory.
    """

    def __init__(self) -> None:
        self.blocks: deque[_Memory] = deque()

    def take(self, size: int) -> _Memory:
        """Idle memory of exactly that size, or new memory."""
        for _ in range(len(self.blocks)):
            try:
                block = self.blocks.pop()
            except IndexError:
                break
            if block.nbytes == size:
                return block
            self.blocks.appendleft(block)
        return np.empty(size, np.uint8)

    def give_back(self, block: _Memory) -> None:
        self.blocks.append(block)
        while sum(b.nbytes for b in tuple(self.blocks)) > MOST_KEPT:
            self.blocks.popleft()


_idle = _Idle()


class _Lease:
    """What an array of leased memory holds on to: the last array to go, view or not, gives the memory back."""

    def __init__(self, memory: _Memory, address: int, shape: tuple[int, ...], item: int) -> None:
        when_dropped(self, _idle.give_back, memory)
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": shape,
            # as plain bits: bf16 and the 8-bit floats have no type string
            "typestr": f"|u{item}" if item == 1 else f"<u{item}",
        }


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """As `numpy.empty`: a new row-major array with whatever is in its memory."""
    needed = prod(shape) * dtype.itemsize
    if needed < SMALLEST:
        return np.empty(shape, dtype)
    memory = _idle.take(-(-(needed + ALIGNMENT) // STEP) * STEP)
    start: int = memory.__array_interface__["data"][0]
    lease = _Lease(memory, -(-start // ALIGNMENT) * ALIGNMENT, shape, dtype.itemsize)
    bits: npt.NDArray[Any] = np.asarray(lease)
    return np.ndarray(shape, dtype, bits)
