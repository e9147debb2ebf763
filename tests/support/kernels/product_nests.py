"""Grids with products as a planner reads them, made from sizes alone."""

from __future__ import annotations

import math
from typing import Any

from tests.e2e.gpu_code.test_gpu_plans import module_of
from tests.support.gpu_cases.gpu_cases import Case
from tests.support.kernels.lowered_kernels import tensor
from tiledsl.frontend.kernel.arguments import ConstantArgument
from tiledsl.frontend.kernel.lower import lower_kernel
from tiledsl.frontend.source.kernel_source import KernelSource
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import bf16
from tiledsl.ir.gpu.tensor_maps import LINE_BYTES
from tiledsl.passes.gpu.plans.facts.grid_shape import grids_of, sizes_of_call
from tiledsl.passes.gpu.plans.product_plans.product_nest import (
    LoopLengths,
    ProductDot,
    ProductNest,
    Result,
    Side,
    Stream,
)
from tiledsl.passes.gpu.plans.product_plans.read_products import read_products
from tiledsl.passes.gpu.products.streamed_loads import COPIED_BYTES, feeds_of
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline


def gemm_nest(
    m: int,
    n: int,
    k: int,
    batches: int = 1,
    element: int = 2,
    *,
    a_k_major: bool = True,
    b_k_major: bool = True,
    promoted: bool = False,
    out_bytes: int = 2,
    splittable: bool = True,
    **more: Any,
) -> ProductNest:
    """c[m, n] = a[m, k] @ b[k, n]; elements of a and b have `element` bytes."""
    rows, columns, depth = Side("rows", m), Side("columns", n), Side("loop", k)
    return ProductNest(
        axes=(Side("whole", batches), rows, columns),
        dots=(ProductDot(rows, columns, depth, element, True, True, True, False, promoted),),
        streams=(
            Stream(
                (rows, depth),
                element,
                True,
                True,
                a_k_major,
                _row_start(k if a_k_major else m, element),
                (0, 1),
                0,
                batches * m * k,
            ),
            Stream(
                (depth, columns),
                element,
                True,
                False,
                b_k_major,
                _row_start(k if b_k_major else n, element),
                (0, 2),
                0,
                batches * k * n,
            ),
        ),
        loop=depth,
        lengths=(LoopLengths(0, (k,), 1.0),),
        work=(),
        results=(Result((rows, columns), out_bytes),),
        back_to_back=False,
        splittable=splittable,
        **more,
    )


def _row_start(length: int, element: int) -> int:
    """As `Stream` has it."""
    return math.gcd(length * element, LINE_BYTES)


def placed_kernel(kernel: Any, rank: int, dtype: Any = bf16, names: str = "qkv", **constants: object) -> Module:
    """A kernel of tensors of one rank in form `tile-placed`."""
    given: dict[str, Any] = {name: tensor(rank, dtype) for name in names}
    given |= {name: ConstantArgument(value) for name, value in constants.items()}
    module = lower_kernel(KernelSource(kernel.__wrapped__), given)
    return PassManager(gpu_front_pipeline()).run(module, PassContext())


def placed_case(kernel: Any, arrays: list[Any], **constants: object) -> Module:
    """A kernel of these arrays in form `tile-placed`."""
    case = Case("", kernel, lambda random: [], constants)
    return PassManager(gpu_front_pipeline()).run(module_of(case, arrays), PassContext())


def nest_of(module: Module, sizes: dict[str, int]) -> ProductNest:
    """Of the first grid of a module, for these sizes and rows that start at multiples of 16 bytes."""
    grid = next(grids_of(module.entry))
    call = sizes_of_call(module.entry, grid, sizes, (16,) * 16)
    return read_products(grid.op, grid.blocks, feeds_of(grid.op, 90, call.row_start_of, COPIED_BYTES), call)[0]
