"""Variants of a program for GPUs: what they are told of, what is kept of them on the disk."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from examples.softmax import softmax
from tiledsl import tile
from tiledsl.backend_cuda.build.report_variant import resident_blocks
from tiledsl.backend_cuda.program import CudaProgram
from tiledsl.ir.tile_ops import Empty
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.runtime.programs.program import HasVariants

SPEC = tile.spec(("M", "N"), tile.f16)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEDSL_CACHE_DIR", str(tmp_path))


def fresh() -> Any:
    return tile.kernel(softmax.__wrapped__)


def sized(rows: int, columns: int) -> Any:
    return tile.spec((rows, columns), tile.f16)


def choose(program: CudaProgram, rows: int, columns: int, alignment: int = 16) -> None:
    """What a call does before it launches."""
    plans = choose_plans(program.module.entry, gpu_machine("sm_90"), {"M": rows, "N": columns}, (alignment, 16))
    program.variant(plans)


def test_each_variant_is_a_compilation_with_a_cause(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tiledsl")
    kernel = fresh()
    program = kernel.compile(SPEC, arch="sm_90").program
    choose(program, 4096, 1000)
    choose(program, 4096, 1000, alignment=2)
    choose(program, 4096, 1000, alignment=2)  # known
    first, *variants = kernel.recompiles
    assert (first.cause, first.plan) == ("first use", "")
    assert [made.cause for made in variants[::2]] == ["first sizes", "`x` is aligned to 2 bytes, not 16"]
    assert "N is " in variants[1].cause
    assert all("threads" in made.plan and not made.from_disk and made.seconds > 0 for made in variants)
    assert len(variants) == 3
    assert caplog.messages[-1].startswith("softmax compiled for sm_90 in ")
    assert caplog.messages[-1].endswith("): `x` is aligned to 2 bytes, not 16")


@pytest.mark.parametrize(("columns", "bytes_"), [(1000, 16), (1004, 8), (1001, 2)])
def test_the_default_is_for_rows_of_the_sizes_that_are_known(columns: int, bytes_: int) -> None:
    """So it is the code of a call on such arrays."""
    program = fresh().compile(sized(4096, columns), arch="sm_90").program
    program.default_variant()
    (plan,) = program.variants
    machine = gpu_machine("sm_90")
    assert plan == choose_plans(program.module.entry, machine, program.sizes, (bytes_, bytes_), (16, 16))[0]


def test_a_specification_and_a_call_of_its_sizes_share_code() -> None:
    kernel = fresh()
    program = kernel.compile(SPEC, arch="sm_90").with_sizes_of([sized(4096, 1024)]).program
    before = len(kernel.recompiles)
    choose(program, 4096, 1024)
    assert len(kernel.recompiles) == before


def test_what_the_disk_gives_back_is_the_same() -> None:
    reports: list[Any] = []
    for kernel in (fresh(), again := fresh()):
        program = kernel.compile(sized(64, 4096), arch="sm_90").program
        assert isinstance(program, HasVariants)
        reports.append(program.report())
        assert kernel.recompiles[1].plan == reports[-1].variants[0].plan
    assert [made.from_disk for made in again.recompiles] == [True, True]
    assert reports[0] == reports[1]
    variant = reports[0].variants[0]
    assert [function.name for function in variant.functions] == ["softmax"]
    assert variant.tiles
    assert variant.notes


def test_names_of_tensors_are_parameters_first() -> None:
    program = fresh().compile(SPEC, arch="sm_90").program
    assert sum(isinstance(op, Empty) for op in program.module.entry.body.ops) == 1
    choose(program, 64, 64, alignment=4)
    arrays = [dict(variant.words)["arrays"] for variant in program.report().variants]
    assert arrays == ["rows start at multiples of 16 bytes", "rows start at multiples of 4 bytes (`x`), 16 bytes (`y`)"]


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "arch", "expected"),
    [
        (128, 32, 0, "sm_90", (16, "threads")),
        (32, 32, 0, "sm_90", (32, "blocks")),
        (256, 218, 196608, "sm_90", (1, "registers")),
        (256, 128, 100 << 10, "sm_90", (2, "registers")),
        (128, 64, 100 << 10, "sm_90", (2, "shared memory")),
        (128, 64, 100 << 10, "sm_80", (1, "shared memory")),
    ],
)
def test_resident_blocks(threads: int, registers: int, shared: int, arch: str, expected: tuple[int, str]) -> None:
    assert resident_blocks(threads, registers, shared, gpu_machine(arch)) == expected
