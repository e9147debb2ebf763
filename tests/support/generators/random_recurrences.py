"""Generated TILE programs of one grid whose loops store into a tensor and read it again: forward substitution, scans
within a block, elimination in place, and whatever else indices allow.

Tensors are of integers, or of floats that are computed in one order, so that all bits are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.ir.text.parser import parse_module

Array = npt.NDArray[Any]
MOST_STEPS = 3
"""Of one body."""
MOST_LOOPS = 3
"""Within each other."""


@dataclass(frozen=True)
class RandomRecurrence:
    """y[P, Q, B] after a grid over B has stored into it, as `text` says. `symbols`: P and Q are none of its numbers."""

    text: str
    p: int
    q: int
    batch: int
    dtype: str
    seed: int
    symbols: bool

    @property
    def module(self) -> Module:
        """The program."""
        return parse_module(self.text)

    def arguments(self) -> list[Array]:
        """New arrays on every call, always with the same contents."""
        generator = np.random.default_rng(self.seed)
        numbers = generator.integers(-3, 4, (2, self.p, self.q, self.batch))
        x, y = (np.asarray(one).astype(to_numpy(BY_NAME[self.dtype])) for one in numbers)
        return [x, y, generator.integers(-1, max(self.p, self.q) + 1, 8)]


class _Writer:
    def __init__(self, draw: st.DrawFn, p: str, q: str, dtype: str) -> None:
        self.draw, self.p, self.q, self.dtype = draw, p, q, dtype
        self.rarely = draw(st.sampled_from([[], [], [], ["data"], ["atomic"], ["row"], ["atomic", "data", "row"]]))
        self.lines: list[str] = []
        self._names = 0

    def fresh(self, prefix: str) -> str:
        self._names += 1
        return f"%{prefix}{self._names}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def number(self, depth: int, value: int) -> str:
        name = self.fresh("c")
        self.line(depth, f"{name} = tile.constant() {{value = {value}, dtype = i64}}")
        return name

    def index(self, depth: int, indices: list[str]) -> str:
        """A coordinate: a number, an index, one beside it, or what data say."""
        others = ["data"] * ("data" in self.rarely)
        kind = self.draw(st.sampled_from(["number", "index", "index", "index", "index", "beside", *others]))
        if kind == "number" or not indices:
            return self.number(depth, self.draw(st.integers(-1, 4)))
        index = self.draw(st.sampled_from(indices))
        if kind == "index":
            return index
        name = self.fresh("at")
        if kind == "data":
            self.line(depth, f"{name} = tile.load(%order, [{index}])")
        else:
            by = self.number(depth, self.draw(st.integers(1, 2)))
            self.line(
                depth, f"{name} = tile.map([{index}, {by}]) {{fn = {self.draw(st.sampled_from(['add', 'sub']))}}}"
            )
        return name

    def place(self, depth: int, indices: list[str]) -> str:
        return f"[{self.index(depth, indices)}, {self.index(depth, indices)}, %b]"

    def grid(self, depth: int) -> None:
        """The body of the grid, which has a loop."""
        tiles: list[str] = []
        self._load(depth, [], tiles, 0)
        self._for(depth, [], tiles, 0)
        self.body(depth, [], tiles, 1)

    def body(self, depth: int, indices: list[str], tiles: list[str], loops: int) -> None:
        """Some steps, which may read what is there; `tiles` learns what they make. Something is stored at last."""
        kinds = ["load", "load", "map", "store"] + ["for", "for", "if"] * (loops < MOST_LOOPS)
        kinds += [kind for kind in self.rarely if kind != "data"]
        for _ in range(self.draw(st.integers(1, MOST_STEPS))):
            getattr(self, f"_{self.draw(st.sampled_from(kinds))}")(depth, indices, tiles, loops)
        self._store(depth, indices, tiles, loops)

    def _load(self, depth: int, indices: list[str], tiles: list[str], _: int) -> None:
        name = self.fresh("t")
        tensor = self.draw(st.sampled_from(["%y", "%y", "%x"]))
        self.line(depth, f"{name} = tile.load({tensor}, {self.place(depth, indices)})")
        tiles.append(name)

    def _map(self, depth: int, _: list[str], tiles: list[str], __: int) -> None:
        name = self.fresh("t")
        two = [self.draw(st.sampled_from(tiles[-4:])) for _ in range(2)]
        self.line(
            depth,
            f"{name} = tile.map([{', '.join(two)}]) {{fn = {self.draw(st.sampled_from(['add', 'sub', 'minimum']))}}}",
        )
        tiles.append(name)

    def _store(self, depth: int, indices: list[str], tiles: list[str], _: int) -> None:
        value = self.draw(st.sampled_from(tiles[-3:]))
        self.line(depth, f"tile.store(%y, {self.place(depth, indices)}, {value})")

    def _atomic(self, depth: int, indices: list[str], tiles: list[str], _: int) -> None:
        name = self.fresh("old")
        place = self.place(depth, indices)
        self.line(depth, f"{name} = tile.atomic(%y, {place}, {tiles[-1]}) {{fn = add}}")

    def _row(self, depth: int, indices: list[str], tiles: list[str], _: int) -> None:
        """What lies along a whole axis, or a part of it, added up."""
        rows, name = self.fresh("rows"), self.fresh("t")
        along = self.draw(st.sampled_from([":", "0:2", "1:3"]))
        self.line(depth, f"{rows} = tile.load(%y, [{along}, {self.index(depth, indices)}, %b])")
        self.line(depth, f"{name} = tile.reduce([{rows}]) {{axes = [0], fn = max}}")
        tiles.append(name)

    def _if(self, depth: int, indices: list[str], tiles: list[str], loops: int) -> None:
        test, one, other = self.fresh("is"), self.index(depth, indices), self.index(depth, indices)
        fn = self.draw(st.sampled_from(["eq", "lt", "ge"]))
        self.line(depth, f"{test} = tile.map([{one}, {other}]) {{fn = {fn}}}")
        results = [self.fresh("t")] * self.draw(st.booleans())
        self.line(depth, f"{', '.join(results)}{' = ' * bool(results)}tile.if({test}) then() {{")
        for number in range(2):
            inner = list(tiles)
            self.body(depth + 1, indices, inner, loops + 1)
            self.line(depth + 1, f"tile.yield([{inner[-1] if results else ''}])")
            self.line(depth, "} otherwise() {" if number == 0 else "}")
        tiles += results

    def _for(self, depth: int, indices: list[str], tiles: list[str], loops: int) -> None:
        starts = [self.number(depth, self.draw(st.integers(0, 1))), *indices]
        start = self.draw(st.sampled_from(starts))
        size = self.fresh("size")
        self.line(depth, f"{size} = tile.size() {{value = {self.draw(st.sampled_from([self.p, self.q]))}}}")
        stop = self.draw(st.sampled_from([size, size, self.number(depth, 3), *indices]))
        step = self.number(depth, self.draw(st.sampled_from([1, 1, 1, 1, 2, -1])))
        index, result, carried = self.fresh("i"), self.fresh("t"), self.fresh("carried")
        self.line(depth, f"{result} = tile.for({start}, {stop}, {step}, [{tiles[-1]}])")
        self.line(depth + 2, f"body({index}: i64, {carried}: tile<{self.dtype}, [b]>) {{")
        inner = [*tiles, carried]
        self.body(depth + 1, [*indices, index], inner, loops + 1)
        self.line(depth + 1, f"tile.yield([{inner[-1]}])")
        self.line(depth, "}")
        tiles.append(result)


@st.composite
def recurrences(draw: st.DrawFn) -> RandomRecurrence:
    """Any of them."""
    p, q, batch = (draw(st.integers(least, most)) for least, most in ((1, 3), (1, 3), (1, 5)))
    names = (str(p), str(q)) if draw(st.booleans()) else ("P", "Q")
    dtype = draw(st.sampled_from(["i32", "f32"]))
    writer = _Writer(draw, *names, dtype)
    tensor = f"tensor<{dtype}, [{names[0]}, {names[1]}, B], unit=2>"
    writer.line(0, f"func @f(%x: {tensor}, %y: {tensor}, %order: tensor<i64, [8], unit=0>) {{")
    writer.line(1, "%B = tile.size() {value = B}")
    writer.line(1, "tile.grid([%B]) {blocks = [auto]} body(%b: axis<b>) {")
    writer.grid(2)
    writer.line(1, "}")
    writer.line(1, "tile.return([])")
    writer.line(0, "}")
    return RandomRecurrence("\n".join(writer.lines), p, q, batch, dtype, draw(st.integers(0, 99)), names[0] == "P")
