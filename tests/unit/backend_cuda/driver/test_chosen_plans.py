"""Plans of launches are chosen once, and read from the disk by other processes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import tiledsl
from examples.softmax import softmax
from tiledsl import tile
from tiledsl.backend_cuda import program as cuda_program
from tiledsl.backend_cuda.program import CudaProgram
from tiledsl.runtime.programs.cache import DiskCache

SPECS = [tile.spec((64, 96), tile.f16), tile.spec((96, 32), tile.f16)]
SIZES = {"M": 64, "N": 1000}
MAGIC = b'{"grids"'
"""What an entry of a plan begins with."""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TILEDSL_CACHE_DIR", str(tmp_path))
    return tmp_path


def formula(x: Any, w: Any) -> Any:
    return tile.softmax(x @ w, axis=-1)


def compiled() -> CudaProgram:
    kernel: Any = tile.kernel(softmax.__wrapped__)
    return kernel.compile(tile.spec(("M", "N"), tile.f16), arch="sm_90").program


def cubins() -> list[bytes]:
    """The code of a module that is built anew."""
    module = tiledsl.fuse(tiledsl.trace(formula, *SPECS)).build("sm_90").modules[0]
    programs: Any = module.built.programs
    return [program.variant.cubin for program in programs]


def stored(folder: Path) -> list[tuple[DiskCache, str]]:
    cache = DiskCache(folder, 1 << 30)
    names = [file.parent.name + file.name for file in folder.rglob("*") if file.is_file()]
    return [(cache, name) for name in names if (cache.get(name) or b"").startswith(MAGIC)]


def forbidden(*arguments: object) -> object:
    raise AssertionError("the plan is on the disk")


def test_a_plan_is_chosen_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = cubins()
    assert len(stored(folder)) == len(first)
    monkeypatch.setattr(cuda_program, "choose_plans", forbidden)
    monkeypatch.setattr("tiledsl.ir.text.parser.parse_module", forbidden)
    assert cubins() == first


def test_a_plan_that_cannot_be_read_is_chosen_anew(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = cubins()
    for cache, name in stored(folder):
        cache.put(name, MAGIC + b": 1}")
    caplog.set_level(logging.WARNING, "tiledsl")
    assert cubins() == first
    assert caplog.text.count("cannot be read (") == len(first)
    caplog.clear()
    assert cubins() == first
    assert caplog.text == ""


def test_plans_of_other_alignments_are_chosen_for_themselves(folder: Path) -> None:
    program = compiled()
    plans = {program.planned(SIZES, (bytes_, 16), chained=False).plan for bytes_ in (16, 2)}
    assert len(plans) == len(stored(folder)) == 2


def test_a_stored_program_says_what_it_is_called_without_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled()
    again = CudaProgram.from_bytes(program.to_bytes())
    with monkeypatch.context() as patched:
        patched.setattr("tiledsl.ir.text.parser.parse_module", forbidden)
        assert (again.name, again.location, again.text) == (program.name, program.location, program.text)
        assert again.to_bytes() == program.to_bytes()
    assert again.module.structure() == program.module.structure()


def test_programs_without_a_place_are_refused() -> None:
    with pytest.raises(ValueError, match="without a place"):
        CudaProgram.from_bytes(b'tiledsl for CUDA\n{"module": "", "arch": "sm_90", "name": "f", "places": []}')
