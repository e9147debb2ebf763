"""What every file of the gallery says of its kernel, and what is done with it: checked, timed, shown."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

sys.path.append(str(Path(__file__).parent.parent))  # what all examples share is one folder up

import beside_numpy
import beside_torch
from beside_numpy import command_line, compare, least_times
from tiledsl import Kernel

__all__ = ["Array", "Entry", "least_times", "normal"]

Array: TypeAlias = Any
"""NumPy's, of any dtype and shape."""


def normal(*shape: int, seed: int = 0) -> Array:
    """Random float32 numbers."""
    return beside_numpy.normal(*shape, seed=seed)


@dataclass(frozen=True)
class Entry:
    """A kernel beside its reference.

    `arguments(size)` makes those of both; `small` is a size for which everything takes next to no time. `torchs`: the
    same by PyTorch, `torchs(torch, *arguments)`, where it has an operation of its own for it. `picture` makes a text,
    a drawing or a table, of the kernel's result and its arguments.
    """

    kernel: Kernel
    numpys: Callable[..., Any]
    arguments: Callable[[int], list[Any]]
    size: int
    small: int
    tolerance: float = 1e-5
    torchs: Callable[..., Any] | None = None
    picture: Callable[..., str] | None = None

    def show(self, description: str | None) -> None:
        """What a file does when it is run: reads `--size` and `--device`, checks, times, shows the picture."""
        size, device = command_line(description, self.size)
        title, arguments = f"{self.kernel.__name__} of size {size}", self.arguments(size)
        compare(title, self.kernel, self.numpys, self.torchs, arguments, tolerance=self.tolerance, device=device)
        if device == "cpu" and self.torchs is not None:
            beside_torch.time_on_cpu(title, self.kernel, self.torchs, arguments, tolerance=self.tolerance)
        if device == "cpu" and self.picture is not None:
            print(self.picture(self.kernel(*arguments), *arguments))
