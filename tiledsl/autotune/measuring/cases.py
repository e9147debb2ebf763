"""Inputs that plans are compared on: the given ones, random ones, and others at odd sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledsl.autotune.measuring.given import DRAWN, repeated
from tiledsl.autotune.measuring.tensors import Tensor, tensors_of
from tiledsl.ir.dtypes import from_numpy
from tiledsl.ir.symbolic import evaluate
from tiledsl.runtime.arrays.arrays import Array
from tiledsl.runtime.programs.interface import Interface

Number = int | float


@dataclass(frozen=True)
class Case:
    """One call. `contents`: of the tensors that are given, in order."""

    name: str
    sizes: Mapping[str, int]
    tensors: tuple[Tensor, ...]
    contents: tuple[Array, ...]
    numbers: tuple[Number, ...]

    @property
    def key(self) -> str:
        """Equal for cases of one call that are the same."""
        return f"{self.name} {sorted(self.sizes.items())}"


def given_case(
    interface: Interface,
    sizes: Mapping[str, int],
    strides: Sequence[tuple[int, ...]],
    given: Sequence[Array],
    numbers: Sequence[Number],
) -> Case:
    """A call with these arrays."""
    return Case("given", sizes, tensors_of(interface, sizes, strides), tuple(given), tuple(numbers))


def drawn_cases(
    interface: Interface,
    sizes: Mapping[str, int],
    strides: Sequence[tuple[int, ...]],
    given: Sequence[Array],
    numbers: Sequence[Number],
    fixed: frozenset[str] = frozenset(),
) -> list[Case]:
    """The cases beside that of a call with these arrays. `fixed`: sizes that code takes for constants or multiples of
    a number.

    Integers may be subscripts, so they stay as they are; where there are any, there are no odd sizes.
    """
    random, cases = np.random.default_rng(0), list[Case]()
    if any(_is_float(array) for array in given):
        drawn = tuple(redrawn(array, random) for array in given)
        cases.append(Case("random", sizes, tensors_of(interface, sizes, strides), drawn, tuple(numbers)))
    if given and all(_is_float(array) for array in given):
        odd = odd_sizes(interface, sizes, fixed)
        if odd != dict(sizes):
            smaller = tensors_of(interface, odd, strides)
            parts = [array[tuple(map(slice, one.shape))] for array, one in zip(given, smaller)]
            if [part.shape for part in parts] == [one.shape for one in smaller if one.is_given]:
                cases.append(Case("odd", odd, smaller, tuple(parts), tuple(numbers)))
    return cases


def odd_sizes(interface: Interface, sizes: Mapping[str, int], fixed: frozenset[str]) -> dict[str, int]:
    """Each size made smaller by as little as can be: by 1, or by 16 where it is promised to be a multiple of that."""
    found: dict[str, int] = dict(sizes)
    for name in sizes:
        if name in fixed:
            continue
        for step in (1, 2, 4, 8, 16):
            other: dict[str, int] = {**found, name: found[name] - step}
            if other[name] > 0 and all(evaluate(fact.dim, other) % fact.divisor == 0 for fact in interface.facts):
                found = other
                break
    return found


def redrawn(array: Array, random: np.random.Generator) -> Array:
    """Other numbers of about the same size, for floats."""
    if not _is_float(array):
        return array
    flat: Any = array.reshape(-1)  # pyright: ignore[reportUnknownMemberType]
    part: Any = flat[:: max(1, array.size // DRAWN)].astype(np.float64)
    finite: Any = part[np.isfinite(part)]
    mean, spread = (float(finite.mean()), float(finite.std())) if finite.size else (0.0, 1.0)
    return repeated(random, mean, spread, array.shape, array.dtype)


def _is_float(array: Array) -> bool:
    dtype = from_numpy(array.dtype)
    return dtype is not None and dtype.is_float
