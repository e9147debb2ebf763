"""Where the emulator is called."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.execute_gpu import execute_gpu
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.core import Function
from tiledsl.support.location import Location


@dataclass(frozen=True)
class EmulatorWarning:
    """Code that is right but slow."""

    code: str
    message: str
    location: Location
    count: int
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Emulation:
    """The tensors that a function returned, and the warnings."""

    results: tuple[Array, ...]
    warnings: tuple[EmulatorWarning, ...]


def emulate(
    function: Function,
    arguments: Sequence[Argument],
    *,
    seed: int | None = 0,
    output: Callable[[str], None] = print,
    addresses: Mapping[str, int] | None = None,
) -> Emulation:
    """Runs GPU IR. Raises TileError for what is wrong with it."""
    order = None if seed is None else random.Random(seed)
    return Emulation(execute_gpu(function, arguments, output=output, order=order, addresses=addresses), ())
