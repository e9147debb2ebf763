"""The matrix product of packed tiles: C[M, N] (+)= A[M, K] @ B[K, N], by a micro-kernel that lives in registers.

The micro-kernel holds `rows` x `vectors` accumulators, reads `vectors` vectors of B and broadcasts `rows` elements of
A at each step along k. With 32 registers it is 8 x 3 (24 accumulators, 3 vectors of B, broadcasts from memory), with
16 it is 4 x 3. Per step it then needs 11 loads for 24 multiply-adds, so the multipliers, not the loads, are the
limit. Narrower variants serve the last columns; rows are always whole, since buffers have room for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.backend_cpu.functions.byte_products import ByteProduct, byte_product_for, column_sums_function
from tiledsl.backend_cpu.functions.grouped_products import GroupedProduct
from tiledsl.backend_cpu.functions.half_products import half_product_for
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, ModuleWriter, VectorType
from tiledsl.ir.dtypes import DType, f32
from tiledsl.passes.machine import CpuMachine


@dataclass(frozen=True)
class Microkernel:
    """The shape of the register tile for one element type on one machine."""

    dtype: DType
    """Of the sums."""
    rows: int
    vectors: int
    lanes: int
    grouped: GroupedProduct | None = None
    """How narrow operands are multiplied, several along k at a time; None: operands are packed in the dtype of sums."""

    @property
    def bytes(self) -> ByteProduct | None:
        """How operands of a byte are multiplied, if they are of a byte."""
        return self.grouped if isinstance(self.grouped, ByteProduct) else None

    @property
    def left(self) -> DType:
        """Of the packed left operand."""
        return self.dtype if self.grouped is None else self.grouped.left

    @property
    def right(self) -> DType:
        """Of the packed right operand."""
        return self.dtype if self.grouped is None else self.grouped.right

    @property
    def group(self) -> int:
        """Elements along k that one step takes: in a packed right operand they are neighbours."""
        return 1 if self.grouped is None else self.grouped.group

    @property
    def name(self) -> str:
        """What tells its functions, and what is packed for it, from others."""
        return f"{self.dtype}" if self.grouped is None else f"{self.dtype}_{self.grouped.name}"

    @property
    def panel(self) -> int:
        """Columns of a full panel of B."""
        return self.vectors * self.lanes

    @property
    def vector(self) -> VectorType:
        return VectorType(self.dtype, self.lanes)


def microkernel_for(machine: CpuMachine, dtype: DType, left: DType, right: DType) -> Microkernel:
    """The register tile that fills the machine's vector registers, for sums of `dtype` of products of the other two.

    Its vectors have as many lanes as those that pack its operands, whatever the dtype, so that none of them straddles
    two panels; 64-bit lanes take two registers, and half as many rows.
    """
    registers_per_vector = max(1, dtype.bytes // f32.bytes)
    rows = (8 if machine.vector_registers >= 32 else 4) // registers_per_vector
    grouped = byte_product_for(machine, dtype, left, right) or half_product_for(machine, dtype, left, right)
    return Microkernel(dtype, rows, 3, machine.lanes(f32), grouped)


def dot_function(module: ModuleWriter, kernel: Microkernel, chunk: int) -> str:
    """The name of `void dot(ptr a, i64 a_chunk_stride, ptr b, ptr c, i64 c_stride, i64 m, i64 n, i64 k, i1 fresh)`.

    `a` is a PackedLeft with rows of `chunk` elements (and one vector of padding), `b` a PackedRight. With `fresh`, C is
    overwritten, else added to. Written into the module at first use.
    """
    name = f"dot_{kernel.name}_{chunk}"
    if name not in module.names:
        module.names.add(name)
        for vectors in range(1, kernel.vectors + 1):
            _write_microkernel(module, kernel, chunk, vectors)
        _write_dot(module, kernel, chunk, name)
    return name


def row_stride(kernel: Microkernel, chunk: int) -> int:
    """Elements between rows of a packed left operand."""
    return chunk + kernel.lanes


def _microkernel_name(kernel: Microkernel, chunk: int, vectors: int) -> str:
    return f"microkernel_{kernel.name}_{chunk}_{vectors}"


def _write_dot(module: ModuleWriter, kernel: Microkernel, chunk: int, name: str) -> None:
    signature = (
        f"internal void @{name}(ptr noalias %a, i64 %a_chunk_stride, ptr noalias %b, ptr noalias %c, "
        "i64 %c_stride, i64 %m, i64 %n, i64 %k, i1 %fresh)"
    )
    writer = FunctionWriter(module, signature, "noinline nounwind")
    columns = o.round_up(writer, "%n", kernel.lanes)
    # an empty contraction still has to clear C, so that there is at least one chunk
    depth = o.larger(writer, "%k", "1")
    panel_depth = o.round_up(writer, "%k", kernel.group)
    constants = writer.alloca(f"[{kernel.panel} x {kernel.vector.element}]", align=64) if kernel.bytes else "null"
    with writer.loop("0", depth, str(chunk)) as k0:
        taken = o.smaller(writer, o.subtract(writer, "%k", k0), str(chunk))
        first = writer.emit(f"icmp eq i64 {k0}, 0")
        clear = writer.emit(f"and i1 %fresh, {first}")
        a_offset = o.multiply(writer, o.divide(writer, k0, str(chunk)), "%a_chunk_stride")
        a_chunk = o.element_pointer(writer, "%a", a_offset, kernel.left)
        steps = o.ceil_divide(writer, taken, str(kernel.group))
        with writer.loop("0", columns, str(kernel.panel)) as column:
            width = o.smaller(writer, o.subtract(writer, columns, column), str(kernel.panel))
            b_offset = o.add(writer, o.multiply(writer, column, panel_depth), o.multiply(writer, k0, width))
            b_panel = o.element_pointer(writer, "%b", b_offset, kernel.right)
            c_panel = o.element_pointer(writer, "%c", column, kernel.dtype)
            for vectors in range(1, kernel.vectors + 1):
                matches = writer.emit(f"icmp eq i64 {width}, {vectors * kernel.lanes}")
                run, done = writer.new_label("run"), writer.new_label("ran")
                writer.branch_if(matches, run, done)
                writer.start(run)
                if kernel.bytes is not None:
                    sums = column_sums_function(module, kernel.bytes, kernel.vector, vectors)
                    writer.line(f"call void @{sums}(ptr {b_panel}, ptr {constants}, i64 {steps})")
                with writer.loop("0", "%m", str(kernel.rows)) as row:
                    a_row = o.multiply(writer, row, str(row_stride(kernel, chunk)))
                    a_rows = o.element_pointer(writer, a_chunk, a_row, kernel.left)
                    c_tile = o.element_pointer(writer, c_panel, o.multiply(writer, row, "%c_stride"), kernel.dtype)
                    writer.line(
                        f"call void @{_microkernel_name(kernel, chunk, vectors)}(ptr {a_rows}, ptr {b_panel}, "
                        f"ptr {c_tile}, ptr {constants}, i64 {taken}, i64 %c_stride, i1 {clear})"
                    )
                writer.branch(done)
                writer.start(done)
    writer.line("ret void")
    writer.finish()


def _write_microkernel(module: ModuleWriter, kernel: Microkernel, chunk: int, vectors: int) -> None:
    name = _microkernel_name(kernel, chunk, vectors)
    signature = (
        f"internal void @{name}(ptr noalias %a, ptr noalias %b, ptr noalias %c, ptr noalias %constants, i64 %k, "
        "i64 %c_stride, i1 %fresh)"
    )
    writer = FunctionWriter(module, signature, "noinline nounwind")
    vector = kernel.vector
    tiles = [(row, column) for row in range(kernel.rows) for column in range(vectors)]
    slots = {tile: writer.alloca(str(vector)) for tile in tiles}
    places: dict[tuple[int, int], str] = {}
    for row, column in tiles:
        offset = o.add(writer, o.multiply(writer, "%c_stride", str(row)), str(column * kernel.lanes))
        places[row, column] = o.element_pointer(writer, "%c", offset, kernel.dtype)
    clear, load, loop = writer.new_label("clear"), writer.new_label("load"), writer.new_label("begin")
    writer.branch_if("%fresh", clear, load)
    writer.start(clear)
    for tile in tiles:
        writer.line(f"store {vector} zeroinitializer, ptr {slots[tile]}")
    writer.branch(loop)
    writer.start(load)
    for tile in tiles:
        before = writer.emit(f"load {vector}, ptr {places[tile]}, align {kernel.dtype.bytes}")
        writer.line(f"store {vector} {before}, ptr {slots[tile]}")
    writer.branch(loop)
    writer.start(loop)
    if kernel.bytes is not None:
        _add_constants(writer, kernel, slots)
    if kernel.grouped is None or kernel.bytes is not None:  # of bytes beyond the end nothing counts
        with writer.loop("0", o.ceil_divide(writer, "%k", str(kernel.group))) as depth:
            _step(writer, kernel, chunk, vectors, depth, slots)
    else:
        whole = o.divide(writer, "%k", str(kernel.group))
        with writer.loop("0", whole) as depth:
            _step(writer, kernel, chunk, vectors, depth, slots)
        with writer.loop(whole, o.ceil_divide(writer, "%k", str(kernel.group))) as depth:
            _step(writer, kernel, chunk, vectors, depth, slots, alone=True)
    for tile in tiles:
        after = writer.emit(f"load {vector}, ptr {slots[tile]}")
        writer.line(f"store {vector} {after}, ptr {places[tile]}, align {kernel.dtype.bytes}")
    writer.line("ret void")
    writer.finish()


def _add_constants(writer: FunctionWriter, kernel: Microkernel, slots: dict[tuple[int, int], str]) -> None:
    """Adds what the offset of the packed left operand makes too little of each column."""
    for (_, column), slot in slots.items():
        pointer = o.element_pointer(writer, "%constants", str(column * kernel.lanes), kernel.dtype)
        constant = writer.emit(f"load {kernel.vector}, ptr {pointer}, align {kernel.dtype.bytes}")
        before = writer.emit(f"load {kernel.vector}, ptr {slot}")
        writer.line(f"store {kernel.vector} {writer.emit(f'add {kernel.vector} {before}, {constant}')}, ptr {slot}")


def _step(
    writer: FunctionWriter,
    kernel: Microkernel,
    chunk: int,
    vectors: int,
    depth: str,
    slots: dict[tuple[int, int], str],
    *,
    alone: bool = False,
) -> None:
    """One step along k: an update of all accumulators by one product each, or by those of a group.

    `alone`: of a left group just the first element counts; others may be no numbers, which times 0 are not 0.
    """
    vector = kernel.vector
    right: list[str] = []
    for column in range(vectors):
        offset = o.multiply(writer, depth, str(vectors * kernel.lanes))
        # a group is as wide as a sum
        pointer = o.element_pointer(writer, "%b", o.add(writer, offset, str(column * kernel.lanes)), kernel.dtype)
        right.append(writer.emit(f"load {vector}, ptr {pointer}, align {kernel.right.bytes}"))
    for row in range(kernel.rows):
        place = o.add(writer, o.multiply(writer, depth, str(kernel.group)), str(row * row_stride(kernel, chunk)))
        pointer = o.element_pointer(writer, "%a", place, kernel.left)
        if alone:
            bits = f"i{kernel.dtype.bits}"
            first = writer.emit(f"load {VectorType(kernel.left)}, ptr {pointer}, align {kernel.left.bytes}")
            first = writer.emit(f"zext {VectorType(kernel.left)} {first} to {bits}")
            element = writer.emit(f"bitcast {bits} {first} to {vector.element}")
        else:
            element = writer.emit(f"load {vector.element}, ptr {pointer}, align {kernel.left.bytes}")
        left = writer.splat(vector, element)
        for column in range(vectors):
            slot = slots[row, column]
            before = writer.emit(f"load {vector}, ptr {slot}")
            if kernel.grouped is None:
                total = multiply_add(writer, vector, left, right[column], before)
            else:
                total = kernel.grouped.add(writer, vector, before, left, right[column])
            writer.line(f"store {vector} {total}, ptr {slot}")


def multiply_add(writer: FunctionWriter, vector: VectorType, a: str, b: str, c: str) -> str:
    """a * b + c of vectors: rounded once for floats, modulo the width for integers."""
    if vector.dtype.is_float:
        text = str(vector)
        return writer.call(f"llvm.fma.{vector.suffix}", text, [(text, a), (text, b), (text, c)])
    return writer.emit(f"add {vector} {c}, {writer.emit(f'mul {vector} {a}, {b}')}")
