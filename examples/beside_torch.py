"""The examples on a GPU: the same kernels on CUDA tensors of PyTorch, checked against NumPy, timed beside PyTorch."""

from __future__ import annotations

import importlib
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from beside_numpy import Array, Compute, check

ROUNDS = 50


def cuda_torch() -> Any:
    """The module `torch`. Exits with status 1, saying so, where there is none or it sees no GPU."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        sys.exit("--device cuda needs PyTorch, which is not installed")
    if not torch.cuda.is_available():
        sys.exit("--device cuda: PyTorch sees no GPU")
    return torch


def on_host(x: Any) -> Any:
    """A tensor as an array of NumPy, wherever it is."""
    return x.cpu().numpy() if hasattr(x, "cpu") else x


def finish(x: Any) -> None:
    """Waits until the device of a tensor has made it; an array of NumPy is there."""
    if hasattr(x, "cpu"):
        x.cpu()


def compare(
    title: str,
    ours: Callable[..., Any],
    numpys: Compute,
    torchs: Callable[..., Any],
    arrays: Sequence[Array],
    *,
    tolerance: float,
) -> None:
    """Checks `ours(*tensors)` against `numpys()`, then times it beside `torchs(torch, *tensors)`."""
    torch = cuda_torch()
    tensors = [torch.from_numpy(array).cuda() for array in arrays]
    check(title, ours(*tensors).cpu().numpy(), numpys(), tolerance)
    our_time, torch_time = median_times(torch, partial(ours, *tensors), partial(torchs, torch, *tensors))
    ratio = torch_time / our_time
    print(f"{title}: {our_time:.4f} ms, PyTorch {torch_time:.4f} ms: {ratio:.2f} x PyTorch's speed")


def median_times(torch: Any, *computations: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """The median milliseconds of a call of each, on the device. They take turns.

    Before each call the device is given a buffer to fill: it takes longer than the host takes to launch, so that the
    device never waits for the host, and nothing of the inputs is left in its cache.
    """
    filler = torch.empty(2**28, dtype=torch.int8, device="cuda")
    milliseconds: list[list[float]] = []
    for computation in computations:
        for _ in range(3):
            computation()
        milliseconds.append([])
    for _ in range(rounds):
        for computation, taken in zip(computations, milliseconds):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            filler.zero_()
            start.record()
            computation()
            end.record()
            end.synchronize()
            taken.append(float(start.elapsed_time(end)))
    return [statistics.median(taken) for taken in milliseconds]
