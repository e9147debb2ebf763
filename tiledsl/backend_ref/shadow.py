"""A shadow of the memory of a TILE function that runs: who touched which element last, and what is wrong with that.

Programs of a grid count from 1 on through all grids of a run. For each element of a tensor that is written somewhere
the shadow has the last program that stored to it, that changed it, that read it, that updated it by an atomic; numbers
below those of the grid that is running are of earlier grids, which are over. `_base` itself stands for several.

A store of what is there already changes nothing: nobody who reads before or after can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tiledsl.backend_ref.findings import Findings
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.core import Op, Value


@dataclass(eq=False)
class _Marks:
    """For each element the number of a program, and of the op by which it did something."""

    programs: Array
    ops: Array

    @staticmethod
    def of(size: int) -> _Marks:
        """None so far."""
        return _Marks(np.zeros(size, np.int32), np.zeros(size, np.int32))

    def conflicts(self, at: Array, program: int, base: int) -> Array:
        """Where a program other than this one did it in this grid; positions in `at`."""
        found = self.programs[at]
        return np.flatnonzero((found >= base) & (found != program))

    def set(self, at: Array, program: int, base: int, op: int) -> None:
        """Notes that this program did it; `base` where another did before it in this grid."""
        before = self.programs[at]
        again = (before >= base) & (before != program)
        self.programs[at] = np.where(again, base, program)
        self.ops[at] = np.where(again, self.ops[at], op)


@dataclass(eq=False)
class TensorShadow:
    """What is known of each element of a tensor, row by row. `stored` is None if all of them have values."""

    size: int
    stored: Array | None
    marks: dict[str, _Marks] = field(default_factory=dict[str, _Marks])
    """By what was done: `store`, `change`, `read`, `atomic`; and `last`, where the last program to store stands."""

    def of(self, kind: str) -> _Marks:
        """The marks of one kind."""
        if kind not in self.marks:
            self.marks[kind] = _Marks.of(self.size)
        return self.marks[kind]


class Shadow:
    """Of all tensors that a function writes. `program` is the number of the one that runs."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.tensors: dict[Value, TensorShadow] = {}
        self.program = 0
        self._base = 0
        self._names: dict[int, str] = {}
        self._ops: list[Op] = []
        self._numbers: dict[Op, int] = {}

    def begin_grid(self) -> None:
        """All programs so far are over."""
        self.program += 1
        self._base = self.program
        self._names.clear()

    def begin_program(self, coordinates: Sequence[str]) -> None:
        self.program += 1
        self._names[self.program] = ", ".join(coordinates)

    def op_that_stored(self, tensor: Value, at: int) -> Op | None:
        """The op that stored to an element last, if one did."""
        marks = self.tensors[tensor].marks.get("store")
        return None if marks is None or marks.programs[at] == 0 else self._ops[int(marks.ops[at])]

    def stored_by_others(self, tensor: Value, at: Array) -> Array:
        """Which of the elements another program of this grid was the last to store to; positions in `at`."""
        return self.tensors[tensor].of("last").conflicts(at, self.program, self._base)

    def load(self, op: Op, tensor: Value, shape: Sequence[int], at: Array) -> None:
        """`at`: the elements, by their position row by row."""
        shadow = self.tensors[tensor]
        self._check_stored(op, tensor, shape, shadow, at)
        self._conflict("check-race-read", op, tensor, shape, at, "change", ("reads", "changes"))
        self._conflict("check-race-atomic", op, tensor, shape, at, "atomic", ("reads", "updates"))
        self._mark(shadow, "read", at, op)

    def store(self, op: Op, tensor: Value, shape: Sequence[int], at: Array, changes: Array) -> None:
        """`changes`: for each of the elements whether its bits become others."""
        shadow = self.tensors[tensor]
        changed = at[changes]
        self._conflict("check-race-store", op, tensor, shape, changed, "store", ("stores to", "stores"))
        self._conflict("check-race-read", op, tensor, shape, changed, "read", ("changes", "reads"))
        self._conflict("check-race-atomic", op, tensor, shape, changed, "atomic", ("stores to", "updates"))
        self._mark(shadow, "store", at, op)
        self._mark(shadow, "change", changed, op)
        shadow.of("last").programs[at] = self.program
        if shadow.stored is not None:
            shadow.stored[at] = True

    def atomic(self, op: Op, tensor: Value, shape: Sequence[int], at: Array) -> None:
        shadow = self.tensors[tensor]
        self._check_stored(op, tensor, shape, shadow, at)
        self._conflict("check-race-atomic", op, tensor, shape, at, "store", ("updates", "stores to"))
        self._conflict("check-race-atomic", op, tensor, shape, at, "read", ("updates", "reads"))
        self._mark(shadow, "atomic", at, op)
        if shadow.stored is not None:
            shadow.stored[at] = True

    def _mark(self, shadow: TensorShadow, kind: str, at: Array, op: Op) -> None:
        if op not in self._numbers:
            self._numbers[op] = len(self._ops)
            self._ops.append(op)
        shadow.of(kind).set(at, self.program, self._base, self._numbers[op])

    def _check_stored(self, op: Op, tensor: Value, shape: Sequence[int], shadow: TensorShadow, at: Array) -> None:
        if shadow.stored is None:
            return
        missing = at[~shadow.stored[at]]
        if missing.size:
            element = element_text(shape, int(missing[0]))
            names = {"program": self.name, "element": element, "tensor": tensor.name}
            self.findings.add("check-uninitialised", op, _origin(tensor), "`tile.empty` makes it", missing.size, names)

    def _conflict(
        self, code: str, op: Op, tensor: Value, shape: Sequence[int], at: Array, kind: str, verbs: tuple[str, str]
    ) -> None:
        marks = self.tensors[tensor].marks.get(kind)
        if marks is None:
            return
        found = marks.conflicts(at, self.program, self._base)
        if found.size:
            first = int(at[found[0]])
            other = int(marks.programs[first])
            by = "another" if other == self._base else self.program_name(other)
            names = {
                "program": self.name, "verb": verbs[0], "element": element_text(shape, first),
                "tensor": tensor.name, "other": by, "before": verbs[1],
            }  # fmt: skip
            self.findings.add(code, op, self._ops[int(marks.ops[first])], f"the other {verbs[1]} it", found.size, names)

    @property
    def name(self) -> str:
        """The coordinates of the program that runs."""
        return self.program_name(self.program)

    def program_name(self, number: int) -> str:
        """`m = 0:8, n = 3`; nothing outside of grids."""
        return self._names.get(number, "")


def element_text(shape: Sequence[int], position: int) -> str:
    """The coordinates of an element by its position row by row: `[3, 0]`."""
    return str([int(i) for i in np.unravel_index(position, tuple(shape))]) if shape else "[]"


def _origin(tensor: Value) -> Op | None:
    return tensor.op
