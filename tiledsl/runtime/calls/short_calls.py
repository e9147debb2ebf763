"""The short way of calls on NumPy's arrays that are just like those of an earlier call.

Native code looks at the arrays: class, dtype, shape, strides, alignment, whether what is written may be, and shares no
memory with anything else. All that Python does is to make the new arrays and to put the tuple together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np

from tiledsl.runtime.arrays import output_memory
from tiledsl.runtime.calls.missed import MISSED

Quick: TypeAlias = "Callable[[tuple[Any, ...], Any], object]"
"""Makes a call with arguments in order, and `out`, like those of an earlier call; gives `MISSED` for others."""


class Room(Protocol):
    """What one call at a time may run on."""

    @property
    def run_on(self) -> Callable[[tuple[object, ...]], bool]: ...


class NewArrays:
    """What makes the new arrays of a call, or finds them in `out`."""

    def __init__(self, made: Sequence[tuple[int, tuple[int, ...], np.dtype[Any]]]) -> None:
        """`made`: for each new array which of those of `out` it is, if any (else -1), its shape and its dtype."""
        self.makers = [maker(shape, dtype) for _, shape, dtype in made]
        self._slots = [slot for slot, _, _ in made]
        self.is_out = self._slots == list(range(len(made)))
        """Whether they are the arrays of `out`, one by one."""

    def with_out(self, outputs: tuple[Any, ...]) -> Sequence[Any]:
        """The new arrays of a call with these arrays of `out`."""
        if self.is_out:
            return outputs
        return [make() if slot < 0 else outputs[slot] for slot, make in zip(self._slots, self.makers)]


def maker(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], Any]:
    """What makes row-major arrays: `output_memory.empty`, or what that comes to."""
    if prod(shape) * dtype.itemsize < output_memory.SMALLEST:
        return partial(np.empty, shape, dtype)
    return partial(output_memory.empty, shape, dtype)


class ShortCall:
    """Calls with `out`, without, or either. Safe to use from several threads at once."""

    def __init__(
        self,
        rooms: list[Any],
        new_room: Callable[[], Room | None],
        new: NewArrays,
        returned: Callable[[Sequence[Any], tuple[Any, ...]], object] | None,
        outputs: int,
        *,
        allocates: bool,
    ) -> None:
        """`rooms` are those that no call uses, which others may take too. `returned`: what a call with these new arrays
        and arguments gives; None: the only new array. `outputs`: how many arrays `out` has; 0: there may be none.
        `allocates`: whether there may be no `out`."""
        self._take, self._give_back = rooms.pop, rooms.append
        self._new_room = new_room
        self._new = new
        self._one = new.makers[0] if len(new.makers) == 1 else None
        self._returned = returned
        self._outputs = outputs
        self._allocates = allocates

    def call(self, args: tuple[Any, ...], out: Any) -> object:
        """Makes the call; `MISSED`, and nothing done, for arguments of another kind."""
        if out is None:
            if not self._allocates:
                return MISSED
            made = (self._one(),) if self._one is not None else [make() for make in self._new.makers]
        else:
            made = out if out.__class__ is tuple else (out,)
            if len(made) != self._outputs or not made:
                return MISSED
            if not self._new.is_out:
                made = self._new.with_out(made)
        try:
            room = self._take()
        except IndexError:
            room = self._new_room()
            if room is None:
                return MISSED
        try:
            if not room.run_on((*args, *made)):
                return MISSED
        finally:
            self._give_back(room)
        return made[0] if self._returned is None else self._returned(made, args)
