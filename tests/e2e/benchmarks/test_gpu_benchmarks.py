"""The GPU benchmarks without a GPU: their arithmetic, their tables, what they say where something is missing."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import report
from benchmarks.gpu import __main__ as command_line
from benchmarks.gpu import attention, forced_plans, gemm, launch, memory, ranking
from benchmarks.gpu import compile as compiles
from benchmarks.gpu.attention_cases import CASES, AttentionCase
from benchmarks.gpu.first_compile import SPECS
from benchmarks.gpu.kernels import add_seven, vector_add
from benchmarks.gpu.memory_cases import MemoryCase, cases
from benchmarks.gpu.peers import attention as attention_peers
from benchmarks.gpu.peers import cublas
from benchmarks.gpu.peers.common import Peers
from benchmarks.gpu.products import ODD, PRODUCTS, Product
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
    product = Product("bf16", "NT", 4096, 4096, 4096)
    assert product.name == "GEMM bf16 NT 4096^3"
    times = {"tiledsl": even(4e-4), "cuBLAS": even(3e-4), "cuBLASLt": even(2e-4), "Triton": even(3e-4)}
    cells, numbers = gemm.row(product, times, 0.0)
    assert numbers["share_of_cublas"] == pytest.approx(0.5)
    assert numbers["best_cublas"] == "cuBLASLt"
    assert numbers["met"] is False
    assert numbers["teraflops"]["cuBLASLt"] == pytest.approx(687.2, abs=0.1)
    assert cells[3:9] == ["0.500", "0.92", "NOT MET", "200.0", "687.2", "Lt"]
    assert len(cells) == len(gemm.COLUMNS)
    assert gemm.row(Product("f16", "NN", 512, 512, 256), {}, 0.0)[1]["met"] is None
    assert gemm.row(product, {"cuBLAS": even(1.0)}, 0.0)[1]["met"] is False


def test_the_products_are_those_that_have_bars() -> None:
    assert len(set(PRODUCTS)) == len(PRODUCTS)
    assert Counter(product.group for product in PRODUCTS) == {"bf16": 32, "fp8": 14, "int8": 14, "": 7}
    assert [p.bar for p in PRODUCTS if p.sizes == ODD] == [4.0, 4.0]
    assert {p.order for p in PRODUCTS if p.group == "int8"} == {"NT"}
    data = [product.data for product in PRODUCTS]
    assert len(list(groupby(data))) == len(set(data)), "values are drawn twice"


def test_geometric_means_of_products() -> None:
    def share(kind: str, order: str, share: float | None) -> dict[str, Any]:
        return {"group": kind, "order": order, "share_of_cublas": share}

    rows = [share("bf16", "NT", 0.5), share("bf16", "NN", 2.0), share("int8", "NT", None), share("int8", "NT", 1.5)]
    found = {cells[0]: (cells[3:6], numbers) for cells, numbers in gemm.summaries([*rows, {"group": ""}])}
    assert {name: cells for name, (cells, _) in found.items()} == {
        "geomean bf16 (2)": ["1.000", "1.00", "met"],
        "geomean bf16 NT (1)": ["0.500", "", ""],
        "geomean bf16 NN (1)": ["2.000", "", ""],
        "geomean int8 (1 of 2)": ["1.500", "1.15", "NOT MET"],
    }
    assert found["geomean bf16 (2)"][1]["lowest"] == 0.5
    assert all(len(cells) == len(gemm.COLUMNS) for cells, _ in gemm.summaries(rows))


class FakeMatrix:
    """The shape of a matrix, and whether it was turned."""

    def __init__(self, *shape: int, turned: bool = False) -> None:
        self.shape = shape
        self.dtype = SimpleNamespace(is_floating_point=True)
        self.turned = turned

    @property
    def T(self) -> FakeMatrix:  # noqa: N802
        return FakeMatrix(*reversed(self.shape), turned=not self.turned)

    def fill_(self, value: float) -> None:
        assert value != value


class FakeBlas:
    """PyTorch as far as cuBLAS is asked through it. Remembers what was asked."""

    float32 = bfloat16 = None

    def __init__(self) -> None:
        self.library = "default"
        self.asked: list[tuple[Any, ...]] = []
        self.backends = SimpleNamespace(
            cuda=SimpleNamespace(
                preferred_blas_library=self.prefer, matmul=SimpleNamespace(allow_tf32=False)
            )
        )  # fmt: skip

    def prefer(self, library: str | None = None) -> str:
        self.library = library or self.library
        return self.library

    def empty(self, shape: tuple[int, int], **_: object) -> FakeMatrix:
        return FakeMatrix(*shape)

    zeros = empty
    ones = empty

    def matmul(self, a: FakeMatrix, b: FakeMatrix, out: FakeMatrix) -> FakeMatrix:
        self.asked.append((self.library, a.shape, b.shape, self.backends.cuda.matmul.allow_tf32))
        return out

    def _int_mm(self, a: FakeMatrix, b: FakeMatrix) -> FakeMatrix:
        return FakeMatrix(a.shape[0], b.shape[1])

    def _scaled_mm(self, a: FakeMatrix, b: FakeMatrix, use_fast_accum: bool, **_: object) -> FakeMatrix:
        self.asked.append((a.shape, b.shape, use_fast_accum))
        return FakeMatrix(a.shape[0], b.shape[1])


def test_cublas_is_asked_in_every_way() -> None:
    torch: Any = FakeBlas()
    a, b = FakeMatrix(2, 4), FakeMatrix(4, 3)
    ways = cublas.ways(torch, Product("tf32", "NN", 2, 3, 4), a, b, print)
    assert [way()().shape for way in ways.values()] == [(2, 3)] * 3
    assert torch.asked == [
        ("cublas", (2, 4), (4, 3), True), ("cublaslt", (2, 4), (4, 3), True), ("cublas", (3, 4), (4, 2), True),
    ]  # fmt: skip
    assert torch.library == "default"
    assert not torch.backends.cuda.matmul.allow_tf32
    kinds = {kind: cublas.ways(torch, Product(kind, "NT", 2, 16, 16), a, b, print) for kind in ("int8", "fp8")}
    assert list(kinds["int8"]) == ["cuBLASLt"]
    assert kinds["int8"]["cuBLASLt"]()().shape == (2, 3)
    assert list(kinds["fp8"]) == ["cuBLASLt", "cuBLASLt fast"]
    torch.asked.clear()
    a, b = FakeMatrix(2, 16), FakeMatrix(16, 32)
    wide = cublas.ways(torch, Product("fp8", "NT", 2, 32, 16), a, b, print)
    assert [way()().shape for way in wide.values()] == [(2, 32)] * 2
    assert torch.asked == [((2, 16), (16, 32), False), ((2, 16), (16, 32), True)]


def test_attention_has_rates() -> None:
    case = AttentionCase(64, 4096, causal=True)
    assert case.name == "attention bf16 d64 4096 causal"
    assert (case.batch, case.heads) == (4, 32)
    times = {
        "tiledsl": even(1e-3), "FA3": even(9.5e-4), "FA3 heads first": even(9.4e-4), "cuDNN": even(1e-3),
        "Triton": even(2e-3),
    }  # fmt: skip
    cells, numbers = attention.row(case, times, 0.0)
    assert cells[3:7] == ["0.940", "0.93", "met", "NOT MET"]
    assert cells[-5:] == ["292.4", "274.9", "-", "137.4", "-"]
    assert numbers["behind"] == ["cuDNN"]
    assert numbers["best"]["FA3"] == "FA3 heads first"
    assert len(cells) == len(attention.COLUMNS)
    assert attention.row(case, {"FA3": even(1.0)}, 0.0)[0][1:7] == ["FAILED", "", "", "0.93", "NOT MET", "NOT MET"]
    assert attention.row(AttentionCase(64, 1000, causal=True, barred=False), {}, 0.0)[1]["met"] is None
    assert sum(case.barred for case in CASES) == 18


def test_peers_of_attention_that_are_absent_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in attention_peers.MODULES.values():
        monkeypatch.setitem(sys.modules, module, None)
    said: list[str] = []

    class Values:
        q = k = v = FakeMatrix(2, 2)
        expected = None

        def by_sequence(self, case: AttentionCase, *, tokens_first: bool) -> list[FakeMatrix]:
            del case, tokens_first
            return [self.q] * 3

        def expected_by_sequence(self, case: AttentionCase, *, tokens_first: bool) -> None: ...

    values: Any = Values()
    torch: Any = SimpleNamespace(nn=SimpleNamespace(attention=SimpleNamespace(SDPBackend=SimpleNamespace())))
    case = AttentionCase(64, 1024, causal=False)
    assert attention_peers.prepare(torch, case, values, Peers(torch, said.append)) == {}
    ways = {way for ways in attention_peers.WAYS.values() for way in ways}
    assert {line.partition(" left out")[0] for line in said} == ways
    assert any(line.startswith("FA3 left out") and "flash_attn_interface" in line for line in said)


def test_geometric_means_of_attention() -> None:
    case = AttentionCase(128, 4096, causal=False)
    rows = [
        attention.row(case, {"tiledsl": even(1.0), "FA3": even(fa3), "cuDNN": even(cudnn)}, 0.0)[1]
        for fa3, cudnn in ((0.5, 1.5), (2.0, 2.0))
    ]
    found = list(attention.summaries(rows))
    assert [cells[0] for cells, _ in found] == [
        "geomean beside FA3 (2, ahead in 1)",
        "geomean beside cuDNN (2, ahead in 2)",
    ]
    assert [cells[3:6] for cells, _ in found] == [["1.000", "1.00", "met"], ["1.732", "all", "met"]]
    assert all(len(cells) == len(attention.COLUMNS) for cells, _ in found)
    failed = attention.row(case, {"FA3": even(1.0)}, 0.0)[1]
    assert [numbers["met"] for _, numbers in attention.summaries([*rows, failed])] == [False, True]


def test_ranks_of_plans() -> None:
    assert ranking.ranks([3.0, 1.0, 3.0]) == [1.5, 0.0, 1.5]
    assert ranking.spearman([1, 2, 3], [1.0, 4.0, 9.0]) == pytest.approx(1)
    assert ranking.spearman([1, 2, 3], [3.0, 2.0, 1.0]) == pytest.approx(-1)
    assert ranking.spearman([1, 1], [3.0, 2.0]) is None


def test_the_pick_is_the_first_plan_that_passes() -> None:
    plans = [
        ranking.Measured(0, "spills", None, 5e-6, "it spills"),
        ranking.Measured(1, "picked", None, 2.2e-6, ""),
        ranking.Measured(3, "best", None, 2e-6, ""),
    ]
    cells, numbers = ranking.row("GEMM", plans)
    assert cells[:7] == ["GEMM", "3", "2.20", "2.00", "1.100", "4", "-1.00"]
    assert (numbers["pick"], numbers["best"]) == ("picked", "best")
    assert len(cells) == len(ranking.COLUMNS)
    ((cells, numbers),) = ranking.summaries([numbers, {**numbers, "of_best": 1.0}])
    assert cells[4] == "1.049"
    assert numbers["met"]
    assert list(ranking.summaries([])) == []


def test_plans_can_be_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEDSL_CACHE_DIR", str(tmp_path))
    product = Product("bf16", "NT", 64, 64, 64)
    plans = forced_plans.plans_of(product, forced_plans.chosen_plans, 3)
    assert len(plans) == 3
    assert forced_plans.compile_one(product, plans[-1].plan)[0] == ""
    assert forced_plans.program_of(product).variants[plans[-1].plan].plan == plans[-1].plan
    wrong = replace(plans[0].plan, blocks=())
    assert "Error" in forced_plans.compile_one(product, wrong)[0]


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
    assert "### Memory-bound kernels, Some GPU" in lines
    assert "commit abc." in lines
    assert "| softmax | 10.0 | **not met** |" in lines
    assert "Triton is absent." in lines
    assert lines.count("Triton is absent.") == 1


def test_finish(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.finish([results], save=False) == 0
    assert "memory: 1 of 2 bars met, 0 failures" in capsys.readouterr().out
    results.failures = 1
    assert command_line.finish([results], save=False) == 1


@pytest.mark.parametrize("what", ["memory", "launch", "gemm attention", "ranking", "all"])
def test_without_a_device(what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert command_line.main(what.split()) == 2
    assert capsys.readouterr().out.splitlines() == [
        f"{', '.join(what.split())}: nothing measured: no CUDA device: PyTorch, which would find it, is not installed"
    ]


def test_several_measurements_in_one_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def measured(name: str, only: str) -> Results:
        asked.append((name, only))
        return Results(name, name, (), {})

    monkeypatch.setattr(command_line, "missing", lambda: "")
    monkeypatch.setattr(command_line, "measured", measured)
    assert command_line.main(["gemm", "attention", "gemm", "--only", "bf16"]) == 0
    assert asked == [("gemm", "bf16"), ("attention", "bf16")]
    assert "attention: 0 of 0 bars met, 0 failures" in capsys.readouterr().out


def test_whole_runs_are_saved(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["memory", "--save", "--only", "softmax"])
    assert "--save keeps whole runs" in capsys.readouterr().err


def test_times_have_three_digits_or_more() -> None:
    assert [microseconds(1e-6 * us) for us in (1.236, 12.346, 123.46, 12345)] == ["1.24", "12.35", "123.5", "12345"]
