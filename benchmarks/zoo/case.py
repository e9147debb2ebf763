"""A formula or kernel of the zoo: its arguments and sizes, what it means in NumPy, and PyTorch's way to the same.

    Family("products")("x @ w + b", "f16[m,k], f16[k,n]*0.05, f16[n]", "m=64 n=96 k=32", lambda x, w, b: x @ w + b)

Formulas take their sizes from their tensors, so a case can be run at sizes that a test has time for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, Union

import numpy as np

import tiledsl
from tiledsl import tile
from tiledsl.ir.dtypes import BY_NAME, DType, to_numpy

if TYPE_CHECKING:
    from tiledsl.api.pages.audit import Audit

Sizes = dict[str, int]
A = Any
Formula = Union[
    Callable[[A], A], Callable[[A, A], A], Callable[[A, A, A], A], Callable[[A, A, A, A], A],
    Callable[[A, A, A, A, A], A], Callable[[A, A, A, A, A, A], A], Callable[[A, A, A, A, A, A, A], A],
    Callable[[A, A, A, A, A, A, A, A], A], Callable[[A, A, A, A, A, A, A, A, A], A],
    Callable[[A, A, A, A, A, A, A, A, A, A], A], Callable[[A, A, A, A, A, A, A, A, A, A, A], A],
    Callable[[A, A, A, A, A, A, A, A, A, A, A, A], A],
]  # fmt: skip
"""Of tensors; written out, so that checkers know what a lambda takes."""

SMALL = (36, 20, 28, 44, 52, 12)
"""What sizes above MOST become where a case is only to be right: multiples of four, for halves and groups."""
MOST = 8

_ARGUMENT = re.compile(r"\s*(\w+)\[([\w,*+]*)\](?:\*([\d.]+))?(?:<(\w+))?\s*(?:,|$)")
"""`f16[m,k]*0.05`: normal numbers, a twentieth of them; `i32[m]<v`: ints from 0 up to v."""


@dataclass(frozen=True)
class Argument:
    """A tensor that a case is given. Floats are normal numbers times `scale`; ints lie below `below`, or in -8..7."""

    dtype: DType
    axes: tuple[str, ...]
    scale: float
    below: str | None

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        """An axis is a size, a number, or a product of these: `h`, `3`, `h*d`; `n+1` is one more."""
        return tuple(_size(axis, sizes) for axis in self.axes)


def _size(axis: str, sizes: Sizes) -> int:
    total = 0
    for term in axis.split("+"):
        product = 1
        for factor in term.split("*"):
            product *= int(factor) if factor.isdigit() else sizes[factor]
        total += product
    return total


@dataclass(frozen=True)
class ZooCase:
    """`formula` takes tensors like `arguments`, and behind them the sizes that `passed` names.

    `meaning` takes the same as NumPy's f64 arrays (integers as they are). `expected` takes torch, and the same tensors.
    """

    family: str
    name: str
    formula: Formula
    meaning: Formula
    expected: Callable[..., Any]
    arguments: tuple[Argument, ...]
    sizes: Sizes
    small: Sizes
    passed: tuple[str, ...] = ()
    tf32: bool = False
    """Whether products round their f32 operands to tf32, and PyTorch's may too."""

    @property
    def narrow(self) -> bool:
        """Whether an argument has fewer than 32 bits: products are expected on tensor cores then."""
        return any(argument.dtype.bits < 32 for argument in self.arguments)

    def specs(self, sizes: Sizes | None = None) -> list[Any]:
        """The arguments as `tile.spec` has them, and the sizes that are passed."""
        sizes = sizes or self.sizes
        given = [tile.spec(argument.shape(sizes), argument.dtype) for argument in self.arguments]
        return [*given, *(sizes[name] for name in self.passed)]

    def audit(self, arch: str) -> Audit:
        """What its kernels move, and how long they are predicted to take. Raises TileError."""
        return self.fused().audit(arch)

    def fused(self, sizes: Sizes | None = None) -> Any:
        """The formula, written down and ready to be built."""
        return tiledsl.fuse(tiledsl.trace(self.formula, *self.specs(sizes)))

    def arrays(self, sizes: Sizes) -> list[Any]:
        """Arguments of these sizes in NumPy: the same in every run."""
        random = np.random.default_rng(0)
        return [_array(random, argument, sizes) for argument in self.arguments]

    def reference(self, arrays: Sequence[Any], sizes: Sizes) -> Any:
        """What NumPy makes of the arrays in f64."""
        wide = [a.astype(np.float64) if arg.dtype.is_float else a for a, arg in zip(arrays, self.arguments)]
        return self.meaning(*wide, *(sizes[name] for name in self.passed))

    def tensors(self, torch: Any, sizes: Sizes | None = None, device: str = "cuda") -> list[Any]:
        """Arguments for PyTorch: the same in every run."""
        sizes = sizes or self.sizes
        generator = torch.Generator(device=device).manual_seed(0)
        return [_tensor(torch, generator, device, argument, sizes) for argument in self.arguments]

    def extras(self, sizes: Sizes | None = None) -> tuple[int, ...]:
        """The sizes that are passed behind the tensors."""
        return tuple((sizes or self.sizes)[name] for name in self.passed)


def _array(random: np.random.Generator, argument: Argument, sizes: Sizes) -> Any:
    shape = argument.shape(sizes)
    if argument.dtype.is_float:
        return (random.standard_normal(shape) * argument.scale).astype(to_numpy(argument.dtype))
    low, high = _range(argument, sizes)
    return random.integers(low, high, shape).astype(to_numpy(argument.dtype))


def _range(argument: Argument, sizes: Sizes) -> tuple[int, int]:
    return (-8, 8) if argument.below is None else (0, _size(argument.below, sizes))


TORCH_NAMES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i8": "int8", "u8": "uint8",
    "i32": "int32", "i64": "int64", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}  # fmt: skip


def _tensor(torch: Any, generator: Any, device: str, argument: Argument, sizes: Sizes) -> Any:
    shape, dtype = argument.shape(sizes), getattr(torch, TORCH_NAMES[argument.dtype.name])
    if argument.dtype.is_float:
        made = torch.randn(shape, generator=generator, device=device, dtype=torch.float32)
        return made.mul_(argument.scale).to(dtype)
    return torch.randint(*_range(argument, sizes), shape, generator=generator, device=device, dtype=dtype)


@dataclass(frozen=True)
class Family:
    """Makes the cases of a family."""

    name: str

    def __call__(
        self,
        name: str,
        arguments: str,
        sizes: str,
        formula: Formula,
        meaning: Formula | None = None,
        torch: Formula | None = None,
        *,
        small: str = "",
        passed: str = "",
        tf32: bool = False,
    ) -> ZooCase:
        """A case. `meaning` is NumPy's way, `torch` a function of torch and the tensors; without them the formula is.

        `small` replaces sizes where the case is only to be right: those above MOST are from SMALL.
        """
        numbers = _sizes(sizes)
        few = cycle(SMALL)
        shrunk = {key: next(few) if value > MOST else value for key, value in numbers.items()}
        expected = partial(_without_torch, formula) if torch is None else torch
        return ZooCase(
            self.name, name, formula, meaning or formula, expected, tuple(_arguments(arguments)), numbers,
            {**shrunk, **_sizes(small)}, tuple(passed.split()), tf32,
        )  # fmt: skip


def _without_torch(formula: Callable[..., Any], torch: Any, *given: Any) -> Any:
    del torch
    return formula(*given)


def _sizes(text: str) -> Sizes:
    return {name: int(value) for name, value in (word.split("=") for word in text.split())}


def _arguments(text: str) -> Iterator[Argument]:
    at = 0
    while at < len(text):
        found = _ARGUMENT.match(text, at)
        assert found is not None, f"no argument at {text[at:]!r}"
        dtype, axes, scale, below = found.groups()
        yield Argument(BY_NAME[dtype], tuple(axes.split(",")) if axes else (), float(scale or 1), below)
        at = found.end()
