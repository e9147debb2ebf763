"""Attention whose values have more columns than one warpgroup can hold sums of: two share the columns, beside a third
one that makes scores, or make these too; the rows of latent keys are loaded once, as keys and as values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.kernels.wide_kernels import attention, latent, of_two_parts
from tiledsl import ops, tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request

Array = npt.NDArray[Any]
pytestmark = pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def expected(q: Array, k: Array, v: Array, lengths: Array) -> Array:
    """In f64."""
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for b, n in enumerate(lengths):
        scores: Array = np.einsum("rd,jd->rj", q[b].astype(np.float64), k[b, :n].astype(np.float64))
        scores *= q.shape[-1] ** -0.5
        p: Array = np.exp(scores - np.max(scores, axis=1, keepdims=True))
        out[b] = p / np.sum(p, axis=1, keepdims=True) @ v[b, :n].astype(np.float64)
    return out


def loads_of(source: str, tensor: str) -> int:
    """How many boxes of a tensor the code asks for in its loops and around them."""
    return len(re.findall(rf"tma_load\w*\([^;]*{tensor}_map_", source))


def shares_columns(compiled: tiledsl.Compiled) -> bool:
    """Whether two warpgroups have the same rows of sums, and a third one makes scores."""
    return "256 threads per block sum, 128 more make scores, 128 more load, 4 x 2 warps" in " ".join(
        compiled.explain().split()
    )


@given(
    rows=st.sampled_from([5, 64, 100]),
    depth=st.sampled_from([64, 80, 448]),
    width=st.sampled_from([384, 512]),
    keys=st.integers(1, 150),
    beyond=st.sampled_from([np.nan, np.inf, 1.0]),
    plan=st.integers(0, 3),
    seed=st.one_of(st.none(), st.integers(0, 3)),
)
@settings(max_examples=5)
def test_keys_and_values_of_their_own(
    rows: int, depth: int, width: int, keys: int, beyond: float, plan: int, seed: int | None
) -> None:
    q, k, v = normal(2, rows, depth), normal(2, 150, depth, seed=1), normal(2, 150, width, seed=2)
    lengths = np.array([keys, 150], np.int32)
    k[0, keys:], v[0, keys:] = beyond, beyond
    got = attention.emulate(q, k, v, lengths, arch="sm_90", plan=plan, seed=seed)
    assert np.allclose(got, expected(q, k, v, lengths), atol=3e-3)


@given(
    rows=st.sampled_from([5, 64, 100]),
    sizes=st.sampled_from([(448, 384), (576, 512), (512, 384)]),
    keys=st.integers(1, 150),
    beyond=st.sampled_from([np.nan, np.inf, 1.0]),
    plan=st.integers(0, 3),
    seed=st.one_of(st.none(), st.integers(0, 3)),
)
@settings(max_examples=5)
def test_values_that_are_a_part_of_keys(
    rows: int, sizes: tuple[int, int], keys: int, beyond: float, plan: int, seed: int | None
) -> None:
    depth, width = sizes
    q, c, lengths = normal(2, rows, depth), normal(2, 150, depth, seed=1), np.array([keys, 150], np.int32)
    c[0, keys:] = beyond
    got = latent.emulate(q, c, lengths, W=width, arch="sm_90", plan=plan, seed=seed)
    assert np.allclose(got, expected(q, c, c[..., :width], lengths), atol=3e-3)


@pytest.mark.parametrize("dtype", [tile.f16, tile.bf16])
def test_two_warpgroups_share_the_columns(dtype: Any) -> None:
    q, c, lengths = (tile.spec(s, t) for s, t in (((16, 128, 576), dtype), ((16, 8192, 576), dtype), ((16,), tile.i32)))
    compiled = latent.compile(q, c, lengths, W=512, arch="sm_90")
    assert shares_columns(compiled)
    assert loads_of(compiled.source, "c") == 9  # of 64 columns each
    assert "m64n128k16" in compiled.source
    assert all(one["spills"] == 0 for one in compiled.resources.values())


def test_keys_of_their_own_are_loaded_beside_values() -> None:
    q, k, v = (tile.spec((16, n, w), tile.f16) for n, w in ((128, 576), (8192, 576), (8192, 512)))
    compiled = attention.compile(q, k, v, tile.spec((16,), tile.i32), arch="sm_90")
    assert shares_columns(compiled)
    assert (loads_of(compiled.source, "k"), loads_of(compiled.source, "v")) == (9, 8)


def test_narrow_values_are_not_shared() -> None:
    q, k, v = (tile.spec((16, n, w), tile.f16) for n, w in ((128, 256), (8192, 256), (8192, 256)))
    assert not shares_columns(attention.compile(q, k, v, tile.spec((16,), tile.i32), arch="sm_90"))


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_parts_that_no_load_has_all_of(seed: int | None) -> None:
    q, c = normal(64, 192), normal(150, 192, seed=1)
    got = of_two_parts.emulate(q, c, W=128, arch="sm_90", seed=seed)
    assert np.allclose(got, expected(q[None], c[None], c[None, :, :128], np.array([150]))[0], atol=3e-3)
    specs = tile.spec((8192, 192), tile.f16), tile.spec((8192, 192), tile.f16)
    source = of_two_parts.compile(*specs, W=128, arch="sm_90").source
    assert "wgmma" in source
    assert loads_of(source, "c") == 3  # two panels of 64 columns, and one


def of_latent_keys(q: Any, c: Any) -> Any:
    return ops.attention(q, c, c[..., : c.shape[-1] - 64])


def of_other_columns(q: Any, c: Any) -> Any:
    return ops.attention(q, c, c[..., 64:])


def tensors_of_kernel(formula: Callable[[Any, Any], Any], *shapes: tuple[int, ...]) -> list[str]:
    """What the only kernel of a formula is given."""
    graph = tiledsl.trace(formula, *(tile.spec(shape, tile.f16) for shape in shapes))
    (launch,) = re.findall(r"1\. \w+: [^\n]*\n(.*?)->", tiledsl.fuse(graph).build("sm_90").explain(), re.DOTALL)
    return [one.split()[0] for one in launch.split(";")]


SHAPES = (16, 128, 1, 576), (16, 1, 8192, 576)


def test_a_formula_reads_one_tensor_as_keys_and_values() -> None:
    assert tensors_of_kernel(of_latent_keys, *SHAPES) == ["q", "c"]
    assert tensors_of_kernel(of_other_columns, *SHAPES) == ["q", "c", "c"]


@pytest.mark.parametrize("formula", [of_latent_keys, of_other_columns])
@pytest.mark.parametrize("arch", ["cpu", "sm_80", "sm_90"])
def test_formulas_are_right(formula: Callable[[Any, Any], Any], arch: str) -> None:
    q, c = normal(2, 16, 1, 448), normal(2, 1, 100, 448, seed=1)
    graph = tiledsl.trace(formula, q, c)
    got: Any = graph(q, c) if arch == "cpu" else emulate_graph(graph, (q, c), {}, None, Request(arch=arch)).result
    values = c[:, 0, :, :384] if formula is of_latent_keys else c[:, 0, :, 64:]
    assert np.allclose(got[:, :, 0], expected(q[:, :, 0], c[:, 0], values, np.array([100, 100])), atol=3e-3)


def of_latent_pages(q: Any, c: Any, tables: Any, lengths: Any) -> Any:
    return ops.attention(q, c, c[..., : c.shape[-1] - 64], seq_lens=lengths, block_tables=tables)


def test_pages_are_read_as_keys_and_values() -> None:
    shapes = ((16, 128, 1, 576), tile.f16), ((2048, 64, 1, 576), tile.f16), ((16, 128), tile.i32), ((16,), tile.i32)
    graph = tiledsl.trace(of_latent_pages, *(tile.spec(shape, dtype) for shape, dtype in shapes))
    explained = tiledsl.fuse(graph).build("sm_90").explain()
    (launch,) = re.findall(r"1\. \w+: [^\n]*\n(.*?)->", explained, re.DOTALL)
    assert [one.split()[0] for one in launch.split(";")] == ["q", "c", "tables", "lengths"]
    assert "4x2 warps" in explained


@pytest.mark.parametrize("arch", ["cpu", "sm_80", "sm_90"])
def test_pages_are_right(arch: str) -> None:
    page, lengths = 16, np.array([37, 96], np.int32)
    q, c = normal(2, 80, 1, 448), normal(20, page, 1, 448, seed=1)
    tables: Array = np.reshape(np.random.default_rng(0).permutation(20)[:12].astype(np.int32), (2, 6))
    rows: Array = np.reshape(c[tables], (2, 96, 448))
    c[tables[0, 2], 37 % page :] = np.nan
    graph = tiledsl.trace(of_latent_pages, q, c, tables, lengths)
    arrays = q, c, tables, lengths
    got: Any = graph(*arrays) if arch == "cpu" else emulate_graph(graph, arrays, {}, None, Request(arch=arch)).result
    assert np.allclose(got[:, :, 0], expected(q[:, :, 0], rows, rows[..., :384], lengths), atol=3e-3)


@pytest.mark.parametrize(("width", "kernels"), [(128, 1), (384, 2), (512, 2)])
def test_wide_perceptrons_are_two_kernels(width: int, kernels: int) -> None:
    """Sums that one warpgroup has no registers for are made in one kernel only where that is predicted to be faster
    than two products, whose maps cost nothing of their own."""

    def perceptron(x: Any, w: Any, v: Any) -> Any:
        return tile.gelu(x @ w) @ v

    sides = ((8192, width), (width, 4 * width), (4 * width, width))
    specs = [tile.spec(shape, tile.f16) for shape in sides]
    audit = tiledsl.fuse(tiledsl.trace(perceptron, *specs)).audit("sm_90")
    assert len(audit.kernels) == kernels
    assert all(one.kernel.by_warpgroups for one in audit.kernels)
