"""A kernel beside the reference executor, on many random calls: sizes at which blocks end badly, layouts, odd values.

What differs is made smaller as far as it still differs, so that there is little to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledsl.api import Kernel
from tiledsl.cli.draw import Draw, below
from tiledsl.frontend.language.values import TensorSpec
from tiledsl.ir.dtypes import DType
from tiledsl.runtime.arrays.arrays import Array
from tiledsl.runtime.arrays.compare_arrays import compare
from tiledsl.support.errors import TileError

SIZES = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65)
"""Where blocks and vectors end, and next to it."""
LAYOUTS = ("rows", "columns", "gaps")
"""How tensors of two axes or more lie: row by row, the first axis fastest, or rows with room behind them."""
VALUES = ("normal", "zeros", "large", "tiny", "special")
"""Normal numbers; 0; thousands; millionths; and normal ones of which some are infinite or none."""

Spec = TensorSpec | type | int | float
"""An argument: a tensor, a kind of number, or a number that is passed as it is."""
Call = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class Trial:
    """One call. `dtype` stands for that of all float tensors, if it is given."""

    sizes: Mapping[str, int]
    layout: str
    values: str
    dtype: DType | None
    seed: int

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        of = "" if self.dtype is None else f" of {self.dtype}"
        return f"{sizes or 'fixed sizes'}; {self.values} values{of}, lying in {self.layout}; seed {self.seed}"


@dataclass(frozen=True)
class Verified:
    """What came of it. `refused`: calls that both refuse; `wrong`: the smallest call that differs, and how."""

    calls: int
    refused: int
    wrong: Trial | None = None
    reason: str = ""

    def __str__(self) -> str:
        if self.wrong is not None:
            return f"wrong, after {self.calls} calls: {self.wrong}\n  {self.reason}"
        refused = f"; {self.refused} were refused by both" if self.refused else ""
        return f"{self.calls} calls agree with the reference{refused}"


def verify_kernel(
    kernel: Kernel[Any],
    specs: Sequence[Spec],
    constants: Mapping[str, object],
    dtypes: Sequence[DType | None],
    runs: int,
    seed: int,
) -> Verified:
    """Makes so many calls, and compares each. Stops at the first that differs, and makes it smaller."""
    names = dict.fromkeys(size for spec in specs if isinstance(spec, TensorSpec) for size in spec.shape)
    symbols = [name for name in names if isinstance(name, str)]
    random, refused = np.random.default_rng(seed), 0
    for number in range(runs):
        sizes = {name: int(random.choice(SIZES)) for name in symbols}
        layout, values = LAYOUTS[number % len(LAYOUTS)], VALUES[number % len(VALUES)]
        trial = Trial(sizes, layout, values, dtypes[number % len(dtypes)], seed + number)
        found = difference(kernel, specs, constants, trial)
        if found:
            smaller, reason = smallest(trial, found, lambda one: difference(kernel, specs, constants, one) or "")
            return Verified(number + 1, refused, smaller, reason)
        refused += found is None
    return Verified(runs, refused)


def smallest(trial: Trial, reason: str, differs: Callable[[Trial], str]) -> tuple[Trial, str]:
    """The call with smaller sizes, simpler values and layout, as far as it still `differs`; and how."""
    found = True
    while found:
        found = False
        for other in _simpler(trial):
            text = differs(other)
            if text:
                trial, reason, found = other, text, True
                break
    return trial, reason


def _simpler(trial: Trial) -> Iterator[Trial]:
    for name, size in trial.sizes.items():
        for smaller in sorted({1, size // 2, size - 1}):
            if 0 < smaller < size:
                yield replace(trial, sizes={**trial.sizes, name: smaller})
    if trial.layout != LAYOUTS[0]:
        yield replace(trial, layout=LAYOUTS[0])
    if trial.values != VALUES[0]:
        yield replace(trial, values=VALUES[0])


def difference(kernel: Kernel[Any], specs: Sequence[Spec], constants: Mapping[str, object], trial: Trial) -> str | None:
    """How a call differs from the reference's; empty if it does not, None if both refuse it."""
    ours, theirs = arguments(specs, trial), arguments(specs, trial)
    got, refusal = _called(lambda given: kernel(*given, **constants), ours)
    expected, other = _called(lambda given: kernel.compile(*given, arch="reference", **constants)(*given), theirs)
    if refusal or other:
        return (
            None
            if refusal and other
            else f"only the {'call' if refusal else 'reference'} refuses it: {refusal or other}"
        )
    pairs = [(f"result {n}", *pair) for n, pair in enumerate(zip(_arrays(got), _arrays(expected)))]
    pairs += [(f"argument {n}", one, two) for n, (one, two) in enumerate(zip(_arrays(ours), _arrays(theirs)))]
    for what, one, two in pairs:
        figures = compare(one, two)
        if figures.wrong:
            return f"{what} differs from the reference {figures}"
    return ""


def _called(call: Call, given: Sequence[Any]) -> tuple[Any, str]:
    """The result of a call, and the first line of the error that it raised instead."""
    try:
        return call(given), ""
    except TileError as error:
        return None, error.message


def _arrays(values: Any) -> list[Array]:
    """The arrays among results or arguments."""
    every: list[Any] = [*values] if isinstance(values, (tuple, list)) else [values]
    return [value for value in every if isinstance(value, np.ndarray)]


def arguments(specs: Sequence[Spec], trial: Trial) -> list[Any]:
    """The arguments of a call: equal for equal trials."""
    shapes = [
        tuple(trial.sizes[size] if isinstance(size, str) else size or 1 for size in spec.shape)
        for spec in specs if isinstance(spec, TensorSpec)
    ]  # fmt: skip
    draw, every = Draw(np.random.default_rng(trial.seed), below(shapes)), iter(shapes)
    made: list[Any] = []
    for spec in specs:
        if isinstance(spec, TensorSpec):
            dtype = trial.dtype if trial.dtype is not None and spec.dtype.is_float else spec.dtype
            made.append(_laid(_valued(draw, draw.array(next(every), dtype), trial.values), trial.layout))
        elif isinstance(spec, type):
            made.append({bool: True, int: 2}.get(spec, 0.5))
        else:
            made.append(spec)
    return made


def _valued(draw: Draw, array: Array, values: str) -> Array:
    """Other numbers in place of normal ones, for floats."""
    wide: Any = array.astype(np.float64) if array.dtype.kind not in "iub" else None
    if wide is None or values == "normal":
        return array
    match values:
        case "zeros":
            wide *= 0
        case "large":
            wide *= 1000
        case "tiny":
            wide *= 1e-6
        case _:
            random: Any = draw.random
            chosen = random.uniform(size=wide.shape)
            wide = np.where(chosen < 0.05, np.inf, np.where(chosen > 0.95, np.nan, wide))
    with np.errstate(all="ignore"):
        return wide.astype(array.dtype)


def _laid(array: Array, layout: str) -> Array:
    """The same array, lying otherwise."""
    if array.ndim < 2 or layout == "rows":
        return array
    if layout == "columns":
        return np.asfortranarray(array)
    room = np.zeros((*array.shape[:-1], array.shape[-1] + 3), array.dtype)
    room[..., : array.shape[-1]] = array
    return room[..., : array.shape[-1]]
