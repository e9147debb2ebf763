"""Mutants that the emulator says nothing of, and why: each of them means what its program means.

What is not here and survives is a gap of the emulator.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.hopper.hopper_text import HopperProgram
from tests.support.mutants.mutations import DEPENDENT, Mutant, mutants
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.ir.core import Function
from tiledsl.support.errors import TileError

SEEDS = (0, 1, 2)
NUMBERS = "wrong numbers"
"""What a mutant is caught by that computes something else."""


@dataclass(frozen=True)
class Survivors:
    """Mutants of some kinds (and of some programs, with some words: patterns) that mean the same, and why."""

    kinds: tuple[str, ...]
    reason: str
    words: str = ""
    programs: str = ""

    def has(self, program: HopperProgram, mutant: Mutant) -> bool:
        """Whether a mutant is one of them."""
        found = re.search(self.programs, program.name) and re.search(self.words, mutant.description)
        return mutant.kind in self.kinds and found is not None


SURVIVORS: tuple[Survivors, ...] = (
    Survivors(("repeat-wgmma-commit",), "an empty group more: who waits for all but some groups waits for more"),
    Survivors(("wait-values",), "the next wait names the value, before anybody reads it", "%o1 not among", "attention"),
    Survivors(
        ("modulo", "trips"), "stages and parities come out the same for so few steps", "", "attention|pingpong|gemm"
    ),
    Survivors(
        ("swap",), "K is given back sooner or later; its loader comes back to it after V's release only",
        "wgmma_wait.*mbarrier_arrive|mbarrier_arrive.*wgmma_wait", "attention",
    ),
    Survivors(("swap",), "K is loaded a little later", "gpu.tma_load and gpu.mbarrier_wait", "attention"),
    Survivors(
        ("named-barrier",), "who needs only arrive waits too, for somebody who comes", "arrive => sync", "pingpong"
    ),
    Survivors(("named-barrier",), "the first round has nobody to wait for", "sync => arrive", "pingpong"),
    Survivors(("swap",), "the first round has nobody to wait for", "gpu.write and gpu.named_barrier", "pingpong"),
    Survivors(
        ("delete-mbarrier-arrive", "repeat-mbarrier-arrive", "arrive-by", "swap"),
        "nobody waits for the release of a stage that is not filled again", "mbarrier_arrive", "pingpong",
    ),
    Survivors(
        ("swap",), "the warps of the producer meet once in each step, before or after the wait",
        "gpu.named_barrier and gpu.mbarrier_expect|gpu.mbarrier_wait and gpu.named_barrier", "registers",
    ),
    Survivors(
        ("delete-mbarrier-wait", "stage-of-mbarrier"),
        "who knows of the other block's last release knows of those before", "gpu.mbarrier_wait at line 5[234]",
        "drain",
    ),
    Survivors(
        ("overlap", "delete-named-barrier", "swap"),
        "each warp writes over those rows of A that it alone has read", "", "gemm_epilogue",
    ),
    Survivors(
        ("delete-wait", "groups-more"), "no copy is under way any more: the last groups are empty", "gpu.wait",
        " for sm_",
    ),
    Survivors(
        ("overlap", "delete-barrier", "swap"),
        "for these sizes the last rounds read other bytes than the result is written to", "",
        "(gemm|attention).* for sm_",
    ),
    Survivors(
        ("delete-named-barrier",),
        "the last round reads another stage than the result is written to, and a warpgroup multiplies as one", "",
        "gemm.*sides swapped",
    ),
    Survivors(("overlap",), "a barrier stands between the uses of the two", "", "histogram"),
    Survivors(
        tuple(sorted(DEPENDENT)), "tiles are whole, or padding is 0 and harmless, for these sizes", "", " for sm_"
    ),
)  # fmt: skip


@dataclass
class Tally:
    """What became of the mutants of some programs."""

    caught: Counter[str] = field(default_factory=Counter[str])
    """By what: a code of the catalogue, or `NUMBERS`."""
    refused: int = 0
    """By the verifier."""
    same: Counter[str] = field(default_factory=Counter[str])
    """Mutants known to mean the same, and survivors that do: by the reason."""
    missed: list[str] = field(default_factory=list[str])
    """Those that nobody can explain."""
    false_alarms: list[str] = field(default_factory=list[str])
    """Mutants known to mean the same, of which something is said."""

    @property
    def share(self) -> float:
        """Of those that change meaning, how many are caught."""
        caught = sum(self.caught.values())
        return caught / max(1, caught + len(self.missed))


def found_in(program: HopperProgram, mutant: Mutant, seeds: Sequence[int] = SEEDS) -> str:
    """What the emulator says of a mutant, or that its numbers are wrong; nothing if all is well."""
    return next((found for found in (_found(program, mutant, seed) for seed in seeds) if found), "")


def _found(program: HopperProgram, mutant: Mutant, seed: int) -> str:
    def run(function: Function, arguments: list[Any]) -> tuple[Any, ...]:
        return emulate(function, arguments, seed=seed, output=lambda line: None).results

    try:
        program.check(run, function=mutant.module.entry)
    except TileError as error:
        return error.code
    except AssertionError:
        return NUMBERS
    return ""


def judge(program: HopperProgram, tally: Tally) -> None:
    """Tries all mutants of a program."""
    for mutant in mutants(program.module):
        name = f"{program.name}: {mutant.kind}: {mutant.description}"
        if mutant.rejected:
            tally.refused += 1
            continue
        found = found_in(program, mutant)
        if mutant.equivalent:
            tally.same[mutant.equivalent] += 1
            if found:
                tally.false_alarms.append(f"{name}: {found}")
        elif found:
            tally.caught[found] += 1
        else:
            reason = next((row.reason for row in SURVIVORS if row.has(program, mutant)), "")
            if reason:
                tally.same[reason] += 1
            else:
                tally.missed.append(name)


def lines(tally: Tally) -> Iterator[str]:
    """The tally as a table."""
    for what, count in tally.caught.most_common():
        yield f"{count:6d} caught: {what}"
    yield f"{tally.refused:6d} refused by the verifier"
    for reason, count in tally.same.most_common():
        yield f"{count:6d} the same: {reason}"
    yield from (f"missed: {name}" for name in tally.missed)
    yield from (f"false alarm: {name}" for name in tally.false_alarms)
    yield f"{tally.share:.1%} of those that change meaning are caught"
