"""Counts bank conflicts of accesses of shared memory, from their addresses.

A warp's access is made in phases of 128 bytes: 32 lanes of 4 bytes, 16 of 8, 8 of 16, or the 8 rows of a matrix. A
phase takes one turn for each word that its most wanted bank has to give; lanes that want the same word share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tiledsl.backend_ref.emulator.ops.matrices import matrix_rows
from tiledsl.ir.gpu.gpu_ops import Copy, Read, Write
from tiledsl.ir.layouts.buffer_layout import BANK_BYTES, BANKS
from tiledsl.ir.layouts.layout import WARP, Integers

if TYPE_CHECKING:
    from tiledsl.backend_ref.emulator.agents.agent import Agent, Transfer

_PHASE_BYTES = BANKS * BANK_BYTES
_ROW_BYTES = 16


def note_conflicts(agent: Agent, op: Read | Write | Copy, transfer: Transfer) -> None:
    """Remembers how many turns an op takes, from its first access by a warp, and how often it is made."""
    noted = agent.common.conflicts.get(op)
    warps = max(1, agent.size // WARP)
    if noted is not None:
        agent.common.conflicts[op] = (noted[0], noted[1], noted[2] + warps)
    elif op not in agent.common.quiet:
        turns, ideal = _first_turns(agent, op, transfer)
        if turns > ideal:
            agent.common.conflicts[op] = (turns, ideal, warps)
        else:
            agent.common.quiet.add(op)


def _first_turns(agent: Agent, op: Read | Write | Copy, transfer: Transfer) -> tuple[int, int]:
    """The turns of the first warp, and the least that they could be."""
    slots = transfer.inside.shape[1]
    moved = transfer.moved[:WARP]
    if not moved.all() or not slots:
        return 0, 0  # parts of tiles are not worth a warning
    width = op.buffer.dtype.bytes
    firsts = np.reshape(transfer.bytes[: moved.size, 0], moved.shape)
    if not isinstance(op, Copy) and op.method != "plain":
        rows = matrix_rows(firsts, width, op.method == "matrix-transposed")
        return _turns(rows, _ROW_BYTES)
    size = op.vector * width
    starts: Integers = np.transpose(firsts[:, :: op.vector])  # one access for each vector: [accesses, lanes]
    lanes = min(WARP, max(1, _PHASE_BYTES // max(size, BANK_BYTES)))
    return _turns(np.reshape(starts, (-1, lanes)), size)


def _turns(phases: Integers, size: int) -> tuple[int, int]:
    """Turns, and the least, of phases of lanes that take `size` bytes each: [phases, lanes]."""
    turns = ideal = 0
    words_each = max(1, size // BANK_BYTES)
    for lanes in phases:
        words = np.unique(lanes[:, None] // BANK_BYTES + np.arange(words_each))
        turns += int(np.bincount(words % BANKS).max())
        ideal += -(-len(words) // BANKS)
    return turns, ideal
