"""The gallery, kernel by kernel: on the CPU beside NumPy, on a GPU beside PyTorch, eager and by `torch.compile`.

python -m benchmarks.gallery                            all kernels on the CPU
python -m benchmarks.gallery --device cuda              on the GPU at hand
python -m benchmarks.gallery top_k rotary --device cuda --json rows.json
python -m benchmarks.gallery --device cuda --workers 8  compiled eight at a time, timed one after the other

Each kernel has a process of its own and so many seconds: what crashes, hangs or gives something wrong is a row that
says so, and the others go on. Results of both sides are held against NumPy's. On a GPU times are the device's, of calls
in turns, with a cache that holds nothing of theirs; on the CPU the least of several turns. The ratio is the time of
the best peer by ours: above 1 we are faster, and a row below 0.9 is marked.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, cast

from benchmarks import ROOT
from benchmarks.gallery_peers import peer_of
from benchmarks.gpu.device import missing
from benchmarks.gpu.timing import Clock, CudaClock, in_turns
from beside_numpy import largest_error, least_times
from beside_torch import as_tensors, on_host
from examples.gallery.__main__ import NAMES, entry_of
from examples.gallery.entry import Entry

BAR = 0.9
SECONDS = 300
"""For one kernel: its compilation, that of `torch.compile`, and the timing."""
LONG_LOOPS = {"selective_scan"}
"""Formulas with a loop of hundreds of steps, which `torch.compile` unrolls for minutes."""
HEAD = ("kernel", "size", "error", "ours ms", "best peer", "its ms", "ratio", "")
Say = Callable[["Row"], None]
"""Told what is known of a row so far."""


@dataclass(frozen=True)
class Row:
    """One kernel. Times are seconds; `peers` has those that ran and gave the right result, `troubles` what kept others
    from it, by name; `trouble` is what kept the kernel itself."""

    name: str
    size: int = 0
    error: float | None = None
    ours: float | None = None
    peers: Mapping[str, float] = field(default_factory=dict[str, float])
    troubles: Mapping[str, str] = field(default_factory=dict[str, str])
    trouble: str = ""

    @property
    def best(self) -> str:
        """The fastest peer; empty where there is none."""
        return min(self.peers, key=lambda name: self.peers[name]) if self.peers else ""

    @property
    def ratio(self) -> float | None:
        """The time of the best peer by ours."""
        return self.peers[self.best] / self.ours if self.ours and self.best else None

    @property
    def cells(self) -> tuple[str, ...]:
        ratio = self.ratio
        words = [self.trouble] if self.trouble else []
        words += [f"below {BAR}"] if ratio is not None and ratio < BAR else []
        words += [f"{name}: {why}" for name, why in self.troubles.items()]
        return (
            self.name, str(self.size or ""), "" if self.error is None else f"{self.error:.1e}", _ms(self.ours),
            self.best, _ms(self.peers.get(self.best)), "" if ratio is None else f"{ratio:.2f}", "; ".join(words),
        )  # fmt: skip


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.4f}"


def table(rows: Sequence[Row], device: str) -> str:
    """All rows, and what they come to."""
    cells = [HEAD, *(row.cells for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEAD))]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip() for row in cells]
    ratios = [row.ratio for row in rows if row.ratio is not None]
    wrong = sum(bool(row.trouble) for row in rows)
    compared = f"{sum(ratio >= BAR for ratio in ratios)} of {len(ratios)} kernels reach {BAR} of the best peer's speed"
    return "\n".join([f"the gallery on {device}", *lines, f"{compared}; {wrong} of {len(rows)} could not be compared"])


def on_cpu(name: str, entry: Entry, size: int, say: Say) -> None:
    """Beside NumPy."""
    arguments = entry.arguments(size)
    ours, numpys = partial(entry.kernel, *arguments), partial(entry.numpys, *arguments)
    row = _checked(name, entry, size, ours(), numpys())
    say(row)
    if not row.trouble:
        taken, beside = least_times(ours, numpys, rounds=3)
        say(replace(row, ours=taken, peers={"NumPy": beside}))


def on_gpu(
    name: str, entry: Entry, size: int, say: Say, torch: Any, clock: Clock, put: Callable[[Any], Any], turn: str = ""
) -> None:
    """Beside PyTorch, as far as that has such a thing. `put`: moves a tensor to the device; `turn`: as for `alone`."""
    arguments = entry.arguments(size)
    tensors = [put(one) if torch.is_tensor(one) else one for one in as_tensors(torch, arguments)]
    expected = entry.numpys(*arguments)
    ours = partial(entry.kernel, *tensors)
    row = _checked(name, entry, size, on_host(ours()), expected)
    say(row)
    if row.trouble:
        return
    with alone(turn):
        row = replace(row, ours=in_turns(clock, {"ours": ours})["ours"].median)
    say(row)
    contenders: dict[str, Callable[[], object]] = {"ours": ours}
    for peer, prepare in _ways(torch, name).items():
        why = ""
        try:
            call = partial(prepare(), torch, *tensors)
            why = _peer_fault(entry, on_host(call()), expected)
            if not why:
                contenders[peer] = call
        except Exception as error:  # of another library, whatever it is: the other peers are wanted all the more
            why = f"{type(error).__name__}: {(str(error).strip() or 'no reason was given').splitlines()[0]}"
        if why:
            row = replace(row, troubles={**row.troubles, peer: why[:100]})
        elif len(contenders) > 1:
            with alone(turn):
                times = {other: spread.median for other, spread in in_turns(clock, contenders).items()}
            row = replace(row, ours=times.pop("ours"), peers=times)
        say(row)


@contextmanager
def alone(turn: str) -> Generator[None]:
    """While no other process is within it that has the same file `turn`; without a file, at once."""
    if not turn:
        yield
        return
    with open(turn, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _ways(torch: Any, name: str) -> dict[str, Callable[[], Any]]:
    """What makes each peer. `torch.compile` is told not to mind shapes: they stay as they are."""
    formula = peer_of(name)
    if formula is None:
        return {}
    ways: dict[str, Callable[[], Any]] = {"eager": lambda: formula}
    if name not in LONG_LOOPS:
        ways["compile"] = lambda: partial(_called, torch.compile(partial(formula, torch), dynamic=False))
    return ways


def _called(compiled: Callable[..., Any], torch: Any, *tensors: Any) -> Any:
    """A compiled formula, which has `torch` already."""
    del torch
    return compiled(*tensors)


def _checked(name: str, entry: Entry, size: int, result: Any, expected: Any) -> Row:
    error = error_of(result, expected)
    wrong = "" if error <= entry.tolerance else f"wrong: an error of {error:.1e}, at most {entry.tolerance:.0e}"
    return Row(name, size, error, trouble=wrong)


def _peer_fault(entry: Entry, result: Any, expected: Any) -> str:
    """Peers may round otherwise: 10 times as much is allowed them."""
    error = error_of(result, expected)
    return "" if error <= max(10 * entry.tolerance, 1e-3) else f"wrong: an error of {error:.1e}"


def error_of(result: Any, expected: Any) -> float:
    """The largest difference by the largest magnitude; of whole numbers the share of those that differ."""
    ours = cast("tuple[Any, ...]", result if isinstance(result, tuple) else (result,))
    theirs = cast("tuple[Any, ...]", expected if isinstance(expected, tuple) else (expected,))
    errors = [_error(one, other) for one, other in zip(ours, theirs, strict=True)]
    return math.inf if any(map(math.isnan, errors)) else max(errors)


def _error(one: Any, other: Any) -> float:
    if one.shape == other.shape and one.dtype.kind in "iu" and one.size:
        return float((one != other).mean())
    return largest_error(one, other)


def run_here(name: str, device: str, size: int | None, say: Say, turn: str = "") -> None:
    """One kernel in this process."""
    entry = entry_of(name)
    size = size or entry.size
    if device == "cpu":
        on_cpu(name, entry, size, say)
        return
    torch: Any = importlib.import_module("torch")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False  # as exact as we are
    on_gpu(name, entry, size, say, torch, CudaClock(torch), lambda one: one.cuda(), turn)


def run_apart(name: str, device: str, size: int | None, seconds: float, turn: str = "") -> Row:
    """One kernel in a process of its own; where that ends early, what is known by then, with why."""
    command = [sys.executable, "-m", "benchmarks.gallery", name, "--device", device, "--row"]
    command += [] if size is None else ["--size", str(size)]
    command += ["--turn", turn] if turn else []
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds)
        told, why = done.stdout, "" if done.returncode == 0 else _last_words(done.stderr, done.returncode)
    except subprocess.TimeoutExpired as late:
        output = cast("bytes | str | None", late.stdout)
        told = output.decode(errors="replace") if isinstance(output, bytes) else output or ""
        why = f"not done after {seconds:.0f} s"
    row = last_row(told.splitlines(), Row(name))
    if not why:
        return row
    return replace(row, troubles={**row.troubles, "then": why}) if row.ours is not None else replace(row, trouble=why)


def _last_words(text: str, code: int) -> str:
    """Why a process ended: the last line of what it said that is not a hint."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("fix:")]
    errors = [line for line in lines if "Error" in line]
    return (errors or lines or [f"ended with status {code}"])[-1][:160]


def last_row(lines: Iterable[str], unknown: Row) -> Row:
    """The last whole row among lines of JSON."""
    read = [row for line in lines if (row := _read(line)) is not None]
    return read[-1] if read else unknown


def _read(line: str) -> Row | None:
    try:
        return Row(**json.loads(line))
    except (ValueError, TypeError):  # what libraries print, or half a line
        return None


def row_line(row: Row) -> str:
    """As `last_row` reads it."""
    return json.dumps(asdict(row))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="files of the gallery; default: all")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", type=int, help="of the long axes; default: what each file says")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each kernel; default: %(default)s")
    parser.add_argument("--json", metavar="FILE", help="a file for the rows")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="kernels that are compiled at a time (1)")
    parser.add_argument("--row", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--turn", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if unknown := sorted({*options.names} - {*NAMES}):
        parser.error(f"the gallery has no {', '.join(unknown)}; it has {', '.join(NAMES)}")
    if options.row:
        (name,) = options.names
        run_here(name, options.device, options.size, lambda row: print(row_line(row), flush=True), options.turn)
        return 0
    if options.device == "cuda" and (why := missing()):
        print(why, file=sys.stderr)
        return 1
    rows = list(_rows_of(options.names or NAMES, options))
    print(table(rows, options.device))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.writelines(f"{row_line(row)}\n" for row in rows)
    return 1 if any(row.trouble for row in rows) else 0


def _rows_of(names: Sequence[str], options: argparse.Namespace) -> Iterator[Row]:
    """Each row in the order of the names, said once it is there."""
    with tempfile.NamedTemporaryFile(prefix="turn-") as file, ThreadPoolExecutor(max(options.workers, 1)) as pool:
        turn = file.name if options.workers > 1 else ""
        one = partial(run_apart, device=options.device, size=options.size, seconds=options.seconds, turn=turn)
        for row in pool.map(one, names):
            print("  ".join(cell for cell in row.cells if cell), file=sys.stderr, flush=True)
            yield row


if __name__ == "__main__":
    sys.exit(main())
