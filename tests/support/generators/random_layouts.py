"""Random register and shared layouts for property tests: products of a few factors, odd sizes among them."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from tiledsl.ir.layouts.buffer_layout import SharedLayout, Swizzle
from tiledsl.ir.layouts.layout import RegisterLayout, local, replicate, spatial

SIZES = (1, 1, 2, 2, 3, 4, 5, 8)
MOST = 1024
"""Elements of a layout, replicas counted."""


@st.composite
def layouts(draw: st.DrawFn, rank: int | None = None, most_factors: int = 4) -> RegisterLayout:
    """A product of factors over the same axes; at most `MOST` (thread, slot) pairs."""
    rank = draw(st.integers(1, 3)) if rank is None else rank
    layout = local(*[1] * rank)
    for _ in range(draw(st.integers(0, most_factors))):
        factor = draw(factors(rank))
        if layout.threads * layout.slots * factor.threads * factor.slots <= MOST:
            layout = layout * factor
    return layout


@st.composite
def factors(draw: st.DrawFn, rank: int) -> RegisterLayout:
    kind = draw(st.sampled_from(("local", "spatial", "spatial", "replicate")))
    if kind == "replicate":
        return replicate(draw(st.sampled_from(SIZES)), rank)
    sizes = draw(st.lists(st.sampled_from(SIZES), min_size=rank, max_size=rank))
    return local(*sizes) if kind == "local" else spatial(*sizes)


@st.composite
def alike(draw: st.DrawFn, threads: int = 64) -> tuple[RegisterLayout, RegisterLayout]:
    """Two layouts of one shape by as many threads, made of powers of two: for conversions."""
    shape = draw(st.sampled_from([(16, 8), (8, 16), (64,), (32, 4), (128,), (4, 4)]))
    source = draw(st.randoms(use_true_random=False))
    return _spread(source, shape, threads), _spread(source, shape, threads)


def _spread(source: random.Random, shape: tuple[int, ...], threads: int) -> RegisterLayout:
    """A layout of `shape`: from the inside out, each factor takes two of an axis, or makes two copies."""
    rank = len(shape)
    steps = [axis for axis, size in enumerate(shape) for _ in range(size.bit_length() - 1)]
    spread = min(len(steps), source.randint(0, threads.bit_length() - 1))
    kinds = [*["spatial"] * spread, *["local"] * (len(steps) - spread)]
    source.shuffle(steps)
    source.shuffle(kinds)
    choices = [*zip(kinds, steps)]
    for _ in range(threads.bit_length() - 1 - spread):
        choices.insert(source.randint(0, len(choices)), ("replicate", 0))
    layout = local(*[1] * rank)
    for kind, axis in choices:
        extents = [2 if i == axis else 1 for i in range(rank)]
        factor = replicate(2, rank) if kind == "replicate" else (local if kind == "local" else spatial)(*extents)
        layout = factor * layout
    return layout


@st.composite
def shared_layouts(draw: st.DrawFn, rank: int) -> SharedLayout:
    order = tuple(draw(st.permutations(range(rank))))
    padding = draw(st.sampled_from((0, 0, 1, 2, 8)))
    swizzle = None
    if draw(st.booleans()):
        bits = draw(st.integers(1, 3))
        swizzle = Swizzle(bits, draw(st.integers(3, 5)), draw(st.integers(bits, 5)))
    return SharedLayout(order, padding, swizzle)
