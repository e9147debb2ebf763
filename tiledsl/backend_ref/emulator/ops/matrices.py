"""Instructions that move 8 x 8 matrices between shared memory and registers: where they put each element."""

from __future__ import annotations

import numpy as np

from tiledsl.backend_ref.emulator.agents.agent import fault
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.gpu.gpu_ops import Read, Write
from tiledsl.ir.layouts.layout import Integers


def check_matrices(op: Read | Write, addresses: Integers, inside: Array) -> None:
    """Every element is where ldmatrix and stmatrix have it."""
    width = op.buffer.dtype.bytes
    transposed = op.method == "matrix-transposed"
    per_register = 4 // width
    if width > 4 or (transposed and width != 2):
        fault(op, f"{op.buffer.dtype} does not go by {op.method}")
    threads, slots = addresses.shape
    if threads % 32 or slots % per_register:
        fault(op, f"{slots} slots of {threads} threads are no whole matrices for each warp")
    # [warps, lanes, matrices, elements of a register]
    shape = (threads // 32, 32, slots // per_register, per_register)
    addresses, inside = np.reshape(addresses, shape), np.reshape(inside, shape)
    wanted, first = (_transposed_rows if transposed else _rows)(addresses, width)
    _fail_matrix(op, inside & (addresses != wanted), "is not where the instruction puts it")
    _fail_matrix(op, inside & (first % 16 != 0), "is in a row that is not aligned to 16 bytes")


def matrix_rows(addresses: Integers, width: int, transposed: bool) -> Integers:
    """Where the rows of matrices begin: [matrices of all warps, 8 rows]."""
    threads, slots = addresses.shape
    per_register = 4 // width
    shaped = np.reshape(addresses, (threads // 32, 32, slots // per_register, per_register))
    if transposed:
        firsts = np.stack([shaped[:, i // 2, :, i % 2] for i in range(8)], axis=-1)
    else:
        firsts = np.moveaxis(shaped[:, ::4, :, 0], 1, -1)
    return np.reshape(firsts, (-1, 8))


def _rows(addresses: Integers, width: int) -> tuple[Integers, Integers]:
    """Where the instruction takes each element from, and where its row starts.

    Lane l holds word l % 4 of row l // 4.
    """
    lanes = np.arange(32)
    first = addresses[:, lanes // 4 * 4, :, :1]
    words: Integers = np.reshape(lanes % 4 * 4, (32, 1, 1)) + width * np.arange(addresses.shape[-1], dtype=np.int64)
    return first + words, np.broadcast_to(first, addresses.shape)


def _transposed_rows(addresses: Integers, width: int) -> tuple[Integers, Integers]:
    """The same, transposed: lane l holds column l // 4 of rows 2 * (l % 4) and the one below."""
    lanes = np.arange(32)
    first = addresses[:, lanes % 4]
    return first + width * (lanes // 4)[:, None, None], first


def _fail_matrix(op: Read | Write, wrong: Array, reason: str) -> None:
    if wrong.any():
        warp, lane, matrix, element = (int(i) for i in np.argwhere(wrong)[0])
        fault(op, f"element {element} of matrix {matrix} in lane {lane} of warp {warp} {reason}")
