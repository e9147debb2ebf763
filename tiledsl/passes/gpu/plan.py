"""A plan: every exact choice that GPU code is made for. One specialisation of a kernel has as many variants as plans.

A CPU's block is a loop bound that the launch may choose; on a GPU it is the shape of registers and shared memory, and
so part of the code. Plans are chosen from the sizes and alignments of a call (`choose_plans`), and are data: hashable,
printable, kept beside the code.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GridPlan:
    """The choices for one grid: `threads` per block, blocks per `cluster`, and how its matrix products are laid out."""

    threads: int
    cluster: int = 1
    warps: tuple[int, int] = (1, 1)
    """How warps share a matrix product: along its rows and along its columns."""
    stages: int = 1
    """Buffers of each pipelined operand."""
    row_threads: int = 0
    """How many threads share a row of a tile that is accessed in memory; 0: as its shape suggests."""
    raster: int = 1
    """How many neighbouring rows of blocks are walked together, for the sake of the L2 cache."""


@dataclass(frozen=True)
class Plan:
    """What one variant is made for.

    `blocks`: the size of each block, by the symbol of its extent. `capacities`: for each whole axis of a tile (its size
    as text), how many elements it has room for; the true size is at most that. `sizes`: what is taken for a constant.
    `divisors`: sizes that are multiples of a number. `alignment`: for each tensor, parameters first, the bytes that
    every row of it starts at a multiple of (at most 16).
    """

    grids: tuple[GridPlan, ...]
    blocks: tuple[tuple[str, int], ...] = ()
    capacities: tuple[tuple[str, int], ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    divisors: tuple[tuple[str, int], ...] = ()
    alignment: tuple[int, ...] = ()

    def __str__(self) -> str:
        words = [f"{name}={size}" for name, size in (*self.blocks, *self.capacities)]
        for grid in self.grids:
            words.append(f"{grid.threads} threads" + (f" x {grid.cluster}" if grid.cluster > 1 else ""))
            if grid.row_threads:
                words.append(f"{grid.row_threads} per row")
            if grid.stages > 1:
                words.append(f"{grid.stages} stages")
        words += [f"{name}:={size}" for name, size in self.sizes]
        words += [f"{name}%{divisor}=0" for name, divisor in self.divisors]
        if any(bytes_ != 16 for bytes_ in self.alignment):
            words.append("aligned to " + "/".join(map(str, self.alignment)))
        return ", ".join(words)
