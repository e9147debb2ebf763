"""Programs with small sizes on the CPU: right without a fallback, right with one, near, wrong, or failed.

`near`: it differs from eager PyTorch and from the model in f64, by no more than eager PyTorch does from the latter.
"""

from __future__ import annotations

import copy
import signal
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import tiledsl
from benchmarks.kernelbench.nearness import distance, in_f64, is_as_near
from benchmarks.kernelbench.programs import TimeoutExpiredError, smallest
from tiledsl.importers.torch.backend import COMPILED

TOLERANCE = 1e-4
LIMIT = 300
"""Seconds that one program may take."""


def run_on_cpu(chosen: Iterable[tuple[int, Path]], largest: int) -> int:
    """Prints a line for each program; 0 if none is wrong or fails."""
    signal.signal(signal.SIGALRM, _expired)
    counts: Counter[str] = Counter()
    for level, path in chosen:
        start = time.perf_counter()
        signal.alarm(LIMIT)
        try:
            kind, detail = _outcome(path, largest)
        except TimeoutExpiredError:
            kind, detail = "failed", f"took more than {LIMIT} s"
        except Exception as error:
            kind, detail = "failed", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        finally:
            signal.alarm(0)
        counts[kind] += 1
        print(f"{level} {path.stem:60} {kind:10} {time.perf_counter() - start:6.1f} s  {detail}", flush=True)
    print(", ".join(f"{kind} {count}" for kind, count in counts.items()))
    return int(bool(counts["wrong"] or counts["failed"]))


def _expired(number: int, frame: FrameType | None) -> None:
    raise TimeoutExpiredError


def _outcome(path: Path, largest: int) -> tuple[str, str]:
    """What becomes of one program, and why."""
    made = smallest(path, largest)
    if made is None:
        return "unrunnable", "eager PyTorch does not run it"
    model, arguments, expected = made
    torch._dynamo.reset()
    COMPILED.clear()
    torch.manual_seed(0)
    with torch.no_grad():
        actual = torch.compile(model, backend=tiledsl.torch.backend)(*arguments)
    reasons = fallbacks()
    right = ("fallback", reasons) if reasons else ("right", "")
    try:
        torch.testing.assert_close(actual, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True, check_dtype=False)
    except AssertionError as error:
        difference = " ".join(str(error).split())[:200]
        try:
            exact = _tensors(in_f64(copy.deepcopy(model), arguments))
        except RuntimeError:
            return "wrong", difference
        ours, eager = (distance(_tensors(found), exact, TOLERANCE) for found in (actual, expected))
        if ours.off[0]:
            kind = "near" if is_as_near(ours, eager) else "wrong"
            return kind, f"{difference}; off f64: ours {ours}, eager PyTorch {eager}"
    return right


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def fallbacks() -> str:
    """What PyTorch ran of what was compiled last, and why; empty if nothing."""
    return "; ".join(f"{node.target}: {why}" for graph in COMPILED for node, why in graph.fallbacks.items())
