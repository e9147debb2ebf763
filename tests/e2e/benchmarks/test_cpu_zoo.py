"""The zoo beside PyTorch on this CPU, at the sizes of tests."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.zoo.__main__ import MOST_BYTES, Row, argument_bytes, differs, in_f32, main, measure, sizes_for_a_cpu
from benchmarks.zoo.case import ZooCase
from benchmarks.zoo.cases import CASES

torch: Any = pytest.importorskip("torch")


def case(name: str) -> ZooCase:
    (found,) = (one for one in CASES if one.name == name)
    return in_f32(found)


def measured(name: str) -> Row:
    small = replace(case(name), sizes={size: min(value, 32) for size, value in case(name).sizes.items()})
    return measure(torch, small, time.process_time, 0.01)


@pytest.mark.parametrize("name", ["softmax, rows", "x @ w + b", "rms norm", "attention"])
def test_a_row(name: str) -> None:
    row = measured(name)
    assert not row.problem
    assert min(row.ours, row.eager, row.predicted) > 0
    assert row.case.name in str(row)


def test_what_differs_is_said() -> None:
    one = torch.ones(4)

    def differ(ours: Any, theirs: Any = one, exact: Any = None) -> str:
        return differs(torch, [ours], [theirs], lambda: [theirs if exact is None else exact])

    assert differ(one) == ""
    assert "off by" in differ(one * 1.01)
    assert "off by nan" in differ(one * float("nan"))
    assert "shape (2,)" in differ(one[:2])
    assert differ(one, one * 1.01, one.numpy()) == ""  # PyTorch's own sums may be the worse ones
    assert differ(one * 1.0003, one.half()) == ""
    assert "5e-04 is allowed" in differ(one * 1.01, one.half())


@pytest.mark.parametrize("name", ["norm of all", "Mamba-2, in chunks", "product, f8", "product, heads apart"])
def test_rows_whose_peer_is_rounded(name: str) -> None:
    """Sums of PyTorch's that go one by one, and results of 16 bits."""
    assert not measured(name).problem


def test_sizes_are_cut_down() -> None:
    large = case("softmax, rows")
    assert argument_bytes(large, large.sizes) > MOST_BYTES >= argument_bytes(large, sizes_for_a_cpu(torch, large))


def test_from_the_shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEDSL_NUM_THREADS", "1")
    assert main(["--only", "rows of length 1", "--threads", "1", "--seconds", "0.01"]) == 0
    assert "geometric mean" in capsys.readouterr().out
