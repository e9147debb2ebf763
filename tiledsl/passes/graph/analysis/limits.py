"""What one kernel of a target can hold at once, as fusion has to know it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """In elements. `columns`: of a product's row that is folded; `head`: what two products in a row have whole; `row`:
    what one program has of a tensor along all axes that it has whole, where there is no product; `across`: the same of
    axes across memory, which are streamed beyond that if they can be.
    """

    columns: int
    head: int
    row: int
    across: int


CPU_LIMITS = Limits(columns=16384, head=1024, row=1 << 22, across=1 << 22)
GPU_LIMITS = Limits(columns=1024, head=256, row=1 << 18, across=1 << 10)


def limits_of(arch: str) -> Limits:
    """The limits of `cpu`, `reference` or a GPU architecture."""
    return GPU_LIMITS if arch.startswith("sm_") else CPU_LIMITS
