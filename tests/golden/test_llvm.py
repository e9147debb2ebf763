"""Golden LLVM IR of small programs: `tests/golden/llvm/CASE.tir` and, beside it, what is emitted for AVX2.

`pytest --update-golden` writes the `.ll` files anew; read the difference before committing it. Each program is run too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.cpu_programs import Array, run_on_cpu
from tests.support.tile_programs import run
from tiledsl.backend_cpu.emit.emit_program import emit_program
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.machine import MACHINES

FILES = sorted((Path(__file__).parent / "llvm").glob("*.tir"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_llvm(file: Path, update_golden: bool) -> None:
    actual = emit_program(parse_module(file.read_text(encoding="utf-8")).entry, MACHINES["avx2"]).text
    golden = file.with_suffix(".ll")
    if update_golden:
        golden.write_text(actual, encoding="utf-8")
    assert actual == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["avx2", "avx512"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_same_programs_run(file: Path, name: str) -> None:
    text = file.read_text(encoding="utf-8")
    entry = parse_module(text).entry
    shapes = [(80,) if "[N]" in str(p.type) else (7, 80) for p in entry.parameters]
    random = np.random.default_rng(0)
    arrays: list[Array] = [random.standard_normal(shape, np.float32) for shape in shapes]
    for actual, expected in zip(run_on_cpu(text, *arrays, machine=MACHINES[name]), run(text, *arrays)):
        assert_close(actual, expected, terms=80)
