"""Long functions whose loop nests are functions: what nests have in common, and that they compute the same."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.cpu_programs import Array, run_module_on_cpu, run_on_cpu
from tests.support.tile_programs import GEMM, SOFTMAX, run
from tiledsl.backend_cpu.emit.emit_program import emit_program
from tiledsl.backend_cpu.llvm import native, writer
from tiledsl.backend_cpu.llvm.outline import MOST_LOOPS, loops, result_type
from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.machine import host
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import cpu_pipeline

TURN = """
      %c{i} = tile.broadcast(%s{i}) {{shape = [m, N]}}
      %r{i} = tile.map([%row, %c{i}]) {{fn = mul}}
      %s{j} = tile.reduce([%r{i}]) {{axes = [1], fn = add, keepdims = true}}
      tile.store(%z, [%m, {i}:{j}], %s{j})"""


def reductions(turns: int) -> Module:
    """Sums of rows, each of which needs the one before."""
    body = "".join(TURN.format(i=i, j=i + 1) for i in range(turns))
    text = f"""
    func @f(%x: tensor<f32, [M, N]>) {{
      %z = tile.empty() {{shape = [M, {turns}], dtype = f32}}
      %size = tile.size() {{value = M}}
      tile.grid([%size]) {{blocks = [auto]}} body(%m: axis<m>) {{
        %row = tile.load(%x, [%m, :])
        %s0 = tile.reduce([%row]) {{axes = [1], fn = add, keepdims = true}}
        {body}
      }}
      tile.return([%z])
    }}
    """
    return tiled(text)


def tiled(text: str) -> Module:
    return PassManager(cpu_pipeline()).run(parse_module(text), PassContext(host()))


def functions(text: str) -> list[str]:
    return text.split("\ndefine ")[1:]


def test_a_loop_that_is_unrolled_is_compiled_once() -> None:
    """However many turns there are: as many functions, none of them with more than a few loops."""
    emitted = [functions(emit_program(reductions(turns).entry, host()).text) for turns in (20, 60)]
    assert len(emitted[0]) == len(emitted[1])
    for function in emitted[1]:
        assert loops(function) <= MOST_LOOPS


def test_a_short_function_is_left_as_it_is() -> None:
    assert len(functions(emit_program(reductions(1).entry, host()).text)) == 1


def test_turns_that_differ_in_places() -> None:
    x: Array = np.random.default_rng(0).random((19, 37)).astype(np.float32) / 18
    (got,) = run_module_on_cpu(reductions(30), x)
    sums, want = x.sum(1, keepdims=True), list[Array]()
    for _ in range(30):
        sums = (x * sums).sum(1, keepdims=True)
        want.append(sums)
    np.testing.assert_allclose(got, np.concatenate(want, 1), rtol=1e-5)


def test_numbers_that_are_used_behind_a_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_LOOPS", 0)
    text = """
    func @f(%x: tensor<f32, [M, N]>) {
      %z = tile.empty() {shape = [M, N], dtype = f32}
      %size = tile.size() {value = M}
      tile.grid([%size]) {blocks = [32]} body(%m: axis<m>) {
        %row = tile.load(%x, [%m, :])
        %all = tile.reduce([%row]) {axes = [0, 1], fn = add}
        %last = tile.reduce([%row]) {axes = [0, 1], fn = max}
        %scale = tile.map([%all, %last]) {fn = add}
        %wide = tile.broadcast(%scale) {shape = [m, N]}
        %y = tile.map([%row, %wide]) {fn = mul}
        tile.store(%z, [%m, :], %y)
      }
      tile.return([%z])
    }
    """
    x: Array = np.random.default_rng(0).random((21, 40)).astype(np.float32)
    module = tiled(text)
    assert re.search(r"call void @nest0\(.*ptr %t\d+\)", emit_program(module.entry, host()).text)
    for got, want in zip(run_module_on_cpu(module, x, block=32), run(text, x, block=32)):
        assert_close(got, want, terms=900)


def test_every_nest_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_LOOPS", 0)
    a: Array = np.random.default_rng(0).integers(0, 7, (12, 40)).astype(np.float32)
    b: Array = np.random.default_rng(1).integers(0, 5, (40, 20)).astype(np.float32)
    for program, arguments in ((GEMM, (a, b)), (SOFTMAX, (a,))):
        for got, want in zip(run_on_cpu(program, *arguments), run(program, *arguments, block=8)):
            assert_close(got, want, terms=40)


@pytest.mark.parametrize(
    ("parameters", "instruction"),
    [
        ("ptr %p", "load <4 x float>, ptr %p, align 4"),
        ("i64 %a", "add nsw i64 %a, 3"),
        ("<8 x double> %a", "fadd fast <8 x double> %a, %a"),
        ("i64 %a", "icmp slt i64 %a, 4"),
        ("<16 x float> %a", "fcmp uno <16 x float> %a, %a"),
        ("<4 x i1> %c, <4 x i64> %a", "select <4 x i1> %c, <4 x i64> %a, <4 x i64> %a"),
        ("i1 %c, ptr %a", "select i1 %c, ptr %a, ptr %a"),
        ("ptr %a, <16 x i64> %i", "getelementptr i32, ptr %a, <16 x i64> %i"),
        ("ptr %a, i64 %i", "getelementptr inbounds i8, ptr %a, i64 %i"),
        ("<4 x float> %a", "shufflevector <4 x float> %a, <4 x float> poison, <2 x i32> zeroinitializer"),
        ("i64 %a", "insertelement <2 x i64> poison, i64 %a, i64 0"),
        ("<2 x i64> %a", "extractelement <2 x i64> %a, i64 1"),
        ("<4 x i8> %a", "zext <4 x i8> %a to <4 x i32>"),
        ("float %a", "call float @g(float %a)"),
        ("ptr %p, i32 %v", "atomicrmw add ptr %p, i32 %v monotonic, align 4"),
        ("float %a", "fneg float %a"),
        ("", "alloca <4 x float>, align 64"),
    ],
)
def test_types_of_instructions_are_those_of_llvm(parameters: str, instruction: str) -> None:
    """LLVM refuses a function that gives back what it does not say."""
    given = result_type(instruction)
    body = f"{{\n  %r = {instruction}\n  ret {given} %r\n}}"
    native.optimised(f"declare float @g(float)\ndefine {given} @f({parameters}) {body}")
