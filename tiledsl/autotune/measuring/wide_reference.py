"""The reference executor with wide blocks: the same results as with small ones, in a hundredth of the time. Of a large
grid it runs as many programs as there is time for, drawn at random."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tiledsl.autotune.measuring.cases import Case
from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.backend_ref.execution import Program
from tiledsl.ir.core import Function, Op
from tiledsl.ir.tile_ops import Atomic, Empty, Grid, Range
from tiledsl.ir.types import BlockSize, TensorType
from tiledsl.runtime.arrays.arrays import Array

INNER = 512
"""Elements of blocks of the last two axes of a grid or range."""
OUTER = 4
"""Of those before."""
LONGEST = 0.3
"""Seconds after which no further program of a grid is run, where the others can be compared with the model's pick."""


def wide_blocks(op: Op, axis: int, size: BlockSize) -> int:
    """What blocks that the program leaves open are."""
    assert isinstance(op, (Grid, Range))
    wanted = INNER if len(op.blocks) - axis <= 2 else OUTER
    if size.kind == "auto":
        return wanted
    return max(size.unit, min(size.size, wanted) // size.unit * size.unit)


@dataclass
class Sample:
    """Programs at random, as many as there is time for; the last one, which may have short blocks, among the first."""

    seconds: float
    clock: Callable[[], float] = time.perf_counter
    complete: bool = True
    """Whether all were run."""
    _random: random.Random = field(default_factory=lambda: random.Random(0))

    def __call__(self, programs: list[Program]) -> Iterator[Program]:
        end = self.clock() + self.seconds
        order = [programs[-1], *self._random.sample(programs[:-1], len(programs) - 1)] if programs else []
        for number, program in enumerate(order):
            if number and self.clock() >= end:
                self.complete = False
                return
            yield program


def run_by_reference(function: Function, case: Case, arrays: Sequence[Array], seconds: float = LONGEST) -> bool:
    """Runs a case on arrays that lie as its tensors do: parameters, then those that the function makes. Gives whether
    all of it was run: what was not is still poison. `seconds`: for a part of the programs, where a part is of use."""
    tensors, numbers = iter(arrays), iter(case.numbers)
    arguments = list(_arguments(function, tensors, numbers))
    sample = Sample(seconds) if can_be_sampled(function, case) else None
    results = execute(function, arguments, blocks=wide_blocks, output=lambda _: None, chosen=sample)
    made = dict(zip((op.result for op in function.body.ops if isinstance(op, Empty)), tensors))
    returned = function.body.terminator
    for value, result in zip(returned.operands if returned else (), results):
        if value in made:
            np.copyto(made[value], result)
    return sample is None or sample.complete


def can_be_sampled(function: Function, case: Case) -> bool:
    """Whether programs can be run without the others, and it shows what was written: there is one grid, which stores
    into results that were poison."""
    ops = list(function.walk())
    grids = [op for op in ops if isinstance(op, Grid)]
    own = [tensor for tensor in case.tensors if tensor.is_compared]
    wide = all(tensor.use == "result" and tensor.dtype != np.bool_ for tensor in own)
    hidden = any(isinstance(op, Atomic) or (isinstance(op, Empty) and op.fill is not None) for op in ops)
    return len(grids) == 1 and wide and not hidden


def _arguments(function: Function, tensors: Iterator[Array], numbers: Iterator[float]) -> Iterator[Argument]:
    for value in function.parameters:
        yield next(tensors) if isinstance(value.type, TensorType) else next(numbers)
