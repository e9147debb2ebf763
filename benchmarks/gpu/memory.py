"""Memory-bound kernels: their rate as a share of what a large copy on the device reaches in the same turns.

Times are of the device alone (see `timing`): of a prepared call, or of a plain one where a kernel cannot be prepared.
Bytes are those that must be moved: inputs read once, the output written once. The share counts with an L2 cache that
holds none of the data and nothing that must be written back; the column `written` shows what it is behind a kernel that
has left the cache full of its output. Where data fits the cache, times are compared that find it there (`held`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.gpu.checking import check
from benchmarks.gpu.device import describe
from benchmarks.gpu.memory_cases import MemoryCase, cases
from benchmarks.gpu.peers.common import Peers, first_line, triton_kernels
from benchmarks.gpu.results import Results, microseconds, verdict
from benchmarks.gpu.timing import Clock, CudaClock, Spread, in_turns

OURS, COPY = "tiledsl", "copy"
EAGER, COMPILED, TRITON = "eager", "torch.compile", "Triton"
COLUMNS = ("what", "us", "GB/s", "of copy", "written", "bar", "", EAGER, "x", COMPILED, "x", TRITON, "x")
COPY_BYTES = 4 << 30


def measure(torch: Any, only: str = "", clock: Clock | None = None, *, device: str = "cuda") -> Results:
    """Measures all cases whose names contain `only`."""
    clock = clock or CudaClock(torch)
    results = Results("memory", "Memory-bound kernels, bf16", COLUMNS, describe(torch))
    results.start()
    peers = Peers(torch, results.note)
    copy = copy_call(torch, device)
    for case in cases(torch):
        if only in case.name:
            one(torch, case, copy, clock, peers, results, device)
    peers.summarise()
    for name in (EAGER, COMPILED, TRITON):
        if not any(name in row["peers"] for row in results.numbers):
            results.note(f"{name} was not measured")
    return results


def copy_call(torch: Any, device: str) -> Callable[[], object]:
    """A copy of several GB on the device; it reads and writes `copied_bytes`."""
    size = COPY_BYTES if device == "cuda" else 1 << 16
    source = torch.empty(size, dtype=torch.int8, device=device).random_(-128, 127)
    target = torch.empty_like(source)

    def copy() -> object:
        return target.copy_(source)

    copy.bytes = 2 * size  # pyright: ignore[reportFunctionMemberAccess]
    return copy


def prepared(kernel: Any, arguments: list[Any], out: Any, **constants: object) -> Callable[[], Any]:
    """The launch of a prepared call; the plain call where there is no `bind`."""
    if hasattr(kernel, "bind"):
        return kernel.bind(*arguments, out=out, **constants)
    return lambda: kernel(*arguments, out=out, **constants)


def one(torch: Any, case: MemoryCase, copy: Any, clock: Clock, peers: Peers, results: Results, device: str) -> None:
    """Checks and times one case beside its peers, and adds its row."""
    random = torch.Generator(device=device).manual_seed(0)
    tensors = [
        torch.empty(shape, dtype=torch.bfloat16, device=device).normal_(generator=random) for shape in case.shapes
    ]
    expected = case.eager(*(tensor.double() for tensor in tensors))
    out = torch.empty(case.result, dtype=torch.float32 if case.wide else torch.bfloat16, device=device)
    try:
        ours = prepared(case.kernel, [*tensors, *case.numbers], out)
        error, problem = check(torch, ours, out, expected, case.tolerance)
    except Exception as failure:  # the others are still worth knowing
        error, problem, ours = float("nan"), f"{type(failure).__name__}: {first_line(str(failure))}", None
    ready = peers.prepare(case.name, peer_calls(case, tensors, peers), expected)
    del expected
    contenders: dict[str, Callable[[], object]] = {COPY: copy}
    if problem:
        results.failures += 1
        results.note(f"FAILED {case.name}: {problem}")
    else:
        assert ours is not None
        contenders[OURS] = ours
    times = in_turns(clock, {**contenders, **ready})
    written = in_turns(clock, contenders, state="written")
    held: dict[str, Spread] = {}
    if case.beside_compile:
        held = in_turns(clock, {**contenders, **ready, COPY: small_copy(torch, tensors)}, state="held")
        results.note(held_text(case, held))
    results.add(*row(case, times, written, held, error, copy.bytes))


def small_copy(torch: Any, tensors: list[Any]) -> Callable[[], object]:
    """A copy of the first tensor: as many bytes as the case must move, weights aside."""
    target = torch.empty_like(tensors[0])
    return lambda: target.copy_(tensors[0])


def held_text(case: MemoryCase, held: dict[str, Spread]) -> str:
    """The times of a case whose data the cache holds."""
    listed = ", ".join(f"{name} {microseconds(taken.median)}" for name, taken in held.items())
    return f"{case.name}, data in L2, us: {listed}"


def peer_calls(case: MemoryCase, tensors: list[Any], peers: Peers) -> dict[str, Callable[[], Callable[[], Any]]]:
    """How each peer's call is made."""
    calls: dict[str, Callable[[], Callable[[], Any]]] = {
        EAGER: lambda: lambda: case.eager(*tensors),
        COMPILED: peers.compiled(case.eager, tensors, needed=case.beside_compile),
    }
    module = triton_kernels() if case.triton else None
    if module is not None:
        calls[TRITON] = lambda: getattr(module, case.triton)(*tensors)
    return calls


def row(
    case: MemoryCase,
    times: dict[str, Spread],
    written: dict[str, Spread],
    held: dict[str, Spread],
    error: float,
    copied: int,
) -> tuple[list[str], dict[str, Any]]:
    """The cells of a row, and its numbers."""
    copy_rate = copied / times[COPY].median
    numbers: dict[str, Any] = {
        "what": case.name, "bytes": case.bytes, "error": error, "bar": case.bar, "beside_compile": case.beside_compile,
        "copy_bytes_per_s": copy_rate, "times": times, "times_written": written, "times_held": held,
    }  # fmt: skip
    if OURS not in times:
        numbers |= {"met": False, "peers": {name: {"us": 1e6 * times[name].median} for name in peer_names(times)}}
        cells = ["FAILED", "", "", "", bar_text(case), verdict(False)]
        return [case.name, *cells, *peer_cells(times, None)], numbers
    ours = times[OURS].median
    share = case.bytes / ours / copy_rate
    written_share = case.bytes / written[OURS].median / (copied / written[COPY].median)
    reached = share
    if case.beside_compile:
        reached = held[COMPILED].median / held[OURS].median if COMPILED in held else float("nan")
    numbers |= {
        "us": 1e6 * ours, "gigabytes_per_s": 1e-9 * case.bytes / ours, "share": share, "share_written": written_share,
        "reached": reached, "met": reached >= case.bar,
        "peers": {
            name: {"us": 1e6 * times[name].median, "ratio": times[name].median / ours} for name in peer_names(times)
        },
    }  # fmt: skip
    cells = [
        case.name, microseconds(ours), f"{1e-9 * case.bytes / ours:.0f}", f"{share:.3f}", f"{written_share:.3f}",
        bar_text(case), verdict(reached >= case.bar), *peer_cells(times, ours),
    ]  # fmt: skip
    return cells, numbers


def bar_text(case: MemoryCase) -> str:
    return f"{case.bar:.1f} x tc" if case.beside_compile else f"{case.bar:.2f}"


def peer_names(times: dict[str, Spread]) -> list[str]:
    return [name for name in (EAGER, COMPILED, TRITON) if name in times]


def peer_cells(times: dict[str, Spread], ours: float | None) -> list[str]:
    """Each peer's time, and how many times that of ours it is; dashes for one that is left out."""
    cells: list[str] = []
    for name in (EAGER, COMPILED, TRITON):
        if name in times:
            cells += [microseconds(times[name].median), f"{times[name].median / ours:.2f}" if ours else ""]
        else:
            cells += ["-", ""]
    return cells
