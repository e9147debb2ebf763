"""Programs that run with a shadow of the memory, and say what is wrong with what they do to it: `kernel.check`.

A call is checked, and its outputs are made, as for any program on the CPU; only the program is another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.check_tile import check
from tiledsl.backend_ref.program import LoadedReference, View
from tiledsl.ir.core import Function, Value
from tiledsl.ir.tile_ops import Empty
from tiledsl.ir.types import TensorType
from tiledsl.runtime.arrays.cuda_arrays import is_on_cuda
from tiledsl.runtime.programs.program import BoundProgram, LoadedProgram
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, add_note, fail
from tiledsl.support.options import LOG

_DEFINED = "check-outside"
"""What means something all the same: 0 is read, nothing is stored. Not an error where calls are checked unasked."""


@dataclass(frozen=True)
class CheckReport:
    """What `check` found. `str(report)` has all of it; `report.ok` is whether there is nothing, as is `bool(report)`.

    `errors` are errors that were not raised, each with its place, what it says and a fix; `notes` is what may be meant.
    `result` is what the call gave.
    """

    result: Any
    errors: tuple[TileError, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, as far as this call shows."""
        return not self.errors

    def __bool__(self) -> bool:
        return self.ok

    def raise_if_any(self) -> None:
        """Raises the first error, if there is one, with how many there are besides."""
        if self.errors:
            error = self.errors[0]
            if len(self.errors) > 1:
                add_note(error, f"{len(self.errors) - 1} more: " + "; ".join(str(e.message) for e in self.errors[1:]))
            raise error

    def __str__(self) -> str:
        found = [str(error).strip("\n") for error in self.errors] or ["nothing wrong was found"]
        return "\n\n".join((*found, *(f"note: {note}" for note in self.notes)))

    def __repr__(self) -> str:
        return f"<check: {len(self.errors)} errors>" if self.errors else "<check: ok>"

    def _repr_html_(self) -> str:
        from tiledsl.api.reports.notebook import plain

        return plain(str(self))


@dataclass
class Recorder:
    """What the programs of one call found."""

    errors: list[TileError] = field(default_factory=list[TileError])
    notes: list[str] = field(default_factory=list[str])

    def report(self, result: object) -> CheckReport:
        """All of it, once each."""
        errors = {str(error): error for error in self.errors}
        return CheckReport(result, tuple(errors.values()), tuple(dict.fromkeys(self.notes)))


def refuse_device_arrays(arrays: Iterable[tuple[str, object]]) -> None:
    """Raises TileError for an array, given with its name, that is not in CPU memory."""
    for name, value in arrays:
        if is_on_cuda(value):
            fail("check-device", caller_location(), parameter=name, kind=type(value).__name__)


@dataclass(frozen=True)
class CheckedProgram:
    """A TILE function that runs with a shadow of its memory. What is found is told to `recorder`."""

    function: Function
    recorder: Recorder

    def load(self) -> CheckedProgram:
        return self

    def bind(self, symbols: Mapping[str, int], strides: Sequence[tuple[int, ...]], threads: int) -> BoundCheck:
        """For those sizes; `strides` are in elements: of the tensor parameters, then of the new tensors."""
        views = LoadedReference(self.function).bind(symbols, strides, threads).views
        return BoundCheck(self.function, self.recorder, views)


@dataclass(frozen=True)
class BoundCheck:
    """A function with the views of its tensors: parameters in order, then those that `tile.empty` makes."""

    function: Function
    recorder: Recorder
    views: tuple[View, ...]

    @property
    def description(self) -> str:
        return "run with a shadow of its memory"

    def __call__(self, pointers: Sequence[int], scalars: Sequence[int | float]) -> None:
        """Runs on tensors at these addresses. Raises TileRuntimeError for a failed assertion."""
        self.run(pointers, scalars, in_place=True)

    def run(self, pointers: Sequence[int], scalars: Sequence[int | float], *, in_place: bool) -> None:
        """As a call; or so that the tensors stay as they are."""
        arrays = [view.at(address) for view, address in zip(self.views, pointers)]
        tensors, numbers = iter(arrays if in_place else map(np.copy, arrays)), iter(scalars)
        arguments: list[Argument] = [
            next(tensors) if isinstance(value.type, TensorType) else next(numbers) for value in self.function.parameters
        ]
        checked = check(self.function, arguments)
        self.recorder.errors += checked.findings.errors
        self.recorder.notes += checked.notes
        if in_place:
            made = dict(zip(_made(self.function), tensors))
            returned = self.function.body.terminator
            for value, result in zip(returned.operands if returned else (), checked.results):
                if value in made:
                    np.copyto(made[value], result)


def _made(function: Function) -> list[Value]:
    return [op.result for op in function.body.ops if isinstance(op, Empty)]


@dataclass(frozen=True)
class CheckedFirst:
    """A loaded program whose calls are checked, in arrays of their own, before they are made."""

    program: LoadedProgram
    function: Function

    def bind(self, symbols: Mapping[str, int], strides: Sequence[tuple[int, ...]], threads: int) -> BoundCheckedFirst:
        """For those sizes."""
        bound = self.program.bind(symbols, strides, threads)
        views = LoadedReference(self.function).bind(symbols, strides, 1).views
        return BoundCheckedFirst(bound, self.function, views)


@dataclass(frozen=True)
class BoundCheckedFirst:
    """What it does before is not seen but by the errors that it raises."""

    bound: BoundProgram
    function: Function
    views: tuple[View, ...]

    @property
    def description(self) -> object:
        return self.bound.description

    def __call__(self, pointers: Sequence[int], scalars: Sequence[int | float]) -> None:
        """Raises TileRaceError and TileRuntimeError for what is wrong, before anything is written."""
        recorder = Recorder()
        BoundCheck(self.function, recorder, self.views).run(pointers, scalars, in_place=False)
        raise_unasked(recorder.report(None))
        self.bound(pointers, scalars)


def raise_unasked(report: CheckReport) -> None:
    """Raises what is wrong whatever is meant; of the rest the log tells."""
    for error in report.errors:
        if error.code == _DEFINED:
            LOG.warning("%s: %s", error.location, error.message)
    CheckReport(None, tuple(e for e in report.errors if e.code != _DEFINED), ()).raise_if_any()
