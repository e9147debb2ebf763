"""Which grids are alike to a search for blocks and threads."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.kernels.lowered_kernels import lower, tensor
from tiledsl import tile
from tiledsl.ir.core import Function
from tiledsl.ir.dtypes import DType, f16, f32
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import Grid
from tiledsl.passes.analysis.effects import tensors_in_order
from tiledsl.passes.gpu.plans.facts.grid_likeness import GridLikeness, grid_likeness
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline


def scaled(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        y[m, n] = x[m, n] * 2.0
    return y


def scaled_more(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        y[m, n] = x[m, n] * 3.0
    return y


SCALED_BY = """
func @scaled(%x: tensor<f32, [M]>, %by: f32) {
  %y = tile.empty() {shape = [M], dtype = f32} : tensor<f32, [M], unit=0>
  %0 = tile.size() {value = M} : i64
  tile.grid([%0]) {blocks = [auto]} body(%m: axis<m>) {
    %1 = tile.load(%x, [%m]) : tile<f32, [m]>
    %2 = tile.broadcast(%by) {shape = [m]} : tile<f32, [m]>
    %3 = tile.map([%1, %2]) {fn = mul} : tile<f32, [m]>
    tile.store(%y, [%m], %3)
  }
  tile.return([%y])
}
"""
SIZES = {"M": 64, "N": 96}


def placed(kernel: Callable[..., object], dtype: DType = f32) -> Function:
    lowered = lower(kernel, x=tensor(2, dtype))
    return PassManager(gpu_front_pipeline()).run(lowered, PassContext()).entry


def likeness(function: Function, sizes: dict[str, int] = SIZES, bytes_: int = 16) -> GridLikeness | None:
    (grid,) = [op for op in function.body.ops if isinstance(op, Grid)]
    return grid_likeness(grid, sizes, dict.fromkeys(tensors_in_order(function.body), bytes_))


def test_the_same_program_elsewhere_is_alike() -> None:
    one, other = likeness(placed(scaled)), likeness(placed(scaled))
    assert one is not None
    assert one == other
    assert hash(one) == hash(other)


def test_sizes_that_the_grid_does_not_speak_of_are_of_no_account() -> None:
    assert likeness(placed(scaled), {**SIZES, "K": 8}) == likeness(placed(scaled))


def test_whatever_a_search_looks_at_tells_grids_apart() -> None:
    function = placed(scaled)
    found = {
        likeness(function),
        likeness(function, {**SIZES, "M": 65}),
        likeness(function, bytes_=2),
        likeness(placed(scaled, f16)),
        likeness(placed(scaled_more)),
    }
    assert len(found) == 5
    assert None not in found


def test_a_grid_that_reads_a_scalar_of_the_call_is_like_no_other() -> None:
    assert likeness(parse_module(SCALED_BY).entry) is None
