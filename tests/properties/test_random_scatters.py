"""Scatters of random shapes with places that meet, count from the end or lie outside, against a loop over updates: the
formula, the code of a CPU, and for some the emulator."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import F16, F32, F64, Array
from tiledsl import ops, tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.graphs.fused import check_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_ref.execute_graph import execute_graph

REDUCTIONS = ("set", "add", "mul", "min", "max", "mean")


@dataclass(frozen=True)
class Scatter:
    """`indices` has the shape of x but for `axis`, or is shorter; `slices`: they are the same along all other axes,
    `one`: all updates are one number."""

    shape: tuple[int, ...]
    axis: int
    indices: tuple[int, ...]
    slices: bool
    one: bool
    reduce: str
    include_self: bool
    deterministic: bool
    dtype: Any
    index_dtype: Any
    seed: int

    def arrays(self) -> list[Array]:
        draw, size = np.random.default_rng(self.seed), self.shape[self.axis]
        kept = tuple(n if i == self.axis else 1 for i, n in enumerate(self.indices)) if self.slices else self.indices
        places = draw.integers(-size - 1, size + 2, kept).astype(self.index_dtype)
        made = [draw.integers(-3, 4, s) for s in (self.shape, () if self.one else self.indices)]
        return [made[0].astype(self.dtype), places, made[1].astype(self.dtype)]

    def formula(self, x: Any, places: Any, updates: Any) -> Any:
        places, updates = tile.broadcast_to(places, self.indices), tile.broadcast_to(updates, self.indices)
        return ops.scatter(
            x, places, updates, self.axis, reduce=self.reduce, include_self=self.include_self,
            deterministic=self.deterministic,
        )  # fmt: skip

    def wanted(self, x: Array, places: Array, updates: Array) -> Array:
        """One update after the other."""
        met: dict[tuple[int, ...], list[Any]] = {}
        places, updates = np.broadcast_to(places, self.indices), np.broadcast_to(updates, self.indices)
        for at in itertools.product(*map(range, self.indices)):
            place, size = int(places[at]), self.shape[self.axis]
            if -size <= place < size:
                key = (*at[: self.axis], place % size, *at[self.axis + 1 :])
                met.setdefault(key, []).append(updates[at])
        y = x.astype(F64 if x.dtype.kind == "f" else np.int64)
        whole = x.dtype.kind != "f"
        for key, values in met.items():
            every: Any = np.array([*([y[key]] if self.include_self else []), *values], y.dtype)
            match self.reduce:
                case "set":
                    y[key] = values[-1]
                case "mean":
                    y[key] = every.sum() // len(every) if whole else every.sum() / len(every)
                case name:
                    by: Any = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[name]
                    y[key] = by.reduce(every)
        return y.astype(x.dtype)


@st.composite
def scatters(draw: st.DrawFn) -> Scatter:
    """Axes of one element, and none, too; more updates than places, and fewer."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    axis = draw(st.integers(0, len(shape) - 1))
    whole = draw(st.sampled_from((True, True, False)))
    others = tuple(n if whole else draw(st.integers(1, n)) for n in shape)
    indices = (*others[:axis], draw(st.integers(1, 9)), *others[axis + 1 :])
    reduce = draw(st.sampled_from(REDUCTIONS))
    dtypes = (F32, F32, F16, np.int32, np.int64, np.int8)
    return Scatter(
        shape, axis, indices, draw(st.booleans()), draw(st.sampled_from((False, False, True))), reduce,
        draw(st.booleans()), draw(st.sampled_from((False, False, True))), draw(st.sampled_from(dtypes)),
        draw(st.sampled_from((np.int64, np.int32))), draw(st.integers(0, 99)),
    )  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(scatters())
def test_random_scatters(case: Scatter) -> None:
    arrays = case.arrays()
    graph = tiledsl.trace(case.formula, *arrays)
    (actual,) = execute_graph(graph.module.entry, arrays, graph.module)
    assert_close(actual, case.wanted(*arrays), terms=case.indices[case.axis] + 1)


@settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(scatters())
def test_on_a_cpu_and_checked(case: Scatter) -> None:
    """The check finds places that lie outside, and nothing else: updates of one place may meet."""
    arrays = case.arrays()
    graph = tiledsl.trace(case.formula, *arrays)
    wanted, terms = case.wanted(*arrays), case.indices[case.axis] + 1
    assert_close(np.asarray(tiledsl.fuse(graph).build("cpu")(*arrays)), wanted, terms=terms)
    found = check_graph(graph, arrays, {}, None).errors
    assert all(error.code == "check-outside" for error in found), found


@settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(scatters())
def test_in_the_emulator(case: Scatter) -> None:
    arrays = case.arrays()
    graph = tiledsl.trace(case.formula, *arrays)
    actual = np.asarray(emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result)
    assert_close(actual, case.wanted(*arrays), terms=case.indices[case.axis] + 1)
