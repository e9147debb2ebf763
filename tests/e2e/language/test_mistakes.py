"""What people get wrong, and what they are told: the whole answer, from a call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.kernels.call_kernels import gemm
from tiledsl import TileError, tile

A, B = np.ones((64, 32), np.float32), np.ones((32, 48), np.float32)
V = np.ones(10, np.float32)


@tile.kernel
def forgotten(x: Any) -> Any:
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    y[:] = x[:] * 2
    return y


@tile.kernel
def itself(x: Any) -> Any:
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        y[n] = x[n]
    return itself(y)


@tile.kernel
def misspelt(x: Any, scale: float = 2.0) -> Any:
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        y[n] = x[n] * sclae  # pyright: ignore[reportUndefinedVariable] # noqa: F821
    return y


MISTAKES: dict[str, tuple[Callable[[], object], list[str]]] = {
    "no grid": (
        lambda: forgotten(V),
        ["`forgotten` has none, and so is a formula of whole tensors", "loop over blocks, `for m in tile.grid(M):`"],
    ),
    "a keyword that there is not": (
        lambda: gemm(A, bb=B),
        ["`gemm` has no parameter `bb`", "fix: did you mean `b=`? call it as `gemm(a, b)`"],
    ),
    "a keyword beside all arguments": (
        lambda: gemm(A, B, output=A),
        ["`gemm` has no parameter `output`", "fix: did you mean `out=`?"],
    ),
    "None": (
        lambda: gemm(A, None),
        ["`b` is None and has no `shape`", "compiled for `a` f32[?, ?], `b` None", "fix: pass an array as `b`"],
    ),
    "the wrong rank": (
        lambda: gemm(A, B[0]),
        ["`b` has the rank 1, but `b.shape` is unpacked into 2", "compiled for `a` f32[?, ?], `b` f32[?]",
         "fix: pass an array of rank 2 as `b`"],
    ),
    "two dtypes": (
        lambda: gemm(A, B.astype(np.float64)),
        ["but `a[m, k]` of f32 and `b[k, n]` of f64 accumulate in f64", "or convert: `b[k, n].to(tile.f32)`"],
    ),
    "a kernel that calls itself": (lambda: itself(V), ["`itself` is this kernel itself", "fix: loop in it"]),
    "letters that changed places": (lambda: misspelt(V), ["the name `sclae` is not defined", "did you mean `scale`?"]),
    "a spec": (
        lambda: gemm(tile.spec((64, 32), tile.f32), B),
        ["`a` is a TensorSpec", "a spec stands for one in `compile` and in `tiledsl.trace` only"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_answer(mistake: str) -> None:
    provoke, parts = MISTAKES[mistake]
    with pytest.raises(TileError) as caught:
        provoke()
    text = str(caught.value)
    assert [part for part in parts if part not in text] == []
    assert Path(__file__).name in text
