"""The host's side of `tile.print`: compiled code hands values to a callback, which formats and prints them.

The values of one print are written down as words: for each value the address of its elements, then its sizes. A tile is
copied to scratch densely first.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tiledsl.ir.dtypes import BY_NAME, to_numpy

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))


@dataclass(frozen=True)
class PrintFormat:
    """What the host knows of a print: its text, and the dtype name and rank of each value."""

    text: str
    values: tuple[tuple[str, int], ...]


def printer(formats: Sequence[PrintFormat]) -> Any:
    """The callback for a program with those prints (keep it alive while the program runs)."""

    def show(number: int, words: Any) -> None:
        form, at, parts = formats[number], 0, [formats[number].text] if formats[number].text else []
        for name, rank in form.values:
            shape = tuple(words[at + 1 + axis] for axis in range(rank))
            parts.append(str(_array(words[at], name, shape)))
            at += 1 + rank
        sys.stdout.write(" ".join(parts) + "\n")

    return CALLBACK(show)


def _array(address: int, name: str, shape: tuple[int, ...]) -> npt.NDArray[Any] | np.generic:
    dtype = to_numpy(BY_NAME[name])
    count = int(np.prod(shape, dtype=np.int64))
    data = ctypes.string_at(address, count * dtype.itemsize)
    array: npt.NDArray[Any] = np.reshape(np.frombuffer(data, dtype), shape)
    return array if shape else array[()]
