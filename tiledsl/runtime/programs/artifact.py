"""A compiled kernel as it is kept: machine code, calling convention, and the texts that people ask for."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tiledsl.runtime.programs.interface import Interface
from tiledsl.runtime.programs.stored_interface import interface_from_json, interface_to_json

_HEADER = struct.Struct("<Q")


@dataclass(frozen=True)
class Note:
    """What a pass has to say about a line of the source."""

    pass_name: str
    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Artifact:
    """`program` is what the back end's `to_bytes` gave; `stages` are IR texts by name, in the order of compilation."""

    arch: str
    interface: Interface
    stages: Mapping[str, str]
    notes: tuple[Note, ...]
    program: bytes

    def to_bytes(self) -> bytes:
        described = {
            "arch": self.arch,
            "interface": interface_to_json(self.interface),
            "stages": dict(self.stages),
            "notes": [[note.pass_name, note.file, note.line, note.text] for note in self.notes],
        }
        text = json.dumps(described).encode()
        return _HEADER.pack(len(text)) + text + self.program

    @staticmethod
    def from_bytes(data: bytes) -> Artifact:
        """The inverse of `to_bytes`."""
        (length,) = _HEADER.unpack_from(data)
        end = _HEADER.size + length
        described: dict[str, Any] = json.loads(data[_HEADER.size : end])
        return Artifact(
            described["arch"],
            interface_from_json(described["interface"]),
            described["stages"],
            tuple(Note(*fields) for fields in described["notes"]),
            data[end:],
        )
