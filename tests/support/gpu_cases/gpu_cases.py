"""Kernels with arguments, as data: what GPU tests run on a device, and what is compiled and checked without one.

A case gives NumPy arrays; how they are cut of larger ones can be repeated on the arrays of another framework. The cases
are those of the examples (`gpu_example_cases`), the language (`gpu_language_cases`) and sizes (`gpu_shape_cases`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tests.support.compare import assert_close
from tests.support.kernels.lowered_kernels import run_kernel
from tiledsl import Kernel

Array: TypeAlias = npt.NDArray[Any]

BLOCK = 128
"""The reference gives the same for all blocks, and is the faster the fewer there are."""


@dataclass(frozen=True)
class View:
    """Part of a larger array. `cut` uses what arrays of all frameworks understand: subscripts and `.T`."""

    base: Array
    cut: Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """One kernel with one set of arguments.

    `make` draws the arguments (arrays, views, numbers) from a random generator, the same ones each time. Floats may
    differ from the reference by `relative` (default: what their dtype allows) and grow with the root of `terms`.
    `instructions`: what must be among the machine instructions, by the start of their names, on sm_90.
    """

    name: str
    kernel: Kernel
    make: Callable[[np.random.Generator], Sequence[object]]
    constants: Mapping[str, object] = field(default_factory=dict[str, object])
    relative: float | None = None
    terms: int = 1
    instructions: tuple[str, ...] = ()
    essential: bool = False
    """Whether it is compiled for every architecture in each run of the tests."""

    def __str__(self) -> str:
        return self.name

    def arguments(self, put: Callable[[Array], Any] = np.copy) -> list[Any]:
        """Fresh arguments. `put` brings an array to where the kernel runs; views are cut of what it gives."""
        made = self.make(np.random.default_rng(zlib.crc32(self.name.encode())))
        return [_placed(value, put) for value in made]


def _placed(value: object, put: Callable[[Array], Any]) -> Any:
    if isinstance(value, View):
        return value.cut(put(value.base))
    return put(cast(Array, value)) if isinstance(value, np.ndarray) else value


@dataclass(frozen=True)
class Outcome:
    """What a call left: the tensors that it returned, and those that it was given (it may have written to them)."""

    returned: tuple[Array, ...]
    arguments: tuple[Array, ...]


def outcome(
    returned: Any, arguments: Sequence[Any], is_tensor: Callable[[Any], bool], take: Callable[[Any], Array]
) -> Outcome:
    """The outcome as NumPy arrays: `take` brings a tensor back."""
    several = cast("tuple[Any, ...]", returned if isinstance(returned, tuple) else (returned,))
    return Outcome(
        tuple(take(value) for value in several if value is not None),
        tuple(take(value) for value in arguments if is_tensor(value)),
    )


def expected(case: Case) -> Outcome:
    """What the reference executor makes of the case."""
    arguments = case.arguments()
    with np.errstate(all="ignore"):
        returned = run_kernel(case.kernel.__wrapped__, *arguments, constants=dict(case.constants), block=BLOCK)
    return outcome(returned, arguments, lambda value: isinstance(value, np.ndarray), np.asarray)


def assert_same(case: Case, actual: Outcome, wanted: Outcome) -> None:
    """Fails unless all tensors of two outcomes are close."""
    tensors = [*zip_named("returned", actual.returned, wanted.returned)]
    tensors += zip_named("argument", actual.arguments, wanted.arguments)
    for name, got, want in tensors:
        with named(f"{case}, {name}"):
            assert_close(got, want, relative=case.relative, terms=case.terms)


def zip_named(what: str, actual: Sequence[Array], wanted: Sequence[Array]) -> list[tuple[str, Array, Array]]:
    """Pairs of tensors, each with what it is."""
    assert len(actual) == len(wanted), f"{len(actual)} tensors ({what}), expected {len(wanted)}"
    return [(f"{what} {number}", got, want) for number, (got, want) in enumerate(zip(actual, wanted))]


@contextmanager
def named(what: str) -> Generator[None]:
    """Puts a name before the message of a failing assertion."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from None
