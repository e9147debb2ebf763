"""What `explain()` says of kernels for GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from examples.gemm import gemm
from examples.softmax import softmax
from tiledsl import tile
from tiledsl.api.reports.explain_variants import explain_variants
from tiledsl.api.reports.text_tables import WIDTH, entries, paragraph, size
from tiledsl.ir.symbolic import dim_from_text
from tiledsl.runtime.programs.artifact import Note
from tiledsl.runtime.programs.variant_report import FunctionReport, ProgramReport, TileReport, VariantReport

FILE = "softmax.py"
VARIANT = VariantReport(
    plan="m=4, N<=2048, 128 threads",
    words=(("sizes", "N is at most 2048"), ("grid", "128 threads per block")),
    functions=(
        FunctionReport("softmax", dim_from_text("(M + 3) // 4"), 128, 1, 154, 0, 0, 3, "registers"),
        FunctionReport("softmax_2", dim_from_text("M"), 64, 4, 32, 8, 49152, 4, "shared memory"),
    ),
    tiles=(
        TileReport(17, "x[m, :]", "bf16[4, 2048]", "registers", "64 per thread", "local(1, 64) * spatial(4, 32)"),
        TileReport(18, "tile.max(row, axis=1)", "f32[4]", "registers", "1 per thread", "spatial(4) * replicate(32)"),
    ),
    notes=(Note("bounds", FILE, 12, "said before"), Note("lower-to-gpu", FILE, 17, "told now")),
    left=("plan (m=8) was left: kernel `softmax` spills registers",),
)
REPORT = ProgramReport(
    sizes={"M": 8, "N": 1024},
    read_bytes=dim_from_text("2 * M * N"),
    written_bytes=dim_from_text("2 * M * N"),
    partly=("table",),
    bytes_per_second=4e12,
    variants=(VARIANT, replace(VARIANT, plan="other", functions=VARIANT.functions[:1], tiles=(), notes=(), left=())),
    has_default=True,
)


@dataclass(frozen=True)
class Launched:
    sizes: dict[str, int]
    plan: str


def test_variants() -> None:
    launches = [Launched({"M": n, "N": 4096}, "other") for n in (1, 2, 2)]
    lines = explain_variants(REPORT, launches, [VARIANT.notes[0]], FILE)
    assert lines == [
        "",
        "moves at least",
        "  2 * M * N bytes from memory, 2 * M * N bytes to memory",
        "  M = 8, N = 1024: 16 KiB from memory, 16 KiB to memory: 0.00819 us at 4 TB/s",
        "  M = 1, N = 4096: 8 KiB from memory, 8 KiB to memory: 0.0041 us at 4 TB/s",
        "  M = 2, N = 4096: 16 KiB from memory, 16 KiB to memory: 0.00819 us at 4 TB/s",
        "  and what is moved of `table`, of which only the running program knows how much",
        "",
        "variant 1 of 2: for M = 8, N = 1024",
        "  sizes  N is at most 2048",
        "  grid   128 threads per block",
        "",
        "  function   blocks           threads  registers  spills  shared  at once on a multiprocessor",
        "  softmax    2                128      154        none    none    3 blocks, limited by registers",
        "  softmax_2  8 clusters of 4  64       32         8 B     48 KiB  4 blocks, limited by shared memory",
        "",
        "           tile                   has room for   in         takes          layout",
        "  line 17  x[m, :]                bf16[4, 2048]  registers  64 per thread  A",
        "  line 18  tile.max(row, axis=1)  f32[4]         registers  1 per thread   B",
        "    A  local(1, 64) * spatial(4, 32)",
        "    B  spatial(4) * replicate(32)",
        "",
        "  line 17  told now [lower-to-gpu]",
        "",
        "  better plans that were left",
        "    plan (m=8) was left: kernel `softmax` spills registers",
        "",
        "variant 2 of 2: ran on M = 1, N = 4096; M = 2, N = 4096",
        "  sizes  N is at most 2048",
        "  grid   128 threads per block",
        "",
        "  function  blocks        threads  registers  spills  shared  at once on a multiprocessor",
        "  softmax   (M + 3) // 4  128      154        none    none    3 blocks, limited by registers",
    ]


def test_sizes_that_nobody_told() -> None:
    lines = explain_variants(replace(REPORT, sizes={}, partly=()), [], [], FILE)
    assert lines[2:4] == ["  2 * M * N bytes from memory, 2 * M * N bytes to memory", ""]
    assert lines[4].startswith("variant 1 of 2: for sizes that are not told (name numbers in `tile.spec`")
    assert "  softmax    (M + 3) // 4" in lines[9]


def test_known_sizes() -> None:
    lines = explain_variants(replace(REPORT, sizes={}, read_bytes=4 << 30, written_bytes=0, partly=()), [], [], FILE)
    assert lines[2] == "  4 GiB from memory, 0 B to memory: 1.07 ms at 4 TB/s"
    assert lines[4] == "variant 1 of 2"


BF16 = tile.bf16
KERNELS: dict[str, tuple[Any, list[Any]]] = {
    "softmax": (softmax, [tile.spec(("M", 16384), BF16)]),
    "gemm": (gemm, [tile.spec((4096, 1024), BF16), tile.spec((1024, 2048), BF16)]),
}


@pytest.mark.parametrize("name", KERNELS)
def test_real_code_for_sm_90(name: str) -> None:
    kernel, specs = KERNELS[name]
    compiled = tile.kernel(kernel.__wrapped__).compile(*specs, arch="sm_90")
    text = compiled.explain()
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []
    measured = compiled.resources[name]
    row = (
        rf"\n  {name} +\S.*? +{measured['threads']} +{measured['registers']} +none +\S.* [1-9]\d* blocks?, limited by "
    )
    assert re.search(row, text)
    assert "better plans that were left" not in text
    lines = Path(kernel.__wrapped__.__code__.co_filename).read_text(encoding="utf-8").splitlines()
    shown = re.findall(r"^  line (\d+)  (\S.*?)  +\S+\[[\d, ]+\]  ", text, re.M)
    assert shown
    assert all(source in lines[int(line) - 1] for line, source in shown if not source.startswith("%"))


def test_the_products_of_gemm_are_explained() -> None:
    text = gemm.compile(*KERNELS["gemm"][1], arch="sm_90").explain()
    assert "12 MiB from memory, 16 MiB to memory: 6.12 us at 4.8 TB/s" in text
    assert re.search(r"m64n\d+k16_bf16_f32 multiplies, \d warpgroups of a block \[lower-to-gpu\]", text)
    assert re.search(r"bf16\[\d+, \d+, \d+\] +shared +\d+ KiB", text)


def test_text() -> None:
    assert size(1536) == "1.5 KiB"
    assert entries([("a", "one"), ("long", "two")]) == ["  a     one", "  long  two"]
    lines = paragraph("word " * 60, 2, 4)
    assert [line[:6] for line in lines[:2]] == ["  word", "    wo"]
    assert max(map(len, lines)) <= WIDTH
