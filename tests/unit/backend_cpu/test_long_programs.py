"""Programs of many ops on the CPU: code grows with them in proportion, and depth is no limit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.cpu_programs import Array, run_module_on_cpu, run_on_cpu
from tests.support.tile_programs import GEMM, SOFTMAX, run
from tiledsl.backend_cpu.emit.emit_program import emit_program
from tiledsl.backend_cpu.llvm import native
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.analysis.scalars.coordinates import CoordinateAnalysis
from tiledsl.passes.machine import host
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import cpu_pipeline

LOGISTIC = """
      %{after} = tile.map([%{before}, %{before}_rest]) {{fn = mul}}
      %{after}_rest = tile.map([%one, %{after}]) {{fn = sub}}"""
"""Every value is read twice."""
EULER = """
      %{after}_s = tile.map([%{before}]) {{fn = sin}}
      %{after}_t = tile.map([%{after}_s, %step]) {{fn = mul}}
      %{after}_rest = tile.map([%{before}_rest, %{after}_t]) {{fn = sub}}
      %{after}_u = tile.map([%{after}_rest, %step]) {{fn = mul}}
      %{after} = tile.map([%{before}, %{after}_u]) {{fn = add}}"""


def text(body: str, steps: int) -> str:
    """A chain of steps on two values, both of which are stored."""
    lines = "".join(body.format(before=f"v{i}", after=f"v{i + 1}") for i in range(steps))
    return f"""
    func @f(%x: tensor<f32, [N]>, %y: tensor<f32, [N]>) {{
      %z = tile.empty() {{shape = [N], dtype = f32}}
      %w = tile.empty() {{shape = [N], dtype = f32}}
      %size = tile.size() {{value = N}}
      tile.grid([%size]) {{blocks = [auto]}} body(%n: axis<n>) {{
      %one = tile.constant() {{value = 1.0, dtype = f32}}
      %step = tile.constant() {{value = 0.01, dtype = f32}}
      %v0 = tile.load(%x, [%n])
      %v0_rest = tile.load(%y, [%n])
      {lines}
      tile.store(%z, [%n], %v{steps})
      tile.store(%w, [%n], %v{steps}_rest)
      }}
      tile.return([%z, %w])
    }}
    """


def tiled(body: str, steps: int) -> Module:
    return PassManager(cpu_pipeline()).run(parse_module(text(body, steps)), PassContext(host()))


def numbers() -> tuple[Array, Array]:
    x: Array = np.linspace(0.1, 0.9, 37, dtype=np.float32)
    y: Array = np.linspace(0.9, 0.1, 37, dtype=np.float32)
    return x, y


@pytest.mark.parametrize("body", [LOGISTIC, EULER], ids=["logistic", "euler"])
def test_values_read_twice_are_evaluated_once(body: str) -> None:
    x, y = numbers()
    sizes: list[int] = []
    for steps in (40, 160):
        expected = run(text(body, steps), x, y, block=16)
        for got, want in zip(run_module_on_cpu(tiled(body, steps), x, y), expected):
            assert_close(got, want, terms=steps)
        sizes.append(emit_program(tiled(body, steps).entry, host()).text.count("\n"))
    assert sizes[1] < 5 * sizes[0]


@pytest.mark.parametrize("ops", [3_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_long_chains(ops: int) -> None:
    program = emit_program(tiled(LOGISTIC, ops // 2).entry, host())
    assert program.text.count("\n") < 5 * ops


def test_programs_of_many_loops_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "MANY_LOOPS", 0)
    x, y = numbers()
    expected = run(text(EULER, 3), x, y, block=16)
    for got, want in zip(run_module_on_cpu(tiled(EULER, 3), x, y), expected):
        assert_close(got, want, terms=3)
    a: Array = np.random.default_rng(0).integers(0, 7, (12, 40)).astype(np.float32)
    b: Array = np.random.default_rng(1).integers(0, 5, (40, 20)).astype(np.float32)
    for program, arguments in ((GEMM, (a, b)), (SOFTMAX, (a,))):
        for got, want in zip(run_on_cpu(program, *arguments), run(program, *arguments, block=8)):
            assert_close(got, want, terms=40)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_functions_that_are_used_often_are_called(dtype: str) -> None:
    x, y = (v.astype(to_numpy(BY_NAME[dtype])) for v in numbers())
    program = text(EULER, 40).replace("f32", dtype)
    module = PassManager(cpu_pipeline()).run(parse_module(program), PassContext(host()))
    assert f"@map_sin_{dtype}_" in emit_program(module.entry, host()).text
    for got, want in zip(run_module_on_cpu(module, x, y), run(program, x, y, block=16)):
        assert_close(got, want, terms=40)


def test_long_chains_of_indices() -> None:
    lines = "".join(f"%i{n + 1} = tile.map([%i{n}, %c]) {{fn = add}}\n" for n in range(1500))
    program = f"""
    func @f(%x: tensor<f32, [N]>) {{
      %z = tile.empty() {{shape = [N], dtype = f32}}
      %size = tile.size() {{value = N}}
      tile.grid([%size]) {{blocks = [auto]}} body(%n: axis<n>) {{
        %c = tile.index(%n)
        %i0 = tile.index(%n)
        {lines}
        %v = tile.load(%x, [%i1500])
        tile.store(%z, [%n], %v)
      }}
      tile.return([%z])
    }}
    """
    function = parse_module(program).entry
    analysis = CoordinateAnalysis(function)
    (last,) = (op.results[0] for op in function.walk() if op.results and op.results[0].name == "i1500")
    assert analysis.span(last).lows[0] == 0


def test_the_lanes_of_an_argmax_meet_by_halves() -> None:
    program = """
    func @f(%x: tensor<f32, [M, N]>) {
      %z = tile.empty() {shape = [M], dtype = i64}
      %size = tile.size() {value = M}
      tile.grid([%size]) {blocks = [auto]} body(%m: axis<m>) {
        %v = tile.load(%x, [%m, :])
        %at = tile.reduce([%v]) {axes = [1], fn = argmax}
        tile.store(%z, [%m], %at)
      }
      tile.return([%z])
    }
    """
    module = PassManager(cpu_pipeline()).run(parse_module(program), PassContext(host()))
    assert emit_program(module.entry, host()).text.count("extractelement") <= 4
