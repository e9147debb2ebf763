"""The matrix products that are measured: their kinds, sizes and orders of memory, and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LEAST = 0.92
"""Of cuBLAS, of each product in bf16."""
ODD_LEAST = 4.0
"""Of cuBLAS, where rows of the operands or the result start at odd addresses."""
GEOMEANS = {"bf16": 1.00, "fp8": 0.97, "int8": 1.15}
"""The geometric mean of the shares of cuBLAS that is asked of a kind."""
MOST_TRITON = (1024, 2048, 4096, 8192)
"""The cubes that Triton is asked for too: for each size it tries several programs, which takes seconds."""
ODD = (4095, 4095, 4096)
SIZES = [
    (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192),
    (16384, 16384, 16384), (16, 4096, 4096), (16, 28672, 8192), (64, 28672, 8192), (128, 4096, 14336),
    (4096, 14336, 4096), (4096, 4096, 14336), (8192, 1024, 8192), (4224, 2112, 7168), (4096, 7168, 2048),
    (1000, 1000, 1000),
]  # fmt: skip
"""M, N, K."""
FEWEST_ROWS = 64
"""Of products in fp8 and int8."""
LOOSE = {"tf32": 1e-3, "fp8": 1e-2}
"""Relative error that is allowed where operands are rounded to fewer bits than the result has."""


@dataclass(frozen=True)
class Product:
    """c[M, N] = a[M, K] @ b[K, N]. `kind`: bf16, f16, f32, tf32, int8 or fp8.

    `order`: "NN" for b row by row, "NT" for one that is a view of rows b.T[N, K].
    """

    kind: str
    order: str
    m: int
    n: int
    k: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.m, self.n, self.k

    @property
    def name(self) -> str:
        size = f"{self.m}^3" if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"
        return f"GEMM {self.kind} {self.order} {size}"

    @property
    def data(self) -> tuple[str, int, int, int]:
        """What products on the same values have in common."""
        return self.kind, *self.sizes

    @property
    def bar(self) -> float | None:
        """The share of cuBLAS that this one must have by itself."""
        if self.kind != "bf16":
            return None
        return ODD_LEAST if self.sizes == ODD else LEAST

    @property
    def group(self) -> str:
        """The kind, where the product counts for its geometric mean."""
        return self.kind if self.kind in GEOMEANS and self.sizes in SIZES else ""

    @property
    def tolerance(self) -> float | None:
        """The relative error that is allowed; None for what suits the dtype of the result."""
        return LOOSE.get(self.kind)

    @property
    def beside_triton(self) -> bool:
        return self.kind == "bf16" and self.m == self.n == self.k and self.m in MOST_TRITON


PRODUCTS = [
    *(Product("bf16", order, *sizes) for sizes in [*SIZES, ODD] for order in ("NT", "NN")),
    *(Product(kind, "NT", *sizes) for kind in ("fp8", "int8") for sizes in SIZES if sizes[0] >= FEWEST_ROWS),
    *(Product("f16", order, 4096, 4096, 4096) for order in ("NT", "NN")),
    *(Product("tf32", "NT", size, size, size) for size in (4096, 8192)),
    Product("f32", "NN", 4096, 4096, 4096),
]
"""Those on the same values are neighbours."""


@dataclass(frozen=True)
class Values:
    """Random operands of some products, and the result in float64."""

    a: Any
    bt: Any
    """b[K, N], column by column: [N, K]."""
    expected: Any

    def b(self, order: str) -> Any:
        """b[K, N] in that order of memory."""
        return self.bt.T if order == "NT" else self.bt.T.contiguous()


def draw(torch: Any, product: Product) -> Values:
    """Operands of a product's kind and sizes. The reference is a whole product in float64, on the tensor cores too."""
    random = torch.Generator(device="cuda").manual_seed(0)
    shapes = (product.m, product.k), (product.n, product.k)
    if product.kind == "int8":
        a, bt = (torch.randint(-128, 128, s, dtype=torch.int8, device="cuda", generator=random) for s in shapes)
    else:
        a, bt = (torch.randn(s, device="cuda", generator=random).to(dtype_of(torch, product.kind)) for s in shapes)
    return Values(a, bt, torch.matmul(a.double(), bt.double().T))


def dtype_of(torch: Any, kind: str) -> Any:
    """The dtype of the operands."""
    match kind:
        case "bf16":
            return torch.bfloat16
        case "f16":
            return torch.float16
        case "fp8":
            return torch.float8_e4m3fn
        case "int8":
            return torch.int8
        case _:
            return torch.float32


def result_of(torch: Any, kind: str) -> Any:
    """The dtype of the result."""
    match kind:
        case "fp8":
            return torch.bfloat16
        case "int8":
            return torch.int32
        case _:
            return dtype_of(torch, kind)
