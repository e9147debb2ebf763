"""Modules built from lowered graphs, on the CPU."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from tests.support.generators.random_lowered import RandomLowered, lowered_graphs
from tests.support.graph_texts import CALLEES, LINEAR, VIEWS
from tiledsl.api.modules.build_module import build_module
from tiledsl.api.modules.module import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.runtime.calls.outputs import as_tuple
from tiledsl.support.errors import TileError, TileShapeError, TileTypeError

RANDOM = np.random.default_rng(3)


def array(*shape: int) -> Any:
    return RANDOM.integers(-4, 5, shape).astype(np.float32)


W, B = array(8, 6), array(6)


def linear(arch: str | None = "cpu") -> Module:
    return build_module(parse_module(LINEAR), {"w": W, "b": B}, ["x"], arch)


@pytest.mark.parametrize("arch", ["cpu", "reference", None])
def test_a_linear_layer(arch: str | None) -> None:
    module = linear(arch)
    x = array(5, 8)
    np.testing.assert_array_equal(module(x), x @ W + B)
    x = array(5, 8)
    np.testing.assert_array_equal(module(x=x), x @ W + B)


def views(x: Any, y: Any) -> tuple[Any, ...]:
    """What `VIEWS` computes."""
    total = x + y.T
    far = total[1:4:2] + 2
    rows = np.broadcast_to(total[:1], (2, 6))
    return far.reshape(12), np.minimum(rows, 2), far + np.maximum(rows, 2), x, y.T, far.reshape(12)


def test_views_are_strides_into_buffers_and_results_are_arrays_of_their_own() -> None:
    module = build_module(parse_module(VIEWS), {}, ["x", "y"], "cpu")
    x, y = array(4, 6), array(6, 4)
    results = module(x, y)
    for actual, expected in zip(results, views(x, y)):
        np.testing.assert_array_equal(actual, expected)
        assert actual.flags.c_contiguous
    for number, result in enumerate(results):
        assert not any(np.shares_memory(result, other) for other in (x, y, *results[:number]))


def test_arguments_that_are_not_row_major_are_copied() -> None:
    module = build_module(parse_module(VIEWS), {}, ["x", "y"], "cpu")
    x, y = array(6, 4), array(12, 8)
    storage: Any = np.zeros(6 * 4 * 4 + 1, np.uint8)
    odd = storage[1:].view(np.float32).reshape(4, 6)
    odd[...] = x.T
    for other in (x.T, odd):
        for actual, expected in zip(module(other, y[::2, ::2]), views(x.T, y[::2, ::2])):
            np.testing.assert_array_equal(actual, expected)


def test_results_go_to_out() -> None:
    module = linear()
    x, storage = array(5, 8), np.zeros((10, 12), np.float32)
    direct = np.empty((5, 6), np.float32)
    assert module(x, out=direct) is direct
    np.testing.assert_array_equal(direct, x @ W + B)
    strided = storage[::2, ::2]
    assert module(x, out=strided) is strided
    np.testing.assert_array_equal(strided, direct)
    both = build_module(parse_module(VIEWS), {}, ["x", "y"], "cpu")
    x, y = array(4, 6), array(6, 4)
    expected = both(x, y)
    overlapping = (*(np.empty_like(one) for one in expected[:3]), x, np.empty((4, 6), np.float32), np.empty(12, "f"))
    for actual, wanted in zip(both(x, y, out=overlapping), expected):
        np.testing.assert_array_equal(actual, wanted)


def test_equal_functions_have_one_program_and_memory_is_used_again() -> None:
    names = "abcdefgh"
    calls = "".join(
        f"%{b} = graph.call([%{a}, %{a}]) {{callee = {'add' if i % 2 else 'more'}}} : tensor<f32, [64, 64]>\n"
        for i, (a, b) in enumerate(itertools.pairwise(names))
    )
    text = f"func @model(%a: tensor<f32, [64, 64]>) {{\n{calls}graph.return([%h])\n}}\n{CALLEES}"
    text += CALLEES[CALLEES.index("func @add") : CALLEES.index("func @shift")].replace("@add", "@more")
    module = build_module(parse_module(text), {}, ["a"], "cpu")
    built = module.built
    assert len(built.programs) == 1
    assert len(built.schedule.steps) == 7
    assert built.memory.unshared_bytes == 6 * 64 * 64 * 4
    assert built.memory.bytes == 2 * 64 * 64 * 4
    x = np.ones((64, 64), np.float32)
    np.testing.assert_array_equal(module(x), x * 2**7)


@given(lowered_graphs())
def test_random_graphs(graph: RandomLowered) -> None:
    *names, weight = graph.names
    *arguments, values = graph.arguments()
    module = build_module(graph.module, {weight: values}, names, "cpu")
    before = [argument.copy() for argument in (*arguments, values)]
    expected = graph.expected()
    for _ in range(2):
        for actual, wanted in zip(as_tuple(module(*arguments)), expected):
            np.testing.assert_array_equal(actual, wanted)
    for argument, old in zip((*arguments, values), before):
        np.testing.assert_array_equal(argument, old)


def test_calls_after_a_first_one_look_at_their_arguments() -> None:
    module = linear()
    x = array(5, 8)
    expected = x @ W + B
    module(x)
    read_only = x.copy()
    read_only.flags.writeable = False
    for same in (x, read_only, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2]):
        np.testing.assert_array_equal(module(same), expected)
    with pytest.raises(TileShapeError):
        module(array(4, 8))
    with pytest.raises(TileTypeError):
        module(x.astype(np.float64))
    for wrong in ((), (x, x)):
        with pytest.raises(TileError):
            module(*wrong)


def test_threads_may_call_at_once() -> None:
    module = linear()

    def call_often(x: Any) -> Any:
        return [module(x) for _ in range(50)][-1]

    xs = [array(5, 8) for _ in range(8)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(call_often, xs))
    for x, result in zip(xs, results):
        np.testing.assert_array_equal(result, x @ W + B)
