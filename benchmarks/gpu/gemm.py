"""Matrix products c = a @ b beside cuBLAS (through PyTorch, asked in several ways) and a short Triton kernel.

Times are of the device alone, in turns, with the L2 cache flushed; results are checked first, against float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from statistics import geometric_mean
from typing import Any

from benchmarks.gpu import kernels
from benchmarks.gpu.checking import check
from benchmarks.gpu.device import describe
from benchmarks.gpu.memory import prepared
from benchmarks.gpu.peers import cublas
from benchmarks.gpu.peers.common import Peers, first_line, triton_kernels
from benchmarks.gpu.products import GEOMEANS, PRODUCTS, Product, Values, draw, result_of
from benchmarks.gpu.results import Results, microseconds, verdict
from benchmarks.gpu.timing import Clock, CudaClock, Spread, in_turns
from tiledsl import tile

OURS, CUBLAS, TRITON = "tiledsl", "cuBLAS", "Triton"
COLUMNS = ("what", "us", "TFLOP/s", "of cuBLAS", "bar", "", CUBLAS, "TFLOP/s", "asked as", TRITON, "x")


def measure(torch: Any, only: str = "", clock: Clock | None = None) -> Results:
    """Measures all products whose names contain `only`."""
    clock = clock or CudaClock(torch)
    results = Results("gemm", "Matrix products", COLUMNS, describe(torch))
    results.start()
    peers = Peers(torch, results.note)
    for _, products in groupby((p for p in PRODUCTS if only in p.name), lambda product: product.data):
        alike(torch, list(products), clock, peers, results)
    for summary in summaries(results.numbers):
        results.add(*summary)
    peers.summarise()
    return results


def alike(torch: Any, products: Sequence[Product], clock: Clock, peers: Peers, results: Results) -> None:
    """Measures products on the same values."""
    try:
        values = draw(torch, products[0])
    except Exception as failure:
        for product in products:
            results.note(f"{product.name} left out: {type(failure).__name__}: {first_line(str(failure))}")
        return
    for product in products:
        one(torch, product, values, clock, peers, results)


def one(torch: Any, product: Product, values: Values, clock: Clock, peers: Peers, results: Results) -> None:
    """Checks and times one product beside its peers, and adds its row."""
    a, b = values.a, values.b(product.order)
    contenders: dict[str, Callable[[], object]] = {}
    error = float("nan")
    try:
        ours, c = ours_of(torch, product, a, b)
        error, problem = check(torch, ours, c, values.expected, product.tolerance)
        contenders[OURS] = ours
    except Exception as failure:  # the others are still worth knowing
        problem = f"{type(failure).__name__}: {first_line(str(failure))}"
    if problem:
        contenders.pop(OURS, None)
        results.failures += 1
        results.note(f"FAILED {product.name}: {problem}")
    calls = cublas.ways(torch, product, a, b, results.note)
    module = triton_kernels() if product.beside_triton else None
    if module is not None:
        calls[TRITON] = lambda: module.matmul(a, b)
    contenders |= peers.prepare(product.name, calls, values.expected, product.tolerance)
    if contenders:
        results.add(*row(product, in_turns(clock, contenders), error))


def ours_of(torch: Any, product: Product, a: Any, b: Any) -> tuple[Callable[[], Any], Any]:
    """Our call, and the tensor that it writes."""
    c = torch.empty((product.m, product.n), dtype=result_of(torch, product.kind), device="cuda")
    constants: dict[str, object] = {}
    match product.kind:
        case "tf32":
            constants = {"result": tile.f32, "wide": tile.f32, "precision": "tf32"}
        case "int8":
            constants = {"result": tile.i32, "wide": tile.i32}
        case "fp8":
            constants = {"result": tile.bf16, "wide": tile.f32, "precision": "fast"}  # as the fastest of cuBLASLt
        case _:
            return prepared(kernels.gemm, [a, b], c), c
    return prepared(kernels.product, [a, b], c, **constants), c


def row(product: Product, times: dict[str, Spread], error: float) -> tuple[list[str], dict[str, Any]]:
    """The cells of a row, and its numbers."""
    work = 2e-12 * product.m * product.n * product.k
    ours = times[OURS].median if OURS in times else None
    way = min((way for way in cublas.WAYS if way in times), key=lambda way: times[way].median, default="")
    cublas_time = times[way].median if way else None
    share = cublas_time / ours if ours and cublas_time else None
    met = None if product.bar is None else share is not None and share >= product.bar
    numbers: dict[str, Any] = {
        "what": product.name, "group": product.group, "order": product.order, "error": error, "bar": product.bar,
        "met": met, "share_of_cublas": share, "best_cublas": way,
        "teraflops": {name: work / taken.median for name, taken in times.items()}, "times": times,
    }  # fmt: skip
    triton = times[TRITON].median if TRITON in times else None
    cells = [
        product.name,
        microseconds(ours) if ours else "FAILED",
        f"{work / ours:.1f}" if ours else "",
        f"{share:.3f}" if share else "",
        "" if product.bar is None else f"{product.bar:.2f}",
        "" if met is None else verdict(met),
        microseconds(cublas_time) if cublas_time else "-",
        f"{work / cublas_time:.1f}" if cublas_time else "",
        way.removeprefix(CUBLAS).strip() or ("plain" if way else ""),
        microseconds(triton) if triton else "-",
        f"{triton / ours:.2f}" if triton and ours else "",
    ]
    return cells, numbers


def summaries(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """A row for the geometric mean of each kind that has a bar, and one for each of its orders without."""
    for kind, bar in GEOMEANS.items():
        members = [row for row in rows if row.get("group") == kind]
        orders = sorted({str(row["order"]) for row in members}, reverse=True)
        parts = [("", bar), *((f" {order}", None) for order in orders if len(orders) > 1)]
        for suffix, asked in parts:
            chosen = [row for row in members if not suffix or row["order"] == suffix.strip()]
            shares = [row["share_of_cublas"] for row in chosen]
            if chosen:
                yield geomean_row(f"geomean {kind}{suffix}", shares, asked)


def geomean_row(name: str, shares: Sequence[float | None], bar: float | None) -> tuple[list[str], dict[str, Any]]:
    """The geometric mean of shares of cuBLAS. Where one is missing, the bar is not met."""
    there = [share for share in shares if share]
    mean = geometric_mean(there) if there else None
    met = None if bar is None else mean is not None and len(there) == len(shares) and mean >= bar
    what = f"{name} ({len(there)} of {len(shares)})" if len(there) < len(shares) else f"{name} ({len(there)})"
    cells = [what, "", "", f"{mean:.3f}" if mean else "", "" if bar is None else f"{bar:.2f}"]
    cells += ["" if met is None else verdict(met), "", "", "", "", ""]
    return cells, {"what": what, "geomean": mean, "lowest": min(there, default=None), "bar": bar, "met": met}
