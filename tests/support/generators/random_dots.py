"""Generated TILE programs of one batched product each, with extents that are 1, known, or open in every position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tiledsl.ir.dtypes import BY_NAME, to_numpy

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Extent:
    """A size, and whether it is known when compiling."""

    size: int
    known: bool


@dataclass(frozen=True)
class BatchedDot:
    """batch x [m, k] times batch x [k, n]; the first batch axis is that of the grid, the others are whole."""

    batch: tuple[Extent, ...]
    m: Extent
    k: Extent
    n: Extent
    dtype: str = "f32"
    accumulates: bool = False
    transposed: bool = False
    """Whether the right operand is given as [n, k]."""

    @property
    def text(self) -> str:
        """The program: operands and, if it accumulates, what to add to, are loaded; the result is stored."""
        names = [f"B{i}" for i in range(len(self.batch))]
        *batch, m, k, n = (
            str(e.size) if e.known else name for e, name in zip((*self.batch, self.m, self.k, self.n), [*names, *"MKN"])
        )
        inner = ["b", *batch[1:]]
        at = ", ".join(["%b", *[":"] * (len(batch) + 1)])
        right = [n, k] if self.transposed else [k, n]
        result = "i32" if self.dtype == "i8" else "f64" if self.dtype == "f64" else "f32"
        lines = [f"%s = tile.load(%x, [{at}])", f"%t = tile.load(%y, [{at}])"]
        if self.transposed:
            rank = len(batch) + 2
            order = [*range(rank - 2), rank - 1, rank - 2]
            lines.append(f"%u = tile.transpose(%t) {{permutation = {order}}}")
        if self.accumulates:
            lines.append(f"%acc = tile.load(%c, [{at}])")
        operands = f"%s, {'%u' if self.transposed else '%t'}, {'%acc' if self.accumulates else 'none'}"
        lines += [f"%r = tile.dot({operands}) {{dtype = {result}}}", f"tile.store(%z, [{at}], %r)"]
        body = "\n    ".join(lines)
        return f"""
func @f(%x: {_tensor(self.dtype, [*batch, m, k])}, %y: {_tensor(self.dtype, [*batch, *right])},
        %c: {_tensor(result, [*batch, m, n])}) {{
  %z = tile.empty() {{shape = [{", ".join([*batch, m, n])}], dtype = {result}}}
  %size = tile.size() {{value = {batch[0]}}}
  tile.grid([%size]) {{blocks = [auto]}} body(%b: axis<{inner[0]}>) {{
    {body}
  }}
  tile.return([%z])
}}
"""

    def arguments(self) -> list[Array]:
        """Small whole numbers, which every dtype holds and whose sums are exact."""
        sizes = [e.size for e in self.batch]
        m, k, n = self.m.size, self.k.size, self.n.size
        right = (n, k) if self.transposed else (k, n)
        result = "i32" if self.dtype == "i8" else "f64" if self.dtype == "f64" else "f32"
        shapes = [((*sizes, m, k), self.dtype), ((*sizes, *right), self.dtype), ((*sizes, m, n), result)]
        generator = np.random.default_rng(0)
        return [generator.integers(-3, 4, shape).astype(to_numpy(BY_NAME[name])) for shape, name in shapes]


def _tensor(dtype: str, shape: Sequence[str]) -> str:
    return f"tensor<{dtype}, [{', '.join(shape)}]>"


def extents() -> st.SearchStrategy[Extent]:
    """1 in every third case or so."""
    return st.builds(Extent, st.one_of(st.just(1), st.integers(1, 4), st.sampled_from([7, 16, 17, 33])), st.booleans())


@st.composite
def batched_dots(draw: st.DrawFn) -> BatchedDot:
    """Products of one to three batch axes."""
    batch = draw(st.lists(extents(), min_size=1, max_size=3))
    m, k, n = (draw(extents()) for _ in range(3))
    dtype = draw(st.sampled_from(["f32", "f64", "f16", "bf16", "i8"]))
    return BatchedDot(tuple(batch), m, k, n, dtype, draw(st.booleans()), draw(st.booleans()))
