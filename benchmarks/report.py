"""Writes docs/performance.md from the runs in benchmarks/results: `python -m benchmarks.report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks import ROOT
from benchmarks.figures import MOST_LOAD, RESULTS, Run, load
from benchmarks.gpu.results import Results

PAGE = ROOT / "docs" / "performance.md"
HEAD = """\
# Performance

Made by `python -m benchmarks.report` from what `python -m benchmarks.cpu --save` and
`python -m benchmarks.gpu all --save` (or `gemm attention`, `compile`, `ranking`) keep in `benchmarks/results`.

On a CPU each ratio is to NumPy in the same run, with as many threads, as the median of calls that take turns; the
kernels are those of the examples, and their results are checked before they are timed. Ratios hold within a run; times
belong to their machine. How the speed came about is in [performance-notes.md](performance-notes.md).
"""
GPU_HEAD = """\
## On a GPU

The kernels are those of the examples, on PyTorch's tensors; outputs are computed into poisoned memory and checked
against float64 before they are timed. Times are of the device, by CUDA events, medians of calls that take turns, the L2
cache flushed before each. `of copy` is the rate over that of a copy of 4 GiB in the same turns. The flush ends with
reading, so that nothing in the cache must be written back; `written` is the share where it ends with writing, and each
call pays for that too. A bar of `1.3 x tc` asks for 1.3 times the speed of torch.compile with all data in the L2 cache;
the notes below the table give those times. `x`: the time of the peer to its left over ours.

Products c[M, N] = a[M, K] @ b[K, N] are named by M x N x K; NN: b is row-major; NT: b is the transposed view of rows
[N, K]. cuBLAS is asked through cublasGemmEx (`plain`), through cublasLt (`Lt`), for the transposed product in the same
memory (`turned`), and in fp8 with sums of fewer bits (`Lt fast`); its fastest answer counts. Attention has 16384
tokens in all and a width of 2048, and counts half of the operations where it is causal. FlashAttention-3 and cuDNN get
equal data in both orders of memory, heads before tokens and tokens before heads; the faster answer counts.
"""
BUSY = "The machine was busy with other programs (load {load}): to be repeated."


def saved_runs(directory: Path = RESULTS) -> list[Run]:
    """The runs on CPUs that are kept, by name of their file."""
    return [load(path) for path in sorted(directory.glob("cpu-*.json"))]


def saved_results(directory: Path = RESULTS) -> list[Results]:
    """The runs on GPUs that are kept, by name of their file."""
    return [Results.load(path) for path in sorted(directory.glob("gpu-*.json"))]


def page(runs: Sequence[Run], results: Sequence[Results] = ()) -> str:
    """The whole page."""
    return "\n".join([HEAD, *map(section, runs), *([GPU_HEAD] if results else []), *map(gpu_section, results)])


def section(run: Run) -> str:
    """One machine: what it is, and a table of its figures."""
    software = ", ".join([f"Python {run.python}", *(f"{name} {number}" for name, number in run.versions.items())])
    lines = [
        f"## {run.device}, {run.cores} cores",
        f"{run.threads} threads; {software}; commit {run.commit or 'unknown'}, {run.date}.",
        *([BUSY.format(load=run.load)] if run.load > MOST_LOAD else []),
        "",
        "| what | measured | bar | | details |",
        "| --- | --- | --- | --- | --- |",
    ]
    for figure in run.figures:
        met = "met" if figure.met else "**not met**"
        lines.append(f"| {figure.what} | {figure.value_text} | {figure.bar_text} | {met} | {figure.detail} |")
    return "\n".join([*lines, ""])


def gpu_section(results: Results) -> str:
    """One measurement on a GPU: what it is from, and its table."""
    facts = ", ".join(f"{name} {value}" for name, value in results.run.items() if name != "device")
    device = f", {results.run['device']}" if "device" in results.run else ""
    lines = [
        f"### {results.title}{device}",
        f"{facts}.",
        "",
        f"| {' | '.join(results.columns)} |",
        "| --- " * len(results.columns) + "|",
        *(f"| {' | '.join(map(_emphasised, row))} |" for row in results.table),
        *(f"\n{note}." for note in results.notes),
    ]
    return "\n".join([*lines, ""])


def _emphasised(cell: str) -> str:
    return f"**{cell.lower()}**" if cell in ("NOT MET", "FAILED") else cell


def main() -> None:
    PAGE.write_text(page(saved_runs(), saved_results()), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
