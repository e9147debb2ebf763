"""The examples on a GPU: the same kernels on CUDA tensors of PyTorch, checked against NumPy, timed beside PyTorch."""

from __future__ import annotations

import importlib
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

import beside_numpy
from beside_numpy import Compute, check

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
    """A tensor as an array of NumPy, wherever it is; of a tuple, each."""
    if isinstance(x, tuple):
        return tuple(map(on_host, cast("tuple[Any, ...]", x)))
    return x.cpu().numpy() if hasattr(x, "cpu") else x


def finish(x: Any) -> None:
    """Waits until the device of a tensor has made it; an array of NumPy is there."""
    if hasattr(x, "cpu"):
        x.cpu()


def compare(
    title: str,
    ours: Callable[..., Any],
    numpys: Compute,
    torchs: Callable[..., Any] | None,
    arrays: Sequence[Any],
    *,
    tolerance: float,
) -> None:
    """Checks `ours(*tensors)` against `numpys()`, then times it beside `torchs(torch, *tensors)` if there is one."""
    torch = cuda_torch()
    tensors = [one.cuda() if isinstance(one, torch.Tensor) else one for one in as_tensors(torch, arrays)]
    check(title, on_host(ours(*tensors)), numpys(), tolerance)
    if torchs is None:
        (our_time,) = median_times(torch, partial(ours, *tensors))
        print(f"{title}: {our_time:.4f} ms")
        return
    our_time, torch_time = median_times(torch, partial(ours, *tensors), partial(torchs, torch, *tensors))
    ratio = torch_time / our_time
    print(f"{title}: {our_time:.4f} ms, PyTorch {torch_time:.4f} ms: {ratio:.2f} x PyTorch's speed")


def time_on_cpu(
    title: str, ours: Callable[..., Any], torchs: Callable[..., Any], arrays: Sequence[Any], *, tolerance: float
) -> None:
    """Where PyTorch is installed: checks `torchs(torch, *tensors)` against `ours(*arrays)`, times both on the CPU."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return
    theirs = partial(torchs, torch, *as_tensors(torch, arrays))
    check(f"{title}, PyTorch", on_host(theirs()), ours(*arrays), tolerance)
    our_time, torch_time = beside_numpy.median_times(partial(ours, *arrays), theirs)
    times = f"{1e3 * our_time:.3f} ms, PyTorch {1e3 * torch_time:.3f} ms"
    print(f"{title}: {times}: {torch_time / our_time:.2f} x PyTorch's speed")


def as_tensors(torch: Any, arrays: Sequence[Any]) -> list[Any]:
    """Tensors that share the memory of arrays; numbers as they are."""
    return [torch.from_numpy(one) if isinstance(one, np.ndarray) else one for one in arrays]


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
