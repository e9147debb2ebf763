"""Who accessed which byte when: finds accesses that nothing puts in an order.

A unit is a byte of shared memory, or an element of a tensor. Of each unit the last write is kept, and for each
component of time the last read since. An access is legal if every earlier one that it conflicts with is over for it: by
the clock, or as one of the same thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from tiledsl.backend_ref.emulator.agents.clocks import Clock, is_made_at_once
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.core import Op
from tiledsl.ir.layouts.layout import Integers

Ints = npt.NDArray[np.int32]
SEVERAL = -2
"""In place of a thread: several threads."""
NOBODY = -1
NOBODYS = -3
"""In place of a thread: an access that several threads make together, and that is no one's own."""


@dataclass(frozen=True)
class Accessor:
    """Who makes an access: in which component of time at which step, knowing what."""

    op: Op
    component: int
    step: int
    clock: Clock
    landed: Mapping[int, int]
    """Components of things under way, and up to which step the threads that began them have waited for them."""
    is_async: bool = False
    """Through the async proxy."""
    atomic: bool = False
    own_fenced: tuple[Mapping[int, int], Mapping[int, int]] = ({}, {})
    """Components, and up to which step each of this agent's threads has fenced its own accesses: of shared memory, of
    global memory."""


@dataclass(frozen=True)
class Conflict:
    """Two accesses of a unit that nothing puts in an order, or not through both proxies."""

    unit: int
    verb: str
    thread: int
    before: str
    """What the other one does to the unit: `wrote`, `read`."""
    by: Op
    other: int
    """The thread of the other one."""
    component: int
    """`NOBODY`: the other one is of another program."""
    step: int
    """Of that component, or the number of that program; `SEVERAL`: several programs."""
    only_unfenced: bool


@dataclass
class _Readers:
    """Of each unit, the last read in one component of time."""

    step: Ints
    thread: Ints
    op: Ints
    unfenced: Array
    """Whether it was made through the generic proxy."""

    @staticmethod
    def nobody(size: int) -> _Readers:
        """No reads yet."""
        step, thread, op = (np.zeros(size, np.int32) for _ in range(3))
        return _Readers(step, thread, op, np.zeros(size, np.bool_))


@dataclass
class Shadow:
    """`size` units, in the memory of one program."""

    size: int
    is_global: bool = False
    """Units are elements of tensors."""
    ops: list[Op] = field(default_factory=list[Op])

    def __post_init__(self) -> None:
        self.component = np.full(self.size, NOBODY, np.int32)
        self.step = np.zeros(self.size, np.int32)
        self.thread = np.zeros(self.size, np.int32)
        self.op = np.zeros(self.size, np.int32)
        self.generic = np.zeros(self.size, np.bool_)
        self.atomic = np.zeros(self.size, np.bool_)
        self.initialised = np.zeros(self.size, np.bool_)
        self._readers: dict[int, _Readers] = {}
        self._numbers: dict[Op, int] = {}

    # Checks. Each gives the first conflict, or None

    def read(self, who: Accessor, units: Integers, threads: Integers) -> Conflict | None:
        """Reads of units, each by one thread."""
        conflict = self.check_read(who, units, threads)
        if conflict is None:
            self._mark_read(who, units, threads)
        return conflict

    def check_read(self, who: Accessor, units: Integers, threads: Integers) -> Conflict | None:
        """Whether units may be read."""
        return self._check_writes(who, units, threads, "read")

    def write(self, who: Accessor, units: Integers, threads: Integers) -> Conflict | None:
        """Writes of units, each by one thread. Several threads that write one unit are in conflict."""
        conflict = self.check_write(who, units, threads)
        if conflict is not None:
            return conflict
        self.thread[units] = threads
        torn = self.thread[units] != threads
        if torn.any() and not who.atomic:
            at = _first(torn)
            return Conflict(
                int(units[at]), "write", int(threads[at]), "writes", who.op, int(self.thread[units][at]),
                who.component, who.step, False,
            )  # fmt: skip
        self.component[units] = who.component
        self.step[units] = who.step
        self.op[units] = self.number(who.op)
        self.generic[units] = not who.is_async
        self.atomic[units] = who.atomic
        self.initialised[units] = True
        for readers in self._readers.values():
            readers.step[units] = 0
        return None

    def check_write(self, who: Accessor, units: Integers, threads: Integers) -> Conflict | None:
        """Whether units may be written."""
        return self._check_writes(who, units, threads, "write") or self._check_reads(who, units, threads)

    def forget(self, units: Integers) -> None:
        """All may be accessed by anybody from now on; they hold something."""
        self.component[units] = NOBODY
        self.initialised[units] = True
        for readers in self._readers.values():
            readers.step[units] = 0

    def first_uninitialised(self, units: Integers) -> int | None:
        """Of which nothing was written yet: its position."""
        missing = ~self.initialised[units]
        return _first(missing) if missing.any() else None

    def _check_writes(
        self, who: Accessor, units: Integers, threads: Integers, verb: Literal["read", "write"]
    ) -> Conflict | None:
        component, step, thread = self.component[units], self.step[units], self.thread[units]
        known = component == NOBODY
        own = self._own(who, component, step, thread, threads)
        seen = who.clock.seen[component] >= step
        hidden = ~(known | own | seen)
        if who.atomic:
            hidden &= ~self.atomic[units]
        if hidden.any():
            return self._conflict(_first(hidden), verb, "wrote", units, threads, component, step, thread, self.op)
        if who.is_async:
            unfenced = ~known & self.generic[units] & ~self._fenced(who, component, step, thread, threads)
            if unfenced.any():
                at = _first(unfenced)
                return self._conflict(at, verb, "wrote", units, threads, component, step, thread, self.op, True)
        return None

    def _check_reads(self, who: Accessor, units: Integers, threads: Integers) -> Conflict | None:
        for component, readers in self._readers.items():
            step = readers.step[units]
            if not step.any():
                continue
            thread = readers.thread[units]
            components = np.full(step.shape, component, np.int32)
            own = self._own(who, components, step, thread, threads)
            hidden = (step > who.clock.seen[component]) & ~own
            if hidden.any():
                at = _first(hidden)
                return self._conflict(at, "write", "read", units, threads, components, step, thread, readers.op)
            if who.is_async:
                unfenced = readers.unfenced[units] & ~self._fenced(who, components, step, thread, threads)
                unfenced &= step > 0
                if unfenced.any():
                    at = _first(unfenced)
                    return self._conflict(
                        at, "write", "read", units, threads, components, step, thread, readers.op, True
                    )
        return None

    @staticmethod
    def _own(who: Accessor, component: Ints, step: Ints, thread: Ints, threads: Integers) -> Array:
        """Whether an earlier access was the same thread's own, and is over for it."""
        done = is_made_at_once(component, who.clock.agents)
        for landed, until in who.landed.items():
            done |= (component == landed) & (step <= until)
        return (thread == threads) & done

    def _fenced(self, who: Accessor, component: Ints, step: Ints, thread: Ints, threads: Integers) -> Array:
        """Whether a proxy fence of those who made an earlier access came after it, and that is known."""
        known = who.clock.fenced_globally if self.is_global else who.clock.fenced
        fenced = known[component] >= step
        for fencing, until in who.own_fenced[self.is_global].items():
            fenced |= (component == fencing) & (step <= until) & (thread == threads)
        return fenced

    def _mark_read(self, who: Accessor, units: Integers, threads: Integers) -> None:
        readers = self._readers.get(who.component)
        if readers is None:
            readers = self._readers[who.component] = _Readers.nobody(self.size)
        again = readers.step[units] > who.clock.seen[who.component]  # nothing says that it is over
        other = again & (readers.thread[units] != threads)
        readers.step[units] = who.step
        readers.thread[units] = np.where(other, SEVERAL, threads)
        alone = readers.thread[units]
        torn = (alone != threads) & (alone != SEVERAL)
        if torn.any():  # several threads of this very access
            readers.thread[units[torn]] = SEVERAL
        readers.op[units] = self.number(who.op)
        readers.unfenced[units] = not who.is_async

    def number(self, op: Op) -> int:
        """By which marks speak of an op."""
        if op not in self._numbers:
            self._numbers[op] = len(self.ops)
            self.ops.append(op)
        return self._numbers[op]

    def _conflict(
        self,
        at: int,
        verb: str,
        before: str,
        units: Integers,
        threads: Integers,
        component: Ints,
        step: Ints,
        thread: Ints,
        ops: Ints,
        only_unfenced: bool = False,
    ) -> Conflict:
        unit = int(units[at])
        by = self.ops[int(ops[unit])]
        return Conflict(
            unit, verb, int(threads[at]), before, by, int(thread[at]), int(component[at]), int(step[at]), only_unfenced
        )


def _first(where: Array) -> int:
    return int(np.argmax(where))


@dataclass
class TensorShadow:
    """Who accessed which element of a tensor in one launch. Nothing puts the programs of a launch in an order."""

    size: int

    def __post_init__(self) -> None:
        self._inside = Shadow(self.size, is_global=True)
        self._writer = np.full(self.size, NOBODY, np.int32)
        self._reader = np.full(self.size, NOBODY, np.int32)
        self._write_op = np.zeros(self.size, np.int32)
        self._read_op = np.zeros(self.size, np.int32)
        self._atomic = np.zeros(self.size, np.bool_)
        self._alike = np.zeros(self.size, np.bool_)
        self._kept: Array | None = None

    def check_read(self, who: Accessor, program: int, units: Integers, threads: Integers) -> Conflict | None:
        """Whether elements may be read, as far as their own program wrote them."""
        mine = self._writer[units] == program
        return self._inside.check_read(who, units[mine], threads[mine])

    def read(self, who: Accessor, program: int, units: Integers, threads: Integers) -> Conflict | None:
        """Reads of elements in a program, each by one thread."""
        found = self._other_writer(who, program, units, threads, "read")
        if found is not None:
            return found
        self._enter(program, units)
        other = (self._reader[units] != NOBODY) & (self._reader[units] != program)
        self._reader[units] = np.where(other, SEVERAL, program)
        self._read_op[units] = self._inside.number(who.op)
        return self._inside.read(who, units, threads)

    def write(
        self, who: Accessor, program: int, units: Integers, threads: Integers, alike: Array | None = None
    ) -> Conflict | None:
        """Writes of elements in a program, each by one thread. `alike`: the bytes of each that are written, where other
        programs may write the same ones."""
        same = self._same(units, alike)
        found = self._other_writer(who, program, units, threads, "write", same)
        if found is not None:
            return found
        others = (self._reader[units] != NOBODY) & (self._reader[units] != program)
        if others.any():
            return self._between(who, units, threads, others, "write", "read", self._read_op, self._reader)
        self._enter(program, units)
        if same.any():
            self._inside.forget(units[same])  # whichever comes last
        others = (self._writer[units] != NOBODY) & (self._writer[units] != program)  # by atomics, or the same
        self._writer[units] = np.where(others, SEVERAL, program)
        self._write_op[units] = self._inside.number(who.op)
        self._atomic[units] = who.atomic
        self._alike[units] = alike is not None
        if alike is not None and self._kept is not None:
            self._kept[units] = alike
        return self._inside.write(who, units, threads)

    def _same(self, units: Integers, alike: Array | None) -> Array:
        """Which elements were written before in a way that lets others write the same, and are written so now."""
        same = np.zeros(units.shape, np.bool_)
        if alike is None:
            return same
        if self._kept is None:
            self._kept = np.zeros((self.size, alike.shape[-1]), np.uint8)
        same[...] = self._alike[units] & np.all(self._kept[units] == alike, axis=-1)
        return same

    def _enter(self, program: int, units: Integers) -> None:
        """What other programs left at units says nothing of this one's time."""
        foreign = self._writer[units] != program
        foreign &= (self._reader[units] != program) | (self._reader[units] == NOBODY)
        if foreign.any():
            self._inside.forget(units[foreign])

    def _other_writer(
        self,
        who: Accessor,
        program: int,
        units: Integers,
        threads: Integers,
        verb: str,
        same: Array | None = None,
    ) -> Conflict | None:
        writer = self._writer[units]
        others = (writer != NOBODY) & (writer != program)
        if same is not None:
            others &= ~same
        if who.atomic:
            others &= ~self._atomic[units]
        if not others.any():
            return None
        return self._between(who, units, threads, others, verb, "wrote", self._write_op, self._writer)

    def _between(
        self,
        who: Accessor,
        units: Integers,
        threads: Integers,
        where: Array,
        verb: str,
        before: str,
        ops: Ints,
        programs: Ints,
    ) -> Conflict:
        at = _first(where)
        unit = int(units[at])
        by = self._inside.ops[int(ops[unit])]
        return Conflict(unit, verb, int(threads[at]), before, by, NOBODY, NOBODY, int(programs[unit]), False)
