"""Convolutions, pooling and normalisation of images."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiledsl import ops, tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.operators.floats import in_floats
from tiledsl.importers.onnx.register import operator

Pairs = tuple[tuple[int, int], ...]
CONVOLUTIONS = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
TRANSPOSED = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}


def by_rank(node: Call, x: Any, table: dict[int, Any]) -> Any:
    """What the table has for images of as many axes as `x` has beside batch and channels."""
    if x.ndim - 2 not in table:
        node.refuse("X", f"a tensor of {x.ndim} axes", "an image of one to three axes, with batch and channels")
    return table[x.ndim - 2]


def pairs_of(
    node: Call, auto_pad: str, pads: Any, image: Any, kernel: Any, strides: Any, dilations: Any
) -> Pairs:  # fmt: skip
    """What is added before and after each axis of an image."""
    rank = len(kernel)
    if auto_pad in ("NOTSET", ""):
        given = pads or (0,) * (2 * rank)
        return tuple((given[i], given[rank + i]) for i in range(rank))
    if auto_pad == "VALID":
        return ((0, 0),) * rank
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        node.refuse("auto_pad", auto_pad, "NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    found: list[tuple[int, int]] = []
    for length, size, stride, dilation in zip(image, kernel, strides, dilations):
        total = max((-(-length // stride) - 1) * stride + (size - 1) * dilation + 1 - length, 0)
        small, large = total // 2, total - total // 2
        found.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
    return tuple(found)


def padding(pairs: Pairs) -> Any:
    """Widths as the ops take them: a pair for each axis, in a tuple of its own also if there is one."""
    return tuple(pairs)


@operator("Conv", since=1)
def conv(
    x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, pads: Any = None, strides: Any = None, node: Call,
) -> Any:  # fmt: skip
    convolution = by_rank(node, x, CONVOLUTIONS)
    rank = x.ndim - 2
    steps, spread = strides or (1,) * rank, dilations or (1,) * rank
    pairs = pairs_of(node, auto_pad, pads, x.shape[2:], w.shape[2:], steps, spread)
    return convolution(x, w, b, tuple(steps), padding(pairs), tuple(spread), group)


@operator("ConvTranspose", since=1)
def conv_transpose(
    x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, output_padding: Any = None, output_shape: Any = None, pads: Any = None,
    strides: Any = None, node: Call,
) -> Any:  # fmt: skip
    convolution = by_rank(node, x, TRANSPOSED)
    rank = x.ndim - 2
    steps, spread = strides or (1,) * rank, dilations or (1,) * rank
    extra = output_padding or (0,) * rank
    extents = [(size - 1) * d + 1 for size, d in zip(w.shape[2:], spread)]
    image = x.shape[2:]
    if output_shape is None and auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        output_shape = [n * s for n, s in zip(image, steps)]
    if output_shape is None:
        pairs = pairs_of(node, auto_pad, pads, image, w.shape[2:], steps, spread)
    else:
        totals = [
            (n - 1) * s + e + more - wanted
            for n, s, e, more, wanted in zip(image, steps, extents, extra, output_shape[-rank:])
        ]
        upper = auto_pad == "SAME_UPPER"
        halves = [(t // 2, t - t // 2) if upper else (t - t // 2, t // 2) for t in totals]
        pairs = tuple(halves)
    return convolution(x, w, b, tuple(steps), padding(pairs), tuple(extra), group, tuple(spread))


SMALLEST = float(np.finfo(np.float32).tiny)
"""What norms of zeros are divided by."""
MAX_POOLS = {1: ops.max_pool1d, 2: ops.max_pool2d, 3: ops.max_pool3d}
AVERAGE_POOLS = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}


@operator("MaxPool", since=1)
def max_pool(
    x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None, pads: Any = None,
    storage_order: int = 0, strides: Any = None, node: Call,
) -> Any:  # fmt: skip
    pool = by_rank(node, x, MAX_POOLS)
    rank = x.ndim - 2
    steps, spread = strides or (1,) * rank, dilations or (1,) * rank
    pairs = pairs_of(node, auto_pad, pads, x.shape[2:], kernel_shape, steps, spread)
    indices = node.wants(1)
    result = pool(
        x, tuple(kernel_shape), tuple(steps), padding(pairs), tuple(spread), ceil_mode=bool(ceil_mode),
        return_indices=indices,
    )  # fmt: skip
    if not indices:
        return result
    values, places = result
    sizes = x.shape[2:]
    if storage_order:  # the first axis of the image is that which lies side by side
        coordinates: list[Any] = []
        rest = places
        for size in reversed(sizes):
            coordinates.append(rest % size)
            rest = rest // size
        places, scale = 0, 1
        for size, at in zip(sizes, reversed(coordinates)):
            places, scale = places + at * scale, scale * size
    planes = (tile.arange(x.shape[0])[:, None] * x.shape[1] + tile.arange(x.shape[1])[None, :]) * math.prod(sizes)
    return values, places + planes.reshape((*x.shape[:2], *(1,) * rank))


@operator("AveragePool", since=7)
def average_pool(
    x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: Any = None, pads: Any = None, strides: Any = None, node: Call,
) -> Any:  # fmt: skip
    pool = by_rank(node, x, AVERAGE_POOLS)
    rank = x.ndim - 2
    steps, spread = strides or (1,) * rank, dilations or (1,) * rank
    pairs = pairs_of(node, auto_pad, pads, x.shape[2:], kernel_shape, steps, spread)
    return pool(
        x, tuple(kernel_shape), tuple(steps), padding(pairs), ceil_mode=bool(ceil_mode),
        count_include_pad=bool(count_include_pad), dilation=tuple(spread),
    )  # fmt: skip


@operator("LpPool", since=2)
def lp_pool(
    x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None, p: int = 2,
    pads: Any = None, strides: Any = None, node: Call,
) -> Any:  # fmt: skip
    rank = x.ndim - 2
    steps, spread = strides or (1,) * rank, dilations or (1,) * rank
    pairs = pairs_of(node, auto_pad, pads, x.shape[2:], kernel_shape, steps, spread)
    return ops.lp_pool(
        x, p, tuple(kernel_shape), tuple(steps), padding(pairs), ceil_mode=bool(ceil_mode), dilation=tuple(spread)
    )


def _image(x: Any) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@operator("GlobalAveragePool", since=1)
def global_average_pool(x: Any) -> Any:
    return tile.mean(x, axis=_image(x), keepdims=True)


@operator("GlobalMaxPool", since=1)
def global_max_pool(x: Any) -> Any:
    return tile.max(x, axis=_image(x), keepdims=True)


@operator("GlobalLpPool", since=2)
def global_lp_pool(x: Any, *, p: int = 2) -> Any:
    return in_floats(lambda x: tile.sum(tile.abs(x) ** float(p), axis=_image(x), keepdims=True) ** (1.0 / p), x)


@operator("BatchNormalization", since=9)
def batch_normalization(
    x: Any, scale: Any, bias: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5, momentum: float = 0.9,
    training_mode: int = 0, node: Call,
) -> Any:  # fmt: skip
    if not training_mode:
        return ops.batch_norm(x, mean, variance, scale, bias, epsilon)
    results = ops.batch_norm_training(x, mean, variance, scale, bias, 1.0 - momentum, epsilon, unbiased=False)
    return results[: node.outputs]


@operator("InstanceNormalization", since=6)
def instance_normalization(x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5) -> Any:
    return ops.instance_norm(x, scale, bias, epsilon)


@operator("LRN", since=1)
def local_response_normalization(
    x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Any:
    return ops.local_response_norm(x, size, alpha, beta, bias, before=(size - 1) // 2)


@operator("LpNormalization", since=1)
def lp_normalization(x: Any, *, axis: int = -1, p: int = 2) -> Any:
    return ops.lp_normalize(x, p, axis, eps=SMALLEST)


@operator("Dropout", since=7)
def dropout_by_attribute(x: Any, *, ratio: float = 0.5) -> Any:
    return x, tile.ones(x.shape, tile.bool)


@operator("Dropout", since=12, known=("ratio", "training"))
def dropout(x: Any, ratio: Any = None, training: Any = None, *, seed: int = 0, node: Call) -> Any:
    """In training each element is 0 with the probability `ratio`, the others are scaled to keep the mean."""
    share = 0.5 if ratio is None else float(ratio)
    if training is None or not bool(training) or share == 0:
        return x, tile.ones(x.shape, tile.bool)
    offsets: Any = 0
    for axis, size in enumerate(x.shape):
        offsets = offsets * size + tile.arange(size).reshape(tuple(-1 if i == axis else 1 for i in range(x.ndim)))
    kept = tile.rand(seed, offsets) >= share
    return tile.where(kept, x / (1.0 - share), 0.0).to(x.dtype), kept
