"""Whether an output is right: computed into poisoned memory, held against a wider reference by relative norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TOLERANCE = {
    "torch.float64": 1e-12,
    "torch.float32": 1e-5,
    "torch.float16": 2e-3,
    "torch.bfloat16": 1e-2,
    "torch.int32": 0.0,
}


def poison(torch: Any, out: Any) -> None:
    """Fills a tensor with what no result is: NaN, or the lowest integer."""
    out.fill_(float("nan") if out.dtype.is_floating_point else torch.iinfo(out.dtype).min)


def relative_norm(torch: Any, actual: Any, expected: Any) -> float:
    """||actual - expected|| / ||expected|| in float64; NaN if anything is."""
    wide = expected.to(torch.float64)
    difference = torch.linalg.vector_norm(actual.to(torch.float64) - wide)
    return float(difference / torch.clamp(torch.linalg.vector_norm(wide), min=1e-300))


def check(
    torch: Any, call: Callable[[], Any], out: Any, expected: Any, tolerance: float | None = None
) -> tuple[float, str]:
    """Calls once. Gives the error, and what is wrong (an empty text if nothing is).

    `out`: where the call writes, which is poisoned first; None where that is not known.
    """
    if out is not None:
        poison(torch, out)
    result: Any = call()
    if not torch.is_tensor(result):
        result = out
    torch.cuda.synchronize()
    if tuple(result.shape) != tuple(expected.shape):
        return float("inf"), f"shape {tuple(result.shape)}, expected {tuple(expected.shape)}"
    error = relative_norm(torch, result, expected)
    allowed = TOLERANCE[str(result.dtype)] if tolerance is None else tolerance
    return error, "" if error <= allowed else f"relative error {error:.1e}, allowed {allowed:.0e}"
