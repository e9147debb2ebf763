"""Pooling of one to three axes, with what PyTorch and ONNX can ask of it, against PyTorch."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false
# ruff: noqa: B023 - what loops make is called at once

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.op_checks import F32, Array, agree, meant, normal
from tiledsl import TileError, ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

LARGEST, MEAN = [ops.max_pool1d, ops.max_pool2d, ops.max_pool3d], [ops.avg_pool1d, ops.avg_pool2d, ops.avg_pool3d]
LAYOUTS = ("NWC", "NHWC", "NDHWC")
CASES: list[tuple[Any, dict[str, Any]]] = [
    ((3, 2, 2), {}),
    ((3, 2, 4), {"stride": (2, 3, 1), "padding": 1}),
    (3, {"stride": 2, "padding": 1, "ceil_mode": True}),
    (2, {"stride": 3, "ceil_mode": True}),
]


def cut(value: Any, rank: int) -> Any:
    return value[:rank] if isinstance(value, tuple) else value


def given_to(op: Any, x: Array) -> tuple[Array, str]:
    """An image with channels last, and the name of that layout."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)), LAYOUTS[x.ndim - 3]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_largest(case: int, rank: int) -> None:
    size, options = CASES[case]
    size, options = cut(size, rank), {name: cut(value, rank) for name, value in options.items()}
    for dilation in (1, 2) if case in (0, 2) else (1,):
        x = normal(2, 3, *(8, 6, 7)[:rank])
        pool = getattr(F, f"max_pool{rank}d")
        values, index = pool(torch.tensor(x), size, **options, dilation=dilation, return_indices=True)
        op = LARGEST[rank - 1]
        meant(lambda x: op(x, size, dilation=dilation, **options), [x], values.numpy())
        meant(lambda x: op(x, size, dilation=dilation, return_indices=True, **options)[1], [x], index, dtype=np.int64)
        given, layout = given_to(op, x)
        meant(
            lambda x: op(x, size, dilation=dilation, return_indices=True, layout=layout, **options)[1],
            [given], np.moveaxis(index.numpy(), 1, -1), dtype=np.int64,
        )  # fmt: skip


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_means(case: int, rank: int) -> None:
    size, options = CASES[case]
    size, options = cut(size, rank), {name: cut(value, rank) for name, value in options.items()}
    x = normal(2, 3, *(8, 6, 7)[:rank])
    op, pool = MEAN[rank - 1], getattr(F, f"avg_pool{rank}d")
    given, layout = given_to(op, x)
    for counted in (True, False):
        wanted = pool(torch.tensor(x), size, count_include_pad=counted, **options).numpy()
        meant(lambda x: op(x, size, count_include_pad=counted, **options), [x], wanted, terms=9)
        wanted = np.moveaxis(wanted, 1, -1)
        meant(lambda x: op(x, size, count_include_pad=counted, layout=layout, **options), [given], wanted, terms=9)
    if rank > 1:
        wanted = pool(torch.tensor(x), size, divisor_override=5, **options).numpy()
        meant(lambda x: op(x, size, divisor=5, **options), [x], wanted, terms=9)


def test_dilated_means_and_wide_padding() -> None:
    x = normal(1, 1, 5)
    apart = np.pad(x, ((0, 0), (0, 0), (2, 1)))
    wanted = (apart[..., :4] + apart[..., 2:6] + apart[..., 4:8]) / 3
    meant(lambda x: ops.avg_pool1d(x, 3, 1, ((2, 1),), dilation=2), [x], wanted, terms=3)
    counts = np.array([2, 2, 3, 2])
    options = {"dilation": 2, "count_include_pad": False}
    meant(lambda x: ops.avg_pool1d(x, 3, 1, ((2, 1),), **options), [x], wanted * 3 / counts, terms=3)


def test_powers() -> None:
    x = normal(2, 2, 6, 7)
    for p in (1, 2, 3.5):
        wanted = F.lp_pool2d(torch.tensor(abs(x)), p, 3, 2, ceil_mode=False).numpy()
        meant(lambda x: ops.lp_pool(x, p, 3, 2), [x], wanted, terms=9)
    wanted = F.lp_pool1d(torch.tensor(x[0]), 2, 3).numpy()
    meant(lambda x: ops.lp_pool(x, 2, 3), [x[0]], wanted, terms=9)


@pytest.mark.parametrize(("size", "shape"), [(3, (7,)), ((2, 3), (6, 9)), ((3, 5), (7, 4)), ((1, None, 2), (3, 4, 5))])
def test_adaptive(size: Any, shape: tuple[int, ...]) -> None:
    x, rank = normal(2, 3, *shape), len(shape)
    mean = getattr(F, f"adaptive_avg_pool{rank}d")(torch.tensor(x), size)
    meant(lambda x: ops.adaptive_avg_pool(x, size), [x], mean.numpy(), terms=9)
    whole = tuple(n if s is None else s for n, s in zip(shape, size)) if isinstance(size, tuple) else size
    values, index = getattr(F, f"adaptive_max_pool{rank}d")(torch.tensor(x), whole, return_indices=True)
    meant(lambda x: ops.adaptive_max_pool(x, size), [x], values.numpy())
    meant(lambda x: ops.adaptive_max_pool(x, size, return_indices=True)[1], [x], index.numpy(), dtype=np.int64)
    given, layout = given_to(None, x)
    meant(lambda x: ops.adaptive_avg_pool(x, size, layout=layout), [given], np.moveaxis(mean.numpy(), 1, -1), terms=9)


def test_where_all_is_the_lowest_number_the_index_is_inside() -> None:
    x = np.full((1, 1, 4), -np.inf, F32)
    meant(lambda x: ops.max_pool1d(x, 2, 2, 1, return_indices=True)[1], [x], [[[0, 1, 3]]], dtype=np.int64)
    x = np.full((1, 1, 5), -128, np.int8)
    wanted = F.max_pool1d(torch.tensor(x.astype(F32)), 2, 1, 1, 2, return_indices=True)[1].numpy()
    meant(lambda x: ops.max_pool1d(x, 2, 1, 1, 2, return_indices=True)[1], [x], wanted, dtype=np.int64)


def test_compiled() -> None:
    x = normal(2, 3, 7, 6)
    values, index = F.max_pool2d(torch.tensor(x), 3, 2, 1, ceil_mode=True, return_indices=True)
    options: dict[str, Any] = {"ceil_mode": True, "return_indices": True}
    agree(lambda x: ops.max_pool2d(x, 3, 2, 1, **options), [x], (values.numpy(), index.numpy()))
    mean = F.adaptive_avg_pool2d(torch.tensor(x), (3, 4)).numpy()
    agree(lambda x: ops.adaptive_avg_pool(x, (3, 4)), [x], mean, terms=9)


X = normal(1, 4, 5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.max_pool1d(X, 2, padding=2), r"`padding` is 2, not less than the window"),
        (lambda: ops.avg_pool1d(X, 6), r"`kernel_size` is 6, not within the padded axis of 5"),
        (lambda: ops.max_pool3d(X, 2), r"has the shape \[1, 4, 5\], not NCDHW"),
        (lambda: ops.lp_pool(X, 0, 2), r"`p` is 0, not a number above 0"),
        (lambda: ops.adaptive_avg_pool(X, 0), r"`output_size` is \(0,\), not an int from 1 on"),
        (lambda: ops.adaptive_max_pool(X, (2, 3)), r"`output_size` is \(2, 3\), not an int from 1 on"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        call()
