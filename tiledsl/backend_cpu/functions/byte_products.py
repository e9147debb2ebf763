"""Products of bytes, four along k at a time, where the machine has an instruction for it (VNNI).

`vpdpbusd` adds to each 32-bit sum four products of an unsigned byte with a signed one. The operands of a dot are both
signed or both not, so the left one is packed with its sign bits turned over, which moves it by 128 into the other kind,
and the sums start from what that is too much or too little:

    i8 x i8    sum of (a + 128) * b    starts from -128 * sum of b     a + 128 is unsigned
    u8 x u8    sum of (a - 128) * b    starts from +128 * sum of b     a - 128 is signed

All of it is modulo 2**32, as the sums are, so the result is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.backend_cpu.functions.grouped_products import GroupedProduct
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, ModuleWriter, VectorType
from tiledsl.ir.dtypes import DType, f32, i8, u8
from tiledsl.passes.machine import CpuMachine, products_in_lane

GROUP = 4
_SIGN = 0x80
_ONES = 0x01010101


@dataclass(frozen=True)
class ByteProduct(GroupedProduct):
    """Groups of four bytes: one of `left` and `right` is unsigned, the other signed."""

    offset: int
    """What the packed left operand is more than the real one: 128 or -128."""
    intrinsic: str

    @property
    def name(self) -> str:
        return f"{self.left}_{self.right}_{self.offset}"

    def add(self, writer: FunctionWriter, vector: VectorType, total: str, left: str, right: str) -> str:
        unsigned, signed = (left, right) if self.left == u8 else (right, left)
        text = str(vector)
        return writer.call(self.intrinsic, text, [(text, total), (text, unsigned), (text, signed)])


def byte_product_for(machine: CpuMachine, total: DType, left: DType, right: DType) -> ByteProduct | None:
    """How the machine multiplies bytes of these dtypes in groups; None where it does not, or they are no bytes."""
    if products_in_lane(total, left, right) != GROUP or not machine.takes_together(GROUP):
        return None
    other, offset = (u8, 128) if left == i8 else (i8, -128)
    return ByteProduct(other, right, GROUP, offset, f"llvm.x86.avx512.vpdpbusd.{machine.vector_bytes * 8}")


def turn_signs(writer: FunctionWriter, value: str, type_: VectorType) -> str:
    """Bytes moved by 128: their sign bits turned over."""
    return writer.emit(f"xor {type_} {value}, {writer.splat(type_, str(_SIGN - 256))}")


def column_sums_function(module: ModuleWriter, product: ByteProduct, vector: VectorType, vectors: int) -> str:
    """The name of `void sums(ptr b, ptr into, i64 steps)`: -offset times the sums of a panel's columns.

    The panel is `vectors` vectors wide and has `steps` groups along k.
    """
    name = f"column_sums_{product.right}_{product.offset}_{vectors}"
    if name in module.names:
        return name
    module.names.add(name)
    writer = FunctionWriter(
        module, f"internal void @{name}(ptr noalias %b, ptr noalias %into, i64 %steps)", "noinline nounwind"
    )
    slots = [writer.alloca(str(vector)) for _ in range(vectors)]
    for slot in slots:
        writer.line(f"store {vector} zeroinitializer, ptr {slot}")
    ones = writer.splat(vector, str(_ONES))
    with writer.loop("0", "%steps") as step:
        for column, slot in enumerate(slots):
            place = o.add(writer, o.multiply(writer, step, str(vectors * vector.lanes)), str(column * vector.lanes))
            pointer = o.element_pointer(writer, "%b", place, vector.dtype)
            right = writer.emit(f"load {vector}, ptr {pointer}, align 1")
            before = writer.emit(f"load {vector}, ptr {slot}")
            writer.line(f"store {vector} {product.add(writer, vector, before, ones, right)}, ptr {slot}")
    factor = writer.splat(vector, str(-product.offset))
    for column, slot in enumerate(slots):
        total = writer.emit(f"mul {vector} {writer.emit(f'load {vector}, ptr {slot}')}, {factor}")
        pointer = o.element_pointer(writer, "%into", str(column * vector.lanes), vector.dtype)
        writer.line(f"store {vector} {total}, ptr {pointer}, align {f32.bytes}")
    writer.line("ret void")
    writer.finish()
    return name
