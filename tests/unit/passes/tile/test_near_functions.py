"""Which functions are written by `sigmoid2`, which stay, and that nothing else changes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.gpu_code.gpu_lowering import Array
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.ir.core import Module
from tiledsl.ir.substitute import substitute_symbols
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import Dot, Map
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipeline_text import parse_pipeline
from tiledsl.passes.tile.near_functions import ERROR, MOST

CAPPED = (Path(__file__).parents[3] / "golden/near-functions/capped.tir").read_text(encoding="utf-8")
TEXT = CAPPED[CAPPED.index("func @") : CAPPED.index("# expected")]


def rewritten(text: str) -> Module:
    return PassManager(parse_pipeline("infer-shapes,near-functions,dce")).run(parse_module(text), PassContext())


def functions(module: Module) -> set[str]:
    return {op.fn for op in module.walk() if isinstance(op, Map)}


AS_EXPONENTIALS = {
    "tanh": {},
    "sigmoid": {"fn = tanh": "fn = sigmoid"},
    "factor behind the cap": {"%t = tile.map([%share]) {fn = tanh}": "%u = tile.map([%share]) {fn = tanh}\n"
                              "%t = tile.map([%u, %scale]) {fn = mul}"},
    "base 2": {"fn = exp}": "fn = exp2}"},
}  # fmt: skip
STAYS = {
    "a cap beyond which weights of f16 would differ": {"value = 5.0": "value = 150.0"},
    "a result of f32": {
        "%out: tensor<f16": "%out: tensor<f32", "%result = tile.cast(%quotient) {dtype = f16}\n": "",
        "%result)": "%quotient)",
    },
    "the extremum is stored": {
        "%all = tile.reshape(%sum)": "%both = tile.map([%sum, %last]) {fn = add}\n%all = tile.reshape(%both)",
    },
    "weights of f32": {
        "%weights = tile.cast(%p) {dtype = f16}\n": "", "%rows = tile.load(%v, [%n, :])":
        "%narrow = tile.load(%v, [%n, :])\n%rows = tile.cast(%narrow) {dtype = f32}",
        "tile.dot(%weights,": "tile.dot(%p,",
    },
    "scores are added up": {"tile.reduce([%p]) {axes = [1], fn = add}": "tile.reduce([%s]) {axes = [1], fn = add}"},
    "weights are subtracted": {"%next = tile.map([%kept, %added]) {fn = add}":
                               "%next = tile.map([%kept, %added]) {fn = sub}"},
    "scores are compared": {"%s = tile.map([%t, %cap]) {fn = mul}": "%m2 = tile.map([%t, %cap]) {fn = mul}\n"
               "%seen = tile.map([%m2, %zero]) {fn = gt}\n%s = tile.map([%seen, %m2, %lowest]) {fn = where}"},
    "a factor that is no constant": {"%s = tile.map([%t, %cap])": "%s = tile.map([%t, %scaled])"},
}  # fmt: skip


def changed(changes: dict[str, str]) -> str:
    text = TEXT
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize("name", AS_EXPONENTIALS)
def test_exponents(name: str) -> None:
    text = changed(AS_EXPONENTIALS[name])
    found = functions(rewritten(text))
    assert "sigmoid2" in found
    assert not found & {"tanh", "sigmoid"}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    found = functions(rewritten(changed(STAYS[name])))
    assert "tanh" in found
    assert "sigmoid2" not in found


WIDTH = """%size = tile.size() {value = D}
  %width = tile.cast(%size) {dtype = f64}
  %half = tile.constant() {value = -0.5, dtype = f64}
  %root = tile.map([%width, %half]) {fn = pow}
  %scale = tile.cast(%root) {dtype = f32}"""


def test_a_scale_that_a_plan_makes_a_number_is_one_with_the_cap() -> None:
    module = rewritten(changed({"%scale = tile.constant() {value = 0.25, dtype = f32}": WIDTH}))
    assert [op.fn for op in _made_of_products(module)] == ["mul", "mul", "sigmoid2"]
    substitute_symbols(module.entry, {"D": 64})
    module = PassManager(parse_pipeline("canonicalise,near-functions,dce")).run(module, PassContext())
    scaling, _ = _made_of_products(module)
    assert number_of(scaling.inputs[1]) == pytest.approx(2 / math.log(2) / 5 / 8)


def _made_of_products(module: Module) -> list[Map]:
    """The elementwise ops from a product to the function of it."""
    value = next(op.result for op in module.walk() if isinstance(op, Dot))
    found: list[Map] = []
    while not found or found[-1].fn != "sigmoid2":
        (op,) = value.users
        assert isinstance(op, Map)
        found.append(op)
        value = op.result
    return found


def test_infinities_and_nan() -> None:
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((16, 16)).astype(np.float16) for _ in range(3))
    k[:, 0] = np.where(k[:, 0] == 0, 1, k[:, 0])
    q[1, 0], q[2, 0], q[3, 0], q[4, 0] = np.inf, -np.inf, np.nan, 60000
    results: list[Array] = []
    for module in (parse_module(TEXT), rewritten(TEXT)):
        out = np.zeros((16, 16), np.float16)
        with np.errstate(all="ignore"):
            execute(PassManager(parse_pipeline("infer-shapes")).run(module, PassContext()).entry, [q, k, v, out])
        results.append(out)
    assert np.isnan(results[0][3]).all()
    assert np.isfinite(np.delete(results[0], 3, axis=0)).all()
    assert_close(results[1], results[0], relative=2e-3)


def test_weights_of_16_bits_hide_the_error() -> None:
    """Emulates what GPUs guarantee: ex2 and rcp off by 2**-22 and 2**-23 of themselves, each sum rounded."""
    x: Array = np.concatenate([np.linspace(-60, 60, 400_001), [0.0, -0.0, 1e-30, 200, -200]]).astype(np.float32)
    exact = 1 / (1 + np.exp2(-x.astype(np.float64)))
    for off in (-1, 1):
        with np.errstate(over="ignore"):
            power = (np.exp2(-x.astype(np.float64)) * (1 + off * 2.0**-22)).astype(np.float32)
        total: Array = power + np.float32(1)
        near: Array = (1 / total.astype(np.float64) * (1 + off * 2.0**-23)).astype(np.float32)
        assert np.abs(near - exact).max() <= ERROR
    assert MOST <= 2.0**-11 / 4
