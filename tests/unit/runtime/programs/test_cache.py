"""The artifact cache: whole entries or none, whatever happens to the disk."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tiledsl
from tiledsl.runtime.programs.cache import COMPILER, DiskCache, compiler_identity, digest

NAME = digest(["a kernel"])


def entry(cache: DiskCache, name: str = NAME) -> Path:
    return cache.directory / name[:2] / name[2:]


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache", 1 << 20)


def test_round_trip(cache: DiskCache) -> None:
    assert cache.get(NAME) is None
    cache.put(NAME, b"code")
    assert cache.get(NAME) == b"code"
    cache.drop(NAME)
    assert cache.get(NAME) is None
    cache.drop(NAME)


@pytest.mark.parametrize(("kept", "added"), [(-1, b""), (1000, b"!"), (0, b""), (0, b"x"), (30, b"")])
def test_damaged_entry_is_dropped(cache: DiskCache, kept: int, added: bytes, caplog: pytest.LogCaptureFixture) -> None:
    cache.put(NAME, b"code")
    file = entry(cache)
    file.write_bytes(file.read_bytes()[:kept] + added)
    assert cache.get(NAME) is None
    assert "is damaged" in caplog.text
    assert not file.exists()
    cache.put(NAME, b"code")
    assert cache.get(NAME) == b"code"


def test_flipped_bit_is_found(cache: DiskCache) -> None:
    cache.put(NAME, b"code")
    data = bytearray(entry(cache).read_bytes())
    data[-2] ^= 1
    entry(cache).write_bytes(bytes(data))
    assert cache.get(NAME) is None


def test_unusable_directory_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    cache = DiskCache(blocked, 1 << 20)
    caplog.set_level(logging.WARNING, "tiledsl")
    for _ in range(3):
        assert cache.get(NAME) is None
        cache.put(NAME, b"code")
    assert caplog.text.count("going on without it") == 1
    assert blocked.read_text() == "in the way"


def test_full_disk(cache: DiskCache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache.put(NAME, b"code")
    assert "No space left" in caplog.text
    assert cache.get(NAME) is None
    assert list(entry(cache).parent.iterdir()) == []


def test_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 5000)
    names = [digest([str(i)]) for i in range(6)]
    for age, name in enumerate(names[:4]):
        cache.put(name, b"x" * 1000)
        os.utime(entry(cache, name), (1000 + age, 1000 + age))
    assert cache.get(names[0]) is not None  # used now
    cache.put(names[4], b"x" * 1000)
    cache.put(names[5], b"x" * 1000)
    kept = [i for i, name in enumerate(names) if entry(cache, name).exists()]
    assert kept == [0, 3, 4, 5]


def test_the_limit_holds_after_every_entry(tmp_path: Path) -> None:
    """The folder is not looked through at each."""
    caches = [DiskCache(tmp_path, 20_000), DiskCache(tmp_path, 20_000)]  # as two processes have them
    for number in range(120):
        caches[number % 2].put(f"{number % 7}{number:05}", b"x" * (100 + 37 * number % 900))
        assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) <= 20_000


def test_digest_knows_where_a_text_ends() -> None:
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["a"]) != digest(["a", ""])


def test_identity_is_the_same_in_every_process() -> None:
    program = "from tiledsl.runtime.programs.cache import compiler_identity; print(compiler_identity())"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    compiler_identity.cache_clear()
    assert other.stdout.strip() == compiler_identity()


def test_all_of_the_compiler_counts() -> None:
    assert Path(tiledsl.__file__).resolve().parent == COMPILER


def test_what_others_keep_beside_the_entries_stays(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 100)
    (tmp_path / "tuning").mkdir()
    records = tmp_path / "tuning" / "records.jsonl"
    records.write_bytes(b"x" * 1000)
    os.utime(records, (1, 1))  # older than every entry
    for number in range(5):
        cache.put(digest([str(number)]), b"code" * 10)
    assert records.stat().st_size == 1000
    assert cache.get(digest(["4"])) is not None, "and it does not count"
