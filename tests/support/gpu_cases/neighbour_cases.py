"""Near neighbours of a plain product (`computed_operands.py`) under plans for warpgroups, for the emulator.

Each has sizes that end within a block, more turns than stages, or a single turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.support.gpu_cases.gpu_cases import Array, Case, View
from tests.support.gpu_cases.specialised_cases import PlannedCase
from tests.support.kernels.computed_operands import (
    dequantised_product,
    exponential_operand,
    gated_normed_products,
    linear_attention,
    narrow_product,
    normed_product,
    normed_rows_product,
    product_and_sums,
    rms_normed_product,
    scaled_attention,
    twice_read_product,
)
from tiledsl.passes.gpu.plan import parse_plan

BF16 = ml_dtypes.bfloat16
Draw = Callable[[np.random.Generator], Sequence[object]]
_BLOCK = "m=64, n=64, k=64, 128 threads, 4x1 warps, cooperative"
_TWO = "m=128, n=64, k=64, 256 threads, 8x1 warps, cooperative"
_CLUSTER = "m=128, n=64, k=64, 128 threads x 2, 4x1 warps, cooperative"
_IN_TURN = "m=64, n=64, k=64, 256 threads, 4x1 warps, 2 programs, pingpong"


def drawn(random: np.random.Generator, *shape: int, dtype: Any = BF16) -> Array:
    if np.dtype(dtype).kind == "i":
        return random.integers(-8, 8, shape).astype(dtype)
    return (0.5 * random.standard_normal(shape)).astype(dtype)


def _case(kernel: Any, draw: Draw, plan: str, name: str = "", aligned: str = "16/16/16/16/16") -> PlannedCase:
    case = Case(f"{kernel.__name__} {name}".strip(), kernel, draw, terms=16)
    return PlannedCase(case, parse_plan(f"{plan}, aligned to {aligned}"))


def computed_left_operands() -> list[PlannedCase]:
    """Norms, casts and activations on the way into a product; rows of the other kind than TMA takes."""

    def normed(m: int, n: int, k: int) -> Draw:
        return lambda r: [drawn(r, m, k), drawn(r, m, dtype=np.float32), drawn(r, k), drawn(r, k, n)]

    def narrow(m: int, n: int, k: int, turned: bool = False) -> Draw:
        def make(r: np.random.Generator) -> list[object]:
            if turned:
                return [View(drawn(r, k, m, dtype=np.int8), lambda base: base.T), drawn(r, k, n)]
            return [drawn(r, m, k, dtype=np.int8), drawn(r, k, n)]

        return make

    def rms(r: np.random.Generator) -> list[object]:
        return [drawn(r, 72, 136), drawn(r, 136), drawn(r, 136, 64)]

    def both(r: np.random.Generator) -> list[object]:
        return [drawn(r, 72, 72), drawn(r, 72, 72), drawn(r, 72, 64)]

    def gated(r: np.random.Generator) -> list[object]:
        return [drawn(r, 72, 136), drawn(r, 72, dtype=np.float32), drawn(r, 136, 64), drawn(r, 136, 64)]

    def rows(r: np.random.Generator) -> list[object]:
        return [drawn(r, 72, 128), drawn(r, 128, 72)]

    def heads(r: np.random.Generator) -> list[object]:
        return [drawn(r, 2, 136, 64) for _ in range(3)]

    scaled = Case("scaled_attention", scaled_attention, heads, {"scale": 0.2}, relative=4e-2)
    plan = "i=64, j=64, D<=64, 128 threads, 4x1 warps, cooperative, 2 stages, aligned to 16/16/16/16"
    return [
        PlannedCase(scaled, parse_plan(plan)),
        _case(normed_rows_product, rows, "m=64, n=64, K<=128, 128 threads, 4x1 warps, cooperative, 2 programs"),
        _case(twice_read_product, rows, f"{_BLOCK.replace('k=64', 'j=64, k=64')}, 2 stages", "norm by threads"),
        _case(normed_product, normed(72, 72, 328), f"{_BLOCK}, 3 stages, 2 programs", "persistent"),
        _case(normed_product, normed(64, 64, 64), f"{_BLOCK}, 2 stages", "one turn"),
        _case(normed_product, normed(136, 64, 136), f"{_TWO}, 2 stages", "two warpgroups"),
        _case(normed_product, normed(136, 128, 136), f"{_CLUSTER}, 3 stages", "cluster"),
        _case(normed_product, normed(136, 64, 136), f"{_IN_TURN}, 3 stages", "in turn"),
        _case(normed_product, normed(64, 72, 72), f"{_BLOCK}, 2 stages", "gain by threads", "16/4/2/16/16"),
        _case(normed_product, normed(64, 72, 71), f"{_BLOCK}, 2 stages", "x by threads", "2/4/2/16/16"),
        _case(normed_product, normed(64, 136, 72), "m=64, n=128, k=64, 256 threads, 4x2 warps, cooperative, 2 stages"),
        _case(narrow_product, narrow(72, 72, 208), f"{_BLOCK}, 2 stages"),
        _case(narrow_product, narrow(80, 72, 72, True), f"{_BLOCK}, 2 stages", "turned"),
        _case(exponential_operand, both, f"{_BLOCK}, 2 stages"),
        _case(exponential_operand, both, f"{_BLOCK}, 1 stages", "one stage"),
        _case(rms_normed_product, rms, f"{_BLOCK}, 3 stages"),
        _case(rms_normed_product, rms, f"{_IN_TURN}, 3 stages", "in turn"),
        _case(gated_normed_products, gated, f"{_BLOCK}, 2 stages"),
    ]


def products_with_readers() -> list[PlannedCase]:
    """A product beside a fold of what it multiplies."""

    def operands(m: int, n: int, k: int) -> Draw:
        return lambda r: [drawn(r, m, k), drawn(r, k, n), drawn(r, n)]

    return [
        _case(product_and_sums, operands(72, 72, 328), f"{_BLOCK}, 3 stages, 2 programs", "persistent"),
        _case(product_and_sums, operands(64, 64, 64), f"{_BLOCK}, 2 stages", "one turn"),
        _case(product_and_sums, operands(136, 64, 136), f"{_CLUSTER}, 3 stages", "cluster"),
        _case(product_and_sums, operands(136, 64, 136), f"{_IN_TURN}, 3 stages", "in turn"),
        _case(product_and_sums, operands(72, 64, 72), f"{_BLOCK}, 1 stages", "one stage"),
    ]


def computed_right_operands() -> list[PlannedCase]:
    """Weights of 8 bits, either way in memory; a matrix that a loop carries."""

    def weights(m: int, n: int, k: int, turned: bool) -> Draw:
        def make(r: np.random.Generator) -> list[object]:
            if turned:
                return [drawn(r, m, k), View(drawn(r, n, k, dtype=np.int8), lambda base: base.T)]
            return [drawn(r, m, k), drawn(r, k, n, dtype=np.int8)]

        return make

    def heads(r: np.random.Generator) -> list[object]:
        return [drawn(r, 2, size, depth) for size, depth in ((136, 64), (136, 64), (136, 64))]

    return [
        _case(dequantised_product, weights(72, 80, 200, False), f"{_BLOCK}, 2 stages, 2 programs", "persistent"),
        _case(dequantised_product, weights(72, 72, 208, True), f"{_BLOCK}, 3 stages", "turned"),
        _case(dequantised_product, weights(136, 64, 72, False), f"{_CLUSTER}, 2 stages", "cluster"),
        _case(dequantised_product, weights(136, 64, 80, True), f"{_IN_TURN}, 2 stages", "in turn"),
        _case(linear_attention, heads, "e=64, t=64, D<=64, 128 threads, 4x1 warps, cooperative, 2 stages"),
    ]


NEIGHBOUR_CASES = [*computed_left_operands(), *products_with_readers(), *computed_right_operands()]
