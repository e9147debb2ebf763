"""Programs with one mistake each: correct GPU IR in which one thing is changed.

    for mutant in mutants(program.module):
        ...  # mutant.description: "delete gpu.mbarrier_wait at line 34"

What the verifier refuses is given too, with what it says. A mutant that is known to mean the same as the program it was
made of says why; one that says nothing may mean the same for some arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tests.support.mutants.mutate_accesses import ACCESS_MUTATORS
from tests.support.mutants.mutate_synchronisation import SYNCHRONISATION_MUTATORS
from tests.support.mutants.mutating import Mutator
from tiledsl.ir.core import Module, Op
from tiledsl.ir.verifier import Form, verify
from tiledsl.support.errors import TileError

MUTATORS: tuple[Mutator, ...] = (*SYNCHRONISATION_MUTATORS, *ACCESS_MUTATORS)
DEPENDENT = frozenset({"extent-less", "extent-more", "unmasked", "trips", "modulo"})
"""Kinds of which some mutants mean the same for some arguments: a tile that is whole has no end to be found."""


@dataclass(frozen=True)
class Mutant:
    """A module with one change of an op.

    `op` is the name of the changed op, `line` its place in the program's text. `problem`: what the verifier says of it;
    then it is rejected. `equivalent`: why it means the same as the program, if that is certain.
    """

    description: str
    kind: str
    op: str
    line: int
    module: Module
    problem: str = ""
    equivalent: str = ""

    @property
    def rejected(self) -> bool:
        return bool(self.problem)

    def __str__(self) -> str:
        return self.description


def mutants(module: Module, chosen: Callable[[str], bool] = lambda kind: True) -> Iterator[Mutant]:
    """Every mutant of a module, or those of kinds that are `chosen`."""
    for number, op in enumerate(module.walk()):
        for change in (change for mutator in MUTATORS for change in mutator(op) if chosen(change.kind)):
            copy = module.clone()
            change.apply(_nth(copy, number))
            text = f"{change.words} at line {op.location.line}"
            problem = _problem(copy)
            yield Mutant(text, change.kind, op.name, op.location.line, copy, problem, change.equivalent)


def kinds(module: Module) -> set[str]:
    """The kinds of mutants that a module has."""
    return {change.kind for op in module.walk() for mutator in MUTATORS for change in mutator(op)}


def _nth(module: Module, number: int) -> Op:
    return next(op for position, op in enumerate(module.walk()) if position == number)


def _problem(module: Module) -> str:
    try:
        verify(module, Form.GPU)
    except TileError as error:
        return error.message
    return ""


def counts(mutants: Iterable[Mutant]) -> dict[str, tuple[int, int, int]]:
    """For each kind: how many there are to be caught, how many the verifier rejects, how many mean the same."""
    table: dict[str, Counter[str]] = {}
    for mutant in mutants:
        what = "rejected" if mutant.rejected else "equivalent" if mutant.equivalent else "caught"
        table.setdefault(mutant.kind, Counter())[what] += 1
    return {kind: (row["caught"], row["rejected"], row["equivalent"]) for kind, row in sorted(table.items())}
