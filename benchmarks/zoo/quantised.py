"""Weights of 8 and 4 bits, and what makes them. PyTorch dequantises, and multiplies."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo.case import Family, Formula, ZooCase
from tiledsl import ops, tile

row = Family("quantised")
GROUP = "k=4096 b=2048 g=32 c=256 d=16"
"""Of 128; `b` bytes are a row of 4 bits, `c` is beyond the largest."""
FEW = "k=64 b=32 g=2 c=256 n=24"


def _unpacked(xp: Any, w: Any) -> Any:
    """Integers of 4 bits with their sign, in NumPy or PyTorch: [n, k]."""
    q = xp.stack((w & 15, w >> 4), -1).reshape(w.shape[0], -1)
    return (q ^ 8) * 1.0 - 8.0


def _spread(s: Any, k: int) -> Any:
    """Scales of groups, one for each of k elements."""
    group = k // s.shape[1]
    return s.repeat_interleave(group, 1) if hasattr(s, "repeat_interleave") else np.repeat(s, group, axis=1)


def _by_groups(x: Any, w: Any, s: Any, dtype: Any) -> Any:
    return ops.quantised_linear(x, w, s, None, None, dtype, x.shape[1] // s.shape[1])


def _with_zeros(x: Any, w: Any, s: Any, z: Any) -> Any:
    return ops.quantised_linear(x, w, s, z, None, tile.u4, x.shape[1] // s.shape[1])


def _rows(
    name: str, arguments: str, few: str, formula: Formula, meaning: Formula, torch: Formula
) -> tuple[ZooCase, ...]:
    """The same with 1, 16 and 256 rows."""
    names = {1: f"{name}, 1 row", 16: f"{name}, 16 rows", 256: name}
    sizes = f"n=14336 {GROUP}" if "g" in few else "n=14336 k=4096"
    return tuple(
        row(title, arguments, f"m={m} {sizes}", formula, meaning, torch, small=few) for m, title in names.items()
    )


def _real(t: Any, w: Any, s: Any) -> Any:
    return _unpacked(t, w).to(s.dtype) * _spread(s, 2 * w.shape[1])


QUANTISED = (
    *_rows("i8, a scale for each column", "f16[m,k], i8[n,k], f16[n]*0.05", "k=64 n=24",
           lambda x, w, s: ops.quantised_linear(x, w, s), lambda x, w, s: x @ w.T * s,
           lambda t, x, w, s: x @ w.to(x.dtype).T * s),
    *_rows("i8 in groups", "f16[m,k], i8[n,k], f16[n,g]*0.05", FEW, lambda x, w, s: _by_groups(x, w, s, tile.i8),
           lambda x, w, s: x @ (w * _spread(s, w.shape[1])).T,
           lambda t, x, w, s: x @ (w.to(s.dtype) * _spread(s, w.shape[1])).T),
    *_rows("i4 in groups", "f16[m,k], u8[n,b]<c, f16[n,g]*0.05", FEW, lambda x, w, s: _by_groups(x, w, s, tile.i4),
           lambda x, w, s: x @ (_unpacked(np, w) * _spread(s, x.shape[1])).T,
           lambda t, x, w, s: x @ _real(t, w, s).T),
    *_rows("u4 in groups, zero points", "f16[m,k], u8[n,b]<c, f16[n,g]*0.05, u8[n,g]<d", f"{FEW} d=16", _with_zeros,
           lambda x, w, s, z: x @ ((_unpacked(np, w ^ 136) + 8 - _spread(z, x.shape[1])) * _spread(s, x.shape[1])).T,
           lambda t, x, w, s, z: x @ ((_unpacked(t, w ^ 136).to(s.dtype) + 8 - _spread(z, x.shape[1]).to(s.dtype))
                                      * _spread(s, x.shape[1])).T),
)  # fmt: skip
