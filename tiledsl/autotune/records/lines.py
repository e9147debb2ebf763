"""Entries as lines of text: a checksum, the version of the format, and JSON.

A line that was cut, or that a disk has damaged, is not taken for anything; nor is one of a version that is not ours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tiledsl.autotune.records.record import Entry, entry_from_json, entry_to_json

FORMAT = 1
"""The version of the format. Fields that change their meaning change it."""

Fault = Literal["cut", "damaged", "of another version"]


@dataclass(frozen=True)
class Skipped:
    """A line that was not taken."""

    file: str
    line: int
    fault: Fault

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.fault}"


def line_of(entry: Entry) -> bytes:
    """The line of an entry, its end included."""
    text = json.dumps(entry_to_json(entry), separators=(",", ":"), sort_keys=True)
    payload = f"{FORMAT} {text}".encode()
    return checksum(payload) + b" " + payload + b"\n"


def checksum(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=8).hexdigest().encode()


def read_lines(data: bytes, file: str, first: int = 1) -> Iterator[tuple[bytes, Entry | Skipped]]:
    """What each line of a file is, with the line itself. `first`: the number of the first one."""
    for number, line in enumerate(data.splitlines(keepends=True), first):
        yield line, _read_line(line, file, number)


def _read_line(line: bytes, file: str, number: int) -> Entry | Skipped:
    if not line.endswith(b"\n"):
        return Skipped(file, number, "cut")
    found, _, payload = line[:-1].partition(b" ")
    if found != checksum(payload):
        return Skipped(file, number, "damaged")
    version, _, text = payload.partition(b" ")
    if version != str(FORMAT).encode():
        return Skipped(file, number, "of another version")
    try:
        return entry_from_json(json.loads(text))
    except (ValueError, KeyError, TypeError):
        return Skipped(file, number, "damaged")
