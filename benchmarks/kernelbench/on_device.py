"""Programs as they are on a GPU: right by KernelBench's own tolerance, timed beside eager PyTorch and torch.compile.

What differs from eager PyTorch in f16 is compared with eager PyTorch in f32: long sums in f16 have few digits there.
What differs still is compared with f64, as eager PyTorch is; where that is no nearer, the program is *near*, not right.
Processes share the device: each compiles on its own, and times when it is its turn.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import torch

import tiledsl
from benchmarks.gpu.timing import Clock, CudaClock, in_turns
from benchmarks.gpu.workers import Failure, Turn, in_workers
from benchmarks.kernelbench.nearness import PART, distance, in_f64, is_as_near
from benchmarks.kernelbench.on_cpu import fallbacks
from benchmarks.kernelbench.programs import loaded
from tiledsl.importers.torch.backend import COMPILED
from tiledsl.runtime.calls.outputs import as_tuple

TOLERANCE = {"f32": 1e-4, "f16": 1e-2}
DTYPES = {"f32": torch.float32, "f16": torch.float16}
FEWEST_CALLS = 5
PATIENCE = 480.0
"""Seconds for a program."""

Row = tuple[str, str, str, "dict[str, float]"]
"""Program, what became of it, why, and seconds of a call by contender."""


def run_on_device(chosen: Iterable[tuple[int, Path]], dtype: str, workers: int) -> int:
    """Prints a row for each program, and how the times compare in all; 0 if none is wrong, fails or does not fit."""
    programs = {f"{level} {path.stem}": (level, path) for level, path in chosen}
    print(f"{'program':58} {'':9} {'ours':>9} {'eager':>9} {'compiled':>9}  us   eager / ours, compiled / ours")
    rows = {row[0]: row for row in _rows(list(programs.values()), dtype, workers)}
    crowded = [programs[name] for name, (_, kind, _, _) in rows.items() if kind == "memory"]
    rows |= {row[0]: row for row in _rows(crowded, dtype, workers=1)}  # again, with the device's memory to itself
    return _summarise(list(rows.values()))


def _rows(programs: Sequence[tuple[int, Path]], dtype: str, workers: int) -> Iterator[Row]:
    """The programs' rows as they become known, printed."""
    names = {str(path): f"{level} {path.stem}" for level, path in programs}
    for path, found in in_workers(list(names), partial(_measured, dtype=dtype), workers, PATIENCE):
        kind, why, times = ("failed", found.reason, {}) if isinstance(found, Failure) else found
        row: Row = (names[path], kind, why, times)
        print(_line(row), flush=True)
        yield row


@cache
def _clock() -> Clock:
    return CudaClock(torch)


def _measured(path: str, turn: Turn, dtype: str) -> tuple[str, str, dict[str, float]]:
    """What became of a program, in a process of its own."""
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(1)
    torch.cuda.empty_cache()
    try:
        found = _outcome(Path(path), dtype, _clock(), turn)
    except torch.cuda.OutOfMemoryError:
        found = "memory", "", dict[str, float]()
    torch.cuda.empty_cache()
    return found


def _outcome(path: Path, dtype: str, clock: Clock, turn: Turn) -> tuple[str, str, dict[str, float]]:
    model, arguments = loaded(path.read_text(encoding="utf-8"), path)
    model, arguments = _moved(model, dtype), [_moved(one, dtype) for one in arguments]
    torch._dynamo.reset()
    COMPILED.clear()
    contenders: dict[str, Callable[..., Any]] = {
        "ours": torch.compile(model, backend=tiledsl.torch.backend, dynamic=False),
        "eager": model,
        "compiled": torch.compile(model, dynamic=False),
    }
    with torch.no_grad():
        try:
            torch.manual_seed(0)  # some programs draw their initial state
            expected = model(*arguments)
        except torch.cuda.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError) as error:
            return "unrunnable", f"eager PyTorch: {' '.join(str(error).split())[:100]}", {}
        torch.manual_seed(0)
        start = time.perf_counter()
        actual = contenders["ours"](*arguments)
        torch.cuda.synchronize()
        took = time.perf_counter() - start
        kind, difference = _rightness(path, model, arguments, (actual, expected), dtype)
        if kind == "wrong":
            return kind, difference, {}
        del actual, expected
        kind = "fallback" if kind == "right" and fallbacks() else kind
        slow = f"compiled in {took:.0f} s" if took > 20 else ""
        why = "; ".join(filter(None, [difference, fallbacks(), slow]))
        contenders["compiled"](*arguments)
        with turn:
            calls = {name: partial(call, *arguments) for name, call in contenders.items()}
            spreads = in_turns(clock, calls, rounds=5, fewest=FEWEST_CALLS)
    return kind, why, {name: spread.median for name, spread in spreads.items()}


def _rightness(path: Path, model: Any, arguments: Sequence[Any], found: tuple[Any, Any], dtype: str) -> tuple[str, str]:
    """Whether what we and eager PyTorch found is `right`, `near` or `wrong`, and what differs."""
    actual, expected = found
    wrong = _all_differing(actual, expected, dtype)
    if wrong and dtype != "f32":
        wide = _again(path, model, "f32")(*[_moved(one, "f32") for one in arguments])
        wrong = _all_differing(actual, wide, dtype)
        del wide
    if not wrong:
        return "right", ""
    differs = f"{wrong} elements differ by more than {TOLERANCE[dtype]}"
    try:
        exact = as_tuple(in_f64(_again(path, model, "f32"), arguments))
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError as error:
        return "wrong", f"{differs}; not run in f64: {' '.join(str(error).split())[:60]}"
    ours, eager = (distance(as_tuple(each), exact, TOLERANCE[dtype]) for each in found)
    return "near" if is_as_near(ours, eager) else "wrong", f"{differs}; off f64: ours {ours}, eager {eager}"


def _again(path: Path, model: Any, dtype: str) -> Any:
    """A model as it is in the file, with the weights of one; a copy may share functions with it."""
    made = _moved(loaded(path.read_text(encoding="utf-8"), path)[0], dtype)
    made.load_state_dict(model.state_dict(), strict=False)
    return made


def _all_differing(actual: Any, expected: Any, dtype: str) -> int:
    return sum(_differing(*pair, TOLERANCE[dtype]) for pair in zip(as_tuple(actual), as_tuple(expected)))


def _differing(actual: Any, expected: Any, tolerance: float) -> int:
    """How many elements differ by more, in part after part: the tensors may fill the device."""
    parts = zip(actual.flatten().split(PART), expected.flatten().split(PART))
    return sum(int((~torch.isclose(a.to(b.dtype), b, tolerance, tolerance, equal_nan=True)).sum()) for a, b in parts)


def _moved(value: Any, dtype: str) -> Any:
    """On the device; floats in that dtype."""
    if isinstance(value, torch.nn.Module):
        return value.to("cuda", DTYPES[dtype])
    if isinstance(value, torch.Tensor):
        return value.to("cuda", DTYPES[dtype]) if value.is_floating_point() else value.cuda()
    return value


def _line(row: Row) -> str:
    name, kind, why, times = row
    if not times:
        return f"{name[:58]:58} {kind:9} {why}"
    ours, eager, compiled = (1e6 * times[who] for who in ("ours", "eager", "compiled"))
    ratios = f"{eager / ours:.2f} {compiled / ours:.2f}"
    return f"{name[:58]:58} {kind:9} {ours:9.1f} {eager:9.1f} {compiled:9.1f}       {ratios}  {why}"


def _summarise(rows: Sequence[Row]) -> int:
    counts = Counter(kind for _, kind, _, _ in rows)
    print(", ".join(f"{kind} {count}" for kind, count in counts.items()))
    for peer in ("eager", "compiled"):
        ratios = [times[peer] / times["ours"] for _, _, _, times in rows if times]
        if ratios:
            mean = geometric_mean(ratios)
            faster = sum(ratio > 1 for ratio in ratios) / len(ratios)
            print(f"{peer}: geometric mean {mean:.3f}, faster on {faster:.0%} of {len(ratios)}")
    return int(any(counts[kind] for kind in ("wrong", "failed", "memory")))
