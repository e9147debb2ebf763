"""The steps that functions of the language are made of, which tile form and tensor form take each in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol, TypeVar

from tiledsl.frontend.language.promotion import Strength
from tiledsl.ir.dtypes import DType
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import Shape

V = TypeVar("V")
"""What a form has for operands and results: `Operand` in tile form, `TracedTensor`s and numbers in tensor form."""


class Steps(Protocol[V]):
    """What `tiledsl.frontend.language.composites` asks of a form: ops of its level, and errors with its places."""

    def read(self, x: V) -> V:
        """The operand, loaded if that is still to be done; numbers and sizes stay what they are."""
        ...

    def tensor(self, x: V) -> V:
        """The operand as a value of the IR; numbers and sizes become weak scalars."""
        ...

    def number(self, like: V, number: float) -> V:
        """A number, under the words of another operand."""
        ...

    def size(self, like: V, size: Dim) -> V:
        """A size, under the words of another operand."""
        ...

    def constant(self, x: V) -> float | None:
        """The number that the operand is, if that is known when the kernel is compiled."""
        ...

    def strength(self, x: V) -> Strength:
        """How the operand takes part in promotion."""
        ...

    def shape(self, x: V) -> Shape:
        """The shape of an operand that was read: () for numbers and sizes."""
        ...

    def at_once(self, fn: str, operands: Sequence[V]) -> V | None:
        """The scalar function `fn` of numbers and sizes alone, where it needs no op."""
        ...

    def convert(self, x: V, dtype: DType, weak: bool = False) -> V:
        """The operand as a value of `dtype`."""
        ...

    def map(self, fn: str, operands: Sequence[V], dtypes: Sequence[DType], weak: bool) -> V:
        """The scalar function `fn` of operands, each in its dtype, under their common shape."""
        ...

    def reduce(self, fn: str, x: V, axes: Sequence[int], keepdims: bool, weak: bool = False) -> V:
        """A fold of a value over some axes."""
        ...

    def reshape(self, x: V, shape: Shape) -> V:
        """The same elements under another shape of the same size."""
        ...

    def text(self, x: V) -> str:
        """How the user writes the operand."""
        ...

    def describe(self, x: V) -> str:
        """What the operand is, in the words of an error message."""
        ...

    def fail(self, code: str, *operands: V, **names: object) -> NoReturn:
        """Raises an error of the catalogue about some operands."""
        ...
