"""What only moves elements is one kernel, however many ops say so: rolls, turns, flips, shuffles, resizes and crops."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.compare import assert_close
from tests.support.emulated import emulated
from tests.support.op_checks import normal
from tiledsl import ops, tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.graph_ops import Call

Formula = Callable[..., Any]


def _shuffled(x: Any) -> Any:
    y = ops.pixel_unshuffle(x, 2)
    b, c, h, w = y.shape
    return y.reshape(b, 4, c // 4, h, w).transpose(0, 2, 1, 3, 4).reshape(b, c, h, w)


def _resized(x: Any) -> Any:
    return ops.interpolate(x, size=(7, 9), mode="linear")[:, :, 2:6, 1:8].to(tile.f16)


def _centred_patches(x: Any) -> Any:
    p = ops.unfold(x, 8, stride=4)
    return ops.fold(p - tile.mean(p, axis=1, keepdims=True), x.shape[2:], 8, stride=4)


def _positions_shifted(x: Any) -> Any:
    b, n, _ = x.shape
    return tile.pad(x, ((0, 0), (0, 0), (1, 0))).reshape(b, n + 1, n)[:, 1:] * 2.0


def _diagonals(x: Any) -> Any:
    b, n, _ = x.shape
    wide = tile.pad(x, ((0, 0), (0, 0), (0, n))).reshape(b, 2 * n * n)
    return wide[:, : n * (2 * n - 1)].reshape(b, n, 2 * n - 1)


def _rolled_windows(x: Any) -> Any:
    b, h, w, c = x.shape
    y = ops.roll(x, (-2, -3), (1, 2)).reshape(b, h // 4, 4, w // 4, 4, c)
    return y.transpose(0, 1, 3, 2, 4, 5).reshape(b * (h // 4) * (w // 4), 16, c)


MOVES: dict[str, tuple[Formula, tuple[int, ...], int]] = {
    "rolled, flipped, turned": (
        lambda x: ops.flip(ops.flip(ops.roll(x, (3, -5), (1, 2)), 2).transpose(0, 2, 1), 0), (2, 19, 37), 1
    ),
    "flipped three times": (lambda x: ops.flip(ops.flip(x, 1), (0, 2)), (3, 9, 35), 1),
    "shuffled": (_shuffled, (2, 4, 10, 12), 1),
    "resized and cropped": (_resized, (1, 1, 9, 13), 1),
    "nearest": (lambda x: ops.interpolate(x * 2.0, scale_factor=2), (1, 2, 9, 17), 1),
    "centred patches": (_centred_patches, (1, 4, 16, 20), 3),
    "positions shifted": (_positions_shifted, (2, 9, 9), 1),
    "diagonals as rows": (_diagonals, (3, 7, 7), 1),
    "rolled, cut into windows": (_rolled_windows, (2, 8, 12, 8), 1),
    "pixels shuffled by 3": (lambda x: ops.pixel_shuffle(x, 3), (1, 9, 34, 36), 1),
    "windows of what is padded": (lambda x: ops.unfold(x, 3, padding=1), (2, 3, 9, 12), 1),
    "windows, folded": (lambda x: tile.sum(ops.unfold(x, 3, stride=2), axis=1), (2, 3, 9, 11), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_one_kernel(name: str) -> None:
    formula, shape, kernels = MOVES[name]
    x = normal(*shape)
    graph = tiledsl.trace(formula, x)
    lowered = tiledsl.fuse(graph).lowered("sm_90")
    assert sum(isinstance(op, Call) for op in lowered.entry.body.ops) == kernels
    arrays: list[Any] = [x, *graph.constants.values()]
    (found,), expected = execute_graph(lowered.entry, arrays, lowered), np.asarray(graph(x))
    assert_close(found, expected, relative=2e-3 if found.dtype == np.float16 else 1e-5, absolute=1e-5)


@pytest.mark.parametrize(
    "name", ["rolled, flipped, turned", "shuffled", "nearest", "positions shifted", "pixels shuffled by 3"]
)
def test_threads_move_the_same(name: str) -> None:
    formula, shape, _ = MOVES[name]
    found, expected = emulated(formula, [normal(*shape)], seed=1)
    assert_close(found, expected, relative=1e-5)


def _step(draw: st.DrawFn, rank: int, shape: tuple[int, ...]) -> tuple[str, Formula]:
    axis = draw(st.integers(0, rank - 1))
    match draw(st.sampled_from(("flip", "roll", "turn", "merge", "split", "cut", "pad", "repeat", "resize", "map"))):
        case "flip":
            return f"flip {axis}", lambda x: ops.flip(x, axis)
        case "roll":
            by = draw(st.integers(-3, 3))
            return f"roll {axis} by {by}", lambda x: ops.roll(x, by, axis)
        case "turn":
            order = draw(st.permutations(range(rank)))
            return f"turn {order}", lambda x: x.transpose(*order)
        case "merge" if rank > 2 and axis < rank - 1:
            merged = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
            return f"merge to {merged}", lambda x: x.reshape(merged)
        case "split" if rank < 5 and shape[axis] % 2 == 0:
            split = (*shape[:axis], shape[axis] // 2, 2, *shape[axis + 1 :])
            return f"split to {split}", lambda x: x.reshape(split)
        case "cut" if shape[axis] > 2:
            start, step = draw(st.integers(0, 2)), draw(st.sampled_from((1, 2)))
            place = (*(slice(None),) * axis, slice(start, None, step))
            return f"cut {place}", lambda x: x[place]
        case "pad":
            return f"pad {axis}", lambda x: ops.pad(x, tuple((1, 2) if n == axis else (0, 0) for n in range(rank)))
        case "repeat" if shape[axis] < 12:
            return f"repeat {axis}", lambda x: ops.repeat_interleave(x, 2, axis)
        case "resize" if shape[axis] > 1:
            size = draw(st.integers(2, 9))
            mode = draw(st.sampled_from(("nearest", "linear")))
            return f"{mode} {axis} to {size}", lambda x: ops.resize(x, (size,), None, (axis,), mode)
        case _:
            return "map", lambda x: x * 2.0 + 1.0


@st.composite
def chains(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[str, Formula]]]:
    """A shape, and steps that move its elements, with a few elementwise ones."""
    first = tuple(draw(st.lists(st.sampled_from((2, 3, 4, 6, 8, 5)), min_size=2, max_size=4)))
    shape, steps, x = first, list[tuple[str, Formula]](), np.zeros(first, np.float32)
    for _ in range(draw(st.integers(1, 5))):
        name, step = _step(draw, len(shape), shape)
        graph = tiledsl.trace(step, x)
        made = np.asarray(graph(x))
        if made.size > 4096:
            continue
        steps.append((name, step))
        x = np.zeros(made.shape, np.float32)
        shape = made.shape
    return first, steps


@given(chain=chains(), seed=st.integers(0, 99))
@settings(max_examples=5, deadline=None)
def test_any_chain(chain: tuple[tuple[int, ...], list[tuple[str, Formula]]], seed: int) -> None:
    shape, steps = chain
    note([name for name, _ in steps])

    def formula(x: Any) -> Any:
        for _, step in steps:
            x = step(x)
        return x

    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    graph = tiledsl.trace(formula, x)
    arrays: list[Any] = [x, *graph.constants.values()]
    expected = np.asarray(graph(x))
    for arch in ("sm_90", "cpu"):
        lowered = tiledsl.fuse(graph).lowered(arch)
        (found,) = execute_graph(lowered.entry, arrays, lowered)
        assert_close(found, expected, relative=1e-5)
