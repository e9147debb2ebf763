"""How far results are from those in f64, where ours and those of eager PyTorch differ by more than a tolerance.

Some formulas lose digits however they are computed: exponentials of differences of long sums, sums that nearly cancel
out, f16 beyond its largest number. There, eager PyTorch is no measure of what is right. Both are held against the model
in f64, and count as *near* where as many of our elements are off as of eager PyTorch's, by as much.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

TIMES = (1, 10, 100)
"""Elements are counted that are off by more than the tolerance, and by more than so many times as much."""
ALIKE, FEW = 2, 4
"""Up to so many times as many elements, and so many more, may be off: where roundings fall is chance."""
PART = 1 << 26
"""Elements that are compared at a time: the tensors may fill a device."""


@dataclass(frozen=True)
class Distance:
    """What differs from f64: `off` by each of `TIMES`; `lost` are infinite, or no numbers, where f64 has one."""

    off: tuple[int, ...]
    lost: int

    def __str__(self) -> str:
        by = ", ".join(f"{count} by {times} x" for count, times in zip(self.off[1:], TIMES[1:]))
        return f"{self.off[0]} ({by}, {self.lost} not finite)"


def distance(results: Iterable[Any], exact: Iterable[Any], tolerance: float) -> Distance:
    """How far tensors are from those in f64, relative to 1 + |exact| as `torch.isclose` has it."""
    off, lost = [0] * len(TIMES), 0
    for result, wanted in zip(results, exact, strict=True):
        for some, right in zip(result.flatten().split(PART), wanted.flatten().split(PART), strict=True):
            wide = some.to(right.dtype)
            lost += int((~wide.isfinite() & right.isfinite()).sum())
            for i, times in enumerate(TIMES):
                limit = times * tolerance
                off[i] += int((~torch.isclose(wide, right, limit, limit, equal_nan=True)).sum())
    return Distance(tuple(off), lost)


def is_as_near(ours: Distance, eager: Distance) -> bool:
    """Whether no more of ours is off than of eager PyTorch's; no if eager PyTorch is right everywhere."""
    if not eager.off[0]:
        return False
    alike = all(mine <= ALIKE * theirs + FEW for mine, theirs in zip(ours.off, eager.off))
    return alike and ours.lost <= ALIKE * eager.lost


def in_f64(model: Any, arguments: Iterable[Any]) -> Any:
    """What a model gives, itself made f64, with tensors that it makes in f64 too. Raises what the model does."""
    wide = [v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in arguments]
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(0)
        with torch.no_grad():
            return model.double()(*wide)
    finally:
        torch.set_default_dtype(before)
