"""Convolutions and pooling against sums over windows in NumPy, in f64."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.op_checks import F32, FLOATS, Array, agree, normal, wide
from tiledsl import TileError, ops

Widths = tuple[tuple[int, int], tuple[int, int]]


def windows(x: Array, sizes: Any, stride: Any, widths: Widths, dilation: Any, fill: float) -> Array:
    """The windows [N, C, P, Q, R, S] of padded images."""
    x = np.pad(x, ((0, 0), (0, 0), *widths), constant_values=fill)
    rows = [x.shape[2 + i] - (sizes[i] - 1) * dilation[i] for i in range(2)]
    parts = [
        [x[:, :, r * dilation[0] :, s * dilation[1] :][:, :, : rows[0] : stride[0], : rows[1] : stride[1]]
         for s in range(sizes[1])]
        for r in range(sizes[0])
    ]  # fmt: skip
    return np.moveaxis(np.array(parts), (0, 1), (4, 5))


def convolution(x: Array, w: Array, b: Array, stride: Any, widths: Widths, dilation: Any, groups: int) -> Array:
    """For NCHW, group by group."""
    found: list[Array] = []
    for xs, ws in zip(np.split(x, groups, axis=1), np.split(w, groups)):
        found.append(np.einsum("ncpqrs,kcrs->nkpq", windows(xs, w.shape[2:], stride, widths, dilation, 0), ws))
    return np.concatenate(found, axis=1) + b[:, None, None]


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], Widths]] = {
    "plain": ((2, 3, 7, 9), (4, 3, 3, 2), {}, ((0, 0), (0, 0))),
    "one by one": ((2, 5, 4, 3), (4, 5, 1, 1), {}, ((0, 0), (0, 0))),
    "padded": ((2, 3, 7, 9), (4, 3, 3, 3), {"padding": 1}, ((1, 1), (1, 1))),
    "strided": ((1, 3, 8, 9), (4, 3, 3, 3), {"stride": (2, 3), "padding": (1, 0)}, ((1, 1), (0, 0))),
    "dilated": ((1, 2, 9, 8), (3, 2, 3, 3), {"dilation": (2, 1), "padding": 2}, ((2, 2), (2, 2))),
    "groups": ((2, 6, 5, 6), (4, 3, 3, 3), {"groups": 2, "padding": 1}, ((1, 1), (1, 1))),
    "depthwise": ((2, 4, 5, 6), (4, 1, 3, 3), {"groups": 4, "stride": 2, "padding": 1}, ((1, 1), (1, 1))),
    "same": ((1, 2, 6, 7), (3, 2, 3, 2), {"padding": "same", "stride": 2}, ((0, 1), (0, 1))),
    "sides": ((1, 2, 5, 4), (3, 2, 3, 3), {"padding": ((2, 0), (1, 3))}, ((2, 0), (1, 3))),
    "one image of one element": ((1, 1, 1, 1), (1, 1, 3, 3), {"padding": 1}, ((1, 1), (1, 1))),
}


def both(value: Any) -> Any:
    return value if isinstance(value, tuple) else (value, value)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, layout: str) -> None:
    image, filters, options, widths = CONVOLUTIONS[name]
    for dtype in FLOATS if name == "padded" else (F32,):
        x, w, b = normal(*image, dtype=dtype), normal(*filters, dtype=dtype), normal(filters[0], dtype=dtype)
        stride, dilation = both(options.get("stride", 1)), both(options.get("dilation", 1))
        expected = convolution(*wide(x, w, b), stride, widths, dilation, options.get("groups", 1))
        if layout == "NHWC":
            x, w = (np.ascontiguousarray(np.moveaxis(v, 1, 3)) for v in (x, w))
            expected = np.moveaxis(expected, 1, 3)
        agree(lambda x, w, b: ops.conv2d(x, w, b, layout=layout, **options), [x, w, b], expected, terms=w[0].size)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("size", "options"),
    [((3, 2), {}), (3, {"stride": 2, "padding": 1}), ((2, 3), {"stride": (1, 2), "padding": (1, 0)})],
)
def test_pooling(size: Any, options: dict[str, Any], layout: str) -> None:
    for dtype in FLOATS:
        x = normal(2, 3, 7, 8, dtype=dtype)
        sizes, padding = both(size), both(options.get("padding", 0))
        stride = both(options.get("stride", size))
        widths = ((padding[0],) * 2, (padding[1],) * 2)
        given = np.ascontiguousarray(np.moveaxis(x, 1, 3)) if layout == "NHWC" else x

        def expected(values: Array, fill: float, fold: Any) -> Array:
            found = fold(windows(values, sizes, stride, widths, (1, 1), fill), axis=(4, 5))  # noqa: B023
            return np.moveaxis(found, 1, 3) if layout == "NHWC" else found

        agree(
            lambda x: ops.max_pool2d(x, size, layout=layout, **options), [given], expected(wide(x)[0], -np.inf, np.max)
        )
        total = expected(wide(x)[0], 0, np.sum)
        counts = expected(np.ones_like(wide(x)[0]), 0, np.sum)
        agree(
            lambda x: ops.avg_pool2d(x, size, layout=layout, **options), [given], total / (sizes[0] * sizes[1]), terms=9
        )
        agree(
            lambda x: ops.avg_pool2d(x, size, layout=layout, count_include_pad=False, **options),
            [given], total / counts, terms=9,
        )  # fmt: skip


def test_the_largest_of_integers() -> None:
    x = np.array([[[[-3, -7, 2], [-5, -9, -1]]]], np.int8)
    agree(lambda x: ops.max_pool2d(x, 2, 1, 1), [x], np.array([[[[-3, -3, 2, 2], [-3, -3, 2, 2], [-5, -5, -1, -1]]]]))


X, W = normal(1, 4, 5, 6), normal(4, 2, 3, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.conv2d(X, W), r"`x` of shape \[1, 4, 5, 6\] does not fit `weight` of shape .*: 4 channels"),
        (lambda: ops.conv2d(X[0], W), r"has the shape \[4, 5, 6\], not NCHW"),
        (lambda: ops.conv2d(X, W[0]), r"not \[K, C / groups, R, S\]"),
        (lambda: ops.conv2d(X, W, groups=3), r"`groups` is 3, not a divisor of the 4 output channels"),
        (lambda: ops.conv2d(X, W, X, groups=2), r"there is one bias for each output channel"),
        (lambda: ops.conv2d(X, W, groups=2, dilation=3), r"the window is larger than the padded image"),
        (lambda: ops.conv2d(X, W, groups=2, stride=0), r"`stride` is 0, not an int from 1 on, or two of them"),
        (lambda: ops.conv2d(X, W, groups=2, padding="full"), r"`padding` is 'full', not an int, a pair, two pairs"),
        (lambda: ops.conv2d(X, W, groups=2, padding=((1, 2), 3)), r"`padding` is \(\(1, 2\), 3\), not"),
        (lambda: ops.conv2d(X, W, layout="CHWN"), r"`layout` is 'CHWN', not \"NCHW\" or \"NHWC\""),
        (lambda: ops.conv2d(X.astype(np.int32), W), r"holds tile.i32, not floats"),
        (lambda: ops.max_pool2d(X, 3, padding=3), r"`padding` is 3, not less than the window"),
        (lambda: ops.max_pool2d(X, 7), r"`kernel_size` is 7, not within the padded axis of 5"),
        (lambda: ops.avg_pool2d(X, (2, 3, 1)), r"`kernel_size` is \(2, 3, 1\), not an int from 1 on"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        call()
