"""Products and attention by plans with roles, as GPU cases with their plans.

Small enough for the emulator; each plan of a family goes through its ring more than once, has ragged edges, or both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from attention import attention
from gemm import gemm
from tests.support.gpu_cases.gpu_cases import Array, Case, View
from tests.support.gpu_cases.gpu_shape_cases import product_tf32
from tests.support.kernels.kernels_field import activated_products, product
from tiledsl import tile
from tiledsl.passes.gpu.plan import Plan, parse_plan

BF16 = ml_dtypes.bfloat16


@tile.kernel
def activated(a: tile.Tensor, b: tile.Tensor, beside: tile.Tensor) -> tile.Tensor:
    """silu(A @ B) + beside: more to do for each element of the result."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = tile.silu(acc) + beside[m, n]
    return c


@tile.kernel
def fast_product(a: tile.Tensor, b: tile.Tensor, result: tile.constexpr) -> tile.Tensor:
    """A @ B of f8 operands, in sums of as few digits as the instructions have."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), result)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc, precision="fast")
        c[m, n] = acc
    return c


@dataclass(frozen=True)
class PlannedCase:
    """A case, and the plan by which it is to be lowered."""

    case: Case
    plan: Plan

    def __str__(self) -> str:
        return f"{self.case} by {self.plan}"


def _name(dtype: Any) -> str:
    return str(np.dtype(dtype))


def _drawn(dtype: Any, random: np.random.Generator, *shape: int) -> Array:
    if np.dtype(dtype).kind in "iu":
        return random.integers(-128, 128, shape).astype(dtype)
    return random.standard_normal(shape).astype(np.float32).astype(dtype)


def _operands(dtype: Any, order: str, m: int, n: int, k: int) -> Callable[[np.random.Generator], list[object]]:
    """A[m, k] and B[k, n], of which T lies the other way in memory."""

    def make(random: np.random.Generator) -> list[object]:
        def one(rows: int, columns: int, turned: bool) -> object:
            if turned:
                return View(_drawn(dtype, random, columns, rows), lambda base: base.T)
            return _drawn(dtype, random, rows, columns)

        return [one(m, k, order[0] == "T"), one(k, n, order[1] == "T")]

    return make


def _gemm(
    text: str, order: str = "NN", dtype: Any = BF16, sizes: tuple[int, int, int] = (200, 136, 328)
) -> PlannedCase:
    name = f"gemm {order} {_name(dtype)} {'x'.join(map(str, sizes))}"
    return PlannedCase(Case(name, gemm, _operands(dtype, order, *sizes), terms=8), parse_plan(f"{text}, {_ALIGNED}"))


_ALIGNED = "aligned to 16/16/16"
_BLOCK = "m=64, n=64, k=64, 128 threads, 4x1 warps, cooperative"


def specialised_products() -> list[PlannedCase]:
    """Each family of plans, each order of operands, each dtype that `wgmma` knows."""
    found = [
        _gemm(f"{_BLOCK}, 2 stages"),
        _gemm(f"{_BLOCK}, 3 stages", sizes=(64, 64, 64)),
        _gemm(f"{_BLOCK}, 3 stages, 2 programs", "NT"),
        _gemm(f"{_BLOCK}, 2 stages, 3 programs, 2 rows at a time"),
        _gemm(f"{_BLOCK}, 2 stages, 3 programs, from a counter, 2 rows at a time"),
        _gemm(f"{_BLOCK}, 3 stages, 20 programs, from a counter", "NT"),
        _gemm("m=128, n=48, k=64, 256 threads, 8x1 warps, cooperative, 3 stages", "NT"),
        _gemm("m=128, n=64, k=128, 256 threads, 8x1 warps, cooperative, 2 stages, 2 programs"),
        _gemm("m=128, n=64, k=64, 128 threads, 4x1 warps, cooperative, 2 stages"),
        _gemm("m=64, n=128, k=64, 256 threads, 4x2 warps, cooperative, 2 stages", "NT"),
        _gemm("m=64, n=64, k=64, 256 threads, 4x2 warps, cooperative, 2 stages"),
        _gemm("m=192, n=64, k=64, 384 threads, 12x1 warps, cooperative, 2 stages"),
        *(_gemm(f"m=128, n=128, k=64, 128 threads x 2, 4x1 warps, cooperative, 3 stages{more}", order)
          for order in ("NN", "NT", "TN", "TT") for more in ("", ", 1 programs, 2 rows at a time")),
        _gemm("m=256, n=64, k=64, 256 threads x 2, 8x1 warps, cooperative, 2 stages, 2 programs", sizes=(300, 136, 72)),
        *(_gemm(f"{_BLOCK}, 2 stages", order, np.float16) for order in ("NN", "NT", "TN", "TT")),
        _gemm(f"{_BLOCK}, 2 stages", sizes=(16, 64, 200)),
        _gemm(f"{_BLOCK}, 2 stages", sizes=(65, 8, 8)),
        _gemm(f"{_BLOCK}, 2 stages, 16 rows in all", sizes=(13, 72, 200)),
        _gemm(f"{_BLOCK}, 2 stages, 16 rows in all", "NT", sizes=(13, 72, 200)),
        _gemm(f"{_BLOCK}, 2 stages, 16 rows in all", "TN", sizes=(16, 72, 200)),
        _gemm("m=64, n=64, k=64, 256 threads, 4x1 warps, 2 stages, 1 programs, pingpong, 16 rows in all", "NT",
              sizes=(13, 200, 136)),
        _gemm(f"{_BLOCK}, 2 stages, 16 rows in all, M:=13, N:=72", sizes=(13, 72, 200)),
        _gemm("m=128, n=64, k=128, 128 threads, 4x1 warps, cooperative, 2 stages, 72 rows in all", sizes=(70, 72, 200)),
    ]  # fmt: skip
    found += [
        _gemm("m=64, n=64, k=64, 128 threads, 4x1 warps, cooperative, 3 stages, 2 at once"),
        _gemm("m=128, n=128, k=64, 128 threads, 4x1 warps, cooperative, 2 stages, 2 programs, 2 at once", "NT"),
        _gemm("m=128, n=64, k=64, 128 threads x 2, 4x1 warps, cooperative, 2 stages, 2 programs, 3 at once", "NT"),
    ]
    found += [
        *(_gemm("m=48, n=128, k=64, 256 threads, 8x1 warps, cooperative, 2 stages, sides swapped", order)
          for order in ("NN", "NT", "TN", "TT")),
        _gemm("m=208, n=64, k=64, 128 threads, 4x1 warps, cooperative, 3 stages, 2 programs, sides swapped", "NT"),
        _gemm("m=32, n=64, k=64, 256 threads, 4x1 warps, 2 stages, 2 programs, pingpong, sides swapped"),
    ]  # fmt: skip
    beside = Case(
        "product NT and more",
        activated,
        lambda random: [*_operands(BF16, "NT", 200, 136, 136)(random), _drawn(BF16, random, 200, 136)],
        relative=4e-2,
    )
    text = "m=64, n=64, k=64, 256 threads, 4x1 warps, 3 stages, 2 programs, pingpong, aligned to 16/16/16/16"
    found.append(PlannedCase(beside, parse_plan(text)))
    for text, order, sizes in (
        ("m=64, n=64, k=64, 256 threads, 4x1 warps, 2 stages, 2 programs", "NN", (200, 136, 328)),
        ("m=64, n=64, k=64, 256 threads, 4x1 warps, 3 stages, 1 programs, 2 rows at a time", "NT", (200, 136, 200)),
        ("m=64, n=64, k=64, 256 threads, 4x1 warps, 3 stages, 7 programs", "NT", (200, 136, 64)),
        ("m=128, n=48, k=64, 256 threads, 4x1 warps, 4 stages, 2 programs", "NT", (300, 136, 200)),
        ("m=128, n=64, k=64, 256 threads x 2, 4x1 warps, 3 stages, 1 programs", "TT", (328, 136, 200)),
        ("m=64, n=64, k=64, 384 threads, 4x1 warps, 2 stages, 2 programs", "NT", (200, 136, 136)),
    ):
        found.append(_gemm(f"{text}, pingpong", order, sizes=sizes))
    for dtype, wide in ((ml_dtypes.float8_e4m3fn, tile.f32), (ml_dtypes.float8_e5m2, tile.f32), (np.int8, tile.i32)):
        case = Case(f"product NT {_name(dtype)}", product, _operands(dtype, "NT", 100, 72, 304),
                    {"result": wide, "wide": wide}, relative=1e-3 * 304**0.5 if wide == tile.f32 else None)  # fmt: skip
        found.append(
            PlannedCase(
                case, parse_plan(f"m=64, n=64, k=128, 128 threads, 4x1 warps, cooperative, 2 stages, {_ALIGNED}")
            )
        )
    for kernel, text in (
        (product, "m=64, n=64, k=256, 128 threads, 4x1 warps, cooperative, 2 stages, 2 programs"),
        (product, "m=128, n=64, k=128, 256 threads, 4x1 warps, 2 stages, 2 programs, pingpong"),
        (product, "m=64, n=64, k=256, 128 threads x 2, 4x1 warps, cooperative, 2 stages, 2 splits"),
        (fast_product, "m=64, n=64, k=128, 128 threads, 4x1 warps, cooperative, 2 stages"),
    ):
        case = Case(f"{kernel.__name__} NT f8", kernel, _operands(ml_dtypes.float8_e4m3fn, "NT", 200, 72, 400),
                    {"result": tile.f32, "wide": tile.f32}, relative=2e-2)  # fmt: skip
        found.append(PlannedCase(case, parse_plan(f"{text}, {_ALIGNED}")))
    narrow = Case(
        "product NT tf32", product_tf32, _operands(np.float32, "NT", 100, 72, 104), relative=1.5e-3 * 104**0.5
    )
    found.append(
        PlannedCase(narrow, parse_plan(f"m=64, n=64, k=32, 128 threads, 4x1 warps, cooperative, 2 stages, {_ALIGNED}"))
    )
    return [*found, *_products_with_odd_rows()]


def _products_with_odd_rows() -> list[PlannedCase]:
    """Rows that TMA cannot take: of the result, of one operand, of all."""
    found: list[PlannedCase] = []
    for what, order, sizes, more in (
        ("C", "NT", (67, 71, 136), "aligned to 16/16/2"),
        ("B and C", "NN", (67, 71, 136), "copies of 1, aligned to 16/2/2"),
        ("A and B", "NT", (67, 72, 135), "2 programs, copies of 0/1, aligned to 2/2/16"),
        ("A", "TN", (71, 72, 136), "copies of 0, aligned to 2/16/16"),
        ("B and C, by lines", "NN", (67, 71, 136), "copies of 1, lines of 1, aligned to 16/2/2"),
        (
            "A and B, one of them by lines",
            "NT",
            (67, 72, 135),
            "2 programs, copies of 0/1, lines of 0, aligned to 2/2/16",
        ),
        ("A and B, even", "NT", (65, 64, 70), "copies of 0/1, K%2=0, aligned to 4/4/16"),
    ):
        case = Case(f"gemm {order}, odd rows of {what}", gemm, _operands(BF16, order, *sizes), terms=8)
        found.append(PlannedCase(case, parse_plan(f"{_BLOCK}, 2 stages, {more}")))
    dtype = ml_dtypes.float8_e4m3fn
    case = Case("product NT fp8, rows of 8 bytes", product, _operands(dtype, "NT", 65, 72, 200),
                {"result": tile.f32, "wide": tile.f32}, relative=1e-3 * 200**0.5)  # fmt: skip
    block = "m=64, n=64, k=128, 128 threads, 4x1 warps, cooperative, 2 stages"
    found += [PlannedCase(case, parse_plan(f"{block}, {more}K%8=0, aligned to 8/8/16"))
              for more in ("copies of 0/1, ", "", "3 programs, ", "2 programs, from a counter, ")]  # fmt: skip
    deep = parse_plan(f"{block.replace('2 stages', '4 stages')}, K%8=0, aligned to 8/8/16")
    found.append(PlannedCase(replace(case, name=f"{case.name}, 4 stages"), deep))
    for order, sizes, more in (
        ("NN", (67, 70, 264), "3 stages, N%2=0, aligned to 16/4/4"),
        ("NT", (67, 64, 204), "4 stages, 2 programs, K%4=0, aligned to 8/8/16"),
        ("TN", (68, 72, 72), "2 stages, M%4=0, aligned to 8/16/16"),
    ):
        case = Case(f"gemm {order}, rows of a few bytes", gemm, _operands(BF16, order, *sizes), terms=8)
        found.append(PlannedCase(case, parse_plan(f"{_BLOCK}, {more}")))
    return found


def split_products() -> list[PlannedCase]:
    """Blocks of a cluster share the loop: each number of them, each order; parts of K that are short, or not there."""
    split = "m=64, n=64, k={}, 128 threads x {}, 4x1 warps, cooperative, {} stages, {} splits"
    found = [
        *(_gemm(split.format(64 * splits, splits, 2, splits), order, sizes=(72, 72, 328))
          for splits in (2, 4) for order in ("NN", "NT", "TN", "TT")),
        _gemm(split.format(512, 8, 3, 8), "NT", sizes=(40, 128, 1032)),
        _gemm(split.format(256, 4, 2, 4), sizes=(64, 64, 72)),
        _gemm("m=128, n=48, k=128, 256 threads x 2, 8x1 warps, cooperative, 3 stages, 2 splits", "NT"),
        _gemm("m=128, n=64, k=256, 128 threads x 2, 4x1 warps, cooperative, 2 stages, 2 splits", "TN"),
        _gemm("m=192, n=64, k=128, 384 threads x 2, 12x1 warps, cooperative, 2 stages, 2 splits"),
        _gemm(f"{split.format(256, 4, 2, 4)}, 16 rows in all", "NT", sizes=(13, 72, 328)),
        _gemm("m=64, n=48, k=128, 128 threads x 2, 4x1 warps, cooperative, 2 stages, 2 splits, 8 rows in all", "NT",
              sizes=(7, 48, 136)),
        _gemm(f"{split.format(128, 2, 2, 2)}, 40 rows in all, M:=40, N:=40", "NT", sizes=(40, 40, 328)),
    ]  # fmt: skip
    whole = Case(
        "product NT int8", product, _operands(np.int8, "NT", 72, 72, 304), {"result": tile.i32, "wide": tile.i32}
    )
    text = f"m=64, n=64, k=256, 128 threads x 2, 4x1 warps, cooperative, 2 stages, 2 splits, {_ALIGNED}"
    found.append(PlannedCase(whole, parse_plan(text)))
    activated = Case("activated products", activated_products, _activated, terms=8)
    text = "m=64, n=64, k=256, 128 threads x 4, 4x1 warps, cooperative, 2 stages, 4 splits, aligned to 16/16/16/16/16"
    found.append(PlannedCase(activated, parse_plan(text)))
    return found


def _activated(random: np.random.Generator) -> list[object]:
    shapes = ((2, 72, 136), (2, 136, 72), (72,), (2, 72, 72))
    return [_drawn(BF16, random, *shape) for shape in shapes]


def specialised_attention() -> list[PlannedCase]:
    """Two products that feed on each other, full and causal, with sizes that end within a block."""
    found: list[PlannedCase] = []
    for heads, queries, keys, depth, causal, text in (
        (2, 100, 136, 64, False, "i=64, j=64, D<=64, 128 threads, 4x1 warps, cooperative, 2 stages"),
        (1, 100, 136, 64, True, "i=64, j=64, D<=64, 128 threads, 4x1 warps, cooperative, 2 stages"),
        (2, 130, 200, 80, True, "i=128, j=48, D<=80, 256 threads, 8x1 warps, cooperative, 2 stages, 2 programs"),
        (
            3,
            130,
            200,
            64,
            True,
            "i=64, j=48, D<=64, 128 threads, 4x1 warps, cooperative, 2 stages, 4 programs, "
            "from a counter, 2 rows at a time",
        ),
        (1, 64, 64, 128, False, "i=64, j=32, D<=128, 128 threads, 4x1 warps, cooperative, 3 stages"),
        (1, 70, 90, 51, False, "i=64, j=64, D<=64, 128 threads, 4x1 warps, cooperative, 2 stages, copies of 0/1/2"),
    ):
        shapes = [(heads, size, depth) for size in (queries, keys, keys)]
        case = Case(
            f"attention {queries}x{keys}x{depth}{' causal' if causal else ''}", attention,
            lambda random, shapes=shapes: [_drawn(BF16, random, *shape) for shape in shapes],
            {"causal": causal}, relative=4e-2,
        )  # fmt: skip
        aligned = "2/2/2/2" if "copies" in text else "16/16/16/16"
        found.append(PlannedCase(case, parse_plan(f"{text}, aligned to {aligned}")))
    return found


SPECIALISED_CASES = [*specialised_products(), *split_products(), *specialised_attention()]
