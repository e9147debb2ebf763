"""Words that only formulas of whole tensors have: what a kernel in tile form does instead."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tiledsl.frontend.language import tensors as language
from tiledsl.frontend.words.builtin_table import Arguments, lowers
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.values import FrontValue

INSTEAD: dict[Callable[..., Any], str] = {
    language.concat: "store each part into its slice of the result: `c[0:E] = ...`",
    language.interleave: "store each part at its coordinates of the result: `c[2 * m + 1] = ...`",
    language.split: "read slices of the tensor: `x[m, 0:E]`",
    language.pad: "shift the block, which reads zeros outside: `x[m - 1]`, or `tile.load(x[m - 1], other=...)`",
    language.take: "gather: `x[index, n]`, where `index` is a tile of ints",
    language.window: "shift the block: `x[m + 1]`",
    language.einsum: "use `tile.dot` in a loop over `tile.range`",
}
"""What to write in tile form."""


def _refuse(instead: str, low: Lowering, arguments: Arguments) -> FrontValue:
    low.fail("formula-word", name=arguments.name, instead=instead)


for _stub, _instead in INSTEAD.items():
    lowers(_stub)(partial(_refuse, _instead))
