"""Formulas of short rows, element by element: one kernel, whose accesses are of whole records, in the emulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tiledsl
from tests.support.compare import assert_close
from tiledsl import tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.runtime.calls.outputs import as_tuple

Array: TypeAlias = npt.NDArray[Any]
Formula: TypeAlias = Callable[..., Any]


def pairs(x: Any, y: Any) -> Any:
    a, b, c, d = x[..., 0], x[..., 1], y[..., 0], y[..., 1]
    return tile.stack([a * c - b * d, a * d + b * c], axis=-1)


def swapped(x: Any) -> Any:
    """Of four elements, three are read, and three given."""
    return tile.stack([x[..., 2], x[..., 0] + x[..., 3], x[..., 2] * 2], axis=-1)


def to_planes(x: Any) -> Any:
    return tile.stack([x[..., i].to(tile.f32) * (i + 1) for i in range(3)], axis=0)


def from_planes(x: Any) -> Any:
    return tile.stack([x[0] + x[1], x[1] - x[2], x[2]], axis=-1)


def scaled(x: Any, s: Any) -> Any:
    """Records of a matrix, each scaled by the number of its row."""
    return tile.stack([x[..., 1] * s[:, None], x[..., 0] - s[:, None]], axis=-1)


def turned(x: Any, s: Any) -> Any:
    return tile.stack([x[..., 0].mT * s[:, None], x[..., 1].mT + x[..., 0].mT], axis=-1)


def less_scalars(x: Any, m: Any) -> Any:
    return tile.stack([x[..., i] * 2 - m[i] for i in range(3)], axis=0)


def less_row(x: Any, m: Any) -> Any:
    """Pixels that become planes."""
    return (x * 2 - m).transpose(2, 0, 1)


def woven(x: Any) -> Any:
    """Halves of rows in turns."""
    half = x.shape[-1] // 2
    a, b = x[..., :half] * 2, x[..., half:] + 1
    return tile.stack([a, b], axis=-1).reshape((*x.shape[:-1], 2 * half))


def beside(x: Any) -> Any:
    """A sum beside the records."""
    a, b = x[..., 0], x[..., 1]
    return tile.stack([b, a], axis=-1), a + b


CASES: dict[str, tuple[Formula, tuple[tuple[int, ...], ...], str]] = {
    "pairs": (pairs, ((7, 39, 2), (7, 39, 2)), "f32"),
    "pairs of f16": (pairs, ((64, 32, 2), (64, 32, 2)), "f16"),
    "pairs of f64": (pairs, ((300, 2), (300, 2)), "f64"),
    "swapped": (swapped, ((1000, 4),), "f32"),
    "swapped bf16": (swapped, ((9, 77, 4),), "bf16"),
    "to planes": (to_planes, ((333, 3),), "u8"),
    "from planes": (from_planes, ((3, 512),), "f32"),
    "from planes of f16": (from_planes, ((3, 401),), "f16"),
    "from planes of bytes": (from_planes, ((3, 1024),), "u8"),
    "scaled": (scaled, ((12, 80, 2), (12,)), "f32"),
    "scaled, odd": (scaled, ((5, 33, 2), (5,)), "f16"),
    "turned": (turned, ((48, 36, 2), (36,)), "f32"),
    "less scalars": (less_scalars, ((70, 3), (3,)), "f32"),
    "less a row": (less_row, ((32, 40, 3), (3,)), "f32"),
    "woven": (woven, ((10, 96),), "f32"),
    "beside": (beside, ((640, 2),), "f32"),
}


def arrays_of(shapes: tuple[tuple[int, ...], ...], dtype: str, seed: int = 0) -> list[Array]:
    random = np.random.default_rng(seed)
    if dtype == "u8":
        return [random.integers(0, 255, shape).astype(np.uint8) for shape in shapes]
    return [random.standard_normal(shape).astype(to_numpy(BY_NAME[dtype])) for shape in shapes]


def check(formula: Formula, arrays: list[Array], seed: int = 0) -> None:
    graph = tiledsl.trace(formula, *arrays)
    expected = execute_graph(graph.module.entry, arrays, graph.module)
    actual: Any = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90", seed=seed)).result
    for one, other in zip(as_tuple(actual), expected):
        assert_close(np.asarray(one), other, relative=1e-2 if other.itemsize < 4 else 1e-6, terms=4)


@pytest.mark.parametrize("name", CASES)
def test_records_in_the_emulator(name: str) -> None:
    formula, shapes, dtype = CASES[name]
    for seed in (0, 1):
        check(formula, arrays_of(shapes, dtype, seed), seed)


@given(
    rows=st.integers(1, 70), count=st.integers(2, 5), length=st.integers(2, 6),
    dtype=st.sampled_from(["f16", "f32", "u8"]), data=st.data(),
)  # fmt: skip
def test_any_records(rows: int, count: int, length: int, dtype: str, data: st.DataObject) -> None:
    read = [data.draw(st.integers(0, length - 1)) for _ in range(count)]

    def formula(x: Any) -> Any:
        return tile.stack([x[..., field] + x[..., (field + 1) % length] for field in read], axis=-1)

    check(formula, arrays_of(((rows, length),), dtype))


def kernels(name: str, shapes: tuple[tuple[int, ...], ...]) -> Any:
    formula, _, dtype = CASES[name]
    specs = [tile.spec(shape, getattr(tile, dtype)) for shape in shapes]
    return tiledsl.fuse(tiledsl.trace(formula, *specs)).build(arch="sm_90").kernels


@pytest.mark.parametrize(
    ("name", "shapes", "loads", "stores"),
    [
        ("pairs", ((4096, 2048, 2), (4096, 2048, 2)), "float4", "float4"),
        ("swapped", ((8000000, 4),), "float4", "float4"),
        ("swapped bf16", ((65536, 64, 4),), "uint4", "uint4"),
        ("scaled", ((512, 8192, 2), (512,)), "float4", "float4"),
        ("from planes of f16", ((3, 1 << 20),), "uint4", "uint4"),
    ],
)
def test_accesses_are_wide(name: str, shapes: tuple[tuple[int, ...], ...], loads: str, stores: str) -> None:
    (kernel,) = kernels(name, shapes).values()
    assert f"read_{loads}" in kernel.source
    assert f"store_{stores}" in kernel.source
    assert not any(found["spills"] for found in kernel.resources.values())
