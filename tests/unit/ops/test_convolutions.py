"""Convolutions of one to three axes, and transposed ones, against PyTorch in f64."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.op_checks import F16, F32, F64, Array, agree, meant, normal
from tiledsl import TileError, ops

torch = pytest.importorskip("torch")

CONVOLUTIONS = [ops.conv1d, ops.conv2d, ops.conv3d]
TRANSPOSED = [ops.conv_transpose1d, ops.conv_transpose2d, ops.conv_transpose3d]
IMAGE = (7, 6, 5)
CASES: dict[str, tuple[int, tuple[int, ...], dict[str, Any]]] = {
    "plain": (4, (3, 2, 2), {}),
    "strided": (4, (3, 2, 1), {"stride": (2, 3, 1), "padding": (1, 0, 1)}),
    "dilated": (2, (3, 2, 2), {"dilation": (2, 3, 1), "padding": 1}),
    "groups": (6, (2, 3, 2), {"groups": 2, "stride": 2}),
    "depthwise": (4, (3, 2, 2), {"groups": 4, "padding": 1}),
}


def last(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def cut(options: dict[str, Any], rank: int) -> dict[str, Any]:
    return {name: value[:rank] if isinstance(value, tuple) else value for name, value in options.items()}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str, rank: int) -> None:
    outer, sizes, options = CASES[name]
    options = cut(options, rank)
    channels = 4
    x, b = normal(2, channels, *IMAGE[:rank], dtype=F64), normal(outer, dtype=F64)
    w = normal(outer, channels // options.get("groups", 1), *sizes[:rank], dtype=F64)
    wanted = getattr(torch.nn.functional, f"conv{rank}d")(*map(torch.tensor, (x, w, b)), **options).numpy()
    op = CONVOLUTIONS[rank - 1]
    check = agree if (name, rank) in (("strided", 3), ("groups", 1)) else meant
    check(lambda x, w, b: op(x, w, b, **options), [v.astype(F32) for v in (x, w, b)], wanted, terms=w[0].size)
    layout = ("NWC", "NHWC", "NDHWC")[rank - 1]
    given = [v.astype(F32) for v in (last(x), last(w), b)]
    meant(lambda x, w, b: op(x, w, b, layout=layout, **options), given, last(wanted), terms=w[0].size)


TRANSPOSED_CASES: dict[str, tuple[int, tuple[int, ...], dict[str, Any]]] = {
    "plain": (3, (3, 2, 2), {}),
    "one step": (3, (3, 2, 2), {"padding": 1, "dilation": (2, 3, 2)}),
    "twice": (3, (3, 4, 2), {"stride": 2, "padding": (1, 2, 0), "output_padding": (1, 0, 1)}),
    "apart": (2, (2, 1, 3), {"stride": (3, 2, 4), "output_padding": (2, 1, 1)}),
    "dilated": (2, (2, 3, 2), {"stride": (2, 3, 2), "dilation": (3, 2, 1), "padding": 1}),
    "groups": (2, (3, 3, 2), {"stride": 2, "groups": 2, "padding": 1}),
    "depthwise": (1, (4, 3, 2), {"stride": (2, 1, 3), "groups": 4, "padding": (1, 1, 0)}),
    "much taken away": (2, (5, 6, 7), {"stride": 2, "padding": (4, 5, 3)}),
}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("name", TRANSPOSED_CASES)
def test_transposed_convolutions(name: str, rank: int) -> None:
    outer, sizes, options = TRANSPOSED_CASES[name]
    options = cut(options, rank)
    groups = options.get("groups", 1)
    x, w, b = (
        normal(*s, dtype=F64) for s in ((2, 4, 5, 4, 3)[: rank + 2], (4, outer, *sizes[:rank]), (outer * groups,))
    )
    wanted = getattr(torch.nn.functional, f"conv_transpose{rank}d")(*map(torch.tensor, (x, w, b)), **options).numpy()
    op = TRANSPOSED[rank - 1]
    check = agree if (name, rank) in (("twice", 2), ("groups", 1)) else meant
    check(lambda x, w, b: op(x, w, b, **options), [v.astype(F32) for v in (x, w, b)], wanted, terms=w[:, 0].size)
    layout = ("NWC", "NHWC", "NDHWC")[rank - 1]
    given = [v.astype(F32) for v in (last(x), last(w), b)]
    meant(lambda x, w, b: op(x, w, b, layout=layout, **options), given, last(wanted), terms=w[:, 0].size)


def test_sides_of_a_result_are_cut_and_widened_each() -> None:
    x, w = normal(1, 2, 4), normal(2, 3, 3)
    whole = torch.nn.functional.conv_transpose1d(torch.tensor(x), torch.tensor(w), stride=2).numpy()
    meant(lambda x, w: ops.conv_transpose1d(x, w, stride=2, padding=((1, 3),)), [x, w], whole[..., 1:-3], terms=6)
    wider = np.pad(whole, ((0, 0), (0, 0), (3, 2)))
    meant(lambda x, w: ops.conv_transpose1d(x, w, stride=2, padding=((-3, -2),)), [x, w], wider, terms=6)


def test_narrow_floats_are_summed_in_f32() -> None:
    x, w, b = normal(1, 8, 9, dtype=F16), normal(4, 8, 3, dtype=F16), normal(4, dtype=F16)
    given = [torch.tensor(v.astype(F64)) for v in (x, w, b)]
    agree(ops.conv1d, [x, w, b], torch.nn.functional.conv1d(*given).numpy(), terms=24)
    w = np.ascontiguousarray(np.swapaxes(w, 0, 1))
    wanted = torch.nn.functional.conv_transpose1d(given[0], torch.tensor(w.astype(F64)), given[2], 2).numpy()
    agree(lambda x, w, b: ops.conv_transpose1d(x, w, b, 2), [x, w, b], wanted, terms=24)


X, W = normal(1, 4, 5), normal(4, 2, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.conv1d(X, W), r"`x` of shape \[1, 4, 5\] does not fit `weight` of shape .*: 4 channels"),
        (lambda: ops.conv1d(X[0], W), r"has the shape \[4, 5\], not NCW"),
        (lambda: ops.conv3d(X, W, layout="NDHWC"), r"not NDHWC"),
        (lambda: ops.conv1d(X, W, groups=2, stride=(1, 2)), r"`stride` is \(1, 2\), not an int from 1 on, or one of"),
        (lambda: ops.conv1d(X, W, groups=2, layout="NHWC"), r"`layout` is 'NHWC', not \"NCW\" or \"NWC\""),
        (lambda: ops.conv_transpose1d(X, W[:3]), r"4 channels are not the 3 of the weight"),
        (lambda: ops.conv_transpose1d(X, W[0]), r"not \[C, K / groups, R\]"),
        (lambda: ops.conv_transpose1d(X, W, groups=3), r"not a divisor of the 4 input channels"),
        (lambda: ops.conv_transpose1d(X, W, padding=5), r"`padding` is 5, not less than the whole result"),
        (lambda: ops.conv_transpose1d(X, W, W), r"there is one bias for each output channel"),
        (lambda: ops.conv_transpose1d(X, W, output_padding=-1), r"`output_padding` is -1, not an int from 0 on"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        call()
