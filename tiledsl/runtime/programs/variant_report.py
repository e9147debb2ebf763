"""What a back end tells people of its code for a GPU: plain data, which `explain()` sets as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiledsl.ir.symbolic import Dim
from tiledsl.runtime.programs.artifact import Note


@dataclass(frozen=True)
class VariantMade:
    """Code for one plan was compiled, or loaded from the disk: which plan, why it was needed, how long it took."""

    plan: str
    cause: str
    seconds: float
    from_disk: bool


@dataclass(frozen=True)
class FunctionReport:
    """One CUDA function. `spilled_bytes` are per thread, `shared_bytes` per block."""

    name: str
    programs: Dim | None
    """How many clusters (blocks, without clusters) are launched; None: known only on the device."""
    threads: int
    cluster: int
    registers: int
    spilled_bytes: int
    shared_bytes: int
    resident_blocks: int
    """Blocks that a multiprocessor runs at once."""
    resident_limit: str
    """What keeps it from running more: `registers`, `shared memory` or `threads`."""


@dataclass(frozen=True)
class TileReport:
    """One tile: the source line and text that made it, dtype and room, level, what it takes, its layout."""

    line: int
    source: str
    type: str
    level: str
    takes: str
    layout: str


@dataclass(frozen=True)
class VariantReport:
    """Code for one plan."""

    plan: str
    """In one line, as launches and the log name it."""
    words: tuple[tuple[str, str], ...]
    """What the plan decides, by what it is about."""
    functions: tuple[FunctionReport, ...]
    tiles: tuple[TileReport, ...]
    notes: tuple[Note, ...]
    """What passes had to say."""
    left: tuple[str, ...]
    """Why better plans were left."""


@dataclass(frozen=True)
class ProgramReport:
    """A program with all its variants, the one for `sizes` (those that it was specified with) first if it was made
    (`has_default`).

    `read_bytes`, `written_bytes`: what any code for it must move, over the sizes; but for the tensors `partly`, of
    which more is not known. `bytes_per_second`: between memory and the GPU. `refused`: plans that would be better for
    `sizes`, and why there are none like them.
    """

    sizes: Mapping[str, int]
    read_bytes: Dim
    written_bytes: Dim
    partly: tuple[str, ...]
    bytes_per_second: float
    variants: tuple[VariantReport, ...]
    has_default: bool
    refused: tuple[Note, ...] = ()
