"""Buffers of a loop's steps, used again by later steps: as many as are needed at once, however many steps there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tiledsl.ir.dtypes import DType

Key = tuple[str, DType, tuple[int, ...]]
"""What a buffer is called, its dtype and its shape."""


class LoopBuffers:
    """Of one loop. A step never gets a buffer that it, or the step before it, made and that is still read."""

    def __init__(self, make: Callable[[str, DType, tuple[int, ...]], int]) -> None:
        """`make`: makes a buffer, and gives its number."""
        self._make = make
        self._made: dict[Key, list[int]] = {}
        self._taken: set[int] = set()

    def begin(self, held: Iterable[int]) -> None:
        """The next step begins, which reads the buffers `held`."""
        self._taken = set(held)

    def take(self, name: str, dtype: DType, shape: tuple[int, ...]) -> int:
        """A buffer that nothing of this step is in."""
        known = self._made.setdefault((name, dtype, shape), [])
        number = next((n for n in known if n not in self._taken), None)
        if number is None:
            number = self._make(name, dtype, shape)
            known.append(number)
        self._taken.add(number)
        return number
