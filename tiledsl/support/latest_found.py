"""What was found before, of which the latest is kept."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class LatestFound(Generic[Key, Found]):
    """At most `most` things by their keys; those that were put there first go first. Threads may share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[Key, Found] = {}
        self._lock = threading.Lock()

    def get(self, key: Key) -> Found | None:
        """What was put there, or None."""
        return self._found.get(key)

    def put(self, key: Key, found: Found) -> None:
        """Keeps it."""
        with self._lock:
            self._found[key] = found
            if len(self._found) > self._most:
                del self._found[next(iter(self._found))]

    def clear(self) -> None:
        """Forgets all."""
        with self._lock:
            self._found.clear()
