"""Generated TILE programs of one grid with a loop that carries an extremum and sums relative to it, written many ways.

Results differ by rounding only: sums are relative to other extrema where parts are folded apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.ir.text.parser import parse_module

Array = npt.NDArray[Any]
Start = Literal["infinite", "finite", "loaded"]
Scale = Literal["none", "inside", "outside", "argument"]
Mask = Literal["none", "score", "weight"]


@dataclass(frozen=True)
class RandomRescaled:
    """out[B, M, N] = sum of e^(s - top) * right[B, k, N] / sum of e^(s - top), s being left * c.

    `least`: relative to the least element, e^(top - s). `start`: of the extremum. `begun`: sums start from 1, not 0.
    `scale`: where c is: not there, within the difference, around it, or a parameter. `column`: whether the extremum is
    carried as a column [m, 1]. `mask`: hides what lies before and after a window, as a score of -inf, or a weight of 0.
    """

    batch: int
    m: int
    n: int
    k: int
    dtype: str
    least: bool
    start: Start
    begun: bool
    scale: Scale
    base: Literal["exp", "exp2"]
    column: bool
    mask: Mask
    late: bool
    """Whether a turn's terms are relative to the extremum before it, and rescaled with the sum."""
    fused: bool
    """Whether the sum of weights is a multiply-add."""
    scalar_batch: bool

    @property
    def module(self) -> Module:
        """The program."""
        return parse_module(self.text)

    def _difference(self, a: str, b: str, name: str) -> str:
        """e^(a - b), or e^(b - a) where it is the least."""
        a, b = (b, a) if self.least else (a, b)
        if self.scale == "inside":
            lines = f"%{name}_a = tile.map([{a}, %c]) {{fn = mul}}\n      "
            lines += f"%{name}_b = tile.map([{b}, %c]) {{fn = mul}}\n      "
            lines += f"%{name}_d = tile.map([%{name}_a, %{name}_b]) {{fn = sub}}"
        else:
            lines = f"%{name}_d = tile.map([{a}, {b}]) {{fn = sub}}"
        last = f"%{name}_d"
        if self.scale in ("outside", "argument"):
            factor = "%c" if self.scale == "outside" else "%scale"
            lines += f"\n      %{name}_s = tile.map([{last}, {factor}]) {{fn = mul}}"
            last = f"%{name}_s"
        return f"{lines}\n      %{name} = tile.map([{last}]) {{fn = {self.base}}}"

    @property
    def text(self) -> str:
        """Its text."""
        fn, pairwise, sign = ("min", "minimum", "") if self.least else ("max", "maximum", "-")
        dtype, at = self.dtype, "%b, "
        batch, lead = ("b: i64", "") if self.scalar_batch else ("b: axis<b>", "b, ")
        rank = 1 if self.scalar_batch else 2
        row, column, wide, out = (f"[{lead}{last}]" for last in ("m", "m, 1", "m, k", "m, N"))
        shape = column if self.column else row
        start = {
            "infinite": f"%low = tile.constant() {{value = {sign}inf, dtype = {dtype}}}",
            "finite": f"%low = tile.constant() {{value = {sign}1e+38, dtype = {dtype}}}",
            "loaded": f"%low = tile.load(%first, [%none]) : {dtype}",
        }[self.start]
        begun = "1.0" if self.begun else "0.0"
        score, shown = "%x", "%p"
        turn = [f"%x = tile.load(%left, [{at}%m, %k])", f"%y = tile.load(%right, [{at}%k, :])"]
        if self.mask != "none":
            turn += [
                "%i = tile.index(%k)", "%after = tile.map([%i, %from]) {fn = ge}",
                "%before = tile.map([%i, %to]) {fn = lt}",
                "%both = tile.map([%after, %before]) {fn = and}", f"%seen = tile.broadcast(%both) {{shape = {wide}}}",
            ]  # fmt: skip
        if self.mask == "score":
            turn += [f"%hidden = tile.constant() {{value = {sign}inf, dtype = {dtype}}}"]
            turn += ["%shown = tile.map([%seen, %x, %hidden]) {fn = where}"]
            score = "%shown"
        keep = ", keepdims = true" if self.column else ""
        turn += [f"%largest = tile.reduce([{score}]) {{axes = [{rank}], fn = {fn}{keep}}}"]
        turn += [f"%next = tile.map([%top, %largest]) {{fn = {pairwise}}}"]
        turn += [self._difference("%top", "%next", "r")]
        reference = "%top" if self.late else "%next"
        if not self.column:
            turn += [f"%col = tile.reshape({reference}) {{shape = {column}}}"]
            reference = "%col"
        turn += [f"%tops = tile.broadcast({reference}) {{shape = {wide}}}", self._difference(score, "%tops", "p")]
        if self.mask == "weight":
            turn += [f"%nothing = tile.constant() {{value = 0.0, dtype = {dtype}}}"]
            turn += ["%q = tile.map([%seen, %p, %nothing]) {fn = where}"]
            shown = "%q"
        turn += [f"%part = tile.reduce([{shown}]) {{axes = [{rank}], fn = add{keep}}}"]
        if self.late:
            turn += ["%t = tile.map([%total, %part]) {fn = add}", "%total_1 = tile.map([%t, %r]) {fn = mul}"]
        elif self.fused:
            turn += ["%total_1 = tile.map([%total, %r, %part]) {fn = fma}"]
        else:
            turn += ["%t = tile.map([%r, %total]) {fn = mul}", "%total_1 = tile.map([%t, %part]) {fn = add}"]
        factor = "%r"
        if not self.column:
            turn += [f"%rc = tile.reshape(%r) {{shape = {column}}}"]
            factor = "%rc"
        turn += [f"%rs = tile.broadcast({factor}) {{shape = {out}}}"]
        if self.late:
            turn += [f"%u = tile.dot({shown}, %y, %acc) {{dtype = {dtype}}}", "%acc_1 = tile.map([%u, %rs]) {fn = mul}"]
        else:
            turn += ["%u = tile.map([%acc, %rs]) {fn = mul}", f"%acc_1 = tile.dot({shown}, %y, %u) {{dtype = {dtype}}}"]
        body = "\n      ".join(turn)
        divisor = "%l" if self.column else "%lc"
        divide = "" if self.column else f"%lc = tile.reshape(%l) {{shape = {column}}}\n    "
        return f"""
func @f(%left: tensor<{dtype}, [B, M, K]>, %right: tensor<{dtype}, [B, K, N]>, %first: tensor<{dtype}, [1]>,
        %from: i64, %to: i64, %scale: {dtype}) {{
  %B = tile.size() {{value = B}}
  %M = tile.size() {{value = M}}
  %K = tile.size() {{value = K}}
  %none = tile.constant() {{value = 0, dtype = i64}}
  %c = tile.constant() {{value = 0.75, dtype = {dtype}}}
  %out = tile.empty() {{shape = [B, M, N], dtype = {dtype}}}
  tile.grid([%B, %M]) {{blocks = [1, auto]}} body(%{batch}, %m: axis<m>) {{
    {start}
    %lows = tile.broadcast(%low) {{shape = {shape}}}
    %begin = tile.constant() {{value = {begun}, dtype = {dtype}}}
    %begins = tile.broadcast(%begin) {{shape = {shape}}}
    %zeros = tile.broadcast(%begin) {{shape = {out}}}
    %h, %l, %a = tile.range(%none, %K, [%lows, %begins, %zeros]) {{blocks = [auto]}}
        body(%k: axis<k>, %top: tile<{dtype}, {shape}>, %total: tile<{dtype}, {shape}>, %acc: tile<{dtype}, {out}>) {{
      {body}
      tile.yield([%next, %total_1, %acc_1])
    }}
    {divide}%ls = tile.broadcast({divisor}) {{shape = {out}}}
    %d = tile.map([%a, %ls]) {{fn = div}}
    tile.store(%out, [{at}%m, :], %d)
  }}
  tile.return([%out])
}}
"""

    def arguments(self) -> list[Any]:
        """Scores of a few, and a window of at least one key."""
        generator = np.random.default_rng(0)
        shapes = [(self.batch, self.m, self.k), (self.batch, self.k, self.n)]
        arrays: list[Any] = [generator.standard_normal(shape).astype(to_numpy(BY_NAME[self.dtype])) for shape in shapes]
        first = np.array([0.5], to_numpy(BY_NAME[self.dtype]))
        return [*arrays, first, self.k // 3, max(self.k // 3 + 1, self.k // 2), 0.5]


@st.composite
def random_rescaled(draw: st.DrawFn) -> RandomRescaled:
    """Programs that have a result in one piece: no block in front of the window starts from infinity."""
    start: Start = draw(st.sampled_from(["infinite", "finite", "loaded"]))
    masks: list[Mask] = ["none", "score", "weight"]
    mask: Mask = draw(st.sampled_from(masks if start != "infinite" else [one for one in masks if one != "score"]))
    scales: list[Scale] = ["none", "inside", "outside", "argument"]
    late = start == "loaded" and draw(st.booleans())
    return RandomRescaled(
        batch=draw(st.integers(1, 3)),
        m=draw(st.integers(1, 7)),
        n=draw(st.integers(1, 9)),
        k=draw(st.sampled_from((1, 5, 16, 31, 64))),
        dtype=draw(st.sampled_from(["f32", "f64"])),
        least=draw(st.booleans()),
        start=start,
        begun=draw(st.booleans()),
        scale=draw(st.sampled_from(scales)),
        base=draw(st.sampled_from(["exp", "exp2"])),
        column=draw(st.booleans()),
        mask=mask,
        late=late,
        fused=draw(st.booleans()),
        scalar_batch=draw(st.booleans()),
    )
