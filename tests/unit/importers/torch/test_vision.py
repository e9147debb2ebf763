"""Operators of torchvision, by what they are said to compute, element by element: the package need not be there."""

# PyTorch's tensors have no types
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tiledsl  # noqa: E402
from tiledsl import TilePerformanceWarning  # noqa: E402
from tiledsl.importers.torch import compile_graph  # noqa: E402

SCHEMAS = {
    "deform_conv2d": "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor",
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
}


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    """torchvision's operators, where torchvision is not: defined by the functions below."""
    if hasattr(torch.ops.torchvision, "roi_align"):
        yield
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name, (meaning, shape) in MEANINGS.items():
        library.define(name + SCHEMAS[name])
        library.impl(name, meaning, "CPU")
        library.impl(name, shape, "Meta")
    yield
    library._destroy()


def bilinear(image: Any, y: float, x: float) -> Any:
    """All channels [C, H, W] at a place; zeros beyond the image."""
    total = np.zeros(image.shape[0])
    top, left = math.floor(y), math.floor(x)
    for i, j in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        if 0 <= i < image.shape[1] and 0 <= j < image.shape[2]:
            total += image[:, i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
    return total


def deform_conv2d(x: Any, weight: Any, offset: Any, mask: Any, bias: Any, *numbers: Any) -> Any:
    sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask = numbers
    image, w, moved, share = (v.numpy().astype(np.float64) for v in (x, weight, offset, mask))
    (n, c), (k, _, rows, columns), (p, q) = x.shape[:2], weight.shape, offset.shape[2:]
    taps = rows * columns
    y = np.zeros((n, k, p, q)) + bias.numpy().reshape(1, -1, 1, 1)
    for b, i, j, o, t in np.ndindex(n, p, q, offset_groups, taps):
        r, s = divmod(t, columns)
        at = 2 * (o * taps + t)
        place = i * sh - ph + r * dh + moved[b, at, i, j], j * sw - pw + s * dw + moved[b, at + 1, i, j]
        some = slice(o * c // offset_groups, (o + 1) * c // offset_groups)
        found = np.zeros(c)
        found[some] = bilinear(image[b, some], *place) * (share[b, o * taps + t, i, j] if use_mask else 1)
        for g in range(groups):
            mine = slice(g * k // groups, (g + 1) * k // groups)
            y[b, mine, i, j] += w[mine, :, r, s] @ found[g * c // groups : (g + 1) * c // groups]
    return torch.from_numpy(y).to(x.dtype)


def roi_align(x: Any, rois: Any, scale: float, height: int, width: int, samples: int, aligned: bool) -> Any:
    y = np.zeros((len(rois), x.shape[1], height, width))
    for k, (number, *box) in enumerate(rois.double().tolist()):
        left, top, right, bottom = (v * scale - (0.5 if aligned else 0) for v in box)
        high, wide = (bottom - top, right - left) if aligned else (max(bottom - top, 1), max(right - left, 1))
        down, across = (samples, samples) if samples > 0 else (math.ceil(high / height), math.ceil(wide / width))
        image = x[int(number)].double().numpy()
        for p, q, i, j in np.ndindex(height, width, down, across):
            at = top + (p + (i + 0.5) / down) * high / height, left + (q + (j + 0.5) / across) * wide / width
            if all(-1 <= place <= size for place, size in zip(at, image.shape[1:])):
                near = [min(max(place, 0), size - 1) for place, size in zip(at, image.shape[1:])]
                y[k, :, p, q] += bilinear(image, *near) / (down * across)
    return torch.from_numpy(y).to(x.dtype)


def _convolved(x: Any, weight: Any, offset: Any, *_: Any) -> Any:
    return x.new_empty((x.shape[0], weight.shape[0], *offset.shape[2:]))


def _pooled(x: Any, rois: Any, scale: float, height: int, width: int, *_: Any) -> Any:
    return x.new_empty((rois.shape[0], x.shape[1], height, width))


MEANINGS = {"deform_conv2d": (deform_conv2d, _convolved), "roi_align": (roi_align, _pooled)}


def same(formula: Any, *arguments: Any, fallback: bool = False) -> None:
    torch._dynamo.reset()
    backend: Any = tiledsl.torch.backend
    with torch.no_grad():
        actual = torch.compile(formula, backend=backend, options={"fallback": fallback})(*arguments)
        torch.testing.assert_close(actual, formula(*arguments), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("stride", "dilation", "groups", "offset_groups", "use_mask"), [(1, 1, 1, 1, True), (2, 2, 2, 4, False)]
)
def test_places_within_windows_are_moved(
    stride: int, dilation: int, groups: int, offset_groups: int, use_mask: bool
) -> None:
    torch.manual_seed(0)
    size = (6 + 2 - dilation * 2 - 1) // stride + 1, (7 + 2 - dilation * 1 - 1) // stride + 1
    x, weight, bias = torch.randn(2, 4, 6, 7), torch.randn(6, 4 // groups, 3, 2), torch.randn(6)
    offset = 2 * torch.randn(2, offset_groups * 12, *size)
    mask = torch.rand(2, offset_groups * 6, *size) if use_mask else torch.zeros(2, 1)
    numbers = (stride, stride, 1, 1, dilation, dilation, groups, offset_groups, use_mask)
    same(
        lambda *given: torch.relu(torch.ops.torchvision.deform_conv2d(*given, *numbers)), x, weight, offset, mask, bias
    )


REGIONS = [[0, 1.0, 1.0, 7.0, 8.0], [1, 2.0, 0.0, 5.5, 6.0], [0, -6.0, -6.0, 30.0, 30.0], [1, 3.0, 3.0, 3.1, 3.2]]


@pytest.mark.parametrize("aligned", [False, True])
def test_regions_are_sampled(aligned: bool) -> None:
    torch.manual_seed(0)
    x, rois = torch.randn(2, 3, 9, 10), torch.tensor(REGIONS)
    same(lambda x, rois: 2 * torch.ops.torchvision.roi_align(x, rois, 0.75, 3, 2, 2, aligned), x, rois)


def test_samples_whose_number_depends_on_regions_are_pytorchs() -> None:
    compile_graph.WARNED.clear()
    x, rois = torch.randn(2, 3, 9, 10), torch.tensor(REGIONS)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        same(lambda x, r: 2 * torch.ops.torchvision.roi_align(x, r, 1.0, 3, 2, 0, False), x, rois, fallback=True)
    told = [str(warning.message) for warning in said if warning.category is TilePerformanceWarning]
    assert len(told) == 1
    assert "torchvision.roi_align.default" in told[0]
    assert "sampling_ratio" in told[0]
