"""Lowered graphs are read from the disk, and are what they were; what cannot be read is made anew."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tiledsl import tile
from tiledsl.api.graphs import kept_lowerings
from tiledsl.ir.core import Module
from tiledsl.passes.graph.rewrites.set_sizes import SetSizes
from tiledsl.passes.manager import PassManager
from tiledsl.runtime.programs import cache


def formula(x: Any, w: Any) -> Any:
    h = tile.softmax(x @ w, axis=-1)
    return h @ w.mT, tile.sum(h, axis=0)


ROWS = tiledsl.trace(formula, tile.spec(("N", 24), tile.f32), tile.spec((24, 16), tile.f32))


@pytest.fixture(autouse=True)
def lowered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Module]]:
    """The graphs that passes were run on, whole pipelines for CPUs or GPUs."""
    monkeypatch.setenv("TILEDSL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kept_lowerings, "WORTH_KEEPING", 0.0)
    cache.disk_cache.cache_clear()
    made: list[Module] = []

    class Counted(PassManager):
        def run(self, module: Module, context: Any = None) -> Module:
            made.append(module)
            return super().run(module, context)

    monkeypatch.setattr(kept_lowerings, "PassManager", Counted)
    yield made
    cache.disk_cache.cache_clear()


@pytest.mark.parametrize("arch", ["cpu", "sm_90"])
def test_what_is_read_is_what_was_written(arch: str, lowered: list[Module]) -> None:
    first, second = (tiledsl.fuse(ROWS).lowered_before(arch, {"N": 40}) for _ in range(2))
    assert len(lowered) == 1
    assert first[0].structure(locations=True) == second[0].structure(locations=True)
    assert first[1] == second[1] != []


def test_a_module_of_it_computes_the_same_and_says_the_same(lowered: list[Module]) -> None:
    x, w = np.random.default_rng(0).standard_normal((2, 40, 24)).astype(np.float32)[0], np.ones((24, 16), np.float32)
    said: list[list[str]] = []
    for _ in range(2):
        built = tiledsl.fuse(ROWS).build("cpu", N=40)
        for mine, right in zip(built(x, w), ROWS(x, w)):
            assert_close(mine, right)
        said.append([line for line in built.explain().splitlines() if "not one kernel" in line])
    assert len(lowered) == 1
    assert said[0] == said[1]


def test_other_sizes_targets_and_options_are_lowered_by_themselves(lowered: list[Module]) -> None:
    fused, apart = tiledsl.fuse(ROWS), tiledsl.fuse(ROWS, fusion=False)
    for graph, arch, rows in [(fused, "cpu", 40), (fused, "cpu", 41), (fused, "sm_90", 40), (apart, "cpu", 40)]:
        graph.lowered_before(arch, {"N": rows})
    assert len(lowered) == 4


def test_who_audits_what_was_built_does_not_wait_again(lowered: list[Module], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_lowerings, "WORTH_KEEPING", 1e9)
    built = tiledsl.fuse(ROWS).build("cpu", N=40)
    assert built.audit().kernels
    assert len(lowered) == 1


def half_a_function(module: Module, *, locations: bool) -> str:
    return "func @nothing"


def test_a_damaged_entry_is_made_anew(
    lowered: list[Module], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(kept_lowerings, "print_module", half_a_function)
        tiledsl.fuse(ROWS).lowered_before("cpu", {"N": 40})
        with caplog.at_level(logging.WARNING):
            tiledsl.fuse(ROWS).lowered_before("cpu", {"N": 40})
    assert len(lowered) == 2
    assert "made anew" in caplog.text


def test_what_was_measured_of_groupings_is_lowered_by_itself(lowered: list[Module]) -> None:
    fused = tiledsl.fuse(ROWS)
    for groupings in (None, {}, {"a tie": True}, {"a tie": False}, {"a tie": True}):
        fused.lowered_before("cpu", {"N": 40}, groupings)
    assert len(lowered) == 3


def test_what_is_quickly_made_is_not_kept(lowered: list[Module], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_lowerings, "WORTH_KEEPING", 1e9)
    for _ in range(2):
        kept_lowerings.read_or_lower(ROWS.module, [SetSizes((("N", 40),))], "cpu", "")
    assert len(lowered) == 2
