"""The GPU benchmarks without a GPU: their arithmetic, their tables, what they say where something is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import report
from benchmarks.gpu import __main__ as command_line
from benchmarks.gpu import compile as compiles
from benchmarks.gpu import gemm, launch, memory
from benchmarks.gpu.first_compile import SPECS
from benchmarks.gpu.kernels import add_seven, vector_add
from benchmarks.gpu.memory_cases import MemoryCase, cases
from benchmarks.gpu.peers import Peers
from benchmarks.gpu.results import Results, microseconds
from benchmarks.gpu.timing import FEWEST_CALLS, MOST_CALLS, Spread, State, in_turns, spread

TORCH: Any = SimpleNamespace(nn=SimpleNamespace(functional=None))


class FakeClock:
    """Calls take what they say."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def time(self, call: Callable[[], Any], calls: int, *, state: State = "clean") -> list[float]:
        name, seconds = call()
        self.order.append(name)
        return [seconds / 2 if state == "written" else seconds] * calls


def even(seconds: float) -> Spread:
    return Spread(seconds, seconds, seconds, 20)


def test_contenders_take_turns_as_often_as_their_length_allows() -> None:
    clock = FakeClock()
    times = in_turns(clock, {"short": lambda: ("short", 1e-5), "long": lambda: ("long", 1.0)}, rounds=3)
    assert clock.order[4:] == ["short", "long"] * 3
    assert times["short"].median == 1e-5
    assert times["long"].median == 1.0
    assert times["short"].calls >= MOST_CALLS
    assert times["long"].calls == -(-FEWEST_CALLS // 3) * 3
    assert in_turns(clock, {"short": lambda: ("short", 1e-5)}, state="written")["short"].median == 5e-6


def test_spread() -> None:
    assert spread([float(i) for i in range(11)]) == Spread(5, 2, 8, 11)
    assert spread([3.0]) == Spread(3, 3, 3, 1)


def test_bytes_are_those_that_must_be_moved() -> None:
    by_name = {case.name: case for case in cases(TORCH)}
    assert by_name["add 2^28"].bytes == 3 * 2 * 2**28
    assert by_name["layer norm 8192x4096"].bytes == 2 * (2 * 8192 * 4096 + 2 * 4096)
    assert by_name["sum of all of 8192^2"].bytes == 2 * 8192**2 + 4
    assert by_name["sums of rows of 8192^2"].bytes == 2 * 8192**2 + 4 * 8192
    assert len(by_name) == 18


def plus(x: Any, y: Any) -> Any:
    return x + y


def a_case(**more: Any) -> MemoryCase:
    return MemoryCase("add", vector_add, ((1000,), (1000,)), (1000,), 0.5, plus, **more)


def test_a_row_has_the_share_of_the_copy_rate() -> None:
    times = {"copy": even(1e-3), "tiledsl": even(1e-5), "eager": even(2e-5)}
    written = {"copy": even(1e-3), "tiledsl": even(5e-6)}
    cells, numbers = memory.row(a_case(), times, written, {}, 1e-3, copied=1_000_000)
    assert numbers["share"] == pytest.approx(0.6)  # 6000 bytes in 10 us, beside 1 GB/s
    assert numbers["share_written"] == pytest.approx(1.2)
    assert numbers["met"]
    assert numbers["peers"]["eager"]["ratio"] == pytest.approx(2)
    assert cells == ["add", "10.00", "1", "0.600", "1.200", "0.50", "met", "20.00", "2.00", "-", "", "-", ""]
    assert len(cells) == len(memory.COLUMNS)


def test_a_bar_may_be_a_ratio_to_torch_compile() -> None:
    times = {"copy": even(1e-3), "tiledsl": even(1e-5), "torch.compile": even(4e-6)}
    cells, numbers = memory.row(a_case(beside_compile=True), times, times, times, 0.0, copied=1_000_000)
    assert not numbers["met"]
    assert cells[5:7] == ["0.5 x tc", "NOT MET"]
    del times["torch.compile"]
    assert not memory.row(a_case(beside_compile=True), times, times, times, 0.0, copied=1_000_000)[1]["met"]


def test_a_kernel_that_failed_has_a_row_too() -> None:
    cells, numbers = memory.row(a_case(), {"copy": even(1e-3)}, {"copy": even(1e-3)}, {}, float("nan"), copied=1)
    assert cells[1] == "FAILED"
    assert len(cells) == len(memory.COLUMNS)
    assert numbers["met"] is False


def test_products_have_rates() -> None:
    product = gemm.Product("bf16", 4096, 4096, 4096)
    assert product.name == "GEMM bf16 4096^3"
    cells, numbers = gemm.row(product, {"tiledsl": even(4e-4), "cuBLAS": even(2e-4), "Triton": even(3e-4)}, 0.0)
    assert numbers["share_of_cublas"] == pytest.approx(0.5)
    assert numbers["met"] is False
    assert numbers["teraflops"]["cuBLAS"] == pytest.approx(687.2, abs=0.1)
    assert len(cells) == len(gemm.COLUMNS)
    assert gemm.row(gemm.Product("f16", 512, 512, 256), {}, 0.0)[1]["met"] is None
    assert sum(product.bar is not None for product in gemm.PRODUCTS) == 1


def test_launches_are_timed_in_batches() -> None:
    now = [0.0]

    def call(seconds: float) -> Callable[[], object]:
        def advance() -> None:
            now[0] += seconds

        return advance

    drains: list[float] = []
    times = launch.batch_times(
        {"a": call(1.0), "b": call(2.0)}, lambda: drains.append(now[0]), batches=3, per_batch=10, clock=lambda: now[0]
    )
    assert times == {"a": [1.0] * 3, "b": [2.0] * 3}
    assert len(drains) == 16
    cells, numbers = launch.row("call", [5e-6, 6e-6, 9e-6], 5.5)
    assert numbers["us"] == pytest.approx(6)
    assert cells == ["call", "6.00", "5.5", "NOT MET", "5.00", "9.00"]


def test_the_kernel_with_eight_tensors() -> None:
    vectors = [np.full(5, 2.0**i, np.float32) for i in range(7)]
    assert (add_seven(*vectors) == 127).all()


def test_compile_times(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [{"seconds": s, "parts": {"passes": s / 2}} for s in (0.2, 0.4, 0.9)]
    cells, numbers = compiles.row("GEMM", runs, 1.0)
    assert cells[:4] == ["GEMM", "0.400", "1.0", "met"]
    assert numbers["parts"] == {"passes": 0.2}
    assert set(compiles.BARS) == set(SPECS)
    runs, problem = compiles.fresh_runs(["-c", "raise ValueError('no kernel')"], 1)
    assert runs == []
    assert problem == "ValueError: no kernel"
    program = "import os, json; print(json.dumps({'empty': os.listdir(os.environ['TILEDSL_CACHE_DIR']) == []}))"
    assert compiles.fresh_runs(["-c", program], 2) == ([{"empty": True}] * 2, "")
    assert capsys.readouterr().out == ""


def test_a_peer_that_fails_is_told_once() -> None:
    said: list[str] = []
    peers = Peers(TORCH, said.append)

    def fail() -> Callable[[], Any]:
        raise ImportError("not there\nat all")

    for what in ("a", "b"):
        assert peers.prepare(what, {"Triton": fail}, None) == {}
    peers.summarise()
    assert said == ["Triton left out of a: ImportError: not there", "Triton left out of b too: ImportError: not there"]


@pytest.fixture
def results() -> Results:
    made = Results("memory", "Memory-bound kernels", ("what", "us", ""), {"device": "Some GPU", "commit": "abc"})
    made.add(["softmax", "10.0", "NOT MET"], {"bar": 0.9, "met": False, "times": {"ours": even(1e-5)}})
    made.add(["add", "5.00", "met"], {"bar": 0.9, "met": True})
    made.note("Triton is absent")
    made.note("Triton is absent")
    return made


def test_results_are_kept_and_reported(results: Results, tmp_path: Path) -> None:
    path = results.save(tmp_path)
    assert path.name == "gpu-memory.json"
    assert Results.load(path) == results
    assert results.numbers[0]["times"]["ours"]["median"] == 1e-5
    assert report.saved_results(tmp_path) == [results]
    assert report.saved_runs(tmp_path) == []
    lines = report.page([], [results]).splitlines()
    assert "## Memory-bound kernels, Some GPU" in lines
    assert "commit abc." in lines
    assert "| softmax | 10.0 | **not met** |" in lines
    assert "Triton is absent." in lines
    assert lines.count("Triton is absent.") == 1


def test_finish(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.finish([results], save=False) == 0
    assert "memory: 1 of 2 bars met, 0 failures" in capsys.readouterr().out
    results.failures = 1
    assert command_line.finish([results], save=False) == 1


@pytest.mark.parametrize("what", ["memory", "launch", "gemm", "all"])
def test_without_a_device(what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert command_line.main([what]) == 2
    assert capsys.readouterr().out.splitlines() == [
        f"{what}: nothing measured: no CUDA device: PyTorch, which would find it, is not installed"
    ]


def test_whole_runs_are_saved(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["memory", "--save", "--only", "softmax"])
    assert "--save keeps whole runs" in capsys.readouterr().err


def test_times_have_three_digits_or_more() -> None:
    assert [microseconds(1e-6 * us) for us in (1.236, 12.346, 123.46, 12345)] == ["1.24", "12.35", "123.5", "12345"]
