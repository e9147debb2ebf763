"""Looks at the arrays of a call by native code: a tenth of the time that asking them one by one in Python takes.

NumPy's arrays are laid out in memory as its C headers say, for all versions. Whether that is so here is found out with
arrays that are known, before the first call; where it is not (another Python), calls go on without.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tiledsl.backend_cpu.calls.launcher import launcher
from tiledsl.runtime.arrays.arrays import byte_span
from tiledsl.runtime.programs.program import ExpectedArray, KeptMemory

_HEAD = object.__basicsize__
_DTYPE = _HEAD + 40
_FIELDS = _HEAD + 56
"""Bytes of an object that are read at most."""
_WRITEABLE = 0x400
"""The flag of an array that may be written to."""


class ReadingTable:
    """What native code compares arrays with. `address` is where the table lies, as long as this object lives."""

    def __init__(
        self, expected: Sequence[ExpectedArray], written: Sequence[int], kept: Sequence[KeptMemory] = ()
    ) -> None:
        self._expected = expected  # the table has addresses of dtypes
        pairs = _pairs(expected, written, kept)
        self._pairs = _words([len(pairs), *(word for pair in pairs for word in pair)])
        words = [len(expected), _HEAD, tuple.__basicsize__, id(np.ndarray), ctypes.addressof(self._pairs)]
        for number, (dtype, shape, strides) in enumerate(expected):
            flags = _WRITEABLE if number in written else 0
            words += [id(dtype), dtype.itemsize - 1, flags, len(shape), *shape, *strides]
        self._words = _words(words)
        self.address = ctypes.addressof(self._words)


def reading_table(
    expected: Sequence[ExpectedArray], written: Sequence[int] = (), kept: Sequence[KeptMemory] = ()
) -> ReadingTable | None:
    """The table by which `Launcher.read` knows these arrays again; None where arrays cannot be read.

    Those that are `written`, by number, must be writeable and share no memory with any other, nor with memory that is
    `kept`, whose addresses stand behind those that are read.
    """
    return ReadingTable(expected, written, kept) if can_read() else None


@cache
def can_read() -> bool:
    """Whether arrays lie in memory as they are read."""
    if sys.implementation.name != "cpython" or np.ndarray.__basicsize__ < _FIELDS:
        return False
    # what is followed is looked at first, where it is
    known = np.zeros((3, 4, 5), np.float32)[:, 1::2]
    if _word(known, _HEAD) != known.ctypes.data or _word(known, _DTYPE) != id(known.dtype):
        return False
    found = (ctypes.c_int64 * 2)()
    at = ctypes.addressof(found)
    other, read_only = np.arange(7), np.arange(7)
    read_only.flags.writeable = False
    table = ReadingTable([as_expected(known), as_expected(other)], [1])
    differing = [
        (known,),
        (known, known),
        (known[:, :1], other),
        (known, other.astype(np.int32)),
        (known, read_only),
        (other, known),
        (1, 2),
    ]
    wrong = any(launcher().read(values, table.address, at) for values in differing)
    right = launcher().read((known, other), table.address, at)
    return bool(right) and not wrong and list(found) == [known.ctypes.data, other.ctypes.data]


def as_expected(array: np.ndarray[Any, np.dtype[Any]]) -> ExpectedArray:
    """An array as what is expected of others."""
    return array.dtype, array.shape, array.strides


def _pairs(
    expected: Sequence[ExpectedArray], written: Sequence[int], kept: Sequence[KeptMemory]
) -> list[tuple[int, int, int, int]]:
    """For each written array and each other one that has elements: how far the addresses must lie apart."""
    spans = [byte_span(shape, strides, dtype.itemsize) for dtype, shape, strides in expected]
    spans += [(0, size) for _, size in kept]
    return [
        (one, other, spans[other][0] - spans[one][1], spans[other][1] - spans[one][0])
        for one in written
        for other in range(len(spans))
        if one != other and spans[one] != (0, 0) and spans[other] != (0, 0) and (other not in written or other < one)
    ]


def _words(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)


def _word(value: object, offset: int) -> int:
    return ctypes.c_int64.from_address(id(value) + offset).value
