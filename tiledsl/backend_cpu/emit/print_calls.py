"""The compiled side of `tile.print`: writes the values of a print down and calls the host (see `prints.py`)."""

from __future__ import annotations

from dataclasses import replace

from tiledsl.backend_cpu.calls.prints import PrintFormat
from tiledsl.backend_cpu.functions.convert import memory_type, to_memory
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import VectorType
from tiledsl.backend_cpu.values.context import Context, row_major
from tiledsl.backend_cpu.values.storage import Buffer
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import i64


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
        slot = writer.alloca(str(memory_type(type_)))
        stored = to_memory(writer, context.scalars[value], type_)
        writer.line(f"store {memory_type(type_)} {stored}, ptr {slot}")
        words.append(writer.emit(f"ptrtoint ptr {slot} to i64"))
    record = writer.alloca(f"[{max(1, len(words))} x i64]")
    for position, word in enumerate(words):
        writer.line(f"store i64 {word}, ptr {o.element_pointer(writer, record, str(position), i64)}")
    callback = writer.emit(f"load ptr, ptr {context.callback}")
    writer.line(f"call void {callback}(i64 {number}, ptr {record})")


def dense(context: Context, buffer: Buffer, value: Value) -> Buffer:
    """The same room with rows packed for the block's own extents."""
    strides = row_major(context.writer, [context.dim(dim) for dim in value.shape])
    return replace(buffer, strides=strides, padded=False)
