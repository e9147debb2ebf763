"""Reads and writes of memory: single elements, contiguous vectors, strided lanes, each with or without a mask."""

from __future__ import annotations

from tiledsl.backend_cpu.functions.byte_products import turn_signs
from tiledsl.backend_cpu.functions.convert import from_memory, memory_type, to_memory
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, VectorType
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.storage import PackedLeft, Place, Point, Storage
from tiledsl.ir.dtypes import DType, i64

LEAST_MASKED = 4
"""Bytes of the least elements that all machines store under a mask."""


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
    left = o.smaller(writer, o.subtract(writer, size, index), str(lanes))
    return _compared(writer, "slt", left, lanes)


def lanes_inside(writer: FunctionWriter, index: str, size: str, lanes: int) -> str:
    """The mask of the lanes from `index` on, which may be below 0, that lie before `size` and not below 0."""
    first, last = (
        o.smaller(writer, o.larger(writer, o.subtract(writer, end, index), "0"), str(lanes)) for end in ("0", size)
    )
    inside = both(writer, _compared(writer, "sge", first, lanes), _compared(writer, "slt", last, lanes), lanes)
    assert inside is not None
    return inside


def _compared(writer: FunctionWriter, order: str, count: str, lanes: int) -> str:
    """How the number of each lane compares with a count of lanes: in 32 bits, which are as wide as most elements."""
    narrow = writer.emit(f"trunc i64 {count} to i32")
    one = writer.emit(f"insertelement <{lanes} x i32> poison, i32 {narrow}, i64 0")
    each = writer.emit(f"shufflevector <{lanes} x i32> {one}, <{lanes} x i32> poison, <{lanes} x i32> zeroinitializer")
    numbers = ", ".join(f"i32 {lane}" for lane in range(lanes))
    return writer.emit(f"icmp {order} <{lanes} x i32> <{numbers}>, {each}")


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
                loaded = _load_masked(writer, pointer, lanes_type, mask, passed)
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
    """Lanes that lie apart. Those `NEAR` each other are picked from as many vectors, and elements in the other
    direction from one, since a gather takes as long as reading each lane. No vector reaches beyond the first or the
    last lane.
    """
    near = [stride for stride in place.near if mask is None or stride > 1]
    if o.is_literal(place.lane_stride):
        near = [stride for stride in near if str(stride) == place.lane_stride]
        if near:
            return _pick(writer, base, place.offset, type_, near[0], mask, passed)
    if not near:
        return _gather(writer, base, place, type_, mask, passed)
    slot, done = writer.alloca(str(type_)), writer.new_label("read")
    for stride in near:
        found, otherwise = writer.new_label("near"), writer.new_label("apart")
        writer.branch_if(writer.emit(f"icmp eq i64 {place.lane_stride}, {stride}"), found, otherwise)
        writer.start(found)
        picked = _pick(writer, base, place.offset, type_, stride, mask, passed)
        writer.line(f"store {type_} {picked}, ptr {slot}")
        writer.branch(done)
        writer.start(otherwise)
    writer.line(f"store {type_} {_gather(writer, base, place, type_, mask, passed)}, ptr {slot}")
    writer.branch(done)
    writer.start(done)
    return writer.emit(f"load {type_}, ptr {slot}")


def _pick(
    writer: FunctionWriter, base: str, offset: str, type_: VectorType, stride: int, mask: str | None, passed: str
) -> str:
    """`<x0, x(stride), x(2 stride), ...>` from vectors that lie behind each other; the last one ends with the last
    element."""
    lanes = type_.lanes
    if stride < 0:
        return _backwards(writer, base, offset, type_)
    starts, where = _vectors_of(lanes, stride)
    vectors: list[str] = []
    for start, lane_of in zip(starts, _lanes_in(where, stride)):
        place = o.add(writer, offset, str(start))
        if mask is None:
            vectors.append(_whole(writer, base, place, type_))
        else:
            pointer = o.element_pointer(writer, base, place, type_.dtype)
            wanted = _spread(writer, mask, lanes, lane_of)
            vectors.append(_load_masked(writer, pointer, type_, wanted, "zeroinitializer"))
    picked = vectors[0]
    for number, vector in enumerate(vectors[1:], 1):
        lanes_of = [
            lanes + at if of == number else lane if of < number and number > 1 else at
            for lane, (of, at) in enumerate(where)
        ]
        picked = _shuffled(writer, type_, picked, vector, lanes_of)
    if mask is None or passed == "zeroinitializer":
        return picked
    return writer.emit(f"select {mask_type(lanes)} {mask}, {type_} {picked}, {type_} {passed}")


def _vectors_of(lanes: int, stride: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Where the vectors begin that hold lanes that far apart, and for each lane which of them it is in, and where."""
    last = (lanes - 1) * (stride - 1)
    starts = [*range(0, lanes * (stride - 1), lanes), last]
    places = (min(lane * stride // lanes, stride - 1) for lane in range(lanes))
    return starts, [(number, lane * stride - starts[number]) for lane, number in enumerate(places)]


def _lanes_in(where: list[tuple[int, int]], stride: int) -> list[dict[int, int]]:
    """For each vector: which lane lies at a place of it."""
    return [{at: lane for lane, (of, at) in enumerate(where) if of == number} for number in range(stride)]


def _spread(writer: FunctionWriter, mask: str | None, lanes: int, lane_of: dict[int, int]) -> str:
    """The mask of a vector that holds some of the lanes: of these where they are wanted, and nothing else."""
    if mask is None:
        return "<" + ", ".join(f"i1 {'true' if at in lane_of else 'false'}" for at in range(lanes)) + ">"
    picked = ", ".join(f"i32 {lane_of.get(at, lanes)}" for at in range(lanes))
    type_ = mask_type(lanes)
    return writer.emit(f"shufflevector {type_} {mask}, {type_} zeroinitializer, <{lanes} x i32> <{picked}>")


def _load_masked(writer: FunctionWriter, pointer: str, type_: VectorType, mask: str, passed: str) -> str:
    return writer.call(
        f"llvm.masked.load.{type_.suffix}.p0",
        str(type_),
        [
            ("ptr", pointer),
            ("i32", str(type_.dtype.bytes)),
            (mask_type(type_.lanes), mask),
            (str(type_), passed),
        ],
    )


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
        _write_strided(writer, base, place, type_, value, mask)
        return
    pointer = o.element_pointer(writer, base, place.offset, dtype)
    if mask is None:
        writer.line(f"store {type_} {value}, ptr {pointer}, align {dtype.bytes}")
    else:
        if type_.element.startswith("i") and dtype.bytes < i64.bytes:
            mask = _opaque_mask(writer, mask, lanes)
        _store_masked(writer, pointer, type_, value, mask)


def _write_strided(
    writer: FunctionWriter, base: str, place: Place, type_: VectorType, value: str, mask: str | None
) -> None:
    """Lanes that lie apart: those near each other go under masks, by as many vectors as hold them."""
    near = [stride for stride in place.near if stride > 1 and type_.dtype.bytes >= LEAST_MASKED]
    done = writer.new_label("written")
    for stride in near:
        found, otherwise = writer.new_label("near"), writer.new_label("apart")
        writer.branch_if(writer.emit(f"icmp eq i64 {place.lane_stride}, {stride}"), found, otherwise)
        writer.start(found)
        starts, where = _vectors_of(type_.lanes, stride)
        for start, lane_of in zip(starts, _lanes_in(where, stride)):
            lanes = [lane_of.get(at, 0) for at in range(type_.lanes)]
            pointer = o.element_pointer(writer, base, o.add(writer, place.offset, str(start)), type_.dtype)
            _store_masked(
                writer, pointer, type_, _shuffled(writer, type_, value, "poison", lanes),
                _spread(writer, mask, type_.lanes, lane_of),
            )  # fmt: skip
        writer.branch(done)
        writer.start(otherwise)
    pointers = gather_pointers(writer, base, lane_offsets(writer, place, type_.lanes), type_)
    write_scattered(writer, pointers, type_, value, mask)
    if near:
        writer.branch(done)
        writer.start(done)


def _store_masked(writer: FunctionWriter, pointer: str, type_: VectorType, value: str, mask: str) -> None:
    writer.call(
        f"llvm.masked.store.{type_.suffix}.p0",
        "void",
        [(str(type_), value), ("ptr", pointer), ("i32", str(type_.dtype.bytes)), (mask_type(type_.lanes), mask)],
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
