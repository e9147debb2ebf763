"""A plan: every exact choice that GPU code is made for. One specialisation of a kernel has as many variants as plans.

A CPU's block is a loop bound that the launch may choose; on a GPU it is the shape of registers and shared memory, and
so part of the code. Plans are chosen from the sizes and alignments of a call (`choose_plans`), and are data: hashable,
printable, kept beside the code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tiledsl.ir.lying import step_and_phase, stepped

APART = "scores apart"
ROLES = ("cooperative", "pingpong", APART)
"""How warpgroups that only multiply go about it: all on one tile, or each on a tile of its own, in turn; or all but one
on sums, and that one on the scores which they take, a turn ahead."""
LOADING_THREADS = 128
"""Those that a block has beside the ones that multiply, where warps are specialised."""
SCORING_THREADS = 128
"""Those that a block has beside these, where scores are made apart."""
WRITTEN_OUT = 8
"""Turns that a loop has at most that is written out, if they are known: what they load is under way together."""
WRITTEN_OUT_WORDS = 128
"""Registers of a thread that the loads of all these turns take at most."""
JOINED_TURNS = 16
"""Turns of a longer loop that load together, where it stores what it computes or folds it among threads; a quarter of
them where fewer are left."""
JOINED_WORDS = 16384
"""Registers of a block that these loads take at most, JOINED_WORDS_EACH of a thread."""
JOINED_WORDS_EACH = 64
JOINED_OPS = 512
"""Ops of all these turns at most."""


def joined_turns(words: float, threads: int) -> list[int]:
    """How many turns of a loop load together, if each fills so many registers of a thread: the most first, then those
    of what is left; the last ones go one by one.

    >>> joined_turns(2, 256), joined_turns(6, 512), joined_turns(40, 256)
    ([16, 4, 1], [5, 1], [1])
    """
    most = min(JOINED_TURNS, int(min(JOINED_WORDS_EACH, JOINED_WORDS // threads) // max(1.0, words)))
    return list(dict.fromkeys((max(1, most), max(1, most // 4), 1)))


def joined_waits(turns: int, joined: Sequence[int]) -> int:
    """How often a loop of so many turns waits for memory.

    >>> joined_waits(1000, (16, 4, 1)), joined_waits(7, (16, 4, 1))
    (64, 4)
    """
    waits = 0
    for together in joined:
        waits += turns // together
        turns %= together
    return waits


@dataclass(frozen=True)
class GridPlan:
    """The choices for one grid: `threads` per block, blocks per `cluster`, and how its matrix products are laid out.

    With `roles` (one of ROLES), warps are specialised: `threads` are those that multiply, 128 of each consumer
    warpgroup, and the 128 of the warpgroup that loads come on top. Then `warps` says how the consumers share a
    product, 4 * warpgroups along its rows by warpgroups along its columns; with "pingpong" that is (4, 1), since each
    of them has a product of its own. `stages` are those of the ring that TMA fills. The `cluster` blocks lie side by
    side along the rows of the result and get the right operand by multicast, unless there are `splits`. `programs`
    counts clusters, and a block of the plan is what a whole cluster makes.
    """

    threads: int
    cluster: int = 1
    warps: tuple[int, int] = (1, 1)
    """How warps share a matrix product: along its rows and along its columns."""
    stages: int = 1
    """Buffers of each pipelined operand."""
    row_threads: int = 0
    """How many threads share a row of a tile that is accessed in memory; 0: as its shape suggests."""
    programs: int = 0
    """How many programs go through all blocks, one block after the other; 0: one program for each block."""
    raster: int = 1
    """How many neighbouring rows of blocks are walked together, for the sake of the L2 cache."""
    roles: str = ""
    """How specialised warps go about it; empty: all warps of a block do the same."""
    splits: int = 1
    """How many blocks of a cluster share the loop of a product, each with a part; sums are added in a fixed order."""
    rows: int = 0
    """How many rows results have at most, where that is less than a block: no others are loaded. 0: not known."""
    resident: int = 1
    """How many blocks a multiprocessor has registers and shared memory for at once, where warps are specialised."""
    across: int = 1
    """How many blocks of a cluster lie side by side along the columns of a product, instead of the rows: they get the
    left operand by multicast, and fold rows together."""
    copied: tuple[int, ...] = ()
    """Tensors, by number, that are copied before: to rows that start at multiples of 16 bytes, as TMA needs them."""
    lines: tuple[int, ...] = ()
    """Of `copied`, those whose copies have rows that start at lines of the cache."""
    counted: bool = False
    """Whether programs take blocks from a counter in memory, whoever is free the next one: where loops of blocks are of
    unlike lengths."""
    swapped: bool = False
    """Whether rows of products run along the columns of matrix instructions (`swap-sides`)."""
    split: bool = False
    """Whether threads make planes of f32 operands, for matrix instructions of bf16 (`split-products`)."""
    private: bool = False
    """Whether programs, of which each goes through many blocks, update small tensors in tables of their own first
    (`private_tables`)."""
    groups: int = 1
    """How many groups of warps share the loop of a product, each with a part of every turn; their sums are added in a
    fixed order behind it."""
    flat: bool = False
    """Whether whole rows of packed tensors are moved as one run, by whole vectors through shared memory."""

    @property
    def threads_of_tile(self) -> int:
        """Of a block, that make a tile together: with "pingpong" those of one consumer, else all."""
        return 32 * self.warps[0] * self.warps[1] if self.roles == "pingpong" else self.threads


@dataclass(frozen=True)
class LibraryPlan:
    """A call of a library in the place of grids: of cuBLASLt, whose version this is.

    `algorithm`: its description of one of its algorithms, in eight words that only that version understands;
    `workspace`: bytes of memory that it takes beside its tensors.
    """

    version: int
    algorithm: tuple[int, ...]
    workspace: int = 0

    def __str__(self) -> str:
        """`cuBLASLt 131000 by 2a/14/0/0/0/0/0/0 in 1024 bytes`"""
        return f"cuBLASLt {self.version} by {self.words} in {self.workspace} bytes"

    @property
    def words(self) -> str:
        """Those of the algorithm, in hexadecimal."""
        return "/".join(f"{word:x}" for word in self.algorithm)


@dataclass(frozen=True)
class Plan:
    """What one variant is made for.

    `blocks`: the size of each block, by the symbol of its extent. `capacities`: for each whole axis of a tile (its size
    as text), how many elements it has room for; the true size is at most that. `sizes`: what is taken for a constant.
    `divisors`: sizes that are multiples of a number. `alignment`: for each tensor, parameters first, the bytes that
    every row of it starts at a multiple of (at most 16). `chained`: whether it is one of a chain of programs: it may
    begin while the one before it on its stream still runs, and lets the next one begin once all of its blocks have.
    `parts`: of the sums of each grid of the program, which another grid adds up (`split-sums`); `grids` and `blocks`
    are those of the program that is then. None where all sums stay whole. `turned`: tensors, by number, that another
    grid turns before the products that read them (`turn-operands`). `packed`: for each tensor that lies row by row
    without gaps the bytes that its address is a multiple of (at most 16), 0 for others; nothing where no grid asks.
    `steps`: for each tensor whose neighbours along the last axis lie a few elements apart how it lies (`ir/lying.py`),
    0 for others; nothing where there is none. `library`: what is called instead of kernels of ours; there are no grids
    then, and `sizes` has all of them.
    `forwarded`: whether loops that read what they stored are written out, and what is read again stays in registers
    (`unroll-loops`, `forward-stores`); their bounds are among `sizes`.
    """

    grids: tuple[GridPlan, ...]
    blocks: tuple[tuple[str, int], ...] = ()
    capacities: tuple[tuple[str, int], ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    divisors: tuple[tuple[str, int], ...] = ()
    alignment: tuple[int, ...] = ()
    chained: bool = False
    parts: tuple[int, ...] = ()
    packed: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    turned: tuple[int, ...] = ()
    library: LibraryPlan | None = None
    forwarded: bool = False

    def __str__(self) -> str:
        """The whole plan; `parse_plan` reads it: `m=4, N<=4096, 128 threads, 16 per row, M%2=0, aligned to 16/8`."""
        words = [] if self.library is None else [str(self.library)]
        words += [f"{name}={size}" for name, size in self.blocks]
        words += [f"{name}<={size}" for name, size in self.capacities]
        if self.parts:
            words.append("/".join(map(str, self.parts)) + " parts")
        if self.turned:
            words.append("turned " + "/".join(map(str, self.turned)))
        if self.forwarded:
            words.append(FORWARDED)
        for grid in self.grids:
            words += _grid_words(grid)
        words += [f"{name}:={size}" for name, size in self.sizes]
        words += [f"{name}%{divisor}=0" for name, divisor in self.divisors]
        if self.alignment:
            words.append("aligned to " + "/".join(map(str, self.alignment)))
        if self.packed:
            words.append("packed to " + "/".join(map(str, self.packed)))
        if self.steps:
            words.append("steps of " + "/".join("{}+{}".format(*step_and_phase(one)) for one in self.steps))
        if self.chained:
            words.append(CHAINED)
        return ", ".join(words)


def swapped_grids(plan: Plan) -> tuple[int, ...]:
    """The numbers of the grids whose products have their sides swapped."""
    return tuple(number for number, grid in enumerate(plan.grids) if grid.swapped)


def split_grids(plan: Plan) -> tuple[int, ...]:
    """The numbers of the grids whose f32 products are made of planes."""
    return tuple(number for number, grid in enumerate(plan.grids) if grid.split)


class RankedPlan(NamedTuple):
    """A plan with its predicted time in seconds, or None where plans are only in order."""

    plan: Plan
    seconds: float | None = None


def _grid_words(grid: GridPlan) -> list[str]:
    words = [f"{grid.threads} threads" + (f" x {grid.cluster}" if grid.cluster != 1 else "")]
    if grid.warps != (1, 1):
        words.append("{}x{} warps".format(*grid.warps))
    if grid.groups != 1:
        words.append(f"{grid.groups} groups")
    if grid.stages != 1:
        words.append(f"{grid.stages} stages")
    if grid.row_threads:
        words.append(f"{grid.row_threads} per row")
    if grid.programs:
        words.append(f"{grid.programs} programs")
    if grid.counted:
        words.append(COUNTED)
    if grid.swapped:
        words.append(SWAPPED)
    if grid.split:
        words.append(SPLIT)
    if grid.raster != 1:
        words.append(f"{grid.raster} rows at a time")
    if grid.roles:
        words.append(grid.roles)
    if grid.splits != 1:
        words.append(f"{grid.splits} splits")
    if grid.across != 1:
        words.append(f"{grid.across} across")
    if grid.rows:
        words.append(f"{grid.rows} rows in all")
    if grid.resident != 1:
        words.append(f"{grid.resident} at once")
    if grid.copied:
        words.append("copies of " + "/".join(map(str, grid.copied)))
    if grid.lines:
        words.append("lines of " + "/".join(map(str, grid.lines)))
    if grid.flat:
        words.append(FLAT)
    if grid.private:
        words.append(PRIVATE)
    return words


CHAINED = "in a chain"
FORWARDED = "stores forwarded"
COUNTED = "from a counter"
SWAPPED = "sides swapped"
SPLIT = "by planes"
FLAT = "rows as one run"
PRIVATE = "own tables"
_THREADS = re.compile(r"(\d+) threads(?: x (\d+))?")
_OF_GRID = {
    "warps": re.compile(r"(\d+)x(\d+) warps"),
    "groups": re.compile(r"(\d+) groups"),
    "stages": re.compile(r"(\d+) stages"),
    "row_threads": re.compile(r"(\d+) per row"),
    "programs": re.compile(r"(\d+) programs"),
    "raster": re.compile(r"(\d+) rows at a time"),
    "splits": re.compile(r"(\d+) splits"),
    "across": re.compile(r"(\d+) across"),
    "rows": re.compile(r"(\d+) rows in all"),
    "resident": re.compile(r"(\d+) at once"),
    "copied": re.compile(r"copies of (\d+(?:/\d+)*)"),
    "lines": re.compile(r"lines of (\d+(?:/\d+)*)"),
}
_LIBRARY = re.compile(r"cuBLASLt (\d+) by ([0-9a-f]+(?:/[0-9a-f]+)*) in (\d+) bytes")
_PARTS = re.compile(r"(\d+(?:/\d+)*) parts")
_TURNED = re.compile(r"turned (\d+(?:/\d+)*)")
_ALIGNMENT = re.compile(r"aligned to (\d+(?:/\d+)*)")
_PACKED = re.compile(r"packed to (\d+(?:/\d+)*)")
_STEPS = re.compile(r"steps of (\d+\+\d+(?:/\d+\+\d+)*)")
_OF_SIZES = {
    "sizes": re.compile(r"(.+):=(\d+)"),
    "divisors": re.compile(r"(.+)%(\d+)=0"),
    "capacities": re.compile(r"(.+)<=(\d+)"),
    "blocks": re.compile(r"([^\s%:<=]+)=(\d+)"),
}


def parse_plan(text: str) -> Plan:
    """The plan of which `text` is the text form. Raises ValueError, with the word that is none of a plan's.

    What is said of a grid stands behind its threads: `128 threads, 3 stages, 64 threads`.
    """
    grids: list[GridPlan] = []
    named: dict[str, list[tuple[str, int]]] = {name: [] for name in _OF_SIZES}
    alignment: tuple[int, ...] = ()
    packed: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    parts: tuple[int, ...] = ()
    turned: tuple[int, ...] = ()
    chained = forwarded = False
    library: LibraryPlan | None = None
    for word in _words(text):
        found = _matching(_OF_GRID, word)
        if match := _THREADS.fullmatch(word):
            grids.append(GridPlan(int(match[1]), int(match[2] or 1)))
        elif found is not None and grids:
            name, numbers = found[0], tuple(int(n) for group in found[1].groups() for n in group.split("/"))
            grids[-1] = replace(grids[-1], **{name: numbers if name in ("warps", "copied", "lines") else numbers[0]})
        elif word in ROLES and grids:
            grids[-1] = replace(grids[-1], roles=word)
        elif word == COUNTED and grids:
            grids[-1] = replace(grids[-1], counted=True)
        elif word == SWAPPED and grids:
            grids[-1] = replace(grids[-1], swapped=True)
        elif word == SPLIT and grids:
            grids[-1] = replace(grids[-1], split=True)
        elif word == FLAT and grids:
            grids[-1] = replace(grids[-1], flat=True)
        elif word == PRIVATE and grids:
            grids[-1] = replace(grids[-1], private=True)
        elif match := _ALIGNMENT.fullmatch(word):
            alignment = tuple(map(int, match[1].split("/")))
        elif match := _PACKED.fullmatch(word):
            packed = tuple(map(int, match[1].split("/")))
        elif match := _STEPS.fullmatch(word):
            steps = tuple(_stepped(*map(int, one.split("+"))) for one in match[1].split("/"))
        elif match := _LIBRARY.fullmatch(word):
            library = LibraryPlan(int(match[1]), tuple(int(n, 16) for n in match[2].split("/")), int(match[3]))
        elif match := _PARTS.fullmatch(word):
            parts = tuple(map(int, match[1].split("/")))
        elif match := _TURNED.fullmatch(word):
            turned = tuple(map(int, match[1].split("/")))
        elif word == CHAINED:
            chained = True
        elif word == FORWARDED:
            forwarded = True
        elif (pair := _matching(_OF_SIZES, word)) is not None:
            named[pair[0]].append((pair[1][1], int(pair[1][2])))
        else:
            raise ValueError(f"`{word}` is nothing that a plan says")
    lists = {name: tuple(pairs) for name, pairs in named.items()}
    return Plan(
        tuple(grids), **lists, alignment=alignment, chained=chained, parts=parts, packed=packed, steps=steps,
        turned=turned, library=library, forwarded=forwarded,
    )  # fmt: skip


def why_no_plan(plan: Plan, sizes: Mapping[str, int], alignment: Sequence[int]) -> str | None:
    """Why code that is made by a plan would be wrong for a call with these sizes and alignments; None if it is not.

    Whether the plan is one of the program at all is not looked at.
    """
    for name, size in plan.sizes:
        if sizes.get(name, size) != size:
            return f"it is for {name} = {size}, and that is {sizes[name]}"
    for name, divisor in plan.divisors:
        if sizes.get(name, 0) % divisor:
            return f"it is for {name} that is a multiple of {divisor}, and that is {sizes[name]}"
    for name, room in plan.capacities:
        if sizes.get(name, 0) > room:
            return f"it is for {name} of at most {room}, and that is {sizes[name]}"
    if len(plan.alignment) != len(alignment):
        return f"it is for {len(plan.alignment)} tensors, and there are {len(alignment)}"
    for number, (wanted, given) in enumerate(zip(plan.alignment, alignment)):
        if given % wanted:
            return f"it is for rows of tensor {number} at multiples of {wanted} bytes, and they are at those of {given}"
    return None


def _stepped(step: int, phase: int) -> int:
    return stepped(step, phase) if step > 1 else 0


def _words(text: str) -> list[str]:
    """What stands between commas; those inside of a size (`min(M, N)`) do not count."""
    words, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            words.append("")
        else:
            words[-1] += character
    return [word.strip() for word in words if word.strip()]


def _matching(patterns: Mapping[str, re.Pattern[str]], word: str) -> tuple[str, re.Match[str]] | None:
    """The first pattern that is the whole word."""
    for name, pattern in patterns.items():
        if match := pattern.fullmatch(word):
            return name, match
    return None
