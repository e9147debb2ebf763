"""Attention, forward, beside FlashAttention-3 and -2, cuDNN, Triton and TileLang.

16384 tokens in all, a width of 2048: the longer the sequences, the fewer; the larger a head, the fewer. Our q[H, S, D]
counts the heads of all sequences; so do Triton's and TileLang's. FlashAttention and cuDNN get equal values in both
orders of memory, [batch, S, heads, D] and [batch, heads, S, D], and their faster answer counts. Times are of the device
alone, in turns, with the L2 cache flushed; results are checked first, against float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import geometric_mean
from typing import Any

from benchmarks.gpu import kernels
from benchmarks.gpu.attention_cases import CASES, GEOMEAN, AttentionCase, Heads, draw
from benchmarks.gpu.checking import check
from benchmarks.gpu.device import describe, installed
from benchmarks.gpu.memory import prepared
from benchmarks.gpu.peers import attention as attention_peers
from benchmarks.gpu.peers.attention import CUDNN, FA2, FA3, TILELANG, TRITON, WAYS
from benchmarks.gpu.peers.common import Peers, first_line
from benchmarks.gpu.results import Results, microseconds, verdict
from benchmarks.gpu.timing import Clock, CudaClock, Spread, in_turns

OURS = "tiledsl"
COLUMNS = ("what", "us", "TFLOP/s", "of FA3", "bar", "", "ahead", FA3, CUDNN, FA2, TRITON, TILELANG)
RIVALS = (CUDNN, TRITON, TILELANG)
"""Those that we are to be ahead of in every row with a bar."""


def measure(torch: Any, only: str = "", clock: Clock | None = None) -> Results:
    """Measures all cases whose names contain `only`."""
    clock = clock or CudaClock(torch)
    versions = {"flash-attention-3": installed("tokenspeed-fa3"), "tilelang": installed("tilelang")}
    versions["cudnn"] = str(torch.backends.cudnn.version())
    results = Results("attention", "Attention, forward, in TFLOP/s", COLUMNS, {**describe(torch), **versions})
    results.start()
    peers = Peers(torch, results.note)
    for case in CASES:
        if only in case.name:
            one(torch, case, clock, peers, results)
    for summary in summaries(results.numbers):
        results.add(*summary)
    peers.summarise()
    return results


def one(torch: Any, case: AttentionCase, clock: Clock, peers: Peers, results: Results) -> None:
    """Checks and times one case beside its peers, and adds its row."""
    heads = draw(torch, case)
    contenders: dict[str, Callable[[], object]] = {}
    error = float("nan")
    try:
        ours, out = ours_of(torch, case, heads)
        error, problem = check(torch, ours, out, heads.expected.view(out.shape))
        contenders[OURS] = ours
    except Exception as failure:  # the others are still worth knowing
        problem = f"{type(failure).__name__}: {first_line(str(failure))}"
    if problem:
        contenders.pop(OURS, None)
        results.failures += 1
        results.note(f"FAILED {case.name}: {problem}")
    contenders |= attention_peers.prepare(torch, case, heads, peers)
    if contenders:
        results.add(*row(case, in_turns(clock, contenders), error))


def ours_of(torch: Any, case: AttentionCase, heads: Heads) -> tuple[Callable[[], Any], Any]:
    """Our call, and the tensor that it writes."""
    q = heads.q
    if case.group == 1:
        out = torch.empty_like(q)
        return prepared(kernels.attention, [q, heads.k, heads.v], out, causal=case.causal), out
    q = q.view(-1, case.group, case.length, case.dim)
    out = torch.empty_like(q)
    return prepared(kernels.grouped_attention, [q, heads.k, heads.v], out, causal=case.causal), out


def row(case: AttentionCase, times: dict[str, Spread], error: float) -> tuple[list[str], dict[str, Any]]:
    """The cells of a row, and its numbers."""
    ours = times[OURS].median if OURS in times else None
    best = best_of_peers(times)
    shares = {peer: times[way].median / ours for peer, way in best.items()} if ours else {}
    share = shares.get(FA3)
    met = None if case.bar is None else share is not None and share >= case.bar
    behind = [peer for peer in RIVALS if peer in best and shares.get(peer, 0.0) <= 1.0]
    rates = {name: 1e-12 * case.operations / taken.median for name, taken in times.items()}
    numbers: dict[str, Any] = {
        "what": case.name, "barred": case.barred, "error": error, "bar": case.bar, "met": met, "shares": shares,
        "behind": behind, "best": best, "teraflops": rates, "times": times,
    }  # fmt: skip
    cells = [
        case.name,
        microseconds(ours) if ours else "FAILED",
        f"{rates[OURS]:.1f}" if ours else "",
        f"{share:.3f}" if share else "",
        "" if case.bar is None else f"{case.bar:.2f}",
        "" if met is None else verdict(met),
        "" if not case.barred else verdict(bool(ours) and not behind),
        *(f"{rates[best[peer]]:.1f}" if peer in best else "-" for peer in WAYS),
    ]
    return cells, numbers


def best_of_peers(times: dict[str, Spread]) -> dict[str, str]:
    """For each peer that was measured, the way that was fastest."""
    there = {peer: [way for way in ways if way in times] for peer, ways in WAYS.items()}
    return {peer: min(ways, key=lambda way: times[way].median) for peer, ways in there.items() if ways}


def summaries(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """A row for the geometric mean of the shares of each peer; of the rivals, whether each row is ahead."""
    barred = [row for row in rows if row.get("barred")]
    for peer in WAYS:
        beside = [row for row in barred if peer in row["best"]]
        if not beside:
            continue
        shares = [float(row["shares"][peer]) for row in beside if peer in row["shares"]]
        mean = geometric_mean(shares) if shares else None
        bar: float | None = None
        met: bool | None = None
        if peer == FA3:
            bar, met = GEOMEAN, mean is not None and len(shares) == len(barred) and mean >= GEOMEAN
        elif peer in RIVALS:
            bar, met = float(len(beside)), not any(peer in row["behind"] for row in beside)
        ahead = sum(share > 1 for share in shares)
        what = f"geomean beside {peer} ({len(shares)}, ahead in {ahead})"
        asked = "" if bar is None else f"{bar:.2f}" if peer == FA3 else "all"
        cells = [what, "", "", f"{mean:.3f}" if mean else "", asked, "" if met is None else verdict(met)]
        cells += [""] * (len(COLUMNS) - len(cells))
        lowest = min(shares, default=None)
        yield cells, {"what": what, "geomean": mean, "lowest": lowest, "ahead": ahead, "bar": bar, "met": met}
