"""Messages between a search and the process that measures for it: pickles with their length in front."""

from __future__ import annotations

import pickle
import struct
from typing import Any, BinaryIO

_LENGTH = struct.Struct("<Q")


def send(pipe: BinaryIO, message: object) -> None:
    """Writes one message. OSError if nobody reads."""
    data = pickle.dumps(message, protocol=5)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: BinaryIO) -> Any:
    """Reads one message. EOFError if there are no more."""
    head = _exactly(pipe, _LENGTH.size)
    return pickle.loads(_exactly(pipe, _LENGTH.unpack(head)[0]))


def _exactly(pipe: BinaryIO, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = pipe.read(size)
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
