"""The text of vector constants and instructions."""

from __future__ import annotations

import math

from tiledsl.backend_cpu.functions.lanes import Lanes, vector_literal
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, ModuleWriter, VectorType
from tiledsl.ir.dtypes import bf16, bool_, f32, i32, u8


def test_literals_repeat_in_every_lane() -> None:
    assert vector_literal(7, VectorType(i32)) == "7"
    assert vector_literal(-1, VectorType(u8, 2)) == "<i8 255, i8 255>"
    assert vector_literal(True, VectorType(bool_, 2)) == "<i1 true, i1 true>"
    assert vector_literal(0.1, VectorType(f32)) == "0x3FB99999A0000000"  # rounded to f32, written as f64
    assert vector_literal(math.inf, VectorType(bf16)) == str(0x7F80)


def test_instructions_have_the_type_of_the_lanes() -> None:
    module = ModuleWriter()
    writer = FunctionWriter(module, "<2 x float> @f(<2 x float> %x)")
    lanes = Lanes(writer, VectorType(f32, 2))
    larger = lanes.select(lanes.compare("ogt", "%x", lanes.neg("%x")), "%x", lanes.intrinsic("sqrt", "%x"))
    writer.line(f"ret {lanes.type} {larger}")
    writer.finish()
    text = module.text()
    assert "declare <2 x float> @llvm.sqrt.v2f32(<2 x float>)" in text
    assert "fneg <2 x float> %x" in text
    assert "fcmp ogt <2 x float> %x, %t1" in text
    assert "select <2 x i1> %t2, <2 x float> %x, <2 x float> %t3" in text
