"""The shared memory of one program, byte by byte, with who wrote and who read what: it finds missing barriers.

A byte that a thread wrote may be read by that thread alone until the next barrier; a byte that a thread read may not be
written by another one until then. An asynchronous copy keeps its bytes from everybody, its own thread too, until it is
waited for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.core import Op
from tiledsl.ir.layouts import Integers

Marks = npt.NDArray[np.int32]
"""For each byte who used it and by which op: 0 is nobody, else the op's number, a flag, the thread's number + 1."""
_THREAD = 0x7FFF
_FLYING = 0x8000
_OP = 16
MANY = _THREAD
"""In place of a thread number + 1: several threads."""


class RaceError(Exception):
    """What goes wrong between two accesses of a byte; whoever runs the op adds where."""


@dataclass(frozen=True)
class Places:
    """Which bytes an access is about, and by which thread each."""

    bytes: Integers
    """The bytes of each element: [elements, bytes]."""
    threads: Marks
    """For each byte, the number of the thread + 1."""

    @staticmethod
    def of(addresses: Integers, threads: Integers, width: int) -> Places:
        """Elements of `width` bytes at these addresses, each accessed by one thread."""
        places = addresses[:, None] + np.arange(width)
        return Places(places, np.broadcast_to(threads.astype(np.int32)[:, None] + np.int32(1), places.shape))


@dataclass
class PendingCopy:
    """Bytes on their way."""

    places: Integers
    data: npt.NDArray[np.uint8]


@dataclass
class SharedMemory:
    """`blocks` blocks of threads with `size` bytes each, one after the other. Nothing is written yet: all bits set."""

    blocks: int
    size: int
    open_group: list[PendingCopy] = field(default_factory=list[PendingCopy])
    """Copies since the last commit."""
    groups: list[list[PendingCopy]] = field(default_factory=list[list[PendingCopy]])
    """Committed and not waited for, oldest first."""
    ops: list[Op] = field(default_factory=list[Op])
    """Those that the marks speak of."""

    def __post_init__(self) -> None:
        total = self.blocks * self.size
        self.data = np.full(total, 0xFF, np.uint8)
        self.writers: Marks = np.zeros(total, np.int32)
        self.readers: Marks = np.zeros(total, np.int32)
        self._numbers: dict[Op, int] = {}
        self._used = False

    def read(self, op: Op, places: Places, dtype: np.dtype[Any]) -> Array:
        """The elements at these places."""
        marks = self._marks(op, places)
        self._check_visible(places.bytes, marks)
        before = self.readers[places.bytes]
        same = (before == 0) | ((before ^ marks) & _THREAD == 0)
        now = np.where(same, marks, marks | MANY)
        self.readers[places.bytes] = now
        shared = self.readers[places.bytes] != now  # another thread of this very access was here too
        self.readers[places.bytes[shared]] |= MANY
        found: Any = self.data[places.bytes]
        return found[:, 0] != 0 if dtype == np.bool_ else found.view(dtype)[:, 0]

    def write(self, op: Op, places: Places, elements: Array) -> None:
        """Writes elements."""
        self._claim(places.bytes, self._marks(op, places))
        self.data[places.bytes] = _bytes_of(elements)

    def begin_copy(self, op: Op, places: Places, elements: Array) -> None:
        """Lets elements fly to their places, where there is nothing of use until they are waited for."""
        self._claim(places.bytes, self._marks(op, places) | np.int32(_FLYING))
        self.data[places.bytes] = 0xFF
        self.open_group.append(PendingCopy(np.reshape(places.bytes, -1), np.reshape(_bytes_of(elements), -1)))

    def commit(self) -> None:
        """Makes a group of the copies since the last commit."""
        self.groups.append(self.open_group)
        self.open_group = []

    def wait(self, groups: int) -> None:
        """Completes all but the last `groups` groups, oldest first."""
        while len(self.groups) > groups:
            for copy in self.groups.pop(0):
                self.data[copy.places] = copy.data
                self.writers[copy.places] &= ~np.int32(_FLYING)

    def barrier(self) -> None:
        """What was written becomes visible, what was read may be written again; copies fly on."""
        if self._used:
            self.writers[self.writers & _FLYING == 0] = 0
            self.readers[:] = 0
            self._used = False
            for copies in (*self.groups, self.open_group):
                self._used |= bool(copies)

    def exchange(self, op: Op, start: int, size: int) -> None:
        """All threads write to a run of bytes, meet at a barrier, and read what others wrote."""
        for block in range(self.blocks):
            run = np.arange(start, start + size) + block * self.size
            places = Places.of(run, np.zeros_like(run), 1)
            self._claim(places.bytes, self._marks(op, places) | np.int32(MANY))
            self.data[run] = 0xFF
        self.barrier()
        for block in range(self.blocks):
            first = start + block * self.size
            self.readers[first : first + size] = (self._numbers[op] << _OP) | MANY
        self._used = True

    def exchange_in_turns(self, op: Op, start: int, size: int, *, meets: bool) -> None:
        """As `exchange`, in halves that take turns: what was read is not written again before all threads have met.

        `meets`: whether they do so in the block too, or wait for nothing but the values.
        """
        for block in range(self.blocks):
            run = np.arange(start, start + size) + block * self.size
            places = Places.of(run, np.zeros_like(run), 1)
            self._claim(places.bytes, self._marks(op, places) | np.int32(MANY))
            self.data[run] = 0xFF
            self.writers[run] = 0
        if meets:
            self.barrier()

    def _marks(self, op: Op, places: Places) -> Marks:
        """What the access leaves at each byte."""
        self._used = True
        if op not in self._numbers:
            self._numbers[op] = len(self.ops)
            self.ops.append(op)
        return places.threads + np.int32(self._numbers[op] << _OP)

    def _check_visible(self, places: Integers, marks: Marks) -> None:
        writers = self.writers[places]
        hidden = (writers != 0) & ((writers ^ marks) & (_THREAD | _FLYING) != 0)
        if hidden.any():
            self._fail("read", "wrote", places, marks, writers, hidden)

    def _claim(self, places: Integers, marks: Marks) -> None:
        """Checks that these bytes may be written, and marks them."""
        for verb, before in (("wrote", self.writers[places]), ("read", self.readers[places])):
            taken = (before != 0) & ((before ^ marks) & _THREAD != 0)
            taken |= ((before & _FLYING) != 0) | (before & _THREAD == MANY)
            if taken.any():
                self._fail("write", verb, places, marks, before, taken)
        self.writers[places] = marks
        torn = self.writers[places] != marks
        if torn.any():
            self._fail("write", "writes", places, marks, self.writers[places], torn)

    def _fail(self, does: str, did: str, places: Integers, marks: Marks, before: Marks, wrong: Array) -> None:
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        mark, byte = int(before[at]), int(places[at])
        op = self.ops[mark >> _OP]
        other = "several threads" if mark & _THREAD == MANY else f"thread {(mark & _THREAD) - 1}"
        where = f"byte {byte % self.size}" + (f" of block {byte // self.size}" if self.blocks > 1 else "")
        by = f"{op.name} at {op.location}"
        if mark & _FLYING:
            reason = f"which {by} still copies to by {other}: a gpu.wait is missing"
        else:
            reason = f"which {other} {did} in {by} with no barrier in between"
        raise RaceError(f"{_threads(int(marks[at]), does)} {where} of shared memory, {reason}")


def _threads(mark: int, does: str) -> str:
    thread = mark & _THREAD
    return f"several threads {does}" if thread == MANY else f"thread {thread - 1} {does}s"


def _bytes_of(elements: Array) -> npt.NDArray[np.uint8]:
    """[elements, bytes]"""
    flat: Any = np.ascontiguousarray(elements)
    return np.reshape(flat.view(np.uint8), (len(flat), elements.itemsize))
