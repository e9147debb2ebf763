"""Formulas of movement and elementwise work that nobody wrote down: ranks, axes, sizes and dtypes are drawn.

    variants(seed=0)        "turned 3 of f16[410, 96, 1531], 2 0 1", "joined ...", "blocks of 3 ...", ...

A case is of a class of the zoo, and what holds for the class has to hold for it. Sizes make a tensor of about 2**25
elements, so that memory takes longer than a launch; half of them are odd.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tiledsl
from benchmarks.zoo.case import Formula
from tiledsl import tile

ELEMENTS = 2**25
FLOATS = ("f16", "bf16", "f32")
INTEGERS = ("i8", "u8", "i16", "i32")


@dataclass(frozen=True)
class Variant:
    """A formula of tensors of these shapes and dtypes."""

    name: str
    formula: Formula
    tensors: tuple[tuple[tuple[int, ...], str], ...]

    def audit(self, arch: str) -> Any:
        """What its kernels move, and how long they are predicted to take. Raises TileError."""
        specs = [tile.spec(shape, getattr(tile, dtype)) for shape, dtype in self.tensors]
        return tiledsl.fuse(tiledsl.trace(self.formula, *specs)).audit(arch)

    def __str__(self) -> str:
        given = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in self.tensors)
        return f"{self.name} of {given}"


class Drawn:
    """What is drawn for one case."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def one_of(self, *values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def size(self, low: int, high: int) -> int:
        """A size between two: odd, even, or a multiple of 64, if there is one."""
        drawn = int(self.random.integers(low, high + 1))
        step = self.one_of(1, 2, 64)
        return max(low, drawn // step * step)

    def shape(self, rank: int) -> tuple[int, ...]:
        """Sizes of axes, the last one of 64 at least."""
        left, sizes = ELEMENTS, list[int]()
        for axis in range(rank - 1):
            size = self.size(3, max(4, round(left ** (1 / (rank - axis)) * 2)))
            sizes.append(size)
            left = max(64, left // size)
        return (*sizes[::-1], self.size(max(64, left // 2), max(65, left)))

    def permutation(self, rank: int) -> tuple[int, ...]:
        return tuple(int(i) for i in self.random.permutation(rank))

    def dtype(self) -> str:
        return self.one_of(*FLOATS)


def _turned(drawn: Drawn) -> Variant:
    rank = drawn.one_of(2, 3, 4)
    shape, order = drawn.shape(rank), drawn.permutation(rank)
    return Variant(f"turned {order}", lambda x: x.transpose(*order) * 2, ((shape, drawn.dtype()),))


def _merged(drawn: Drawn) -> Variant:
    """Axes in another order, and then two of them as one."""
    rank = drawn.one_of(3, 4)
    shape, order, at = drawn.shape(rank), drawn.permutation(rank), drawn.one_of(0, 1)
    after = tuple(shape[axis] for axis in order)
    made: Any = (*after[:at], after[at] * after[at + 1], *after[at + 2 :])
    act = drawn.one_of(tile.relu, tile.silu, tile.gelu)
    return Variant(
        f"turned {order}, axis {at} merged", lambda x: act(x.transpose(*order).reshape(made)), ((shape, drawn.dtype()),)
    )


def _blocks(drawn: Drawn) -> Variant:
    """Blocks of an image become channels, or channels become blocks."""
    r, n, c = drawn.one_of(2, 3, 4), drawn.size(8, 64), drawn.one_of(16, 48, 64, 96)
    h = w = max(4, round((ELEMENTS / n / c) ** 0.5 / r))
    if drawn.one_of(True, False):
        return Variant(
            f"blocks of {r} to channels",
            lambda x: x.reshape((n, c, h, r, w, r)).transpose(0, 1, 3, 5, 2, 4).reshape((n, c * r * r, h, w)) * 2,
            (((n, c, h * r, w * r), drawn.dtype()),),
        )
    return Variant(
        f"channels to blocks of {r}",
        lambda x: x.reshape((n, c, r, r, h, w)).transpose(0, 1, 4, 2, 5, 3).reshape((n, c, h * r, w * r)) * 2,
        (((n, c * r * r, h, w), drawn.dtype()),),
    )


def _sliced(drawn: Drawn) -> Variant:
    shape = drawn.shape(drawn.one_of(2, 3))
    cut = tuple(slice(drawn.one_of(0, 1, 2, 8), n - drawn.one_of(0, 1, 8)) for n in shape)
    return Variant(f"sliced {[(c.start, c.stop) for c in cut]}", lambda x: tile.silu(x[cut]), ((shape, drawn.dtype()),))


def _stepped(drawn: Drawn) -> Variant:
    shape, step = drawn.shape(2), drawn.one_of(2, 3, 4)
    if drawn.one_of(True, False):
        return Variant(f"every {step} rows", lambda x: x[::step] * 2, ((shape, drawn.dtype()),))
    return Variant(f"every {step} columns", lambda x: x[:, ::step] * 2, ((shape, drawn.dtype()),))


def _joined(drawn: Drawn) -> Variant:
    rank = drawn.one_of(2, 3)
    shape, axis, dtype = drawn.shape(rank), int(drawn.one_of(*range(rank))), drawn.dtype()

    def part(parts: int) -> tuple[tuple[int, ...], str]:
        size = max(1, shape[axis] // parts) + int(drawn.one_of(0, 1, 8))
        return (*shape[:axis], size, *shape[axis + 1 :]), dtype

    if drawn.one_of(True, False):
        return Variant(
            f"two joined along {axis}", lambda x, y: tile.concat([tile.relu(x), y * 2], axis=axis), (part(2), part(2))
        )
    return Variant(
        f"three joined along {axis}",
        lambda x, y, z: tile.concat([tile.relu(x), y * 2, z], axis=axis),
        (part(3), part(3), part(3)),
    )


def _stacked(drawn: Drawn) -> Variant:
    rank = drawn.one_of(1, 2)
    shape, axis, dtype = drawn.shape(rank), int(drawn.one_of(*range(rank))), drawn.dtype()
    return Variant(
        f"two stacked along {axis}", lambda x, y: tile.stack([x + y, x - y], axis=axis), ((shape, dtype),) * 2
    )


def _padded(drawn: Drawn) -> Variant:
    shape = drawn.shape(drawn.one_of(2, 3))
    widths = tuple((drawn.one_of(0, 1, 3, 8), drawn.one_of(0, 2, 8)) for _ in shape)
    return Variant(f"padded {widths}", lambda x: tile.pad(x, widths) * 2, ((shape, drawn.dtype()),))


def _flipped(drawn: Drawn) -> Variant:
    shape = drawn.shape(2)
    axis = drawn.one_of(0, 1)
    return Variant(
        f"backwards along {axis}", lambda x: (x[::-1] if axis == 0 else x[:, ::-1]) * 2, ((shape, drawn.dtype()),)
    )


def _rolled(drawn: Drawn) -> Variant:
    shape, axis, by = drawn.shape(2), drawn.one_of(0, 1), drawn.one_of(1, 5, 16)

    def roll(x: Any) -> Any:
        return tile.concat([x[by:], x[:by]]) * 2 if axis == 0 else tile.concat([x[:, by:], x[:, :by]], axis=1) * 2

    return Variant(f"rolled by {by} along {axis}", roll, ((shape, drawn.dtype()),))


def _converted(drawn: Drawn) -> Variant:
    """From one dtype to another, with a scale of rows, of columns, or one alone."""
    shape = drawn.shape(2)
    to, scale = drawn.one_of(*FLOATS), drawn.one_of((shape[0], 1), (1, shape[1]), (shape[1],))
    dtype = drawn.one_of(*FLOATS, *INTEGERS)
    return Variant(
        f"{dtype} to {to}", lambda x, s: (x.to(tile.f32) * s).to(getattr(tile, to)), ((shape, dtype), (scale, "f32"))
    )


def _quantised(drawn: Drawn) -> Variant:
    shape = drawn.shape(2)
    scale = drawn.one_of((shape[0], 1), (shape[1],))
    return Variant(
        "quantised",
        lambda x, s: tile.clip(tile.round(x.to(tile.f32) / s), -128, 127).to(tile.i8),
        ((shape, drawn.dtype()), (scale, "f32")),
    )


def _masked(drawn: Drawn) -> Variant:
    shape = drawn.shape(drawn.one_of(2, 3))
    return Variant(
        "masked",
        lambda x, mask: tile.where(mask > 0, x, -1.0),
        ((shape, drawn.dtype()), (shape, drawn.one_of("i8", "u8"))),
    )


def _spread(drawn: Drawn) -> Variant:
    """Tensors of which each lacks an axis."""
    rank = drawn.one_of(2, 3, 4)
    shape = drawn.shape(rank)
    one, other = drawn.one_of(*range(rank)), drawn.one_of(*range(rank))
    shapes = [tuple(1 if i == axis else n for i, n in enumerate(shape)) for axis in (one, other)]
    return Variant(
        f"spread over {one} and {other}",
        lambda x, y, z: x * y + z,
        ((shape, drawn.dtype()), (shapes[0], drawn.dtype()), (shapes[1], drawn.dtype())),
    )


def _gathered(drawn: Drawn) -> Variant:
    rows, width = drawn.size(1000, 100000), drawn.size(64, 4096)
    count = max(1, ELEMENTS // width)
    return Variant(
        "rows gathered", lambda x, i: tile.take(x, i, axis=0) * 2, (((rows, width), drawn.dtype()), ((count,), "i32"))
    )


def _halves(drawn: Drawn) -> Variant:
    m, half = drawn.shape(2)
    half = max(1, half // 2)
    return Variant("halves", lambda x: tile.silu(x[:, :half]) * x[:, half:], (((m, 2 * half), drawn.dtype()),))


CLASSES = (
    _turned, _merged, _blocks, _sliced, _stepped, _joined, _stacked, _padded, _flipped, _rolled, _converted, _quantised,
    _masked, _spread, _gathered, _halves,
)  # fmt: skip


def variants(seed: int, rounds: int) -> Iterator[Variant]:
    """So many cases of each class."""
    for turn in range(rounds):
        for number, make in enumerate(CLASSES):
            yield make(Drawn(seed + 1000 * turn + number))
