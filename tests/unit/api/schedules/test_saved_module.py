"""Saved modules: what is loaded runs as what was saved, in another process and with no compiler."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings

import tiledsl
from tests.support.fakes.fake_cuda import fake_cuda
from tests.support.generators.random_lowered import RandomLowered, lowered_graphs
from tests.support.graph_texts import CALLEES, LINEAR, VIEWS
from tiledsl.api.modules.build_module import build_module
from tiledsl.api.modules.module import Module
from tiledsl.frontend.trace.structures import Keyed, Leaf, Sequenced
from tiledsl.ir.text.parser import parse_module
from tiledsl.runtime.calls.outputs import as_tuple

RANDOM = np.random.default_rng(3)


def array(*shape: int) -> Any:
    return RANDOM.integers(-4, 5, shape).astype(np.float32)


W, B = array(8, 6), array(6)

PROGRAM = """
import sys, numpy as np, tiledsl
module = tiledsl.load(sys.argv[1])
np.save(sys.argv[3], module(np.load(sys.argv[2])))
unused = "tiledsl.passes.tile", "tiledsl.frontend.kernel.lower", "lark"
print([name for name in sys.modules if name.startswith(unused)])
"""


def linear(arch: str | None) -> Module:
    return build_module(parse_module(LINEAR), {"w": W, "b": B}, ["x"], arch)


@pytest.mark.parametrize("arch", ["cpu", "reference"])
def test_another_process_runs_a_module(arch: str, tmp_path: Path) -> None:
    file, given_, result, x = tmp_path / "m.tiledsl", tmp_path / "x.npy", tmp_path / "y.npy", array(5, 8)
    linear(arch).save(file)
    np.save(given_, x)
    command = [sys.executable, "-c", PROGRAM, str(file), str(given_), str(result)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(tiledsl.__file__).parents[1])
    np.testing.assert_array_equal(np.load(result), x @ W + B)
    if arch == "cpu":
        assert run.stdout.strip() == "[]"


@settings(max_examples=8)
@given(lowered_graphs())
def test_random_graphs(tmp_path_factory: pytest.TempPathFactory, graph: RandomLowered) -> None:
    *names, weight = graph.names
    *arguments, values = graph.arguments()
    file = tmp_path_factory.mktemp("saved") / "module"
    build_module(graph.module, {weight: values}, names, "reference").save(file)
    for actual, wanted in zip(as_tuple(tiledsl.load(file)(*arguments)), graph.expected()):
        np.testing.assert_array_equal(actual, wanted)


def test_a_module_for_a_gpu_is_saved_without_one(tmp_path: Path) -> None:
    file = tmp_path / "m"
    built = build_module(parse_module(VIEWS), {}, ["x", "y"], "sm_90")
    built.save(file)
    loaded = tiledsl.load(file)
    assert loaded.built.arch == "sm_90"
    assert loaded.built.schedule == built.built.schedule
    assert loaded.built.memory == built.built.memory
    assert [p.to_bytes() for p in loaded.built.programs] == [p.to_bytes() for p in built.built.programs]


def test_loaded_modules_are_saved_again_and_run_on_devices(tmp_path: Path) -> None:
    file, again, x = tmp_path / "a", tmp_path / "b", array(5, 8)
    with fake_cuda() as cuda:
        build_module(parse_module(LINEAR), {"w": cuda.tensor(W), "b": B}, ["x"], "sm_90").save(file)
        tiledsl.load(file).save(again)
        module = tiledsl.load(again)
        for _ in range(3):
            np.testing.assert_array_equal(module(cuda.tensor(x)).host, x @ W + B)


def test_narrow_floats_and_numbers(tmp_path: Path) -> None:
    text = f"""
func @model(%x: tensor<f32, [4, 6]>, %w: tensor<bf16, [2]>) {{
  %limit = graph.constant() {{value = -inf, dtype = f32}}
  %low, %high = graph.call([%x, %limit]) {{callee = parts}} : tensor<f32, [4, 6]>, tensor<f32, [4, 6]>
  %far = graph.call([%high, %limit]) {{callee = shift}} : tensor<f32, [4, 6]>
  graph.return([%low, %w, %far])
}}
{CALLEES}
"""
    weight = np.asarray([1.5, -2], ml_dtypes.bfloat16)
    build_module(parse_module(text), {"w": weight}, ["x"], "cpu").save(tmp_path / "m")
    low, same, far = tiledsl.load(tmp_path / "m")(array(4, 6))
    assert np.all(low == -np.inf)
    assert np.all(far == -np.inf)
    assert same.dtype == weight.dtype
    assert same.tolist() == weight.tolist()


def test_structures_of_arguments_and_results(tmp_path: Path) -> None:
    arguments = {"pair": Sequenced(tuple, (Leaf("x"), Leaf("y")))}
    result = Keyed((("flat", Leaf("a")), ("rest", Sequenced(list, tuple(Leaf(c) for c in "bcdef")))))
    module = build_module(parse_module(VIEWS), {}, ["x", "y"], "cpu", arguments=arguments, result=result)
    module.save(tmp_path / "m")
    x, y = array(4, 6), array(6, 4)
    for one in (module, tiledsl.load(tmp_path / "m")):
        given_back = one((x, y))
        assert given_back.keys() == {"flat", "rest"}
        assert len(given_back["rest"]) == 5
        np.testing.assert_array_equal(given_back["rest"][2], x)
        np.testing.assert_array_equal(one(pair=[x, y])["flat"], given_back["flat"])


def test_no_file_holds_a_pickle(tmp_path: Path) -> None:
    linear("cpu").save(tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m") as file:
        assert sorted(file.namelist()) == ["header.json", "programs/0", "weights/0.npy", "weights/1.npy"]
        assert json.loads(file.read("header.json"))["version"] == tiledsl.__version__
