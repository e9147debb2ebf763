"""Reads and writes of memory: single elements, contiguous vectors, strided lanes, each with or without a mask."""

from __future__ import annotations

from tiledsl.backend_cpu.functions.byte_products import turn_signs
from tiledsl.backend_cpu.functions.convert import from_memory, memory_type, to_memory
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, VectorType
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.storage import PackedLeft, Place, Point, Storage
from tiledsl.ir.dtypes import DType, i64


def lane_numbers(lanes: int) -> str:
    """`<i64 0, i64 1, ...>`"""
    return "<" + ", ".join(f"i64 {i}" for i in range(lanes)) + ">"


def lane_offsets(writer: FunctionWriter, place: Place, lanes: int) -> str:
    """A vector with the element offset of each lane."""
    type_ = f"<{lanes} x i64>"
    base = splat_index(writer, place.offset, lanes)
    stride = splat_index(writer, place.lane_stride, lanes)
    return writer.emit(f"add {type_} {base}, {writer.emit(f'mul {type_} {stride}, {lane_numbers(lanes)}')}")


def splat_index(writer: FunctionWriter, value: str, lanes: int) -> str:
    """An i64 operand in every lane."""
    one = writer.emit(f"insertelement <{lanes} x i64> poison, i64 {value}, i64 0")
    return writer.emit(f"shufflevector <{lanes} x i64> {one}, <{lanes} x i64> poison, <{lanes} x i32> zeroinitializer")


def splat_mask(writer: FunctionWriter, condition: str, lanes: int) -> str:
    """An i1 operand in every lane."""
    one = writer.emit(f"insertelement <{lanes} x i1> poison, i1 {condition}, i64 0")
    return writer.emit(f"shufflevector <{lanes} x i1> {one}, <{lanes} x i1> poison, <{lanes} x i32> zeroinitializer")


def lanes_left(writer: FunctionWriter, index: str, size: str, lanes: int) -> str:
    """The mask of the lanes from `index` on that lie before `size`."""
    left = splat_index(writer, o.subtract(writer, size, index), lanes)
    return writer.emit(f"icmp ult <{lanes} x i64> {lane_numbers(lanes)}, {left}")


def both(writer: FunctionWriter, left: str | None, right: str | None, lanes: int) -> str | None:
    """The conjunction of two masks, either of which may be None for all."""
    if left is None or right is None:
        return left if right is None else right
    return writer.emit(f"and {mask_type(lanes)} {left}, {right}")


def mask_type(lanes: int) -> str:
    return "i1" if lanes == 1 else f"<{lanes} x i1>"


def read(
    writer: FunctionWriter,
    base: str,
    place: Place,
    dtype: DType,
    lanes: int,
    mask: str | None = None,
    other: str | None = None,
) -> str:
    """The element or vector at `place`, in register form. Where the mask is false, `other` (a scalar) or zero."""
    lanes_type = memory_type(VectorType(dtype, lanes))
    if lanes == 1:
        loaded = _read_element(writer, base, place, dtype, mask, other)
    else:
        passed = (
            "zeroinitializer"
            if other is None
            else writer.splat(lanes_type, to_memory(writer, other, VectorType(dtype)))
        )
        if place.lane_stride != "1":
            loaded = _read_strided(writer, base, place, lanes_type, mask, passed)
        else:
            pointer = o.element_pointer(writer, base, place.offset, dtype)
            if mask is None:
                loaded = writer.emit(f"load {lanes_type}, ptr {pointer}, align {dtype.bytes}")
            else:
                loaded = writer.call(
                    f"llvm.masked.load.{lanes_type.suffix}.p0",
                    str(lanes_type),
                    [("ptr", pointer), ("i32", str(dtype.bytes)), (mask_type(lanes), mask), (str(lanes_type), passed)],
                )
    return from_memory(writer, loaded, VectorType(dtype, lanes))


def _read_element(
    writer: FunctionWriter, base: str, place: Place, dtype: DType, condition: str | None, other: str | None
) -> str:
    type_ = memory_type(VectorType(dtype))
    if condition is None:
        pointer = o.element_pointer(writer, base, place.offset, dtype)
        return writer.emit(f"load {type_}, ptr {pointer}, align {dtype.bytes}")
    default = o.literal(0, dtype) if other is None else other
    slot = writer.alloca(str(type_))
    inside, done = writer.new_label("inside"), writer.new_label("done")
    writer.line(f"store {type_} {to_memory(writer, default, VectorType(dtype))}, ptr {slot}")
    writer.branch_if(condition, inside, done, likely=True)
    writer.start(inside)
    pointer = o.element_pointer(writer, base, place.offset, dtype)
    loaded = writer.emit(f"load {type_}, ptr {pointer}, align {dtype.bytes}")
    writer.line(f"store {type_} {loaded}, ptr {slot}")
    writer.branch(done)
    writer.start(done)
    return writer.emit(f"load {type_}, ptr {slot}")


def _read_strided(
    writer: FunctionWriter, base: str, place: Place, type_: VectorType, mask: str | None, passed: str
) -> str:
    """Lanes that lie apart. Every other element is picked from two vectors, and elements in the other direction from
    one, since a gather takes as long as reading each lane. No vector reaches beyond the first or the last lane.
    """
    if mask is not None:
        return _gather(writer, base, place, type_, mask, passed)
    slot, done = writer.alloca(str(type_)), writer.new_label("read")
    for stride, pick in ((2, _every_other), (-1, _backwards)):
        found, otherwise = writer.new_label("near"), writer.new_label("apart")
        writer.branch_if(writer.emit(f"icmp eq i64 {place.lane_stride}, {stride}"), found, otherwise)
        writer.start(found)
        writer.line(f"store {type_} {pick(writer, base, place.offset, type_)}, ptr {slot}")
        writer.branch(done)
        writer.start(otherwise)
    writer.line(f"store {type_} {_gather(writer, base, place, type_, None, passed)}, ptr {slot}")
    writer.branch(done)
    writer.start(done)
    return writer.emit(f"load {type_}, ptr {slot}")


def _every_other(writer: FunctionWriter, base: str, offset: str, type_: VectorType) -> str:
    """`<x0, x2, x4, ...>`: the second vector begins where it ends with the last element."""
    lanes = type_.lanes
    first, second = (_whole(writer, base, o.add(writer, offset, start), type_) for start in ("0", str(lanes - 1)))
    return _shuffled(writer, type_, first, second, [2 * i if 2 * i < lanes else 2 * i + 1 for i in range(lanes)])


def _backwards(writer: FunctionWriter, base: str, offset: str, type_: VectorType) -> str:
    """`<x0, x-1, x-2, ...>`"""
    lanes = type_.lanes
    vector = _whole(writer, base, o.add(writer, offset, str(1 - lanes)), type_)
    return _shuffled(writer, type_, vector, "poison", list(range(lanes))[::-1])


def _whole(writer: FunctionWriter, base: str, offset: str, type_: VectorType) -> str:
    pointer = o.element_pointer(writer, base, offset, type_.dtype)
    return writer.emit(f"load {type_}, ptr {pointer}, align {type_.dtype.bytes}")


def _shuffled(writer: FunctionWriter, type_: VectorType, first: str, second: str, lanes: list[int]) -> str:
    picked = ", ".join(f"i32 {lane}" for lane in lanes)
    return writer.emit(f"shufflevector {type_} {first}, {type_} {second}, <{len(lanes)} x i32> <{picked}>")


def _gather(writer: FunctionWriter, base: str, place: Place, type_: VectorType, mask: str | None, passed: str) -> str:
    lanes = type_.lanes
    pointers = gather_pointers(writer, base, lane_offsets(writer, place, lanes), type_)
    return read_gathered(writer, pointers, type_, mask, passed)


def gather_pointers(writer: FunctionWriter, base: str, offsets: str, type_: VectorType) -> str:
    """A vector of addresses from a vector of element offsets."""
    return writer.emit(f"getelementptr i{type_.dtype.bytes * 8}, ptr {base}, <{type_.lanes} x i64> {offsets}")


def read_gathered(writer: FunctionWriter, pointers: str, type_: VectorType, mask: str | None, passed: str) -> str:
    """One element from each address, `passed` where the mask is false. The result is in memory form."""
    lanes = type_.lanes
    mask = all_lanes(lanes) if mask is None else mask
    return writer.call(
        f"llvm.masked.gather.{type_.suffix}.v{lanes}p0",
        str(type_),
        [
            (f"<{lanes} x ptr>", pointers),
            ("i32", str(type_.dtype.bytes)),
            (mask_type(lanes), mask),
            (str(type_), passed),
        ],
    )


def all_lanes(lanes: int) -> str:
    return "<" + ", ".join(["i1 true"] * lanes) + ">"


def write(
    writer: FunctionWriter, base: str, place: Place, dtype: DType, lanes: int, value: str, mask: str | None = None
) -> None:
    """Stores an element or a vector given in register form; nothing where the mask is false."""
    type_ = memory_type(VectorType(dtype, lanes))
    value = to_memory(writer, value, VectorType(dtype, lanes))
    if lanes == 1:
        _write_element(writer, base, place, dtype, value, mask)
        return
    if place.lane_stride != "1":
        pointers = gather_pointers(writer, base, lane_offsets(writer, place, lanes), type_)
        write_scattered(writer, pointers, type_, value, mask)
        return
    pointer = o.element_pointer(writer, base, place.offset, dtype)
    if mask is None:
        writer.line(f"store {type_} {value}, ptr {pointer}, align {dtype.bytes}")
    else:
        if type_.element.startswith("i") and dtype.bytes < i64.bytes:
            mask = _opaque_mask(writer, mask, lanes)
        writer.call(
            f"llvm.masked.store.{type_.suffix}.p0",
            "void",
            [(str(type_), value), ("ptr", pointer), ("i32", str(dtype.bytes)), (mask_type(lanes), mask)],
        )


def _opaque_mask(writer: FunctionWriter, mask: str, lanes: int) -> str:
    """The mask as bits that LLVM cannot know when compiling.

    Where LLVM sees that just one lane is stored, it stores a scalar instead. Where the vector comes from a truncation,
    its code generator for x86 forgets that, and stores the wider element: beyond the end of the array.
    """
    word = f"i{max(lanes, 32)}"
    bits = writer.emit(f"bitcast {mask_type(lanes)} {mask} to i{lanes}")
    wide = bits if lanes >= 32 else writer.emit(f"zext i{lanes} {bits} to {word}")
    hidden = writer.emit(f'call {word} asm "", "=r,0"({word} {wide})')
    back = hidden if lanes >= 32 else writer.emit(f"trunc {word} {hidden} to i{lanes}")
    return writer.emit(f"bitcast i{lanes} {back} to {mask_type(lanes)}")


def write_scattered(writer: FunctionWriter, pointers: str, type_: VectorType, value: str, mask: str | None) -> None:
    """Stores one element (in memory form) to each address, in lane order."""
    lanes = type_.lanes
    writer.call(
        f"llvm.masked.scatter.{type_.suffix}.v{lanes}p0",
        "void",
        [
            (str(type_), value),
            (f"<{lanes} x ptr>", pointers),
            ("i32", str(type_.dtype.bytes)),
            (mask_type(lanes), all_lanes(lanes) if mask is None else mask),
        ],
    )


def _write_element(
    writer: FunctionWriter, base: str, place: Place, dtype: DType, value: str, condition: str | None
) -> None:
    done = ""
    if condition is not None:
        inside, done = writer.new_label("inside"), writer.new_label("done")
        writer.branch_if(condition, inside, done)
        writer.start(inside)
    pointer = o.element_pointer(writer, base, place.offset, dtype)
    writer.line(f"store {memory_type(VectorType(dtype))} {value}, ptr {pointer}, align {dtype.bytes}")
    if condition is not None:
        writer.branch(done)
        writer.start(done)


def read_buffer(context: Context, storage: Storage, point: Point) -> str:
    """An element or vector of a stored tile, in register form of the storage's dtype."""
    place = storage.locate(context.writer, point)
    lanes = 1 if point.lane is None else point.lanes
    needs_mask = point.mask is not None and not (storage.padded and place.lane_stride == "1")
    mask = point.mask if needs_mask and lanes > 1 else None
    return read(context.writer, storage.base, place, storage.dtype, lanes, mask)


def write_buffer(context: Context, storage: Storage, point: Point, value: str) -> None:
    """Stores an element or vector of a tile, given in register form of the storage's dtype."""
    place = storage.locate(context.writer, point)
    lanes = 1 if point.lane is None else point.lanes
    needs_mask = point.mask is not None and not (storage.padded and place.lane_stride == "1")
    mask = point.mask if needs_mask and lanes > 1 else None
    if isinstance(storage, PackedLeft) and storage.turns_signs:
        value = turn_signs(context.writer, value, VectorType(storage.dtype, lanes))
    write(context.writer, storage.base, place, storage.dtype, lanes, value, mask)
