"""Products with epilogues (`fused_products.py`) under plans for warpgroups, small enough for the emulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.support.gpu_cases.gpu_cases import Array, Case, View
from tests.support.gpu_cases.specialised_cases import PlannedCase
from tests.support.kernels.fused_products import gated_products, linear_gelu, linear_layer_norm, linear_residual
from tiledsl.passes.gpu.plan import parse_plan

F16 = np.float16
_BLOCK = "m=64, n=64, k=64, 128 threads, 4x1 warps, cooperative"
_IN_TURN = "m=64, n=64, k=64, 256 threads, 4x1 warps, 2 programs, pingpong"
_ALIGNED = "aligned to 16/16/16/16/16/16/16"


def drawn(random: np.random.Generator, *shape: int) -> Array:
    return (0.25 * random.standard_normal(shape)).astype(F16)


def operand(random: np.random.Generator, rows: int, columns: int, turned: bool) -> object:
    """A matrix, which lies the other way in memory if it is turned."""
    if turned:
        return View(drawn(random, columns, rows), lambda base: base.T)
    return drawn(random, rows, columns)


Make = Callable[[np.random.Generator], Sequence[object]]


def _planned(name: str, kernel: Any, make: Make, text: str, **constants: object) -> PlannedCase:
    case = Case(name, kernel, make, constants, relative=4e-3, terms=4)
    return PlannedCase(case, parse_plan(f"{text}, {_ALIGNED}"))


def linear_cases() -> list[PlannedCase]:
    """A bias and an activation; another tensor beside."""
    found: list[PlannedCase] = []
    for order, (m, n, k), text, form in (
        ("NN", (72, 136, 136), f"{_BLOCK}, 2 stages", "tanh"),
        ("NT", (130, 72, 200), f"{_BLOCK}, 3 stages, 2 programs", "erf"),
        ("NT", (200, 64, 64), f"{_IN_TURN}, 3 stages", "tanh"),
        ("NN", (130, 128, 72), f"{_BLOCK.replace('n=64', 'n=128')}, 8 stages, 1 programs", "erf"),
        (
            "NT",
            (128, 72, 136),
            "m=128, n=64, k=64, 128 threads x 2, 4x1 warps, cooperative, 3 stages, 1 programs",
            "tanh",
        ),
    ):

        def gelu(random: np.random.Generator, order: str = order, m: int = m, n: int = n, k: int = k) -> list[object]:
            return [drawn(random, m, k), operand(random, k, n, order[1] == "T"), drawn(random, n)]

        found.append(_planned(f"linear gelu {order}", linear_gelu, gelu, text, form=form))

        def beside(random: np.random.Generator, order: str = order, m: int = m, n: int = n, k: int = k) -> list[object]:
            right = operand(random, k, n, order[1] == "T")
            return [drawn(random, m, k), right, drawn(random, n), drawn(random, m, n)]

        found.append(_planned(f"linear residual {order}", linear_residual, beside, text))
    return found


def gated_cases() -> list[PlannedCase]:
    """Two products side by side: in one tile, in turn, by two warpgroups, in a cluster, with few rows."""
    found: list[PlannedCase] = []
    for order, (m, n, k), text in (
        ("NN", (72, 72, 136), f"{_BLOCK}, 2 stages"),
        ("NT", (130, 72, 200), f"{_BLOCK}, 3 stages, 2 programs"),
        ("NT", (200, 64, 72), f"{_IN_TURN}, 2 stages"),
        ("NN", (128, 64, 64), "m=128, n=64, k=64, 256 threads, 8x1 warps, cooperative, 2 stages"),
        ("NN", (128, 72, 136), "m=128, n=64, k=64, 128 threads x 2, 4x1 warps, cooperative, 2 stages, 1 programs"),
        ("NT", (13, 40, 136), "m=64, n=48, k=64, 128 threads, 4x1 warps, cooperative, 3 stages, 16 rows in all"),
    ):

        def gated(random: np.random.Generator, order: str = order, m: int = m, n: int = n, k: int = k) -> list[object]:
            return [drawn(random, m, k), *(operand(random, k, n, order[1] == "T") for _ in range(2))]

        found.append(_planned(f"gated products {order} {m}x{n}x{k}", gated_products, gated, text))
    return found


def layer_norm_cases() -> list[PlannedCase]:
    """Whole rows of a block or of a cluster, by one to three warpgroups; in turn; programs that go on."""
    found: list[PlannedCase] = []
    for order, (m, n, k), text in (
        ("NN", (72, 128, 136), "m=64, k=64, 256 threads, 4x2 warps, cooperative, 2 stages, N:=128"),
        ("NT", (130, 192, 200), "m=64, k=64, 384 threads, 4x3 warps, cooperative, 2 stages, 2 programs, N:=192"),
        ("NT", (200, 64, 64), "m=64, k=64, 128 threads, 4x1 warps, cooperative, 3 stages, N:=64"),
        ("NT", (200, 64, 72), "m=64, k=64, 256 threads, 4x1 warps, 2 stages, 2 programs, pingpong, N:=64"),
        (
            "NN",
            (130, 128, 72),
            "m=128, k=64, 256 threads x 2, 8x1 warps, cooperative, 2 stages, 1 programs, 2 across, N:=128",
        ),
        ("NT", (72, 128, 136), "m=64, k=64, 128 threads x 2, 4x1 warps, cooperative, 2 stages, 2 across, N:=128"),
        (
            "NN",
            (130, 256, 72),
            "m=64, k=64, 256 threads x 2, 4x2 warps, cooperative, 3 stages, 1 programs, 2 across, N:=256",
        ),
        (
            "NT",
            (200, 192, 200),
            "m=64, k=64, 256 threads x 4, 4x1 warps, 2 stages, 1 programs, pingpong, 4 across, N:=192",
        ),
    ):

        def normed(random: np.random.Generator, order: str = order, m: int = m, n: int = n, k: int = k) -> list[object]:
            right = operand(random, k, n, order[1] == "T")
            rows = [drawn(random, n) for _ in range(3)]
            return [drawn(random, m, k), right, rows[0], drawn(random, m, n), *rows[1:]]

        found.append(_planned(f"linear layer norm {order} {m}x{n}x{k}", linear_layer_norm, normed, text))
    return found


FUSED_CASES = [*linear_cases(), *gated_cases(), *layer_norm_cases()]
