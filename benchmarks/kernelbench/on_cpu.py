"""Programs with small sizes on the CPU: right without a fallback, right with one, wrong, or failed."""

from __future__ import annotations

import copy
import signal
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import tiledsl
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
    try:
        _compare(actual, expected)
    except AssertionError as error:
        if not _is_right_by_f64(model, arguments, actual):
            return "wrong", " ".join(str(error).split())[:200]
    reasons = fallbacks()
    return ("fallback", reasons) if reasons else ("right", "")


def _compare(actual: Any, expected: Any) -> None:
    """Raises AssertionError where tensors differ."""
    torch.testing.assert_close(actual, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True, check_dtype=False)


def _is_right_by_f64(model: Any, arguments: Sequence[Any], actual: Any) -> bool:
    """Whether what differs from eager PyTorch in f32 is what the model gives in f64."""
    wide = [v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in arguments]
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(0)
        with torch.no_grad():
            _compare(actual, copy.deepcopy(model).double()(*wide))
    except (AssertionError, RuntimeError):
        return False
    finally:
        torch.set_default_dtype(before)
    return True


def fallbacks() -> str:
    """What PyTorch ran of what was compiled last, and why; empty if nothing."""
    return "; ".join(f"{node.target}: {why}" for graph in COMPILED for node, why in graph.fallbacks.items())
