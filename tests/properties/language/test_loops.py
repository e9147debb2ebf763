"""Random steps of `tiledsl.scan`: as a graph and as a module they give what the same steps give in NumPy."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.compare import assert_close
from tiledsl import TilePerformanceWarning, tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.verifier import Form, verify

Array = Any
OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "mix": (lambda a, b: a - 0.5 * b, lambda a, b: a - np.float32(0.5) * b),
    "tanh": (lambda a, b: tile.tanh(a) + b, lambda a, b: np.tanh(a) + b),
    "row": (lambda a, b: a - tile.mean(b, axis=-1, keepdims=True), lambda a, b: a - b.mean(axis=-1, keepdims=True)),
    "flip": (lambda a, b: tile.where(a > b, a, -b), lambda a, b: np.where(a > b, a, -b)),
}
"""Of traced tensors, and of NumPy's, on two values of one shape."""
WIDE = {
    "product": (lambda a, w: tile.tanh(tile.dot(a, w)), lambda a, w: np.tanh(a @ w)),
    "turned": (lambda a, w: tile.tanh(tile.dot(a, w.mT)), lambda a, w: np.tanh(a @ w.T)),
}
"""On a value and a matrix from outside."""


@dataclass(frozen=True)
class Case:
    """A loop: operations on carried values, elements, and what was computed before; which of these are carried on, and
    which are stacked."""

    carried: int
    sequences: int
    steps: tuple[tuple[str, int, int], ...]
    after: tuple[int, ...]
    stacked: tuple[int, ...]
    count: int
    shape: tuple[int, int]
    reverse: bool

    def step(self, wide: Array, side: int, carry: Sequence[Any], elements: Sequence[Any]) -> tuple[Any, Any]:
        """One step on traced tensors (`side` 0) or on arrays (1)."""
        values = [*carry, *elements]
        for name, a, b in self.steps:
            if name in WIDE:
                values.append(WIDE[name][side](values[a], wide))
            else:
                values.append(OPERATIONS[name][side](values[a], values[b]))
        return tuple(values[n] for n in self.after), [values[n] for n in self.stacked]


def case_of(seed: int) -> Case:
    random = Random(seed)
    carried, sequences = random.randint(1, 3), random.randint(0, 2)
    count = carried + sequences
    steps: list[tuple[str, int, int]] = []
    names = [*OPERATIONS, *(WIDE if random.random() < 0.4 else ())]
    for _ in range(random.randint(1, 6)):
        steps.append((random.choice(names), random.randrange(count), random.randrange(count)))
        count += 1
    any_value = lambda: random.randrange(count) if random.random() < 0.4 else count - 1 - random.randrange(len(steps))  # noqa: E731
    return Case(
        carried, sequences, tuple(steps), tuple(any_value() for _ in range(carried)),
        tuple(any_value() for _ in range(random.randint(0, 3))), random.choice([0, 1, 2, 3, 5]),
        (random.choice([1, 3]), random.choice([1, 5, 8])), random.random() < 0.3,
    )  # fmt: skip


def arrays_of(case: Case, seed: int) -> tuple[Array, list[Array], list[Array]]:
    random = np.random.default_rng(seed)
    normal = lambda *shape: random.standard_normal(shape).astype(np.float32)  # noqa: E731
    return (
        normal(case.shape[1], case.shape[1]),
        [normal(*case.shape) for _ in range(case.carried)],
        [normal(case.count, *case.shape) for _ in range(case.sequences)],
    )


def loop_of(case: Case) -> Callable[..., Any]:
    def formula(wide: Any, carry: Any, xs: Any = ()) -> Any:
        given = tuple(xs) if case.sequences else None
        step = lambda c, x: case.step(wide, 0, c, x or ())  # noqa: E731
        return tiledsl.scan(step, tuple(carry), given, length=case.count, reverse=case.reverse)

    return formula


def expected_of(case: Case, wide: Array, carry: Sequence[Array], xs: Sequence[Array]) -> list[Array]:
    stacked = [np.zeros((case.count, *case.shape), np.float32) for _ in case.stacked]
    for t in reversed(range(case.count)) if case.reverse else range(case.count):
        carry, ys = case.step(wide, 1, carry, [x[t] for x in xs])
        for whole, y in zip(stacked, ys):
            whole[t] = y
    return [*carry, *stacked]


@settings(max_examples=12)
@given(st.integers(0, 10**9))
def test_random_steps(seed: int) -> None:
    case = case_of(seed)
    wide, carry, xs = arrays_of(case, seed)
    expected = expected_of(case, wide, carry, xs)
    inputs = (wide, carry, *([xs] if xs else []))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilePerformanceWarning)  # of inputs that are not used
        graph = tiledsl.trace(loop_of(case), *inputs)
    verify(graph.module, Form.GRAPH)
    assert parse_module(print_module(graph.module, locations=True)) == graph.module
    given_arrays = {p.name: a for p, a in zip(graph.module.entry.parameters, [wide, *carry, *xs])}
    arguments = [given_arrays[p.name] for p in graph.module.entry.parameters]
    for name, results in {
        "graph": execute_graph(graph.module.entry, arguments, graph.module),
        "cpu": flat(tiledsl.fuse(graph).build("cpu")(*inputs)),
        "unfused": flat(tiledsl.fuse(graph, fusion=False).build("reference")(*inputs)),
    }.items():
        assert len(results) == len(expected), name
        for result, wanted in zip(results, expected):
            assert_close(result, wanted, relative=1e-4)


def flat(result: Any) -> list[Array]:
    carry, stacked = result
    return [*carry, *stacked]
