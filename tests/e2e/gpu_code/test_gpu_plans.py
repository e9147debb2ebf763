"""Every plan that the sizes of a GPU case lead to gives GPU IR that computes the case, with no GPU.

The code that a device runs is made of this IR. Here it runs in the emulator, which also finds races,
vectors that are not aligned and threads that disagree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_cases.gpu_cases import Case, assert_same, expected, outcome
from tests.support.gpu_cases.gpu_example_cases import EXAMPLE_CASES
from tests.support.gpu_cases.gpu_language_cases import LANGUAGE_CASES
from tests.support.gpu_cases.gpu_shape_cases import SHAPE_CASES
from tests.support.gpu_code.gpu_lowering import lowered, plans_for, run_as_launched
from tests.support.kernels.lowered_kernels import argument_for
from tiledsl.frontend.kernel.arguments import Argument, ConstantArgument, TensorArgument
from tiledsl.frontend.kernel.lower import lower_kernel
from tiledsl.frontend.source.kernel_source import KernelSource
from tiledsl.ir.core import Module
from tiledsl.support.errors import TileResourceError

SEEDS = (None, 0, 1)
"""None: threads in step."""
MOST_ELEMENTS = 12_000
"""Of the arguments of a case."""


def module_of(case: Case, arguments: Iterable[object]) -> Module:
    """The TILE module of the case's kernel."""
    source = KernelSource(case.kernel.__wrapped__)
    names = [name for name in source.signature.parameters if name not in case.constants]
    given: dict[str, Argument] = {name: _argument(value) for name, value in zip(names, arguments)}
    given |= {name: ConstantArgument(value) for name, value in case.constants.items()}
    return lower_kernel(source, given)


def _argument(value: Any) -> Argument:
    found = argument_for(value)
    if isinstance(found, TensorArgument):
        unit = [axis for axis, stride in enumerate(value.strides) if stride == value.itemsize]
        return TensorArgument(found.dtype, found.shape, unit[-1] if unit else None, found.divisible)
    return found


def small(cases: Iterable[Case]) -> list[Case]:
    return [case for case in cases if sum(np.size(argument) for argument in case.arguments()) <= MOST_ELEMENTS]


def few_of_each_kernel(cases: Iterable[Case], most: int) -> list[Case]:
    """At most so many cases of each kernel, spread over all that there are."""
    groups: dict[object, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.kernel, []).append(case)
    return [group[i * len(group) // most] for group in groups.values() for i in range(min(most, len(group)))]


CASES = few_of_each_kernel(small([*LANGUAGE_CASES, *EXAMPLE_CASES, *SHAPE_CASES]), 6)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_plan(case: Case) -> None:
    arguments = case.arguments()
    placed, plans = plans_for(module_of(case, arguments), arguments)
    wanted = expected(case)
    done = 0
    for plan in plans:
        try:
            module = lowered(placed, plan)
        except TileResourceError:  # the next one is taken
            continue
        # threads in another order matter to what plans have in common: the first one is run in each
        for seed in SEEDS if done == 0 else (0,):
            changed = case.arguments()
            returned = run_as_launched(module.entry, changed, seed=seed)
            actual = outcome(returned, changed, lambda value: isinstance(value, np.ndarray), np.asarray)
            try:
                assert_same(case, actual, wanted)
            except AssertionError as error:
                raise AssertionError(f"{error}\nplan: {plan}, seed: {seed}") from None
        done += 1
    assert done, "there is no plan that can be lowered"
