"""Images of other sizes, and sampled, in models of PyTorch: each mode, exported and as operators of `torch.compile`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tiledsl  # noqa: E402
from tiledsl.importers.torch.register import OPERATORS  # noqa: E402

CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7), {"size": 12}),
    ((2, 3, 7), {"scale_factor": 2.5, "mode": "nearest-exact"}),
    ((2, 3, 7), {"scale_factor": 1.7, "mode": "linear"}),
    ((1, 2, 5, 6), {"scale_factor": 2}),
    ((1, 2, 5, 6), {"size": (11, 3)}),
    ((1, 2, 5, 6), {"scale_factor": (1.5, 0.5), "mode": "nearest-exact"}),
    ((1, 2, 5, 6), {"scale_factor": 1.7, "mode": "bilinear"}),
    ((1, 2, 5, 6), {"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True}),
    ((1, 2, 5, 6), {"size": (9, 1), "mode": "bilinear", "align_corners": True}),
    ((1, 2, 9, 6), {"size": (4, 5), "mode": "bilinear", "antialias": True}),
    ((1, 2, 5, 6), {"size": (8, 7), "mode": "bicubic"}),
    ((1, 2, 5, 6), {"scale_factor": 2.3, "mode": "bicubic", "align_corners": True}),
    ((1, 2, 9, 9), {"scale_factor": 0.4, "mode": "bicubic", "antialias": True}),
    ((1, 2, 3, 4, 5), {"scale_factor": 2}),
    ((1, 2, 3, 4, 5), {"size": (4, 4, 7), "mode": "nearest-exact"}),
    ((1, 2, 3, 4, 5), {"scale_factor": 1.5, "mode": "trilinear"}),
    ((1, 2, 6, 8), {"size": (3, 4), "mode": "area"}),
]


def named(case: tuple[tuple[int, ...], dict[str, Any]]) -> str:
    return f"{len(case[0]) - 2} axes, " + ", ".join(f"{key}={value}" for key, value in case[1].items())


def resizing(options: dict[str, Any]) -> Any:
    def resized(x: Any) -> Any:
        return torch.nn.functional.interpolate(x, **options)

    return resized


@pytest.mark.parametrize(("shape", "options"), CASES, ids=map(named, CASES))
def test_exported(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    resized, x = resizing(options), torch.randn(shape)
    built = tiledsl.fuse(tiledsl.from_torch(resized, x)).build("reference")
    np.testing.assert_allclose(np.asarray(built(x)), resized(x).numpy(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("shape", "options"), CASES[::3], ids=map(named, CASES[::3]))
def test_compiled(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    resized, x = resizing(options), torch.randn(shape)
    compiled = torch.compile(resized, backend="tiledsl", fullgraph=True)
    np.testing.assert_allclose(compiled(x).numpy(), resized(x).numpy(), rtol=2e-5, atol=2e-5)


PADDINGS = ("zeros", "border", "reflection")
PLACES = [("bilinear", (4, 5)), ("nearest", (4, 5)), ("bicubic", (4, 5)), ("bilinear", (3, 4, 5))]
LONG = {("bicubic", "zeros"), ("bicubic", "border")}
"""PyTorch takes seconds to export each; what they do with places is what the others do."""


@pytest.mark.parametrize(
    ("mode", "shape", "padding_mode"),
    [
        pytest.param(mode, shape, padding, marks=(pytest.mark.slow,) if (mode, padding) in LONG else ())
        for mode, shape in PLACES
        for padding in PADDINGS
    ],
)
def test_at_computed_places(mode: str, shape: tuple[int, ...], padding_mode: str) -> None:
    rank, corners = len(shape), padding_mode == "border"

    def turned(x: Any, theta: Any) -> Any:
        grid = torch.nn.functional.affine_grid(theta, [2, 3, *(n + 1 for n in shape)], align_corners=corners)
        return torch.nn.functional.grid_sample(x, grid, mode, padding_mode, align_corners=corners)

    x, theta = torch.randn(2, 3, *shape), torch.eye(rank, rank + 1)[None] + 0.3 * torch.randn(2, rank, rank + 1)
    graph = tiledsl.from_torch(turned, x, theta)
    np.testing.assert_allclose(np.asarray(graph(x, theta)), turned(x, theta).numpy(), rtol=1e-4, atol=1e-4)


def test_every_operator_that_resizes_has_a_formula() -> None:
    names = [name for name in dir(torch.ops.aten) if "upsample_" in name and "backward" not in name]
    assert len(names) >= 12
    for name in names:
        if "lanczos" not in name:
            assert {f"{name}.default", f"{name}.vec"} <= OPERATORS.keys(), name
