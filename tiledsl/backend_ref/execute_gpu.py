"""Runs GPU functions with NumPy, in step: the oracle for the lowering to GPU IR and for the CUDA that is made of it.

This is the emulator (docs/emulator.md) without its scheduling games: all threads of a launch, or of a role, run one op
after the other, and programs one after the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.emulator.emulate import run
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.core import Function


def execute_gpu(
    function: Function,
    arguments: Sequence[Argument],
    *,
    output: Callable[[str], None] = print,
    order: random.Random | None = None,
    addresses: Mapping[str, int] | None = None,
) -> tuple[Array, ...]:
    """Runs a function in GPU form and gives the tensors that it returns; called as `execute_tile.execute` is.

    `addresses`: for tensors, by name, the address of the first element modulo 16 (0, unless told), of which vectors
    must be aligned. Raises what `emulate` does.
    """
    return run(function, arguments, None, order, output, addresses or {}).results
