"""`tile.print`: compiled code hands values to a callback of the host, which formats and prints them.

The values of one print are written down as words: for each value the address of its elements, then its sizes. A tile is
copied to scratch densely first.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tiledsl.backend_cpu import operands as o
from tiledsl.backend_cpu.access import memory_type
from tiledsl.backend_cpu.context import Context
from tiledsl.backend_cpu.convert import to_memory
from tiledsl.backend_cpu.storage import Buffer
from tiledsl.backend_cpu.writer import VectorType
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import BY_NAME, i64, to_numpy

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))


@dataclass(frozen=True)
class PrintFormat:
    """What the host knows of a print: its text, and the dtype name and rank of each value."""

    text: str
    values: tuple[tuple[str, int], ...]


def format_of(op: ops.Print) -> PrintFormat:
    """The format of a print op."""
    return PrintFormat(op.text, tuple((v.dtype.name, len(v.shape)) for v in op.values))


def emit_print(context: Context, op: ops.Print, number: int, tiles: dict[Value, Buffer]) -> None:
    """Calls the host with the values of print `number`; `tiles` has the dense copies of those that are no scalars."""
    writer = context.writer
    words: list[str] = []
    for value in op.values:
        if value.shape:
            words.append(writer.emit(f"ptrtoint ptr {tiles[value].base} to i64"))
            words += [context.dim(dim) for dim in value.shape]
            continue
        type_ = VectorType(value.dtype)
        slot = writer.alloca(str(memory_type(value.dtype, 1)))
        stored = to_memory(writer, context.scalars[value], type_)
        writer.line(f"store {memory_type(value.dtype, 1)} {stored}, ptr {slot}")
        words.append(writer.emit(f"ptrtoint ptr {slot} to i64"))
    record = writer.alloca(f"[{max(1, len(words))} x i64]")
    for position, word in enumerate(words):
        writer.line(f"store i64 {word}, ptr {o.element_pointer(writer, record, str(position), i64)}")
    callback = writer.emit(f"load ptr, ptr {context.callback}")
    writer.line(f"call void {callback}(i64 {number}, ptr {record})")


def dense(context: Context, buffer: Buffer, value: Value) -> Buffer:
    """The same room with rows packed for the block's own extents."""
    strides = ["1"]
    for dim in reversed(value.shape[1:]):
        strides.insert(0, o.multiply(context.writer, strides[0], context.dim(dim)))
    return replace(buffer, strides=tuple(strides), padded=False)


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
