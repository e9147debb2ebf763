"""Compiled kernels on disk, shared by processes: each entry one file, named by all that its content depends on.

Entries are written beside their place and renamed, so that a reader sees a whole file or none; a checksum finds those
that were damaged, which are dropped and made anew. Trouble with the disk never stops a kernel: it is logged once, and
the cache is left alone from then on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from numpy import __version__ as numpy_version  # pyright: ignore[reportUnknownVariableType]  # not annotated there

from tiledsl.support.options import LOG

_MAGIC = b"tiledsl-artifact-1\n"
_DIGEST_BYTES = 16
_PREFIX = 2
"""Letters of an entry's name that are its folder's."""
_WRITERS = 8
"""Processes that may fill one folder at a time: each looks through it again once it has written so great a part of what
was free."""
_SOURCE_SUFFIXES = (".py", ".lark")


def digest(parts: Sequence[str]) -> str:
    """A name for the list of texts; different lists have different names."""
    hasher = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode()
        hasher.update(f"{len(data)}:".encode())
        hasher.update(data)
    return hasher.hexdigest()


COMPILER = Path(__file__).resolve().parents[2]
"""The folder of the compiler's own source."""


@cache
def compiler_identity() -> str:
    """Changes with the compiler's own source, Python and NumPy. What a back end depends on besides is its own part."""
    hasher = hashlib.sha256()  # processors have instructions for it: half the time of others
    for file in _source_files(str(COMPILER)):
        with open(file, "rb", buffering=0) as source:
            hasher.update(source.readall())
    python = f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"
    return digest([hasher.hexdigest(), f"numpy {numpy_version}", python, platform.machine(), sys.platform])


def _source_files(folder: str) -> list[str]:
    files: list[str] = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.is_dir():
                files += _source_files(entry.path)
            elif entry.name.endswith(_SOURCE_SUFFIXES):
                files.append(entry.path)
    return files


class DiskCache:
    """A folder of entries of at most `limit` bytes in all (the least recently used ones go first)."""

    def __init__(self, directory: Path, limit: int) -> None:
        self.directory = directory
        self.limit = limit
        self._failed = False
        self._spare = -1
        """Bytes that may be written before the folder is looked through again: that takes longer than to write one."""

    def get(self, name: str) -> bytes | None:
        """The content of an entry, or None if there is none that is whole."""
        path = self._path(name)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._give_up("read", error)
            return None
        head = len(_MAGIC) + _DIGEST_BYTES
        content = data[head:]
        if not data.startswith(_MAGIC) or data[len(_MAGIC) : head] != _checksum(content):
            LOG.warning("cache entry %s is damaged; it is made anew", path)
            self.drop(name)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # what is used stays
        return content

    def put(self, name: str, content: bytes) -> None:
        """Writes an entry. Does nothing where the disk is full, read-only or otherwise unwilling."""
        if self._failed:
            return
        path = self._path(name)
        temporary = path.with_name(f".new-{os.getpid()}-{threading.get_ident()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            written = temporary.write_bytes(_MAGIC + _checksum(content) + content)
            os.replace(temporary, path)
            self._spare -= written
            if self._spare < 0:
                self._evict()
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            self._give_up("write", error)

    def drop(self, name: str) -> None:
        """Removes an entry, if it is there."""
        with contextlib.suppress(OSError):
            self._path(name).unlink()

    def _path(self, name: str) -> Path:
        return self.directory / name[:_PREFIX] / name[_PREFIX:]

    def _give_up(self, act: str, error: OSError) -> None:
        if not self._failed:
            LOG.warning("cannot %s the cache in %s (%s); going on without it", act, self.directory, error)
        self._failed = True

    def _evict(self) -> None:
        """Removes the least recently used entries until the rest is within nine tenths of the limit."""
        entries: list[tuple[float, int, str]] = []
        for folder in os.scandir(self.directory):
            if len(folder.name) != _PREFIX or not folder.is_dir():
                continue  # what others keep here: measured plans
            for entry in os.scandir(folder.path):
                with contextlib.suppress(OSError):  # another process may have removed it
                    status = entry.stat()
                    entries.append((status.st_mtime, status.st_size, entry.path))
        total = sum(size for _, size, _ in entries)
        if total > self.limit:
            for _, size, path in sorted(entries):
                if total <= self.limit * 0.9:
                    break
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    total -= size
        self._spare = (self.limit - total) // _WRITERS


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


@cache
def disk_cache(directory: Path, limit: int) -> DiskCache:
    """The cache in that folder: one object per process, so that it complains once."""
    return DiskCache(directory, limit)
