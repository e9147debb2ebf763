"""Models compared with the reference: what is right passes, and what is wrong is found where it begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from tiledsl import tile
from tiledsl.api.graphs import check_model as checking
from tiledsl.api.graphs.check_model import beside, check_model
from tiledsl.api.schedules.built_module import Built, build_for
from tiledsl.api.schedules.schedule_graph import Scheduled
from tiledsl.ir import graph_ops
from tiledsl.ir.core import Module
from tiledsl.ir.verifier import Form
from tiledsl.passes.manager import PassContext
from tiledsl.runtime.arrays.arrays import Array
from tiledsl.runtime.arrays.compare_arrays import compare

HERE = Path(__file__).name
RANDOM = np.random.default_rng(3)


def values(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


W = values(16, 16)


def model(x: Any) -> Any:
    for _ in range(3):
        x = tile.softmax(x @ W, axis=-1)
    return x, tile.sum(x, axis=0)


def graph() -> Any:
    return tiledsl.trace(model, tile.spec(("B", 16), tile.f32))


def test_a_sound_model() -> None:
    report = check_model(graph(), [values(5, 16)], {"B": 5})
    assert report.ok
    assert [output.name for output in report.outputs] == ["out[0]", "out[1]"]
    assert all(output.figures.relative < 1e-5 for output in report.outputs)
    assert str(report).splitlines()[-1] == "nothing differs"


@dataclass(frozen=True)
class Wrong:
    """A program whose results are one too large."""

    program: Any

    def load(self) -> Any:
        loaded = self.program.load()
        outer = self

        class Loaded:
            def bind(self, sizes: Any, strides: Sequence[tuple[int, ...]], threads: int) -> Any:
                bound = loaded.bind(sizes, strides, threads)

                def run(pointers: Sequence[int], numbers: Sequence[Any]) -> None:
                    bound(pointers, numbers)
                    outer.spoil(pointers[-1])

                return run

        return Loaded()

    def spoil(self, address: int) -> None:
        import ctypes

        element = ctypes.c_float.from_address(address)
        element.value += 1.0


def built_wrong(number: int) -> Any:
    def build(scheduled: Scheduled, arch: str) -> Built:
        built = build_for(scheduled, arch)
        wrong = scheduled.schedule.steps[number].program
        programs: Any = [Wrong(p) if n == wrong else p for n, p in enumerate(built.programs)]
        return replace(built, programs=tuple(programs))

    return build


def test_the_first_launch_that_differs_is_found() -> None:
    launches = check_model(graph(), [values(5, 16)], {"B": 5}).launches
    assert launches > 1
    for number in range(launches):
        report = check_model(graph(), [values(5, 16)], {"B": 5}, build=built_wrong(number))
        assert not report.ok
        assert report.launch is not None
        assert report.launch.number <= number  # the same program may have run before
        text = str(report)
        assert f"launch {report.launch.number + 1} of {launches}" in text
        assert f"({HERE}:" in text
        assert "1 of " in text
    assert check_model(graph(), [values(5, 16)], {"B": 5}, build=built_wrong(launches - 1)).launch is not None


@dataclass(frozen=True)
class TurnRound:
    """A pass that has gone wrong: sums become the largest elements."""

    name = "turn-round"
    requires = Form.GRAPH
    gives = Form.GRAPH

    def run(self, module: Module, context: PassContext) -> Module:
        for op in module.entry.walk():
            if isinstance(op, graph_ops.Reduce) and op.fn == "add":
                op.attributes["fn"] = "max"
        return module


def test_the_pass_that_is_at_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = checking.graph_pipeline

    def with_a_fault(arch: str) -> list[Any]:
        first, *others = pipeline(arch)
        return [first, TurnRound(), *others]

    monkeypatch.setattr(checking, "graph_pipeline", with_a_fault)
    report = check_model(graph(), [values(5, 16)], {"B": 5})
    assert not report.ok
    assert report.launch is None
    assert report.by_pass == "turn-round"
    assert "the graph means something else after `turn-round`" in " ".join(str(report).split())


def test_beside_a_framework() -> None:
    report = check_model(graph(), [values(5, 16)], {"B": 5})
    assert beside(report, report.results, "it").ok
    other = beside(report, [report.results[0] + 1, report.results[1]], "PyTorch")
    assert not other.ok
    assert "beside PyTorch" in str(other)
    assert "differs in 80 of 80 elements, first at [0, 0]" in str(other)


@pytest.mark.parametrize(
    ("actual", "expected", "wrong"),
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], 0),
        ([1.0, np.inf], [1.0, -np.inf], 1),
        ([1.0, np.nan], [1.0, 2.0], 1),
        ([1.00001], [1.0], 0),
        ([1.001], [1.0], 1),
        ([], [], 0),
    ],
)
def test_figures(actual: list[float], expected: list[float], wrong: int) -> None:
    figures = compare(np.array(actual, np.float32), np.array(expected, np.float32))
    assert (figures.wrong, figures.count) == (wrong, len(expected))


def test_integers_are_compared_exactly() -> None:
    ones: Array = np.ones(4, np.int32)
    assert compare(ones, ones).wrong == 0
    assert compare(ones, ones + 1).wrong == 4
