"""Generated TILE programs of one grid with a loop that adds up: products, folds, or both, and something done with it.

All numbers are small and whole, so that every order of sums gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.ir.text.parser import parse_module

Array = npt.NDArray[Any]
Ends = Literal["size", "scalars", "narrow"]
Fold = Literal["add", "sub"]


@dataclass(frozen=True)
class RandomSum:
    """out[B, M, N] = first + sum over k of left[B, M, k] @ right[k, N], or of what is folded of left.

    `product`, `fold`: what a turn adds. `ends`: where the loop ends: at a size, at scalars that the caller gives, or at
    a size in 32 bits. `block`: of the loop, 0 if it is left open.
    """

    batch: int
    m: int
    n: int
    k: int
    dtype: str
    product: bool
    fold: Fold | None
    begins: bool
    """Whether the sum starts from what is loaded, not from 0."""
    ends: Ends
    block: int
    start: int
    scalar_batch: bool
    known_columns: bool

    @property
    def total(self) -> str:
        """The dtype of the sum."""
        return self.dtype if self.dtype in ("f64", "i32") else "f32"

    @property
    def module(self) -> Module:
        """The program."""
        return parse_module(self.text)

    @property
    def text(self) -> str:
        """Its text."""
        columns = str(self.n) if self.known_columns else "N"
        batch, at = ("b: i64", "%b, ") if self.scalar_batch else ("b: axis<b>", "%b, ")
        lead = "" if self.scalar_batch else "b, "
        shape = f"[{lead}m, n]"
        low = f"%low = tile.constant() {{value = {self.start}, dtype = i64}}"
        bounds = {
            "size": f"{low}\n  %high = tile.size() {{value = K}}",
            "scalars": "%low = tile.map([%from, %none]) {fn = add}\n  %high = tile.map([%to, %none]) {fn = add}",
            "narrow": f"{low}\n  %wide = tile.size() {{value = K}}\n  %high = tile.cast(%wide) {{dtype = i32}}",
        }[self.ends]
        value = "0" if self.total == "i32" else "0.0"
        first = [f"%zero = tile.constant() {{value = {value}, dtype = {self.total}}}"]
        first.append(f"%first = tile.broadcast(%zero) {{shape = {shape}}}")
        if self.begins:
            first = [f"%first = tile.load(%c, [{at}%m, %n])"]
        turn = [f"%x = tile.load(%left, [{at}%m, %k])"]
        last = "%acc"
        if self.product:
            turn.append(f"%y = tile.load(%right, [{at}%k, %n])")
            if self.scalar_batch:
                turn.append(f"%p = tile.dot(%x, %y, {last}) {{dtype = {self.total}}}")
            else:
                turn.append(f"%q = tile.dot(%x, %y, none) {{dtype = {self.total}}}")
                turn.append(f"%p = tile.map([%q, {last}]) {{fn = add}}")
            last = "%p"
        if self.fold is not None:
            rank = 1 if self.scalar_batch else 2
            turn.append(f"%w = tile.cast(%x) {{dtype = {self.total}}}")
            turn.append(f"%f = tile.reduce([%w]) {{axes = [{rank}], fn = add}}")
            turn.append(f"%g = tile.reshape(%f) {{shape = [{lead}m, 1]}}")
            turn.append(f"%h = tile.broadcast(%g) {{shape = {shape}}}")
            turn.append(f"%s = tile.map([{last}, %h]) {{fn = {self.fold}}}")
            last = "%s"
        body, before = "\n      ".join(turn), "\n    ".join(first)
        block = self.block or "auto"
        return f"""
func @f(%left: tensor<{self.dtype}, [B, M, K]>, %right: tensor<{self.dtype}, [B, K, {columns}]>,
        %c: tensor<{self.total}, [B, M, {columns}]>, %from: i64, %to: i64) {{
  %B = tile.size() {{value = B}}
  %M = tile.size() {{value = M}}
  %N = tile.size() {{value = {columns}}}
  %none = tile.constant() {{value = 0, dtype = i64}}
  {bounds}
  %out = tile.empty() {{shape = [B, M, {columns}], dtype = {self.total}}}
  tile.grid([%B, %M, %N]) {{blocks = [1, auto, auto]}} body(%{batch}, %m: axis<m>, %n: axis<n>) {{
    {before}
    %sum = tile.range(%low, %high, [%first]) {{blocks = [{block}]}}
        body(%k: axis<k>, %acc: tile<{self.total}, {shape}>) {{
      {body}
      tile.yield([{last}])
    }}
    %twice = tile.map([%sum, %sum]) {{fn = add}}
    tile.store(%out, [{at}%m, %n], %twice)
  }}
  tile.return([%out])
}}
"""

    def arguments(self) -> list[Array | int]:
        """Small whole numbers, and where the loop begins and ends."""
        generator = np.random.default_rng(0)
        shapes = [
            ((self.batch, self.m, self.k), self.dtype),
            ((self.batch, self.k, self.n), self.dtype),
            ((self.batch, self.m, self.n), self.total),
        ]
        arrays = [generator.integers(-3, 4, shape).astype(to_numpy(BY_NAME[name])) for shape, name in shapes]
        return [*arrays, self.start, self.k - self.start]


@st.composite
def random_sums(draw: st.DrawFn, lengths: Sequence[int] = (0, 1, 5, 16, 31, 64)) -> RandomSum:
    """Sums of any of some lengths."""
    kinds: list[tuple[bool, Fold | None]] = [(True, None), (False, "add"), (True, "sub"), (True, "add")]
    product, fold = draw(st.sampled_from(kinds))
    ends: list[Ends] = ["size", "scalars", "narrow"]
    return RandomSum(
        batch=draw(st.integers(1, 3)),
        m=draw(st.integers(1, 7)),
        n=draw(st.integers(1, 9)),
        k=draw(st.sampled_from(lengths)),
        dtype=draw(st.sampled_from(["f32", "f16", "f64", "i32"])),
        product=product,
        fold=fold,
        begins=draw(st.booleans()),
        ends=draw(st.sampled_from(ends)),
        block=draw(st.sampled_from([0, 1, 3, 8])),
        start=draw(st.integers(0, 3)),
        scalar_batch=draw(st.booleans()),
        known_columns=draw(st.booleans()),
    )
