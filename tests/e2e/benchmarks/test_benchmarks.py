"""The benchmarks at small sizes, and the page that is made of their results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import cpu, irregular, report, small_products, start_up, throughput
from benchmarks.figures import Figure, Run, describe_run, load, save

RATIO = Figure("GEMM 512", 0.9, "x", 0.85, "1 ms")
TIME = Figure("import", 0.3, "s", 0.25, "median of 5")


@pytest.fixture
def run() -> Run:
    return Run("Some CPU @ 3 GHz", 4, 2, "3.12.1", {"numpy": "2.4"}, "abc123+", "2026-01-02", 0.1, (RATIO, TIME))


def test_figures_know_whether_they_meet_their_bar() -> None:
    assert RATIO.met
    assert not replace(RATIO, value=0.8).met
    assert not TIME.met
    assert replace(TIME, value=0.2).met
    assert (RATIO.value_text, RATIO.bar_text) == ("0.90 x NumPy", "at least 0.85 x NumPy")
    assert (TIME.value_text, TIME.bar_text) == ("0.300 s", "at most 0.250 s")


def test_runs_are_kept(run: Run, tmp_path: Path) -> None:
    path = save(run, tmp_path)
    assert path.name == "cpu-some-cpu-3-ghz-4-cores.json"
    assert load(path) == run
    assert report.saved_runs(tmp_path) == [run]
    described = describe_run([RATIO], 0.25)
    assert described.device
    assert described.load == 0.25
    assert set(described.versions) == {"numpy", "blas", "llvmlite"}


def test_page(run: Run) -> None:
    lines = report.page([run]).splitlines()
    assert "## Some CPU @ 3 GHz, 4 cores" in lines
    assert "2 threads; Python 3.12.1, numpy 2.4; commit abc123+, 2026-01-02." in lines
    assert "| GEMM 512 | 0.90 x NumPy | at least 0.85 x NumPy | met | 1 ms |" in lines
    assert "| import | 0.300 s | at most 0.250 s | **not met** | median of 5 |" in lines
    assert "busy" not in "".join(lines)
    assert "The machine was busy with other programs (load 1.5): to be repeated." in report.page(
        [replace(run, load=1.5)]
    )


def test_the_page_is_that_of_the_results() -> None:
    assert report.PAGE.read_text(encoding="utf-8") == report.page(report.saved_runs(), report.saved_results()), (
        "run python -m benchmarks.report"
    )


@pytest.mark.parametrize(
    "case",
    [
        throughput.gemm_case(40),
        throughput.softmax_case(40),
        throughput.layer_norm_case(40),
        throughput.attention_case(40, False),
        throughput.attention_case(40, True),
        small_products.few_rows_case(3, 40, True),
        small_products.few_columns_case(1, 40, True),
        small_products.sums_case(40),
        small_products.linear_case(16, 40),
        small_products.byte_weights_case(200),
        small_products.bytes_case(20, 40),
        irregular.window_case(40, 8),
        irregular.scan_case(3, 40),
        irregular.sparse_case(30, 5),
        irregular.convolution_case((1, 2, 9, 8), 16, 3, 2),
    ],
    ids=lambda case: case.what,
)
def test_comparisons(case: throughput.Comparison) -> None:
    figure = throughput.compare(case, rounds=1)
    assert figure.what == case.what
    assert figure.value > 0
    assert case.unit in figure.detail


def test_wrong_results_are_not_timed() -> None:
    case = replace(throughput.gemm_case(8), ours=lambda: np.zeros((8, 8), np.float32))
    with pytest.raises(ValueError, match="GEMM 8: error"):
        throughput.compare(case)


@pytest.mark.slow
def test_first_calls() -> None:
    cold, warm = start_up.first_call_cold(1), start_up.first_call_from_disk(1)
    assert 0 < warm.value < cold.value


def test_start_up() -> None:
    assert start_up.import_time(1).value > 0
    assert start_up.cached_call(1).value > 0


def test_command_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cpu.CASES, "import", lambda: TIME)
    monkeypatch.setattr("sys.argv", ["benchmarks.cpu", "import"])
    cpu.main()
    assert "NOT MET  median of 5" in capsys.readouterr().out
    for arguments, message in [(["unknown"], "no case unknown"), (["import", "--save"], "--save keeps whole runs")]:
        monkeypatch.setattr("sys.argv", ["benchmarks.cpu", *arguments])
        with pytest.raises(SystemExit):
            cpu.main()
        assert message in capsys.readouterr().err
