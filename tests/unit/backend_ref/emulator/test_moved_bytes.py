"""Bytes that programs ask for in the emulator are those that are counted from their nests, under several plans."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_code.emulated_work import bytes_by_plan
from tests.support.kernels.lowered_kernels import lower, tensor
from tests.unit.passes.nest import test_loop_nest as programs
from tests.unit.passes.nest.test_count_work import stencil, triangles
from tiledsl import tile
from tiledsl.ir.dtypes import DType, f16, f32, to_numpy


def softmax(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        e = tile.exp(x[m, :] - tile.max(x[m, :], axis=1, keepdims=True))
        y[m, :] = e / tile.sum(e, axis=1, keepdims=True)
    return y


def turned(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((N, M), x.dtype)
    for n, m in tile.grid(N, M):
        y[n, m] = x[m, n].T
    return y


def rows_again(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N, block=(4, 16)):
        y[m, n] = x[m, n] - tile.sum(x[m, :], axis=1)[:, None]
    return y


@pytest.mark.parametrize(
    ("function", "shapes", "dtype"),
    [
        (programs.gemm, [(70, 64), (64, 48)], f32),
        (programs.gemm, [(192, 128), (128, 128)], f16),
        (programs.attention, [(150, 16)] * 3, f32),
        (programs.attention, [(150, 64)] * 3, f16),
        (softmax, [(37, 100)], f16),
        (turned, [(70, 33)], f32),
        (rows_again, [(9, 50)], f32),
        (stencil, [(33, 21)], f32),
        (triangles, [(9, 11), (7,)], f32),
    ],
)
def test_counted_bytes_are_moved(function: Callable[..., Any], shapes: list[tuple[int, ...]], dtype: DType) -> None:
    names = list(inspect.signature(function).parameters)
    module = lower(function, **{name: tensor(len(shape), dtype) for name, shape in zip(names, shapes)})
    arrays = [np.ones(shape, to_numpy(dtype)) for shape in shapes]
    runs = bytes_by_plan(module, arrays, 2)
    assert runs
    for plan, counted, exact, moved in runs:
        assert exact
        assert moved == counted, plan
