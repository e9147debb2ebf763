"""Products of bf16, two along k at a time, where the machine has an instruction for it (AVX512_BF16).

`vdpbf16ps` adds to each f32 sum the products of two pairs, one after the other, each rounded once to nearest even: as
two multiply-adds in f32 do, but that subnormal numbers count as 0, given or computed (below 2**-126).
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.backend_cpu.functions.grouped_products import GroupedProduct
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, VectorType
from tiledsl.ir.dtypes import DType, bf16
from tiledsl.passes.machine import CpuMachine, products_in_lane

GROUP = 2


@dataclass(frozen=True)
class HalfProduct(GroupedProduct):
    """Pairs of bf16, held as their bits."""

    intrinsic: str

    @property
    def name(self) -> str:
        return f"{self.left}"

    def add(self, writer: FunctionWriter, vector: VectorType, total: str, left: str, right: str) -> str:
        pairs = f"<{vector.lanes * self.group} x bfloat>"
        given = [(pairs, writer.emit(f"bitcast {vector} {one} to {pairs}")) for one in (left, right)]
        return writer.call(self.intrinsic, str(vector), [(str(vector), total), *given])


def half_product_for(machine: CpuMachine, total: DType, left: DType, right: DType) -> HalfProduct | None:
    """How the machine multiplies bf16 in pairs; None where it does not, or operands or sums are of other dtypes."""
    if products_in_lane(total, left, right) != GROUP or not machine.takes_together(GROUP):
        return None
    return HalfProduct(bf16, bf16, GROUP, f"llvm.x86.avx512bf16.dpbf16ps.{machine.vector_bytes * 8}")
