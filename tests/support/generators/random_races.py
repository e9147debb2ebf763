"""Random kernels over a grid, sound as they are drawn, and with a race that a mutation puts in.

The statements are such that each program keeps to its own blocks of what is written. The mutations are what people get
wrong: an axis is missing in the place of a store or of an update, or what is written is read beside its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.support.kernels.lowered_kernels import kernel_from_text

Mutation = str
MUTATIONS: tuple[Mutation, ...] = ("store", "update", "shift", "whole", "twice")


@dataclass(frozen=True)
class RandomKernel:
    """Its text, and arguments: `x` to read, `w` to write, and for each axis of the grid a `p` without that axis."""

    text: str
    shape: tuple[int, ...]

    @property
    def function(self) -> Callable[..., Any]:
        """The kernel as a plain function."""
        return kernel_from_text(self.text)

    def arguments(self) -> list[Any]:
        """Fresh arrays."""
        random = np.random.default_rng(len(self.text))
        shapes = [self.shape, self.shape]
        shapes += [self.shape[:axis] + self.shape[axis + 1 :] for axis in range(len(self.shape))]
        return [random.standard_normal(shape) for shape in shapes]


@st.composite
def kernels(draw: st.DrawFn, mutations: tuple[Mutation, ...] = ()) -> RandomKernel:
    """A kernel with two to five statements, one of them wrong if there are `mutations` to choose from."""
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(4, 8)) for _ in range(rank))
    axes = [f"i{axis}" for axis in range(rank)]
    blocks = [draw(st.sampled_from(["tile.auto", "2", "3"])) for _ in axes]
    wrong = draw(st.integers(0, rank - 1))
    statements = [draw(_sound(axes)) for _ in range(draw(st.integers(1, 4)))]
    if mutations:
        at = draw(st.integers(0, len(statements)))
        statements.insert(at, _mutated(draw(st.sampled_from(mutations)), axes, wrong, draw(st.sampled_from([-1, 1]))))
    sizes = ", ".join(f"S{axis}" for axis in range(rank))
    lines = [
        f"def f({', '.join(['x', 'w', *(f'p{axis}' for axis in range(rank))])}):",
        f"    {sizes}{',' if rank == 1 else ''} = x.shape",
        f"    y = tile.empty(({sizes},), x.dtype)",
        f"    for {', '.join(axes)}{',' if rank == 1 else ''} in tile.grid({sizes}, block=({', '.join(blocks)},)):",
        f"        y[{', '.join(axes)}] = 0",
        *(f"        {line}" for statement in statements for line in statement.split("\n")),
        "    return y",
    ]
    if rank == 1:
        lines[3] = lines[3].replace("for i0, in", "for i0 in").replace(f"block=({blocks[0]},)", f"block={blocks[0]}")
    return RandomKernel("\n".join(lines), shape)


@st.composite
def _sound(draw: st.DrawFn, axes: list[str]) -> str:
    here = ", ".join(axes)
    shifted = draw(st.integers(0, len(axes) - 1))
    beside = ", ".join(f"{a} + {draw(st.integers(-2, 2))}" if n == shifted else a for n, a in enumerate(axes))
    statement = draw(
        st.sampled_from(
            [
                f"w[{here}] = w[{here}] * 0.5 + x[{here}]",
                f"y[{here}] = x[{beside}] + w[{here}]",
                f"y[{here}] += x[{here}]",
                f"w[{here}] = tile.where(x[{here}] > 0, x[{beside}], w[{here}])",
                f"p{shifted}[{', '.join(axes[:shifted] + axes[shifted + 1 :])}] = 1.5" if len(axes) > 1 else "pass",
            ]
        )
    )
    if draw(st.booleans()):
        return f"if tile.sum(x[{', '.join(':' for _ in axes)}]) > 0:\n    {statement}"
    return statement


def _mutated(mutation: Mutation, axes: list[str], wrong: int, step: int) -> str:
    here = ", ".join(axes)
    place = ", ".join(axes[:wrong] + axes[wrong + 1 :]) or "()"
    beside = ", ".join(f"{a} + {step}" if n == wrong else a for n, a in enumerate(axes))
    row = ", ".join(":" if n == wrong else a for n, a in enumerate(axes))
    match mutation:
        case "store":
            return f"p{wrong}[{place}] = tile.sum(x[{here}], axis={wrong})"
        case "update":
            return f"p{wrong}[{place}] += tile.sum(x[{here}], axis={wrong})"
        case "shift":
            return f"w[{here}] = w[{beside}] * 0.5 + x[{here}]"
        case "whole":
            return f"w[{here}] = x[{here}] - tile.sum(w[{row}], axis={wrong}, keepdims=True)"
        case _:
            return f"w[{beside}] = x[{here}] * 2\nw[{here}] = x[{here}]"
