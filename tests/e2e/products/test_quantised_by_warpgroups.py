"""Quantised weights of many rows: threads compute right operands of what they asked for a turn before."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledsl
from tiledsl import ops, tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request

Array = npt.NDArray[Any]


def arrays_of(rows: int, columns: int, depth: int, dtype: Any, group: int, zeros: bool) -> list[Array]:
    random = np.random.default_rng(0)
    library: Any = ops
    x = random.standard_normal((rows, depth)).astype(np.float16)
    w = random.standard_normal((columns, depth), np.float32)
    if zeros:
        q = library.pack(random.integers(0, 16, (columns, depth)).astype(np.uint8))
        scales = (random.random((columns, -(-depth // group))) * 0.1).astype(np.float16)
        return [x, q, scales, random.integers(0, 16, scales.shape).astype(np.uint8)]
    q, scales = library.quantise(w, dtype, group=group)
    return [x, np.asarray(q), np.asarray(scales).astype(np.float16)]


def linear(dtype: Any, group: int) -> Any:
    def formula(x: Any, q: Any, s: Any, z: Any = None) -> Any:
        return ops.quantised_linear(x, q, s, z, None, dtype, group)

    return formula


@given(
    rows=st.sampled_from([65, 130, 256]),
    columns=st.sampled_from([112, 120, 256]),
    turns=st.integers(1, 4),
    kind=st.sampled_from(["i8", "i4", "u4"]),
    group=st.sampled_from([32, 64, 128]),
    seed=st.one_of(st.none(), st.integers(0, 3)),
)
@settings(max_examples=3, deadline=None)
def test_random_sizes(rows: int, columns: int, turns: int, kind: str, group: int, seed: int | None) -> None:
    """Of one turn, of which none follows, and of more."""
    depth = 128 * turns
    dtype = {"i8": tile.i8, "i4": tile.i4, "u4": tile.u4}[kind]
    arrays = arrays_of(rows, columns, depth, dtype, group, kind == "u4")
    graph = tiledsl.trace(linear(dtype, group), *arrays)
    got: Any = emulate_graph(graph, tuple(arrays), {}, None, Request(arch="sm_90", seed=seed)).result
    weights: Any = ops
    wide: Array = np.asarray(weights.dequantise(*arrays[1:], dtype=dtype, group=group), np.float64)
    wanted: Array = np.einsum("mk,nk->mn", arrays[0].astype(np.float64), wide)
    assert np.allclose(got, wanted, atol=2e-2 * float(np.max(np.abs(wanted))))


@pytest.mark.parametrize(("kind", "loads"), [("i8", 1), ("i4", 2), ("u4", 3)])
def test_what_threads_load_comes_a_turn_before(kind: str, loads: int) -> None:
    """Behind the product of a turn and before any wait: bytes as memory has them, and single numbers in pieces that are
    put together when the turn ends."""
    dtype = {"i8": tile.i8, "i4": tile.i4, "u4": tile.u4}[kind]
    columns = 4096 if kind == "i8" else 2048
    specs = [((256, 4096), tile.f16), ((14336, columns), tile.i8 if kind == "i8" else tile.u8), ((14336, 32), tile.f16)]
    specs += [((14336, 32), tile.u8)] if kind == "u4" else []
    graph = tiledsl.trace(linear(dtype, 128), *(tile.spec(shape, one) for shape, one in specs))
    (kernel,) = tiledsl.fuse(graph).build("sm_90").kernels.values()
    assert "wgmma" in kernel.source
    turn = kernel.source[kernel.source.index("for (long long k_number_") :]
    asked = turn[turn.index("wgmma_commit();") : turn.index("wgmma_wait_but_1();")]
    found = re.findall(r"load_along_(bits\d+|uint2)\(", asked)
    assert len(found) == loads
    assert asked.count("_pieces_[v] = ") == sum(one != "uint2" for one in found)
    assert all(one["spills"] == 0 for one in kernel.resources.values())
