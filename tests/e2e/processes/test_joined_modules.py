"""Modules whose steps write to parts of a join: on the CPU, in the emulator, saved and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tiledsl import tile
from tiledsl.ir.graph_ops import Call
from tiledsl.runtime.calls.outputs import as_tuple


@tile.kernel
def rotated(x: Any, c: Any, s: Any) -> Any:
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return tile.concat([a * c - b * s, b * c + a * s], axis=-1)


@tile.kernel
def turned(x: Any, c: Any, s: Any) -> Any:
    """The same, as it is written in many models."""
    half = x.shape[-1] // 2
    c, s = tile.concat([c, c], axis=-1), tile.concat([s, s], axis=-1)
    return x * c + tile.concat([-x[..., half:], x[..., :half]], axis=-1) * s


@tile.kernel
def products(x: Any, w: Any, v: Any) -> Any:
    """A product, a gated one, and what was multiplied, behind each other."""
    return tile.concat([x @ w, tile.relu(x @ v), x], axis=-1)


@tile.kernel
def stacked(x: Any, y: Any) -> Any:
    return tile.stack([x + y, x - y], axis=1)


@tile.kernel
def rows(x: Any, y: Any) -> Any:
    """Parts of other lengths, one of them twice, and what reads the join."""
    return tile.sum(tile.concat([tile.exp(-x * x), y, tile.tanh(y), y]) * 3.0, axis=0)


@tile.kernel
def joins_of_joins(x: Any, y: Any) -> Any:
    inner = tile.concat([x * 2, y + 1], axis=1)
    return tile.concat([inner, tile.softmax(x, axis=-1), inner], axis=1), inner


@tile.kernel
def copies(x: Any, y: Any) -> Any:
    """Joins of joins and of padded tensors, of what is in memory alone."""
    return tile.concat([tile.concat([x, y], axis=1), tile.pad(y, ((0, 0), (1, x.shape[1] - 1)))])


CASES: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "rotary": (rotated, ((2, 3, 24, 16), (24, 8), (24, 8))),
    "rotary of an odd half": (rotated, ((2, 1, 5, 14), (5, 7), (5, 7))),
    "rotary by a turned tensor": (turned, ((2, 3, 24, 16), (24, 8), (24, 8))),
    "products": (products, ((48, 32), (32, 64), (32, 32))),
    "products of odd sizes": (products, ((13, 9), (9, 7), (9, 5))),
    "stack": (stacked, ((5, 24), (5, 24))),
    "rows": (rows, ((6, 40), (3, 40))),
    "copies": (copies, ((5, 8), (5, 6))),
    "joins of joins": (joins_of_joins, ((5, 8), (5, 6))),
}


def arguments(name: str, dtype: Any) -> list[Any]:
    random = np.random.default_rng(0)
    return [random.standard_normal(shape).astype(dtype) for shape in CASES[name][1]]


def check(found: Any, expected: Any, tolerance: float) -> None:
    arrays: Any = zip(as_tuple(found), as_tuple(expected))
    for actual, wanted in arrays:
        assert_close(actual, wanted, relative=tolerance, absolute=tolerance * max(1.0, float(np.max(np.abs(wanted)))))


@pytest.mark.parametrize("name", CASES)
def test_on_the_cpu(name: str, tmp_path: Path) -> None:
    given = arguments(name, np.float32)
    graph = tiledsl.trace(CASES[name][0], *given)
    module = tiledsl.fuse(graph).build(arch="cpu")
    check(module(*given), graph(*given), 1e-5)
    module.save(str(tmp_path / "saved"))
    check(tiledsl.load(str(tmp_path / "saved"))(*given), graph(*given), 1e-5)


@pytest.mark.parametrize("name", CASES)
def test_in_the_emulator(name: str) -> None:
    given = arguments(name, np.float16)
    found = CASES[name][0].emulate(*given, arch="sm_90")
    check(found, tiledsl.trace(CASES[name][0], *given)(*given), 5e-3)


@pytest.mark.parametrize(("name", "kernels"), [("rotary", 1), ("rotary by a turned tensor", 1), ("stack", 1)])
def test_how_many_kernels(name: str, kernels: int) -> None:
    """Joins are none, and values of one shape that read one tensor are one."""
    graph = tiledsl.trace(CASES[name][0], *arguments(name, np.float16))
    for arch in ("cpu", "sm_90"):
        calls = [op for op in tiledsl.fuse(graph).lowered(arch).entry.body.ops if isinstance(op, Call)]
        assert len(calls) == kernels
