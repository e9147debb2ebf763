"""The operators that papers on tuning compilers measure, at the sizes that they have there, for one image and for 16.

C1D, C2D, C3D: convolutions of one to three axes; DEP: depthwise; DIL: dilated; GRP: in groups; T2D: transposed; CAP:
of capsules, which are matrices of 4 by 4; CBR: with a bias, a norm and a relu behind it. Channels lie side by side.
"""

from __future__ import annotations

from typing import Any

from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family, ZooCase
from tiledsl import ops, tile

row = Family("operators")
BATCHES = (1, 16)
CONVOLUTIONS = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
LAYOUTS = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
PIXELS = {1: "h", 2: "h,h", 3: "d,h,h"}
PLACES = {1: "r", 2: "r,r", 3: "r,r,r"}


def _last(x: Any) -> Any:
    return x.movedim(1, -1)


def _first(x: Any) -> Any:
    return x.movedim(-1, 1)


def _conv(name: str, rank: int, sizes: str, small: str = "", **options: Any) -> tuple[ZooCase, ...]:
    op, layout = CONVOLUTIONS[rank], LAYOUTS[rank]
    groups = options.get("groups", 1)
    inner = "g" if groups > 1 else "c"

    def formula(x: Any, w: Any) -> Any:
        return op(x, w, layout=layout, **options)

    def meaning(x: Any, w: Any) -> Any:
        return plain.convolution(x, w, **options)

    def torch(t: Any, x: Any, w: Any) -> Any:
        return _last(getattr(t.nn.functional, f"conv{rank}d")(_first(x), _first(w), **options))

    return _each(
        name, f"f16[n,{PIXELS[rank]},c], f16[k,{PLACES[rank]},{inner}]*0.05", sizes, formula,
        meaning, torch, small,
    )  # fmt: skip


def _each(
    name: str, arguments: str, sizes: str, formula: Any, meaning: Any, torch: Any, small: str
) -> tuple[ZooCase, ...]:  # fmt: skip
    return tuple(
        row(f"{name}, batch {n}", arguments, f"n={n} {sizes}", formula, meaning, torch, small=f"n=2 {small}")
        for n in BATCHES
    )


def _transposed(x: Any, w: Any) -> Any:
    return ops.conv_transpose2d(x, w, stride=2, padding=1, layout="NHWC")


def _plain_transposed(x: Any, w: Any) -> Any:
    return plain.transposed(x, w, 2, 1)


def _torch_transposed(t: Any, x: Any, w: Any) -> Any:
    return _last(t.nn.functional.conv_transpose2d(_first(x), _first(w), stride=2, padding=1))


def _capsules(x: Any, w: Any) -> Any:
    """[N, H, W, 4, 4, C] with [R, R, 4, C, 4, K]: of each place of a window a product of matrices."""
    windows = tile.window(tile.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0), (0, 0), (0, 0))), w.shape[:2], (1, 2), 2)
    return tile.einsum("n p q i t c r s, r s t c j k -> n p q i j k", windows, w)


def _plain_capsules(x: Any, w: Any) -> Any:
    n, h, _, i, t, c = x.shape
    r, _, _, _, j, k = w.shape
    images = x.transpose(0, 3, 1, 2, 4, 5).reshape(n * i, h, h, t * c)
    weights = w.reshape(r, r, t * c, j * k).transpose(3, 0, 1, 2)
    y = plain.convolution(images, weights, stride=2, padding=1)
    return y.reshape(n, i, *y.shape[1:3], j, k).transpose(0, 2, 3, 1, 4, 5)


def _torch_capsules(t: Any, x: Any, w: Any) -> Any:
    n, h, _, i, inner, c = x.shape
    r, _, _, _, j, k = w.shape
    images = x.permute(0, 3, 4, 5, 1, 2).reshape(n * i, inner * c, h, h)
    weights = w.reshape(r, r, inner * c, j * k).permute(3, 2, 0, 1)
    y = t.nn.functional.conv2d(images, weights, stride=2, padding=1)
    return y.reshape(n, i, j, k, *y.shape[2:]).permute(0, 4, 5, 1, 2, 3)


def _block(x: Any, w: Any, b: Any, s: Any, m: Any) -> Any:
    return tile.relu((ops.conv2d(x, w, b, stride=2, padding=3, layout="NHWC") - m) * s)


def _plain_block(x: Any, w: Any, b: Any, s: Any, m: Any) -> Any:
    return plain.clip((plain.convolution(x, w, stride=2, padding=3) + b - m) * s, 0, float("inf"))


def _torch_block(t: Any, x: Any, w: Any, b: Any, s: Any, m: Any) -> Any:
    return t.relu((_last(t.nn.functional.conv2d(_first(x), _first(w), b, stride=2, padding=3)) - m) * s)


OPERATORS = (
    *_conv("C1D", 1, "h=256 c=64 k=128 r=3", stride=2, padding=1),
    *_conv("C2D", 2, "h=224 c=3 k=64 r=7", "h=20 c=3 k=16", stride=2, padding=3),
    *_conv("C3D", 3, "d=16 h=224 c=3 k=64 r=7", "d=4 h=8 c=3 k=8 r=3", stride=2, padding=3),
    *_conv("DEP", 2, "h=112 c=32 k=32 r=3 g=1", "h=9 c=32 k=32", padding=1, groups=32),
    *_conv("DIL", 2, "h=224 c=3 k=64 r=7", "h=20 c=3 k=16", stride=2, padding=3, dilation=2),
    *_conv("GRP", 2, "h=56 c=64 k=128 r=3 g=16", "h=9 c=64 k=128 g=16", stride=2, padding=1, groups=4),
    *_each("T2D", "f16[n,h,h,c], f16[c,r,r,k]*0.05", "h=4 c=512 k=256 r=4", _transposed,
           _plain_transposed, _torch_transposed, "h=3 c=16 k=8"),
    *_each("CAP", "f16[n,h,h,4,4,c], f16[r,r,4,c,4,k]*0.05", "h=16 c=32 k=32 r=3", _capsules, _plain_capsules,
           _torch_capsules, "h=6 c=8 k=8"),
    *_each("CBR", "f16[n,h,h,c], f16[k,r,r,c]*0.05, f16[k], f16[k], f16[k]", "h=224 c=3 k=64 r=7", _block,
           _plain_block, _torch_block, "h=20 c=3 k=16"),
)  # fmt: skip
