"""Images of other sizes (`interpolate`, `torch.nn.Upsample`), and at places that are computed (`grid_sample`).

Each operator of sizes has two forms: `vec` has sizes or scales; `default` has sizes, and scales where these say more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl import ops
from tiledsl.importers.torch.register import aten


def _size_or_scales(size: Any, scales: Sequence[Any]) -> tuple[Any, Any]:
    """Sizes are those that scales give, rounded down: so what scales say of places is not lost."""
    return (size, None) if not scales or None in scales else (None, tuple(scales))


@aten("upsample_nearest1d", "vec")
@aten("upsample_nearest2d", "vec")
@aten("upsample_nearest3d", "vec")
def nearest(x: Any, size: Any, scales: Any) -> Any:
    return ops.interpolate(x, size, scales)


@aten("upsample_nearest1d")
@aten("upsample_nearest2d")
@aten("upsample_nearest3d")
def nearest_of_size(x: Any, size: Any, *scales: Any) -> Any:
    return ops.interpolate(x, *_size_or_scales(size, scales))


@aten("_upsample_nearest_exact1d", "vec")
@aten("_upsample_nearest_exact2d", "vec")
@aten("_upsample_nearest_exact3d", "vec")
def nearest_exact(x: Any, size: Any, scales: Any) -> Any:
    return ops.interpolate(x, size, scales, "nearest-exact")


@aten("_upsample_nearest_exact1d")
@aten("_upsample_nearest_exact2d")
@aten("_upsample_nearest_exact3d")
def nearest_exact_of_size(x: Any, size: Any, *scales: Any) -> Any:
    return ops.interpolate(x, *_size_or_scales(size, scales), "nearest-exact")


@aten("upsample_linear1d", "vec")
@aten("upsample_bilinear2d", "vec")
@aten("upsample_trilinear3d", "vec")
def linear(x: Any, size: Any, align_corners: bool, scales: Any) -> Any:
    return ops.interpolate(x, size, scales, "linear", align_corners)


@aten("upsample_linear1d")
@aten("upsample_bilinear2d")
@aten("upsample_trilinear3d")
def linear_of_size(x: Any, size: Any, align_corners: bool, *scales: Any) -> Any:
    return ops.interpolate(x, *_size_or_scales(size, scales), "linear", align_corners)


@aten("upsample_bicubic2d", "vec")
def bicubic(x: Any, size: Any, align_corners: bool, scales: Any) -> Any:
    return ops.interpolate(x, size, scales, "bicubic", align_corners)


@aten("upsample_bicubic2d")
def bicubic_of_size(x: Any, size: Any, align_corners: bool, *scales: Any) -> Any:
    return ops.interpolate(x, *_size_or_scales(size, scales), "bicubic", align_corners)


@aten("_upsample_bilinear2d_aa", "vec")
def linear_antialiased(x: Any, size: Any, align_corners: bool, scales: Any) -> Any:
    return ops.interpolate(x, size, scales, "linear", align_corners, antialias=True)


@aten("_upsample_bilinear2d_aa")
def linear_antialiased_of_size(x: Any, size: Any, align_corners: bool, *scales: Any) -> Any:
    return ops.interpolate(x, *_size_or_scales(size, scales), "linear", align_corners, antialias=True)


@aten("_upsample_bicubic2d_aa", "vec")
def bicubic_antialiased(x: Any, size: Any, align_corners: bool, scales: Any) -> Any:
    return ops.interpolate(x, size, scales, "bicubic", align_corners, antialias=True)


@aten("_upsample_bicubic2d_aa")
def bicubic_antialiased_of_size(x: Any, size: Any, align_corners: bool, *scales: Any) -> Any:
    return ops.interpolate(x, *_size_or_scales(size, scales), "bicubic", align_corners, antialias=True)


@aten("grid_sampler")
@aten("grid_sampler_2d")
@aten("grid_sampler_3d")
def grid_sampler(x: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    mode, padding = (
        ("bilinear", "nearest", "bicubic")[interpolation_mode],
        ("zeros", "border", "reflection")[padding_mode],
    )
    return ops.grid_sample(x, grid, mode, padding, align_corners)


@aten("affine_grid_generator")
def affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Any:
    return ops.affine_grid(theta, size, align_corners)
