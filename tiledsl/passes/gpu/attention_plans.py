"""Tilings of attention for warpgroups, ranked by predicted times.

Each consumer has 64 rows of queries: their scores, their weights in half the registers, and the sums of values stay
with it. Keys and values come block by block through a ring. While one consumer multiplies, another does softmax.

>>> attention_plans(Attention(4096, 4096, 128, heads=64), gpu_machine("sm_90"))[0].tiling[:2]
(128, 128)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.warpgroup_costs import DRAIN_CLOCKS, greatest
from tiledsl.passes.gpu.warpgroup_tilings import RESERVED_BYTES, STEP_BYTES, WARPGROUP, WARPGROUP_ROWS
from tiledsl.passes.gpu_machine import GpuMachine, Speeds

ROOM = {1: 193, 2: 193, 3: 136}
"""Registers of a thread for scores, weights, sums and what comes with them, by the consumers of a block."""
COLUMNS = tuple(range(32, 257, 16))
MOST_STAGES = 2
SOFTMAX_INSTRUCTIONS = 9
"""For each score: scale and subtract, maximum, sum, half a conversion, masks now and then."""
EXPOSED = {1: 0.9, 2: 0.36, 3: 0.268}
"""The share of softmax that no products hide, by consumers."""
FEWEST_STAGES = 2
SETUP_CLOCKS = 750
"""What a block of queries takes before its first scores, where no block before it covers that."""
RESULT_CLOCKS = 2100
"""What it takes after its last product."""
TOGETHER = (8, 16, 32, 64)
"""Heads of causal attention whose blocks are made in turns, the longest first."""
HELD_BYTES = 24 << 20
"""Keys and values of so many bytes stay in L2 while the blocks of their heads are made."""
UNEVEN = 0.01
"""What a fixed share of the blocks for each multiprocessor costs: all wait for the slowest one."""
MOST_COUNTED = 8192
"""Of more causal blocks it is not counted who gets which: they even out."""
MASKED = 0.45
"""The share of a turn's softmax that its masks cost."""
TURN_CLOCKS = 100
"""For each block of keys: waits, folds across four threads."""


@dataclass(frozen=True)
class Attention:
    """softmax(q @ k.T) @ v for `heads` heads, all batches together. Elements have `bytes` bytes.

    `value_dim`: of v and the result; 0: as `head_dim`. `causal`: query i sees keys up to i + kv_len - q_len.
    """

    q_len: int
    kv_len: int
    head_dim: int
    heads: int
    causal: bool = False
    bytes: int = 2
    value_dim: int = 0

    @property
    def values(self) -> int:
        return self.value_dim or self.head_dim


class AttentionTiling(NamedTuple):
    """`rows` of queries of a block, `columns` keys at a time. `programs`: 0 for one per block of queries. `together`:
    so many heads are gone through side by side."""

    rows: int
    columns: int
    stages: int
    programs: int = 0
    together: int = 1

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return self.rows // WARPGROUP_ROWS

    def grid_plan(self) -> GridPlan:
        """The same as a plan says it."""
        consumers = self.consumers
        return GridPlan(
            consumers * WARPGROUP, 1, (4 * consumers, 1), self.stages, programs=self.programs, raster=self.together,
            schedule="cooperative",
        )  # fmt: skip


class RankedAttention(NamedTuple):
    """A tiling with its predicted time."""

    seconds: float
    tiling: AttentionTiling


def attention_plans(
    attention: Attention, machine: GpuMachine, rows: int | None = None, columns: int | None = None, stages: int = 0
) -> list[RankedAttention]:
    """The tilings that fit, the fastest by prediction first; `rows`, `columns`, `stages`: those that the program asks
    for. Empty where the machine is not for it."""
    if not machine.has_warpgroups:
        return []
    found = [
        RankedAttention(_seconds(attention, tiling, machine, machine.speeds), tiling)
        for tiling in attention_tilings(attention, machine, stages)
        if rows in (None, tiling.rows) and columns in (None, tiling.columns)
    ]
    return sorted(found, key=itemgetter(0))


def attention_tilings(attention: Attention, machine: GpuMachine, stages: int = 0) -> Iterator[AttentionTiling]:
    """What registers and shared memory have room for. The result takes the place of the queries on its way out."""
    dims = attention.head_dim + attention.values
    together = sorted({min(heads, attention.heads) for heads in TOGETHER}) if attention.causal else [1]
    for consumers, room in ROOM.items():
        rows = consumers * WARPGROUP_ROWS
        if consumers > 1 and rows - WARPGROUP_ROWS >= attention.q_len:
            break
        kept = rows * max(attention.head_dim, attention.values) * attention.bytes
        tiles = -(-attention.q_len // rows) * attention.heads
        walks = (0, machine.multiprocessors) if tiles > machine.multiprocessors else (0,)
        for columns in COLUMNS:
            if _registers(attention, columns) > room:
                break
            stage = columns * dims * attention.bytes
            most = (machine.shared_bytes_per_block - RESERVED_BYTES - kept) // stage
            if most >= (stages or FEWEST_STAGES):
                for programs in walks:
                    for heads in together if programs else together[:1]:
                        yield AttentionTiling(rows, columns, stages or min(MOST_STAGES, most), programs, heads)
            if columns >= attention.kv_len:
                break


def _registers(attention: Attention, columns: int) -> int:
    """Of a thread: scores, weights, sums; and constants and addresses, of which wide blocks want more."""
    scores = columns // 2
    return scores + scores * attention.bytes // 4 + attention.values // 2 + columns // 16


def _seconds(attention: Attention, tiling: AttentionTiling, machine: GpuMachine, speeds: Speeds) -> float:
    rows, columns, stages, programs, together = tiling
    tiles = -(-attention.q_len // rows)
    turns = [_turns(attention, tile, rows, columns) for tile in range(tiles)]
    turn = _turn_clocks(attention, tiling, speeds)
    bytes_ = columns * (attention.head_dim + attention.values) * attention.bytes
    turn = max(turn, (speeds.latency + bytes_ / speeds.l2_bytes_each) / (stages - 1) if stages > 1 else 2 * turn)
    result = RESULT_CLOCKS + rows * attention.values * attention.bytes / speeds.shared_bytes
    fill = SETUP_CLOCKS + speeds.memory_latency
    blocks = tiles * attention.heads
    all_turns = sum(turns) * attention.heads
    rounds = -(-blocks // machine.multiprocessors)
    busiest = float(rounds * turns[0])
    if attention.causal:
        busiest = max(float(turns[-1]), all_turns / machine.multiprocessors + columns / rows)
        if programs and blocks <= MOST_COUNTED:
            busiest = most_turns(tuple(reversed(turns)), attention.heads, together, programs)
        masked = blocks / machine.multiprocessors * (rows / columns + 1)  # turns
        busiest += masked * MASKED * _softmax(attention, tiling, speeds) / turn
    busiest *= 1 + UNEVEN if programs else 1
    loop = busiest * turn + rounds * (result if programs else result + fill)
    seen = all_turns * columns * rows  # scores
    power = seen * (attention.head_dim + attention.values) / speeds.products_of(attention.bytes)
    power /= machine.multiprocessors * speeds.power_limit
    moved = attention.heads * attention.bytes * (attention.q_len + attention.kv_len)
    moved *= attention.head_dim + attention.values
    if together * attention.kv_len * (attention.head_dim + attention.values) * attention.bytes > HELD_BYTES:
        # as many blocks as meet in one head read it together
        moved += all_turns * bytes_ / max(1.0, machine.multiprocessors / together)
    memory = moved / machine.copied_bytes_per_second * speeds.clock
    return speeds.launch + (fill + DRAIN_CLOCKS + greatest(loop, power, memory)) / speeds.clock


@lru_cache(maxsize=256)
def most_turns(turns: tuple[int, ...], heads: int, together: int, programs: int) -> float:
    """Of the program that has most turns, where blocks of so many heads are given out back and forth. `turns`: those of
    the blocks of one head, in their order."""
    sums = [0] * programs
    number = 0
    for first in range(0, heads, together):
        for length in turns:
            for _ in range(min(together, heads - first)):
                turn, place = divmod(number, programs)
                sums[programs - 1 - place if turn % 2 else place] += length
                number += 1
    return float(max(sums))


def _turns(attention: Attention, tile: int, rows: int, columns: int) -> int:
    """Blocks of keys that a block of queries meets."""
    last = attention.kv_len
    if attention.causal:
        last = min(last, max(1, min((tile + 1) * rows, attention.q_len) + attention.kv_len - attention.q_len))
    return -(-last // columns)


def _turn_clocks(attention: Attention, tiling: AttentionTiling, speeds: Speeds) -> float:
    """Of one block of keys: products and softmax of different consumers at once."""
    rows, columns = tiling.rows, tiling.columns
    width, values, bytes_ = attention.head_dim, attention.values, attention.bytes
    products = rows * columns * (width + values) / speeds.products_of(bytes_)
    scores = tiling.consumers * (width * bytes_ // STEP_BYTES) * (WARPGROUP_ROWS + columns) * STEP_BYTES
    sums = tiling.consumers * (columns * bytes_ // STEP_BYTES) * values * STEP_BYTES  # weights are in registers
    shared = (scores + sums + columns * (width + values) * bytes_) / speeds.shared_bytes
    softmax = _softmax(attention, tiling, speeds)
    return greatest(products, shared, softmax) + EXPOSED[tiling.consumers] * softmax + TURN_CLOCKS


def _softmax(attention: Attention, tiling: AttentionTiling, speeds: Speeds) -> float:
    """Clocks of what a turn does beside products."""
    rows, columns = tiling.rows, tiling.columns
    softmax = rows * columns * greatest(1 / speeds.exponentials, SOFTMAX_INSTRUCTIONS / speeds.instructions)
    return softmax + rows * attention.values / speeds.instructions  # sums are scaled
