"""Matrix products c = a @ b, all row-major, beside cuBLAS (through PyTorch) and a short Triton kernel.

Times are of the device alone, in turns, with the L2 cache flushed; results are checked first, against float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu import kernels
from benchmarks.gpu.checking import check
from benchmarks.gpu.device import describe
from benchmarks.gpu.memory import prepared
from benchmarks.gpu.peers import Peers, first_line, triton_kernels
from benchmarks.gpu.results import Results, microseconds, verdict
from benchmarks.gpu.timing import Clock, CudaClock, Spread, in_turns
from tiledsl import tile

OURS, CUBLAS, TRITON = "tiledsl", "cuBLAS", "Triton"
COLUMNS = ("what", "us", "TFLOP/s", "of cuBLAS", "bar", "", CUBLAS, "TFLOP/s", TRITON, "x")
SIZES = [
    (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192),
    (4096, 14336, 4096), (1000, 1000, 1000), (4095, 4095, 4096),
]  # fmt: skip
"""M, N, K of the products in bf16."""
BAR = 0.60
"""Of cuBLAS, in bf16 at 4096."""
LOOSE = {"tf32": 1e-3, "fp8": 1e-2}
"""Relative error that is allowed where operands are rounded to fewer bits than the result has."""


@dataclass(frozen=True)
class Product:
    """One product. `kind`: bf16, f16, f32, tf32, int8 or fp8."""

    kind: str
    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        size = f"{self.m}^3" if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"
        return f"GEMM {self.kind} {size}"

    @property
    def bar(self) -> float | None:
        return BAR if (self.kind, self.m, self.n, self.k) == ("bf16", 4096, 4096, 4096) else None


PRODUCTS = [
    *(Product("bf16", m, n, k) for m, n, k in SIZES),
    *(Product(kind, 4096, 4096, 4096) for kind in ("f16", "f32", "tf32", "int8", "fp8")),
]


def measure(torch: Any, only: str = "", clock: Clock | None = None) -> Results:
    """Measures all products whose names contain `only`."""
    clock = clock or CudaClock(torch)
    results = Results("gemm", "Matrix products", COLUMNS, describe(torch))
    results.start()
    peers = Peers(torch, results.note)
    for product in PRODUCTS:
        if only in product.name:
            one(torch, product, clock, peers, results)
    peers.summarise()
    return results


def operands(torch: Any, product: Product) -> tuple[Any, Any]:
    """a[M, K] and b[K, N] of the kind, drawn at random."""
    random = torch.Generator(device="cuda").manual_seed(0)
    shapes = (product.m, product.k), (product.k, product.n)
    if product.kind == "int8":
        a, b = (torch.randint(-128, 128, s, dtype=torch.int8, device="cuda", generator=random) for s in shapes)
    else:
        a, b = (torch.randn(s, device="cuda", generator=random).to(dtype_of(torch, product.kind)) for s in shapes)
    return a, b


def dtype_of(torch: Any, kind: str) -> Any:
    match kind:
        case "bf16":
            return torch.bfloat16
        case "f16":
            return torch.float16
        case "fp8":
            return torch.float8_e4m3fn
        case _:
            return torch.float32


def ours_of(torch: Any, product: Product, a: Any, b: Any) -> tuple[Callable[[], Any], Any]:
    """Our call, and the tensor that it writes."""

    def out(dtype: Any) -> Any:
        return torch.empty((product.m, product.n), dtype=dtype, device="cuda")

    def wide(result: Any, accumulator: Any, c: Any, **more: object) -> tuple[Callable[[], Any], Any]:
        return prepared(kernels.product, [a, b], c, result=result, wide=accumulator, **more), c

    match product.kind:
        case "tf32":
            return wide(tile.f32, tile.f32, out(torch.float32), precision="tf32")
        case "int8":
            return wide(tile.i32, tile.i32, out(torch.int32))
        case "fp8":
            return wide(tile.bf16, tile.f32, out(torch.bfloat16))
        case _:
            c = out(a.dtype)
            return prepared(kernels.gemm, [a, b], c), c


def cublas_of(torch: Any, product: Product, a: Any, b: Any, say: Callable[[str], None]) -> Callable[[], Any]:
    """What PyTorch calls for the product."""
    match product.kind:
        case "int8":
            return lambda: torch._int_mm(a, b)
        case "fp8":
            say("cuBLAS takes fp8 only with b column by column: it gets such a copy of b, we the row-major one")
            one = torch.ones((), device="cuda")
            turned = b.T.contiguous().T
            return lambda: torch._scaled_mm(a, turned, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        case "tf32":

            def matmul() -> Any:
                torch.backends.cuda.matmul.allow_tf32 = True
                try:
                    return torch.matmul(a, b)
                finally:
                    torch.backends.cuda.matmul.allow_tf32 = False

            return matmul
        case _:
            return lambda: torch.matmul(a, b)


def one(torch: Any, product: Product, clock: Clock, peers: Peers, results: Results) -> None:
    """Checks and times one product beside its peers, and adds its row."""
    try:
        a, b = operands(torch, product)
        expected = torch.matmul(a.double(), b.double())
    except Exception as failure:
        results.note(f"{product.name} left out: {type(failure).__name__}: {first_line(str(failure))}")
        return
    contenders: dict[str, Callable[[], object]] = {}
    error, tolerance = float("nan"), LOOSE.get(product.kind)
    try:
        ours, c = ours_of(torch, product, a, b)
        error, problem = check(torch, ours, c, expected, tolerance)
        contenders[OURS] = ours
    except Exception as failure:  # the others are still worth knowing
        problem = f"{type(failure).__name__}: {first_line(str(failure))}"
    if problem:
        contenders.pop(OURS, None)
        results.failures += 1
        results.note(f"FAILED {product.name}: {problem}")
    calls: dict[str, Callable[[], Callable[[], Any]]] = {CUBLAS: lambda: cublas_of(torch, product, a, b, results.note)}
    module = triton_kernels() if product.kind in ("bf16", "f16") else None
    if module is not None:
        calls[TRITON] = lambda: module.matmul(a, b)
    contenders |= peers.prepare(product.name, calls, expected, tolerance)
    del expected
    if contenders:
        results.add(*row(product, in_turns(clock, contenders), error))


def row(product: Product, times: dict[str, Spread], error: float) -> tuple[list[str], dict[str, Any]]:
    """The cells of a row, and its numbers."""
    work = 2e-12 * product.m * product.n * product.k
    ours = times[OURS].median if OURS in times else None
    cublas = times[CUBLAS].median if CUBLAS in times else None
    share = cublas / ours if ours and cublas else None
    met = None if product.bar is None else share is not None and share >= product.bar
    numbers: dict[str, Any] = {
        "what": product.name, "error": error, "bar": product.bar, "met": met, "share_of_cublas": share,
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
        microseconds(cublas) if cublas else "-",
        f"{work / cublas:.1f}" if cublas else "",
        microseconds(triton) if triton else "-",
        f"{triton / ours:.2f}" if triton and ours else "",
    ]
    return cells, numbers
