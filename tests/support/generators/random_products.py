"""Generated TILE programs with a loop of products, under plans with specialised warps.

What is multiplied is the whole of its tensors, or a part that begins anywhere: a loop that starts at some element, rows
and columns that are read from some element on.

Each operand is a load, or is computed of some elementwise; what is loaded may be folded too; a second product may
stand beside the first; behind the loop tiles may be met that lie in other ways, and the result may be stored turned
as well. All numbers are small and whole, so that every order of sums gives the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tiledsl.ir.dtypes import BY_NAME, to_numpy

Array = npt.NDArray[Any]

STEPS = {
    "vector": "{to} = tile.map([{of}, %{side}_along]) {{fn = mul}}",
    "scalar": "{to} = tile.map([{of}, %{side}_ones]) {{fn = add}}",
    "relu": "{to} = tile.map([{of}, %{side}_zeros]) {{fn = maximum}}",
    "square": "{to} = tile.map([{of}, {of}]) {{fn = mul}}",
    "beside": "{to} = tile.map([{of}, %{side}_beside]) {{fn = sub}}",
}
"""What may be done to an operand, in f32."""
AFTER = {
    "beside": "{to} = tile.map([{of}, %x_tile]) {{fn = add}}",
    "turned": "{to} = tile.map([{of}, %y_turned]) {{fn = sub}}",
    "row sums": "{to} = tile.map([{of}, %x_sums]) {{fn = add}}",
    "sums of turned": "{to} = tile.map([{of}, %y_sums]) {{fn = sub}}",
    "row number": "{to} = tile.map([{of}, %x_first]) {{fn = sub}}",
}
"""What may be done to the result."""
MET = """
%x_tile = tile.load(%x, [%m, %n])
%y_tile = tile.load(%y, [%n, %m])
%y_turned = tile.transpose(%y_tile) {permutation = [1, 0]}
%x_rows = tile.load(%x, [%m, :])
%x_sum = tile.reduce([%x_rows]) {axes = [1], fn = add, keepdims = true}
%x_sums = tile.broadcast(%x_sum) {shape = [m, n]}
%y_columns = tile.load(%y, [:, %m])
%y_sum = tile.reduce([%y_columns]) {axes = [0], fn = add}
%y_shaped = tile.reshape(%y_sum) {shape = [m, 1]}
%y_sums = tile.broadcast(%y_shaped) {shape = [m, n]}
%first = tile.load(%x, [%m, %start])
%first_shaped = tile.reshape(%first) {shape = [m, 1]}
%x_first = tile.broadcast(%first_shaped) {shape = [m, n]}
"""
"""What AFTER takes; what is not used is left out by the passes."""
PLANS = (
    "m=64, n=64, k=64, 128 threads, 4x1 warps, cooperative, {stages} stages",
    "m=64, n=64, k=64, 128 threads, 4x1 warps, cooperative, {stages} stages, 2 programs",
    "m=64, n=64, k=64, 128 threads, 4x1 warps, cooperative, {stages} stages, 2 programs, from a counter",
    "m=64, n=64, k=64, 128 threads, 4x1 warps, cooperative, {stages} stages, sides swapped",
    "m=128, n=32, k=64, 256 threads, 8x1 warps, cooperative, {stages} stages",
    "m=64, n=64, k=128, 256 threads, 4x2 warps, cooperative, {stages} stages",
    "m=128, n=64, k=64, 128 threads x 2, 4x1 warps, cooperative, {stages} stages",
    "m=64, n=32, k=64, 256 threads, 4x1 warps, {stages} stages, 2 programs, pingpong",
    "m=64, n=144, k=64, 128 threads, 4x1 warps, cooperative, {stages} stages",
)
PLANES = "cooperative, {stages} stages, by planes"
PLANS_BY_PLANES = (
    f"m=64, n=64, k=32, 128 threads, 4x1 warps, {PLANES}",
    f"m=64, n=64, k=64, 128 threads, 4x1 warps, {PLANES}, 2 programs",
    f"m=64, n=64, k=32, 128 threads, 4x1 warps, {PLANES}, 2 programs, from a counter",
    f"m=128, n=32, k=64, 256 threads, 8x1 warps, {PLANES}",
    f"m=64, n=128, k=16, 256 threads, 4x2 warps, {PLANES}",
    f"m=128, n=64, k=32, 128 threads x 2, 4x1 warps, {PLANES}",
    "m=64, n=32, k=32, 256 threads, 4x1 warps, {stages} stages, 2 programs, pingpong, by planes",
    f"m=64, n=144, k=32, 128 threads, 4x1 warps, {PLANES}",
)


@dataclass(frozen=True)
class Operand:
    """How an operand is made: of elements of `dtype`, which lie the other way in memory if they are `turned`, by some
    of STEPS; or as it is, if there are none and the dtype is that of the product. `folded`: whether what is loaded is
    added up along K too."""

    dtype: str
    turned: bool
    steps: tuple[str, ...]
    folded: bool


@dataclass(frozen=True)
class RandomProduct:
    """out[M, N] = left[M, K] @ right[K, N], less sums and a second product; `beside`: how its right operand is made."""

    left: Operand
    right: Operand
    beside: Operand | None
    m: int
    n: int
    k: int
    plan: str
    by_threads: bool
    """Whether the plan takes rows of what a left operand is computed of for too short for TMA."""
    after: tuple[str, ...] = ()
    """Some of AFTER."""
    stores_turned: bool = False
    """Whether the result is stored a second time, with its columns as rows, and what was met beside it."""
    divided: bool = False
    """Whether the plan knows that its blocks divide the sizes."""
    by_planes: bool = False
    """Whether what is multiplied is f32, of which planes are made."""
    first: int = 0
    """Where the loop along K starts."""
    row: int = 0
    column: int = 0
    """From which row of left operands, and column of right ones, on they are read: their tensors have so many more."""

    @property
    def may_be_refused(self) -> bool:
        """Whether something of it may begin within 16 bytes of a row, or rows do themselves: where TMA cannot begin."""
        widths = [BY_NAME[one.dtype].bytes for one in (self.left, self.right, self.beside) if one is not None]
        begins = [self.first, self.row, self.column, *self._sizes.values()]
        return any(start * width % 16 for start in begins for width in widths)

    @property
    def dtype(self) -> str:
        """Of what is multiplied."""
        return "f32" if self.by_planes else "bf16"

    @property
    def text(self) -> str:
        """The program."""
        operands = [("a", self.left, True), ("b", self.right, False)]
        if self.beside is not None:
            operands.append(("c", self.beside, False))
        lines, sums, parameters = list[str](), list[str](), list[str]()
        for side, operand, is_left in operands:
            parameters += _parameters(_tensors(side, operand, is_left, self._larger))
            lines += _operand(side, operand, is_left, self.dtype, self._shifts)
            if operand.folded:
                sums.append(side)
                lines += [
                    f"%{side}_whole = tile.cast(%{side}_tile) {{dtype = f32}}",
                    f"%{side}_part = tile.reduce([%{side}_whole]) {{axes = [{int(is_left)}], fn = add}}",
                    f"%{side}_more = tile.map([%{side}_sum, %{side}_part]) {{fn = add}}",
                ]
        parameters += _parameters(self._met)
        dots = [side for side, _, is_left in operands if not is_left]
        lines += [f"%next_{side} = tile.dot(%a_operand, %{side}_operand, %acc_{side}) {{dtype = f32}}" for side in dots]
        axis = {"a": "m"}
        types = [*(f"%acc_{s}: tile<f32, [m, n]>" for s in dots)]
        types += [f"%{s}_sum: tile<f32, [{axis.get(s, 'n')}]>" for s in sums]
        carried = [*(f"%next_{s}" for s in dots), *(f"%{s}_more" for s in sums)]
        initial = [*("%acc" for _ in dots), *(f"%none_{axis.get(s, 'n')}" for s in sums)]
        results = [*(f"%total_{s}" for s in dots), *(f"%sum_{s}" for s in sums)]
        after, value = list[str](), f"%total_{dots[0]}"
        for other in results[1:]:
            if other.startswith("%sum"):
                shape = "[m, 1]" if other == "%sum_a" else "[1, n]"
                after += [
                    f"{other}_axes = tile.reshape({other}) {{shape = {shape}}}",
                    f"{other}_wide = tile.broadcast({other}_axes) {{shape = [m, n]}}",
                ]
            wide = f"{other}_wide" if other.startswith("%sum") else other
            after.append(f"{value}_ = tile.map([{value}, {wide}]) {{fn = sub}}")
            value += "_"
        if self.after or self.stores_turned:
            after += MET.strip().splitlines()
        for step in self.after:
            after.append(AFTER[step].format(to=f"{value}_", of=value))
            value += "_"
        returned = "%out"
        if self.stores_turned:
            returned = "%out, %turned, %met"
            after.append(f"%result_turned = tile.transpose({value}) {{permutation = [1, 0]}}")
            after += ["tile.store(%turned, [%n, %m], %result_turned)", "tile.store(%met, [%n, %m], %y_tile)"]
        inside, behind = "\n      ".join(lines), "\n    ".join(after)
        return f"""
func @f({", ".join(parameters)}) {{
  %out = tile.empty() {{shape = [M, N], dtype = f32}}
  {self._more_results}
  %M = tile.size() {{value = M}}
  %N = tile.size() {{value = N}}
  tile.grid([%M, %N]) {{blocks = [auto, auto]}} body(%m: axis<m>, %n: axis<n>) {{
    %zero = tile.constant() {{value = 0.0, dtype = f32}}
    %one = tile.constant() {{value = 1.0, dtype = f32}}
    %start = tile.constant() {{value = 0, dtype = i64}}
    %first_k = tile.constant() {{value = {self.first}, dtype = i64}}
    %row = tile.constant() {{value = {self.row}, dtype = i64}}
    %column = tile.constant() {{value = {self.column}, dtype = i64}}
    %m_read = tile.shift(%m, %row)
    %n_read = tile.shift(%n, %column)
    %acc = tile.broadcast(%zero) {{shape = [m, n]}}
    %none_m = tile.broadcast(%zero) {{shape = [m]}}
    %none_n = tile.broadcast(%zero) {{shape = [n]}}
    %K = tile.size() {{value = K}}
    {", ".join(results)} = tile.range(%first_k, %K, [{", ".join(initial)}]) {{blocks = [auto]}}
        body(%k: axis<k>, {", ".join(types)}) {{
      {inside}
      tile.yield([{", ".join(carried)}])
    }}
    {behind}
    tile.store(%out, [%m, %n], {value})
  }}
  tile.return([{returned}])
}}
"""

    @property
    def _shifts(self) -> dict[str, str]:
        """The blocks by which operands are read, where they are not those of the result."""
        return ({"m": "m_read"} if self.row else {}) | ({"n": "n_read"} if self.column else {})

    @property
    def _larger(self) -> dict[str, str]:
        """Sizes of operands that are read from some row or column on, by those of the result."""
        return ({"M": "M_READ"} if self.row else {}) | ({"N": "N_READ"} if self.column else {})

    @property
    def _more_results(self) -> str:
        empty = "tile.empty() {shape = [N, M], dtype = f32}"
        return f"%turned = {empty}\n  %met = {empty}" if self.stores_turned else ""

    @property
    def _met(self) -> dict[str, tuple[str, Sequence[str]]]:
        """The tensors that are met behind the loop."""
        if not (self.after or self.stores_turned or self.row or self.column):  # sizes are those of some tensor
            return {}
        return {"x": ("f32", "MN"), "y": ("f32", "NM")}

    def arguments(self) -> list[Array]:
        """Small whole numbers."""
        sizes = self._sizes
        generator = np.random.default_rng(0)
        found: list[Array] = []
        tensors: list[tuple[str, Sequence[str]]] = []
        for side, operand in (("a", self.left), ("b", self.right), ("c", self.beside)):
            if operand is not None:
                tensors += _tensors(side, operand, side == "a", self._larger).values()
        for dtype, shape in [*tensors, *self._met.values()]:
            shape_ = tuple(sizes[name] for name in shape)
            found.append(generator.integers(-1, 3, shape_).astype(to_numpy(BY_NAME[dtype])))
        return found

    @property
    def whole_plan(self) -> str:
        """The plan, with what it takes rows of tensors to start at multiples of; operands that TMA cannot take so, as
        they are multiplied, are copied before."""
        alignment, copied = list[int](), list[int]()
        for side, operand in (("a", self.left), ("b", self.right), ("c", self.beside)):
            if operand is not None:
                computed = _is_computed(operand, self.dtype)
                short = self.by_threads and side == "a" and computed
                for dtype, shape in _tensors(side, operand, side == "a", self._larger).values():
                    alignment.append(2 if short else self._row_alignment(dtype, shape))
                    if alignment[-1] < 16 and not computed:
                        copied.append(len(alignment) - 1)
        others = [*self._met.values(), ("f32", "MN"), *[("f32", "NM"), ("f32", "NM")][: 2 * self.stores_turned]]
        alignment += [self._row_alignment(*one) for one in others]
        whole = f", copies of {'/'.join(map(str, copied))}" if copied else ""
        whole += f", M<={-(-self.m // 8) * 8}, N<={-(-self.n // 8) * 8}" if self._met else ""
        whole += "".join(f", {size.upper()}%{block}=0" for size, block in blocks_of(self.plan)) if self.divided else ""
        return f"{self.plan}{whole}, aligned to {'/'.join(map(str, alignment))}"

    def _row_alignment(self, dtype: str, shape: Sequence[str]) -> int:
        """The bytes that rows of a tensor without gaps start at multiples of, at most 16."""
        return math.gcd(16, BY_NAME[dtype].bytes * self._sizes[shape[-1]]) if len(shape) > 1 else 16

    @property
    def _sizes(self) -> dict[str, int]:
        larger = {"M_READ": self.m + self.row, "N_READ": self.n + self.column}
        return {"M": self.m, "N": self.n, "K": self.k, **larger}


def blocks_of(plan: str) -> list[tuple[str, int]]:
    """The blocks of a plan's text.

    >>> blocks_of("m=64, n=144, k=64, 128 threads")
    [('m', 64), ('n', 144), ('k', 64)]
    """
    return [(name, int(size)) for name, size in re.findall(r"\b([mnk])=(\d+)", plan)]


def _is_computed(operand: Operand, multiplied: str) -> bool:
    return bool(operand.steps) or operand.dtype != multiplied


def _tensors(
    side: str, operand: Operand, is_left: bool, larger: Mapping[str, str]
) -> dict[str, tuple[str, Sequence[str]]]:
    """The tensors of an operand by name: dtypes and sizes. `larger`: sizes of what is not read from its start on."""
    shape = ["M", "K"] if is_left else ["K", "N"]
    turned = [larger.get(size, size) for size in (shape[::-1] if operand.turned else shape)]
    found: dict[str, tuple[str, Sequence[str]]] = {side: (operand.dtype, turned)}
    if "vector" in operand.steps:
        found[f"{side}_v"] = ("f32", "K")
    if "beside" in operand.steps:
        found[f"{side}_o"] = ("bf16", shape)
    return found


def _parameters(tensors: Mapping[str, tuple[str, Sequence[str]]]) -> list[str]:
    return [
        f"%{name}: tensor<{dtype}, [{', '.join(shape)}], unit={len(shape) - 1}>"
        for name, (dtype, shape) in tensors.items()
    ]


def _operand(side: str, operand: Operand, is_left: bool, multiplied: str, shifts: Mapping[str, str]) -> list[str]:
    """The lines that make an operand, of which `%side_tile` is what was loaded. `shifts`: the blocks by which it is."""
    axes = ["m", "k"] if is_left else ["k", "n"]
    at = axes[::-1] if operand.turned else axes
    whole = f"[{axes[0]}, {axes[1]}]"
    loaded = f"%{side}_raw" if operand.turned else f"%{side}_tile"
    first, second = (shifts.get(axis, axis) for axis in at)
    lines = [f"{loaded} = tile.load(%{side}, [%{first}, %{second}])"]
    if operand.turned:
        lines.append(f"%{side}_tile = tile.transpose({loaded}) {{permutation = [1, 0]}}")
    if not _is_computed(operand, multiplied):
        lines[-1] = lines[-1].replace(f"%{side}_tile", f"%{side}_operand")
        lines.append(f"%{side}_tile = tile.cast(%{side}_operand) {{dtype = f32}}" if operand.folded else "")
        return lines
    lines.append(f"%{side}_0 = tile.cast(%{side}_tile) {{dtype = f32}}")
    if "vector" in operand.steps:
        shape = "[1, k]" if is_left else "[k, 1]"
        lines += [
            f"%{side}_vector = tile.load(%{side}_v, [%k])",
            f"%{side}_shaped = tile.reshape(%{side}_vector) {{shape = {shape}}}",
            f"%{side}_along = tile.broadcast(%{side}_shaped) {{shape = {whole}}}",
        ]
    lines.append(f"%{side}_ones = tile.broadcast(%one) {{shape = {whole}}}")
    lines.append(f"%{side}_zeros = tile.broadcast(%zero) {{shape = {whole}}}")
    if "beside" in operand.steps:
        lines.append(f"%{side}_other = tile.load(%{side}_o, [%{axes[0]}, %{axes[1]}])")
        lines.append(f"%{side}_beside = tile.cast(%{side}_other) {{dtype = f32}}")
    for number, step in enumerate(operand.steps):
        lines.append(STEPS[step].format(to=f"%{side}_{number + 1}", of=f"%{side}_{number}", side=side))
    lines.append(f"%{side}_operand = tile.cast(%{side}_{len(operand.steps)}) {{dtype = {multiplied}}}")
    return lines


def operands(computed: st.SearchStrategy[bool], multiplied: str = "bf16") -> st.SearchStrategy[Operand]:
    """Plain ones, and ones of at most three steps. Nothing is folded beside products by planes."""
    folded = st.booleans() if multiplied == "bf16" else st.just(False)

    def make(is_computed: bool) -> st.SearchStrategy[Operand]:
        if not is_computed:
            return st.builds(Operand, st.just(multiplied), st.booleans(), st.just(()), folded)
        steps = st.lists(st.sampled_from(sorted(STEPS)), max_size=3).filter(lambda found: found.count("square") < 2)
        return st.builds(Operand, st.sampled_from(["bf16", "i8", "f32"]), st.booleans(), steps.map(tuple), folded)

    return computed.flatmap(make)


STARTS = st.sampled_from([0, 0, 0, 16, 8, 4, 2, 3])
"""Where what is read may begin: mostly with its tensor, at whole pieces of 16 bytes, within them, at odd elements."""


@st.composite
def random_products(draw: st.DrawFn) -> RandomProduct:
    """Programs that go through their rings less than once, once or more often, with ends within a block or none."""
    by_planes = draw(st.integers(0, 2)) == 0
    dtype = "f32" if by_planes else "bf16"
    left, right = draw(operands(st.booleans(), dtype)), draw(operands(st.sampled_from([False, False, True]), dtype))
    beside = draw(operands(st.just(False), dtype)) if draw(st.integers(0, 3)) == 0 else None
    stages = draw(st.sampled_from([2, 3] if by_planes else [2, 3, 1]))
    m, n = draw(st.sampled_from([64, 80, 16, 144, 77, 100])), draw(st.sampled_from([64, 80, 16, 100, 77]))
    k = draw(st.sampled_from([208, 64, 80, 100, 77]))
    plan = draw(st.sampled_from(PLANS_BY_PLANES if by_planes else PLANS)).format(stages=stages)
    by_threads = draw(st.sampled_from([False, False, True]))
    after = draw(st.lists(st.sampled_from(sorted(AFTER)), max_size=2, unique=True))
    turned = draw(st.integers(0, 3)) == 0
    divided = draw(st.integers(0, 2)) == 0
    if divided:
        (m, n), k = (2 * size for _, size in blocks_of(plan)[:2]), 2 * blocks_of(plan)[2][1]
    first, row, column = (draw(STARTS) for _ in range(3))
    return RandomProduct(
        left, right, beside, m, n, k, plan, by_threads, tuple(after), turned, divided, by_planes, first, row, column
    )
