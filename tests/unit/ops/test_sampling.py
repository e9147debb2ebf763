"""Resizing and sampling of images, against PyTorch, and against ONNX's reference where PyTorch has no such mode."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false, reportMissingTypeStubs=false
# ruff: noqa: B023 - what loops make is called at once

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.op_checks import F16, F32, F64, Array, agree, meant, normal
from tiledsl import TileError, ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

IMAGE = normal(2, 3, 5, 7)
COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")


def exact(x: Array) -> Any:
    return torch.tensor(x.astype(F64))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "bicubic", "area"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_interpolate(mode: str, rank: int) -> None:
    if mode == "bicubic" and rank != 2:
        return
    x = normal(2, 2, *(5, 7, 4)[:rank])
    theirs = {"linear": ("linear", "bilinear", "trilinear")[rank - 1]}.get(mode, mode)
    for size in ((8, 3, 4), (1, 11, 2), (10, 14, 8)):
        for align in (False, True) if mode in ("linear", "bicubic") else (None,):
            wanted = F.interpolate(exact(x), size[:rank], mode=theirs, align_corners=align).numpy()
            check = (
                agree if (rank, mode, size[0], align) in ((2, "bicubic", 8, False), (1, "linear", 8, True)) else meant
            )
            check(lambda x: ops.interpolate(x, size[:rank], mode=mode, align_corners=bool(align)), [x], wanted, terms=4)
    for scale in (1.7, 0.45) if mode != "area" else ():
        wanted = F.interpolate(exact(x), scale_factor=scale, mode=theirs).numpy()
        meant(lambda x: ops.interpolate(x, scale_factor=scale, mode=mode), [x], wanted, terms=4)


def test_antialias() -> None:
    for mode in ("bilinear", "bicubic"):
        for size in ((2, 3), (5, 2), (9, 4)):
            wanted = F.interpolate(exact(IMAGE), size, mode=mode, antialias=True).numpy()
            meant(lambda x: ops.interpolate(x, size, mode=mode, antialias=True), [IMAGE], wanted, terms=9)
    wide = normal(1, 1, 40)[:, :, None] * np.ones((1, 1, 2, 1), F32)
    wanted = F.interpolate(exact(wide), (2, 3), mode="bicubic", antialias=True).numpy()
    meant(lambda x: ops.interpolate(x, (2, 3), mode="bicubic", antialias=True), [wide], wanted, terms=40)


def by_onnx(x: Array, sizes: Any, scales: Any, **attributes: Any) -> Array:
    """ONNX's reference."""
    onnx = pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    helper = onnx.helper
    given = {"scales": scales, "sizes": sizes}
    roi = attributes.pop("roi", None)
    inputs = [
        "x",
        "roi" if roi is not None else "",
        "scales" if scales is not None else "",
        "sizes" if sizes is not None else "",
    ]
    node = helper.make_node("Resize", inputs, ["y"], **attributes)
    values: dict[str, Any] = {"x": x}
    if roi is not None:
        values["roi"] = np.asarray(roi, F32)
    for key, dtype in (("scales", F32), ("sizes", np.int64)):
        if given[key] is not None:
            values[key] = np.asarray(given[key], dtype)
    kinds = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in values.items()
    ]
    result = helper.make_tensor_value_info("y", 1, None)
    graph = helper.make_graph([node], "g", kinds, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    return reference.ReferenceEvaluator(model).run(None, values)[0]


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_coordinates_of_onnx(coordinates: str) -> None:
    x = normal(1, 1, 4, 6)
    cases: list[tuple[Any, Any]] = [((1, 1, 7, 3), None), (None, (1, 1, float(F32(0.6)), 2.0)), ((1, 1, 4, 6), None)]
    for sizes, scales in cases:
        for mode in ("linear", "cubic"):
            wanted = by_onnx(x, sizes, scales, mode=mode, coordinate_transformation_mode=coordinates)
            meant(lambda x: ops.resize(x, sizes, scales, mode=mode, coordinates=coordinates), [x], wanted, terms=4)
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            wanted = by_onnx(x, sizes, scales, coordinate_transformation_mode=coordinates, nearest_mode=rounding)
            meant(lambda x: ops.resize(x, sizes, scales, coordinates=coordinates, rounding=rounding), [x], wanted)


@pytest.mark.parametrize("size", [3, 8, 11])
def test_half_pixels_of_tensorflow(size: int) -> None:
    """ONNX's reference has not these."""
    x = normal(2, 8)
    place = (np.arange(size) + 0.5) * 8 / size
    for rounding, rounded in (("floor", np.floor(place)), ("ceil", np.ceil(place))):
        wanted = x[:, np.minimum(rounded, 7).astype(int)]
        options: dict[str, Any] = {"coordinates": "tf_half_pixel_for_nn", "rounding": rounding}
        meant(lambda x: ops.resize(x, (size,), axes=(1,), **options), [x], wanted)


def test_other_options_of_onnx() -> None:
    x = normal(1, 1, 6, 8)
    sizes = (1, 1, 4, 5)
    for mode in ("linear", "cubic"):
        for excluded in (False, True):
            wanted = by_onnx(x, sizes, None, mode=mode, antialias=1, exclude_outside=int(excluded))
            meant(
                lambda x: ops.resize(x, sizes, mode=mode, antialias=True, exclude_outside=excluded),
                [x],
                wanted,
                terms=4,
            )
    wanted = by_onnx(x, (1, 1, 9, 9), None, mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5)
    meant(lambda x: ops.resize(x, (1, 1, 9, 9), mode="cubic", exclude_outside=True, cubic=-0.5), [x], wanted, terms=4)
    roi = [0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7]
    options: dict[str, Any] = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 10.0}
    wanted = by_onnx(x, (1, 1, 3, 4), None, mode="linear", roi=roi, **options)
    parts = list(zip(roi[:4], roi[4:]))
    meant(
        lambda x: ops.resize(
            x, (1, 1, 3, 4), mode="linear", coordinates="tf_crop_and_resize", parts=parts, outside=10.0
        ),
        [x], wanted, terms=4,
    )  # fmt: skip


def test_dtypes() -> None:
    half = IMAGE.astype(F16)
    wanted = F.interpolate(exact(half), (8, 3), mode="bilinear").numpy()
    agree(lambda x: ops.interpolate(x, (8, 3), mode="bilinear"), [half], wanted)
    whole = np.array([[0, 100, 255]], np.uint8)
    meant(lambda x: ops.resize(x, (5,), axes=(1,), mode="linear"), [whole], [[0, 40, 100, 193, 255]])
    meant(lambda x: ops.resize(x, (6,), axes=(1,)), [whole], [[0, 0, 100, 100, 255, 255]])


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str) -> None:
    grid = normal(2, 4, 3, 2, scale=0.9)
    for padding in ("zeros", "border", "reflection"):
        for align in (False, True):
            wanted = F.grid_sample(exact(IMAGE), exact(grid), mode, padding, align).numpy()
            check = agree if (mode, padding, align) == ("bilinear", "reflection", False) else meant
            check(lambda x, g: ops.grid_sample(x, g, mode, padding, align), [IMAGE, grid], wanted, terms=16)
    if mode != "bicubic":
        x, grid = normal(2, 2, 3, 4, 5), normal(2, 2, 3, 2, 3, scale=0.8)
        wanted = F.grid_sample(exact(x), exact(grid), mode, "border", False).numpy()
        meant(lambda x, g: ops.grid_sample(x, g, mode, "border"), [x, grid], wanted, terms=16)


def test_grids_of_other_ranks_and_dtypes() -> None:
    line, places = normal(2, 3, 6), normal(2, 4, 1, scale=0.8)
    flat = np.concatenate([places, np.zeros_like(places)], axis=-1)[:, :, None]
    for mode in ("bilinear", "bicubic", "nearest"):
        wanted = F.grid_sample(exact(line[:, :, None]), exact(flat), mode, "reflection", False).numpy()[..., 0]
        meant(lambda x, g: ops.grid_sample(x, g, mode, "reflection"), [line, places], wanted, terms=16)
    whole, grid = (100 * IMAGE).astype(np.int32), normal(2, 4, 3, 2, scale=0.9)
    wanted = F.grid_sample(exact(whole), exact(grid), "nearest", "zeros", False).numpy()
    meant(lambda x, g: ops.grid_sample(x, g, "nearest"), [whole, grid], wanted)
    cube, inside = normal(1, 2, 3, 3, 3), np.zeros((1, 1, 1, 1, 3), F32)
    meant(lambda x, g: ops.grid_sample(x, g, "cubic"), [cube, inside], cube[:, :, 1:2, 1:2, 1:2], terms=16)


@pytest.mark.filterwarnings("ignore:Since version")
def test_affine_grid() -> None:
    for size in ((2, 3, 4, 5), (2, 1, 3, 4, 1)):
        rank = len(size) - 2
        theta = normal(2, rank, rank + 1)
        for align in (False, True):
            wanted = F.affine_grid(exact(theta), size, align).numpy()
            meant(lambda t: ops.affine_grid(t, size, align), [theta], wanted, terms=4)


def test_shuffles() -> None:
    x = normal(2, 12, 4, 6)
    meant(lambda x: ops.pixel_shuffle(x, 2), [x], F.pixel_shuffle(exact(x), 2).numpy())
    meant(lambda x: ops.pixel_unshuffle(x, 2), [x], F.pixel_unshuffle(exact(x), 2).numpy())
    meant(lambda x: ops.channel_shuffle(x, 3), [x], F.channel_shuffle(exact(x), 3).numpy())
    meant(lambda x: ops.pixel_shuffle(x[0], 2), [x], F.pixel_shuffle(exact(x), 2).numpy()[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.resize(IMAGE, (3, 4)), r"`sizes` is \(3, 4\), not 4 numbers"),
        (lambda: ops.resize(IMAGE), r"`scales` is None, not 4 numbers"),
        (lambda: ops.resize(IMAGE, (3,), axes=(9,)), r"not a tensor with an axis 9"),
        (lambda: ops.resize(IMAGE, (3,), axes=(2,), mode="area"), r"`mode` is 'area', not \"nearest\""),
        (lambda: ops.resize(IMAGE, (3,), axes=(2,), coordinates="pixel"), r"`coordinates` is 'pixel', not"),
        (lambda: ops.interpolate(IMAGE, 3, mode="cube"), r"`mode` is 'cube', not \"nearest\""),
        (lambda: ops.interpolate(IMAGE, (3, 4, 5)), r"`size` is \(3, 4, 5\), not an int from 1 on"),
        (lambda: ops.grid_sample(IMAGE, normal(2, 3, 4, 3)), r"a grid has the batch of the images, and 2 numbers last"),
        (lambda: ops.grid_sample(IMAGE[0, 0], normal(2, 3, 4, 2)), r"not \[N, C, \.\.\.\]"),
        (lambda: ops.grid_sample(IMAGE.astype(int), normal(2, 3, 4, 2)), r"floats"),
        (lambda: ops.affine_grid(normal(2, 3), (2, 1, 3, 4)), r"not \[N, 2, 3\]"),
        (lambda: ops.pixel_shuffle(IMAGE, 2), r"not \[..., C \* 2\^2, H, W\]"),
        (lambda: ops.pixel_unshuffle(IMAGE, 2), r"not \[..., C, H \* 2, W \* 2\]"),
        (lambda: ops.channel_shuffle(IMAGE, 2), r"`groups` is 2, not a divisor of the 3 channels"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        call()
