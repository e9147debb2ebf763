"""Chooses block sizes by the cost model: limits while compiling, the sizes themselves when the sizes of the call are
known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from tiledsl.ir.symbolic import symbol_name
from tiledsl.passes.cpu.cpu_cost import packed_depth, total_time
from tiledsl.passes.cpu.grid_work import Axis, GridWork, axis_length
from tiledsl.passes.machine import CpuMachine

MOST_ROUNDS = 3


def choose_blocks(
    work: GridWork,
    machine: CpuMachine,
    sizes: Mapping[str, int],
    threads: int,
    candidates: Mapping[str, Sequence[int]],
) -> dict[str, int]:
    """The cheapest of the candidate block sizes for every axis of the grid and of its loops.

    All combinations are tried for the axes of the grid; loops inside follow, one at a time. What is best for the grid
    depends on them: sums that are read and written once for a longer part of a loop may be larger. So both are chosen
    again, until nothing changes.
    """
    blocks = {axis.symbol: candidates[axis.symbol][0] for axis in (*work.axes, *work.loops)}
    groups = [[axis.symbol for axis in work.axes], *([axis.symbol] for axis in work.loops)]
    is_open = any(len(candidates[axis.symbol]) > 1 for axis in work.loops)
    for _ in range(MOST_ROUNDS if is_open else 1):
        before = blocks
        for group in groups:
            best = float("inf")
            for choice in product(*(candidates[name] for name in group)):
                trial = {**blocks, **dict(zip(group, choice))}
                time = total_time(work, machine, sizes, trial, threads)
                if time < best:
                    best, blocks = time, trial
        if blocks == before:
            break
    return blocks


def launch_candidates(axis: Axis, sizes: Mapping[str, int], threads: int) -> list[int]:
    """Block sizes for an axis of known length that leave its blocks equally long, the largest first."""
    if axis.kind == "fixed":
        return [axis.limit]
    length = max(1, axis_length(axis, sizes))
    fewest = -(-length // axis.limit)
    counts = [fewest, fewest + 1, -(-fewest // threads) * threads, 2 * fewest, 2 * threads, 4 * threads, 8 * threads]
    found: list[int] = []
    for count in sorted({c for c in counts if c >= fewest}):
        size = -(-length // count)
        size = min(axis.limit, -(-size // axis.unit) * axis.unit)
        if size not in found:
            found.append(size)
    if axis.unit == 1:  # an outer axis: few rows at a time stay in a cache, and how long rows are is known now
        found += [size for size in (found[-1] // 4, found[-1] // 16) if size]
    return found


def launch_blocks(work: GridWork, machine: CpuMachine, sizes: Mapping[str, int], threads: int) -> dict[str, int]:
    """The block sizes for a call: within the limits that were compiled in."""
    candidates = {axis.symbol: launch_candidates(axis, sizes, threads) for axis in work.axes}
    depths = {
        symbol_name(task.dims[-1]): packed_depth(machine, task.weight) for task in work.tasks if task.kind == "dot"
    }
    for axis in work.loops:
        candidates[axis.symbol] = launch_candidates(axis, sizes, 1)[:1]
        if axis.symbol in depths and axis.kind != "fixed" and axis.limit > depths[axis.symbol]:
            packed = launch_candidates(replace(axis, limit=depths[axis.symbol]), sizes, 1)[:1]
            candidates[axis.symbol] = packed + candidates[axis.symbol]
    return choose_blocks(work, machine, sizes, threads, candidates)
