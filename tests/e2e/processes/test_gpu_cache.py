"""Code for GPUs on the artifact cache: what processes share, and what damage and a full disk do."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kernels.call_kernels import add
from tiledsl import tile
from tiledsl.runtime.programs.cache import DiskCache

ROOT = Path(__file__).resolve().parents[3]
SPECS = [tile.spec((1000,), tile.f32)] * 2
PROGRAM = """
import hashlib
from tests.support.kernels.call_kernels import add
from tiledsl import tile

compiled = add.compile(*[tile.spec((1000,), tile.f32)] * 2, arch="sm_90")
print(hashlib.sha1(compiled.cubin).hexdigest())
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv("TILEDSL_CACHE_DIR", str(tmp_path))
    return tmp_path


def entries(folder: Path) -> Iterator[tuple[str, DiskCache]]:
    """The entries of a cache by name."""
    cache = DiskCache(folder, 1 << 30)
    for file in folder.rglob("*"):
        if file.is_file():
            yield file.parent.name + file.name, cache


def compiled_anew() -> Any:
    """The kernel, as a process compiles it that has compiled nothing yet."""
    return tile.kernel(add.__wrapped__).compile(*SPECS, arch="sm_90")


def test_variants_are_found_on_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compiled_anew().cubin
    assert len(list(entries(folder))) == 2  # the kernel, and its code for these sizes

    def compile_variant(*arguments: object, **named: object) -> object:
        raise AssertionError("is on the disk")

    monkeypatch.setattr("tiledsl.backend_cuda.build.compile.compile_variant", compile_variant)
    assert compiled_anew().cubin == first


def start() -> subprocess.Popen[str]:
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, text=True, **pipes)


def test_processes_that_compile_the_same_at_once(folder: Path) -> None:
    printed: set[str] = set()
    for process in [start() for _ in range(3)]:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        printed.add(out.split()[0])
    assert len(printed) == 1
    assert len(list(entries(folder))) == 2
    assert list(folder.rglob(".new-*")) == []


def without_head(content: bytes) -> bytes:
    """The described part of a variant becomes an empty object."""
    return (2).to_bytes(8, "little") + b"{}" + content[8 + int.from_bytes(content[:8], "little") :]


def with_other_plan(content: bytes) -> bytes:
    """As written by a compiler whose plans say something else."""
    length = int.from_bytes(content[:8], "little")
    described = json.loads(content[8 : 8 + length])
    described["plan"]["grids"][0]["unheard_of"] = 1
    text = json.dumps(described).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "short": lambda content: b"nonsense",
    "cut": lambda content: content[:100],
    "without head": without_head,
    "other plan": with_other_plan,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_entries_that_are_whole_but_nonsense_are_made_anew(
    folder: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tiledsl")
    first = compiled_anew().cubin
    variants = [(name, cache) for name, cache in entries(folder) if b"\x7fELF" in (cache.get(name) or b"")]
    assert len(variants) == 1
    for name, cache in variants:
        content = cache.get(name)
        assert content is not None
        cache.put(name, DAMAGES[damage](content))
    assert compiled_anew().cubin == first
    assert "cannot be read; it is made anew" in caplog.text
    caplog.clear()
    assert compiled_anew().cubin == first
    assert caplog.text == ""


def test_files_that_are_damaged_are_made_anew(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = compiled_anew().cubin
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:-1])
    assert compiled_anew().cubin == first
    assert caplog.text.count("is damaged; it is made anew") == 2


def test_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        cubin = compiled_anew().cubin
    assert cubin.startswith(b"\x7fELF")
    assert caplog.text.count("going on without it") == 1
    assert list(entries(folder)) == []
