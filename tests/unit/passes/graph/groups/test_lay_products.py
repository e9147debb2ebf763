"""Products laid otherwise, with copies: the graph means the same, and it is done where it pays."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import F16, normal
from tiledsl import tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.core import Module
from tiledsl.ir.graph_ops import Contract
from tiledsl.passes.graph.analysis.products_in_a_row import stay_matrices
from tiledsl.passes.graph.groups import lay_products
from tiledsl.passes.graph.groups.lay_products import Laid, Laying, LayProducts, ProductAxes, ways
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.manager import PassContext, PassManager

SIZES = {"b": 2, "c": 3, "i": 4, "j": 5, "m": 3, "n": 2, "k": 6, "l": 2}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it costs: of the ways that there are the one that takes least."""
    monkeypatch.setattr(lay_products, "WELL", 0.0)
    monkeypatch.setattr(lay_products, "GAIN", float("inf"))


@st.composite
def products(draw: st.DrawFn) -> str:
    """Axes of a product of several matrices, in any order."""
    batch, summed = draw(st.sampled_from(["", "b", "bc"])), draw(st.sampled_from(["k", "kl"]))
    rows, columns = draw(st.sampled_from(["i", "im"])), draw(st.sampled_from(["j", "jn"]))
    a, b, out = (
        " ".join(draw(st.permutations(names)))
        for names in (batch + rows + summed, batch + columns + summed, batch + rows + columns)
    )
    return f"{a}, {b} -> {out}"


@settings(max_examples=30, deadline=None)
@given(axes=products(), narrow=st.booleans(), data=st.data())
def test_each_way_means_the_same(axes: str, narrow: bool, data: st.DataObject) -> None:
    def formula(x: Any, y: Any) -> Any:
        product = tile.einsum(axes, x, y)
        return product.to(tile.f16) if narrow else product

    operands = axes.partition(" -> ")[0].split(", ")
    arrays = [normal(*(SIZES[name] for name in names.split()), dtype=F16) for names in operands]
    graph = tiledsl.trace(formula, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    (product,) = [op for op in graph.module.entry.body.ops if isinstance(op, Contract)]
    names = ProductAxes.of(product)
    assert names is not None
    laying = Laying("sm_90", PassContext(), {"graph"})
    laying.write(product, data.draw(st.sampled_from(list(ways(product, names)))))
    tidy(graph.module.entry)
    module = Module([graph.module.entry, *laying.functions])
    (actual,) = execute_graph(module.entry, arrays, module)
    assert_close(actual, expected, relative=2e-3, terms=12)


CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "matrices inside of rows": ("i k c, j k c -> i j c", (20, 12, 8), (9, 12, 8)),
    "rows and columns in turns": ("s i c, s j e -> i j c e", (12, 5, 8), (12, 3, 16)),
    "small sums in the middle": ("n a i b j, u i -> n a b u j", (2, 3, 8, 5, 8), (8, 8)),
}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_kernels_are_right(name: str, arch: str) -> None:
    axes, *shapes = CASES[name]
    arrays = [normal(*shape, dtype=F16) for shape in shapes]
    graph = tiledsl.trace(lambda x, y: tile.tanh(tile.einsum(axes, x, y)), *arrays)
    context = PassContext()
    PassManager([LayProducts(arch)]).run(graph.module.clone(), context)
    assert context.remarks
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    actual = emulate_graph(graph, arrays, {}, None, Request(arch=arch)).result
    assert_close(np.asarray(actual), expected, relative=4e-3, terms=16)


LARGE: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], bool]] = {
    "matrices inside of rows": ("i k c, j k c -> i j c", (384, 384, 128), (384, 384, 128), True),
    "rows and columns in turns": ("s i c, s j e -> i j c e", (512, 128, 32), (512, 128, 32), True),
    "sums in two orders": ("m k l, l k n -> m n", (65536, 24, 20), (20, 24, 256), True),
    "matrices": ("m k, k n -> m n", (4096, 4096), (4096, 4096), False),
    "rows of several sentences": ("b s k, k n -> b s n", (8, 512, 1024), (1024, 1024), False),
    "heads": ("b s h d, b t h d -> b h s t", (4, 512, 16, 64), (4, 512, 16, 64), False),
    "blocks on a diagonal": ("m b k, b k n -> m b n", (8192, 16, 256), (16, 256, 256), False),
}


@pytest.mark.parametrize("name", LARGE)
def test_where_it_pays(name: str) -> None:
    axes, x, y, laid = LARGE[name]
    graph = tiledsl.trace(lambda a, b: tile.einsum(axes, a, b), tile.spec(x, tile.f16), tile.spec(y, tile.f16))
    context = PassContext()
    PassManager([LayProducts("sm_90")]).run(graph.module.clone(), context)
    assert bool(context.remarks) == laid
    if laid:
        audit = tiledsl.fuse(graph).audit("sm_90")
        moved = sum(kernel.kernel.must_bytes for kernel in audit.kernels)
        assert audit.predicted < 2 * moved / 4.0e12


def _shared_keys(q: Any, k: Any, v: Any) -> Any:
    scores = tile.einsum("b s h d, b t d -> b h s t", q, k)
    return tile.einsum("b h s t, b t d -> b s h d", tile.softmax(scores).to(v.dtype), v)


def test_heads_with_keys_in_common_are_rows() -> None:
    """The scores have heads first, and nobody sees them."""
    given = [tile.spec(shape, tile.bf16) for shape in ((4, 1024, 16, 64), (4, 1024, 64), (4, 1024, 64))]
    (kernel,) = tiledsl.fuse(tiledsl.trace(_shared_keys, *given)).audit("sm_90").kernels
    assert kernel.kernel.moved_bytes < 6 * kernel.kernel.must_bytes  # 40 times where each head was by itself
    arrays = [normal(*shape, dtype=F16) for shape in ((2, 5, 3, 16), (2, 7, 16), (2, 7, 16))]
    graph = tiledsl.trace(_shared_keys, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), expected, relative=4e-3, terms=16)


def _between_projections(z: Any, w: Any, v: Any, out: Any) -> Any:
    return tile.einsum("i k c, j k c -> i j c", z @ w, z @ v).to(z.dtype) @ out


@pytest.mark.parametrize("positions", [256, 384])
def test_products_that_would_have_a_column_at_a_time_stay_apart(positions: int) -> None:
    given = [tile.spec((positions, positions, 128), tile.bf16), *[tile.spec((128, 128), tile.bf16)] * 3]
    audit = tiledsl.fuse(tiledsl.trace(_between_projections, *given)).audit("sm_90")
    assert audit.predicted < 5 * audit.floor  # 32 and 139 times


def test_what_products_store_for_others_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_laid(self: Laying, op: Contract, names: ProductAxes) -> Laid:
        del self
        return next(way for way in ways(op, names) if names.a != way.a and names.result != way.result)

    monkeypatch.setattr(Laying, "best", all_laid)
    arrays = [normal(*shape, dtype=F16) for shape in ((10, 10, 16), (16, 8), (16, 8), (8, 24))]
    graph = tiledsl.trace(_between_projections, *arrays)
    kernels = tiledsl.fuse(graph).lowered("sm_90").functions
    assert not any(function.name.startswith("laid") for function in kernels)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), expected, relative=4e-3, terms=16 * 10 * 8)


PAIRS: dict[str, tuple[str, str, bool]] = {
    "attention": ("h i d, h j d -> h i j", "h i j, h j e -> h i e", True),
    "layers": ("m k, k n -> m n", "m n, n o -> m o", True),
    "columns become matrices": ("i k d, d c -> i k c", "i k c, j k c -> i j c", False),
    "both sides are summed": ("i k, j k -> i j", "i j, i j c -> c", False),
    "matrices are summed": ("i k c, j k c -> i j c", "i j c, c o -> i j o", False),
}


@pytest.mark.parametrize("name", PAIRS)
def test_products_in_a_row(name: str) -> None:
    first, second, stay = PAIRS[name]
    sizes = dict(zip("hijdekmnoc", range(2, 12)))
    a, b, c = (
        tile.spec(tuple(sizes[n] for n in names.split()), tile.f32)
        for names in (*first.partition(" -> ")[0].split(", "), second.partition(" -> ")[0].split(", ")[1])
    )

    def formula(x: Any, y: Any, z: Any) -> Any:
        between = tile.exp(tile.einsum(first, x, y)) * 2
        return tile.einsum(second, between, z)

    products = [op for op in tiledsl.trace(formula, a, b, c).module.entry.body.ops if isinstance(op, Contract)]
    assert stay_matrices(*products) == stay
