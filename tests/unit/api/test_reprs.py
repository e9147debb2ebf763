"""Every public object says what it is; notebooks show those that explain themselves."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tiledsl
from tiledsl import tile

X = np.ones((8, 8), np.float32)
STUBS = (tile.Tensor, tile.Tile, tile.constexpr)
"""Of annotations: they have no instances."""


@tile.kernel
def doubled(x: tile.Tensor, by: tile.constexpr = 2) -> Any:
    y = tile.empty(x.shape, x.dtype)
    M, N = x.shape
    for m, n in tile.grid(M, N):
        y[m, n] = x[m, n] * by
    return y


@tile.kernel
def formula(x: Any) -> Any:
    return tile.softmax(x @ x, axis=-1)


def graph() -> Any:
    return tiledsl.trace(formula.__wrapped__, X)


@tile.kernel
def by_rows(x: tile.Tensor) -> Any:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        row = x[m, :]
        y[m, :] = row / tile.sum(row, axis=1, keepdims=True)
    return y


def row_layouts() -> Any:
    return by_rows.compile(X, arch="sm_90").layouts


MADE: dict[str, tuple[Callable[[], Any], str]] = {
    "kernel": (lambda: doubled, "<tile.kernel doubled(x: tile.Tensor, by: tile.constexpr = 2)>"),
    "formula": (lambda: formula, "<tile.kernel formula(x: Any)>"),
    "compiled": (lambda: doubled.compile(X), "<doubled(x: f32[?, ?], by: 2) for cpu>"),
    "compiled formula": (lambda: formula.compile(X), "<<graph formula(x: tensor<f32, [8, 8], unit=1>): "),
    "prepared": (lambda: doubled.bind(X), "<prepared call of doubled -> float32[8, 8]>"),
    "prepared formula": (lambda: formula.bind(X), "<prepared call of formula -> float32[8, 8]>"),
    "prepared compiled": (lambda: doubled.compile(X).bind(X), "<prepared call of doubled -> float32[8, 8]>"),
    "graph": (graph, "<graph formula(x: tensor<f32, [8, 8], unit=1>): "),
    "fused": (lambda: tiledsl.fuse(graph()), "<fused <graph formula("),
    "built": (lambda: tiledsl.fuse(graph()).build("cpu"), "<built <graph formula("),
    "module": (lambda: tiledsl.fuse(graph()).build("cpu").modules[0], "<module formula(x) for cpu>"),
    "module kernel": (lambda: next(iter(tiledsl.fuse(graph()).build("cpu").kernels.values())), "<kernel formula_"),
    "spec": (lambda: tile.spec(("M", 8), tile.f32), "TensorSpec("),
    "check": (lambda: doubled.check(X), "<check: ok>"),
    "audit": (lambda: doubled.audit(X), "<audit of doubled for sm_90: ratio "),
    "layout": (lambda: row_layouts()["row"], "<row: f32["),
}


@pytest.mark.parametrize("name", MADE)
def test_what_it_is(name: str) -> None:
    make, text = MADE[name]
    assert repr(make()).startswith(text)


SHOWN = ["kernel", "formula", "compiled", "compiled formula", "graph", "fused", "built", "module", "module kernel"]


@pytest.mark.parametrize("name", SHOWN)
def test_notebooks_show_it(name: str) -> None:
    made = MADE[name][0]()
    page = made._repr_html_()
    assert repr(made).replace("<", "&lt;").replace(">", "&gt;") in page
    assert page.startswith("<details open>" if name == "module" else "<details>")
    assert page.count("<details") == page.count("</details>") == 1


@pytest.mark.parametrize("name", ["check", "audit"])
def test_notebooks_show_what_it_found(name: str) -> None:
    made = MADE[name][0]()
    page = made._repr_html_()
    assert page.startswith("<pre ")
    assert str(made).replace("<", "&lt;").replace(">", "&gt;") in page


@pytest.mark.parametrize("name", ["module", "layout"])
def test_notebooks_draw_it(name: str) -> None:
    drawing = ElementTree.fromstring(MADE[name][0]()._repr_svg_())
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(drawing.findall(".//{http://www.w3.org/2000/svg}rect")) > 2


def test_notebooks_show_what_is_not_built_yet() -> None:
    module = tiledsl.fuse(graph()).build("cpu").modules[0]
    module._builds.made.clear()  # pyright: ignore[reportPrivateUsage]  # as one that no call built yet
    assert module._repr_html_() == f"<code>{repr(module).replace('<', '&lt;').replace('>', '&gt;')}</code>"  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("module", [tiledsl, tile])
def test_no_public_class_is_without_a_repr(module: ModuleType) -> None:
    public = vars(module)
    names: list[str] = list(public.get("__all__", ())) or [name for name in public if not name.startswith("_")]
    for value in (public[name] for name in names if name in public):
        kind: Any = value if isinstance(value, type) else type(value)
        assert kind in STUBS or kind.__repr__ is not object.__repr__, f"{kind} has no repr"
        assert " object at 0x" not in repr(value)
