"""Axes that are joined, moved and split again: tidy graphs mean the same, and read memory by strides where they can."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.canonicalise_graph import CanonicaliseGraph
from tiledsl.passes.manager import PassContext

FACTORS = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@st.composite
def _shapes(draw: st.DrawFn, factors: list[int]) -> list[int]:
    """Neighbours of the factors, joined at random."""
    found: list[int] = []
    rest = list(factors)
    while rest:
        count = draw(st.integers(1, len(rest)))
        found.append(math.prod(rest[:count]))
        rest = rest[count:]
    return found


@st.composite
def _chains(draw: st.DrawFn) -> str:
    """A part of a tensor, reshaped, transposed and reshaped, as text."""
    factors = draw(FACTORS)
    first, second = draw(_shapes(factors)), draw(_shapes(factors))
    order = draw(st.permutations(range(len(second))))
    moved = [second[axis] for axis in order]
    if draw(st.booleans()):  # by the same factors as before, where they can be told
        pieces = [n for size in moved for n in _prime_factors(size)]
        last = draw(_shapes(pieces)) if pieces else [1]
    else:
        last = draw(_shapes(moved))
    wide = [*first[:-1], first[-1] + 3]
    zeros, ones = [0] * len(first), [1] * len(first)
    return f"""func @main(%x: tensor<f32, {wide}>) {{
  %p = graph.slice(%x) {{starts = {zeros}, stops = {first}, steps = {ones}}}
  %a = graph.reshape(%p) {{shape = {second}}}
  %t = graph.transpose(%a) {{permutation = {list(order)}}}
  %b = graph.reshape(%t) {{shape = {last}}}
  graph.return([%b])
}}"""


def _prime_factors(size: int) -> list[int]:
    found: list[int] = []
    for prime in (2, 3):
        while size % prime == 0:
            size //= prime
            found.append(prime)
    return found


def _tidy(text: str) -> Module:
    return CanonicaliseGraph().run(parse_module(text), PassContext())


@given(_chains())
def test_it_means_the_same(text: str) -> None:
    module = parse_module(text)
    wide = sizes_of(module.entry.parameters[0])
    x = np.reshape(np.arange(math.prod(wide), dtype=np.float32), wide)
    (expected,) = execute_graph(module.entry, [x], module)
    tidied = _tidy(text)
    (actual,) = execute_graph(tidied.entry, [x], tidied)
    np.testing.assert_array_equal(actual, expected)


@given(st.sampled_from((2, 3, 5)), st.sampled_from((2, 4)), st.sampled_from((2, 6)), st.sampled_from((2, 8)))
def test_heads_of_a_part_are_a_view(tokens: int, batch: int, heads: int, width: int) -> None:
    model = heads * width
    text = f"""func @main(%x: tensor<f32, [{tokens}, {batch}, {3 * model}]>) {{
  %p = graph.slice(%x) {{starts = [0, 0, {model}], stops = [{tokens}, {batch}, {2 * model}], steps = [1, 1, 1]}}
  %a = graph.reshape(%p) {{shape = [{tokens}, {batch * heads}, {width}]}}
  %t = graph.transpose(%a) {{permutation = [1, 0, 2]}}
  %b = graph.reshape(%t) {{shape = [{batch}, {heads}, {tokens}, {width}]}}
  graph.return([%b])
}}"""
    returned = _tidy(text).entry.body.terminator
    assert isinstance(returned, ops.Return)
    view = view_of_value(returned.operands[0])
    assert view is not None
    assert view.buffer.op is None
