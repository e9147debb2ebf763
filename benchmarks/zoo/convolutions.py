"""Convolutions and pooling of images whose channels lie together (channels_last, as PyTorch calls it), and others."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family, ZooCase
from benchmarks.zoo.words import channels_last, channels_second
from tiledsl import ops, tile

row = Family("convolutions")


def _conv(name: str, sizes: str, stride: int = 1, padding: int = 0, small: str = "") -> ZooCase:
    """[N, H, W, C] with [K, R, R, C]."""

    def formula(x: Any, w: Any) -> Any:
        return ops.conv2d(x, w, stride=stride, padding=padding, layout="NHWC")

    def torch(t: Any, x: Any, w: Any) -> Any:
        return channels_last(
            t.nn.functional.conv2d(channels_second(x), channels_second(w), stride=stride, padding=padding)
        )

    return row(
        f"convolution, {name}", "f16[n,h,h,c], f16[k,r,r,c]*0.05", sizes, formula,
        lambda x, w: plain.conv(x, w, stride, padding), torch, small=f"n=2 h=9 {small}",
    )  # fmt: skip


def _turned_views(x: Any, w: Any) -> Any:
    """What an imported model does with channels_last: views of it, and back."""
    y = ops.conv2d(x.transpose(0, 3, 1, 2), w.transpose(0, 3, 1, 2), padding=1)
    return y.transpose(0, 2, 3, 1)


def _block(x: Any, w: Any, m: Any, s: Any) -> Any:
    y = ops.conv2d(x, w, padding=1, layout="NHWC")
    return tile.relu(ops.batch_norm(y, m, s * s, axis=-1) + x)


def _plain_block(x: Any, w: Any, m: Any, s: Any) -> Any:
    return np.maximum((plain.conv(x, w, 1, 1) - m) / np.sqrt(s * s + 1e-5) + x, 0)


def _torch_block(t: Any, x: Any, w: Any, m: Any, s: Any) -> Any:
    y = t.nn.functional.conv2d(channels_second(x), channels_second(w), padding=1)
    return channels_last(t.relu(t.nn.functional.batch_norm(y, m, s * s) + channels_second(x)))


def _depthwise(x: Any, w: Any) -> Any:
    r, _, c = w.shape
    return ops.conv2d(x, w.transpose(2, 0, 1).reshape((c, r, r, 1)), padding=1, groups=c, layout="NHWC")


def _torch_depthwise(t: Any, x: Any, w: Any) -> Any:
    return channels_last(
        t.nn.functional.conv2d(channels_second(x), w.permute(2, 0, 1)[:, None], padding=1, groups=x.shape[-1])
    )


def _grouped(x: Any, w: Any) -> Any:
    return ops.conv2d(x, w, padding=1, groups=4, layout="NHWC")


def _plain_grouped(x: Any, w: Any) -> Any:
    parts = zip(np.split(x, 4, axis=-1), np.split(w, 4, axis=0))
    return np.concatenate([plain.conv(a, b, 1, 1) for a, b in parts], axis=-1)


def _patches(x: Any, w: Any) -> Any:
    """Squares that do not overlap, each to a vector: the first layer of a vision transformer."""
    return ops.conv2d(x, w, stride=4, layout="NHWC")


def _torch_patches(t: Any, x: Any, w: Any) -> Any:
    return channels_last(t.nn.functional.conv2d(channels_second(x), channels_second(w), stride=4))


def _row_conv(x: Any, w: Any) -> Any:
    """[N, T, C] with [R, C]: each channel along time, from the past alone."""
    windows = tile.window(tile.pad(x, ((0, 0), (w.shape[0] - 1, 0), (0, 0))), w.shape[0], axes=1)
    return tile.silu(tile.sum(windows * w.T, axis=-1))


def _plain_row_conv(x: Any, w: Any) -> Any:
    r = w.shape[0]
    padded = np.pad(x, ((0, 0), (r - 1, 0), (0, 0)))
    return plain.silu(sum(padded[:, i : i + x.shape[1]] * w[i] for i in range(r)))


def _torch_row_conv(t: Any, x: Any, w: Any) -> Any:
    r, c = w.shape
    y = t.nn.functional.conv1d(x.transpose(1, 2), w.T[:, None], padding=r - 1, groups=c)
    return t.nn.functional.silu(y[..., : x.shape[1]]).transpose(1, 2)


CONVOLUTIONS = (
    _conv("3x3, 64 channels", "n=32 h=56 c=64 k=64 r=3", padding=1),
    _conv("3x3, 256 channels", "n=32 h=14 c=256 k=256 r=3", padding=1),
    _conv("3x3, 512 channels", "n=256 h=7 c=512 k=512 r=3", padding=1),
    _conv("3x3, every other", "n=32 h=56 c=128 k=128 r=3", stride=2, padding=1),
    _conv("1x1", "n=32 h=56 c=64 k=256 r=1"),
    _conv("1x1, every other", "n=32 h=56 c=256 k=512 r=1", stride=2),
    _conv("7x7 of 3 channels", "n=8 h=224 c=3 k=64 r=7", stride=2, padding=3),
    _conv("5x5, 32 channels", "n=64 h=28 c=32 k=64 r=5", padding=2),
    row("convolution, turned views", "f16[n,h,h,c], f16[k,r,r,c]*0.05", "n=32 h=56 c=64 k=64 r=3", _turned_views,
        lambda x, w: plain.conv(x, w, 1, 1),
        lambda t, x, w: channels_last(t.nn.functional.conv2d(channels_second(x), channels_second(w), padding=1)),
        small="n=2 h=9"),
    row("convolution, channels first", "f16[n,c,h,h], f16[k,c,r,r]*0.05", "n=32 h=56 c=64 k=64 r=3",
        lambda x, w: ops.conv2d(x, w, padding=1),
        lambda x, w: plain.conv(x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1), 1, 1).transpose(0, 3, 1, 2),
        lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1), small="n=2 h=9"),
    row("convolution, norm, residual, relu", "f16[n,h,h,c], f16[c,r,r,c]*0.05, f16[c], f16[c]", "n=32 h=28 c=128 r=3",
        _block, _plain_block, _torch_block, small="n=2 h=9"),
    row("depthwise convolution", "f16[n,h,h,c], f16[r,r,c]", "n=32 h=112 c=96 r=3", _depthwise,
        lambda x, w: plain.depthwise(x, w, 1, 1), _torch_depthwise, small="n=2 h=9"),
    row("grouped convolution", "f16[n,h,h,c], f16[c,r,r,g]*0.05", "n=32 h=28 c=256 g=64 r=3", _grouped, _plain_grouped,
        lambda t, x, w: channels_last(t.nn.functional.conv2d(channels_second(x), channels_second(w), padding=1,
        groups=4)),
        small="n=2 h=9 c=16 g=4"),
    row("patches of an image", "f16[n,h,h,c], f16[k,r,r,c]*0.05", "n=64 h=224 c=3 k=768 r=4", _patches,
        lambda x, w: plain.conv(x, w, 4), _torch_patches, small="n=2 h=12"),
    row("short convolution along time", "f16[n,t,c], f16[r,c]", "n=8 t=4096 c=4096 r=4", _row_conv, _plain_row_conv,
        _torch_row_conv, small="n=2 t=20 c=12"),
    row("largest of 3x3", "f16[n,h,h,c]", "n=32 h=112 c=64",
        lambda x: ops.max_pool2d(x, 3, stride=2, padding=1, layout="NHWC"),
        lambda x: plain.windows(x, (3, 3), 2, 1, -np.inf).max(axis=(-2, -1)),
        lambda t, x: channels_last(t.nn.functional.max_pool2d(channels_second(x), 3, 2, 1)), small="n=2 h=9"),
    row("mean of 2x2", "f16[n,h,h,c]", "n=32 h=112 c=64", lambda x: ops.avg_pool2d(x, 2, layout="NHWC"),
        lambda x: plain.windows(x, (2, 2), 2, 0).mean(axis=(-2, -1)),
        lambda t, x: channels_last(t.nn.functional.avg_pool2d(channels_second(x), 2)), small="n=2 h=8"),
    row("largest of 2x2, channels first", "f16[n,c,h,h]", "n=32 h=112 c=64", lambda x: ops.max_pool2d(x, 2),
        lambda x: x.reshape((*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2)).max(axis=(3, 5)),
        lambda t, x: t.nn.functional.max_pool2d(x, 2), small="n=2 h=8"),
    row("mean of images", "f16[n,h,h,c]", "n=256 h=7 c=2048", lambda x: tile.mean(x, axis=(1, 2)),
        lambda x: x.mean(axis=(1, 2)), lambda t, x: x.mean((1, 2))),
)  # fmt: skip
