"""Images of other sizes (`interpolate`, `torch.nn.Upsample`), and at places that are computed (`grid_sample`).

Each operator of sizes has two forms: `vec` has sizes or scales; `default` has sizes, and scales where these say more.
"""

from __future__ import annotations

from typing import Any

from tiledsl import ops
from tiledsl.importers.torch.register import Formula, aten


def _formulas(mode: str, *, antialias: bool = False) -> tuple[Formula, Formula]:
    """The forms `vec` and `default` of operators of a mode; before the scales, all but the nearest have
    `align_corners`."""
    options = 0 if mode.startswith("nearest") else 1

    def vec(x: Any, size: Any, *rest: Any) -> Any:
        *corners, scales = rest
        return ops.interpolate(x, size, scales, mode, *corners, antialias=antialias)

    def default(x: Any, size: Any, *rest: Any) -> Any:
        corners, scales = rest[:options], rest[options:]
        # sizes are those that scales give, rounded down: so what scales say of places is not lost
        given = (size, None) if not scales or None in scales else (None, scales)
        return ops.interpolate(x, *given, mode, *corners, antialias=antialias)

    return vec, default


for _names, (_vec, _default) in (
    (("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"), _formulas("nearest")),
    (
        ("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
        _formulas("nearest-exact"),
    ),
    (("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"), _formulas("linear")),
    (("upsample_bicubic2d",), _formulas("bicubic")),
    (("_upsample_bilinear2d_aa",), _formulas("linear", antialias=True)),
    (("_upsample_bicubic2d_aa",), _formulas("bicubic", antialias=True)),
):
    for _name in _names:
        aten(_name, "vec")(_vec)
        aten(_name)(_default)


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
