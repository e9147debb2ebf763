"""Kernels under the plans of their full sizes, run in the emulator on sizes that are a few blocks each.

What is planned for 16384 rows is no plan that small sizes get: blocks that divide sizes, programs that go on, clusters,
rings. So the sizes are made smaller behind the planner's back, as far as what the plan counts on allows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.support.gpu_code.gpu_lowering import alignment_of, lowered, run_as_launched
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.ir.core import Function, Module
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.symbolic import evaluate, symbol_name
from tiledsl.ir.types import TensorType
from tiledsl.passes.analysis.sizes import blocks_in
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.split_candidates import program_of

BLOCKS = 2
"""Of an axis that is cut up."""
WHOLE = 48
"""Elements of one that is not."""
MOST = 1 << 20
"""Elements of a tensor, at most."""
PROGRAMS = 3
"""That go through all blocks, where the plan has so many as the device has room for."""
RELATIVE = {2: 3e-2, 4: 2e-3, 8: 1e-9, 1: 0.3}
"""Of the largest element, what results may differ by, by the bytes of theirs."""


@dataclass(frozen=True)
class Shrunk:
    """A kernel, the plan of its full sizes, and smaller ones that keep what the plan counts on."""

    placed: Module
    plan: Plan
    sizes: Mapping[str, int]

    def differs_by(self, seed: int, arch: str = "sm_90") -> float | None:
        """How far the emulator's results are from the reference's, as a part of what they may be; None where such
        sizes have tensors that are too large, or none that the arguments could have."""
        function = self.placed.entry
        shapes = [tuple(evaluate(dim, self.sizes) for dim in p.type.shape) for p in _tensors(function)]
        if any(math.prod(shape) > MOST or 0 in shape for shape in shapes):
            return None
        random = np.random.default_rng(seed)
        arguments = [_laid(p.type, _drawn(random, p.type.dtype, s)) for p, s in zip(_tensors(function), shapes)]
        if len(arguments) != len(function.parameters):
            return None
        aligned = zip(map(alignment_of, arguments), self.plan.alignment)
        if self.plan.steps or self.plan.packed or any(own % wanted for own, wanted in aligned):
            return None
        expected = execute(function, [one.copy() for one in arguments], blocks=lambda op, axis, block: 128)
        grids = tuple(replace(grid, programs=min(grid.programs, PROGRAMS)) for grid in self.plan.grids)
        code = lowered(self.placed, replace(self.plan, grids=grids), arch)
        found = run_as_launched(code.entry, arguments, seed=seed)
        return max(map(_difference, found, expected), default=0.0)


def shrunk(placed: Module, plan: Plan, sizes: Mapping[str, int]) -> Shrunk:
    """A kernel in form `tile-placed`, with a plan for sizes, made small."""
    function = program_of(placed.entry, plan)
    multiples = dict.fromkeys(sizes, 1)
    for fact in placed.entry.facts:
        name = symbol_name(fact.dim)
        if name is not None:
            multiples[name] = math.lcm(multiples[name], fact.divisor)
    for name, divisor in plan.divisors:
        multiples[name] = math.lcm(multiples.get(name, 1), divisor)
    for tensor, aligned in zip(_tensors(placed.entry), plan.alignment):
        last = symbol_name(tensor.type.shape[-1]) if tensor.type.shape else None
        if last in multiples and len(tensor.type.shape) > 1:
            multiples[last] = math.lcm(multiples[last], max(1, aligned // tensor.type.dtype.bytes))
    blocks, wanted = dict(plan.blocks), dict[str, int]()
    for block in blocks_in(function).values():
        name = symbol_name(block.total) if block.total is not None else None
        size = block.block.size if block.block.kind == "fixed" else blocks.get(block.extent or "", 0)
        if name is not None:
            wanted[name] = max(wanted.get(name, 0), BLOCKS * (size or 1))
    exact, small = dict(plan.sizes), dict[str, int]()
    for name, size in sizes.items():
        least, multiple = wanted.get(name, WHOLE), multiples[name]
        small[name] = exact.get(name, min(size, -(-least // multiple) * multiple))
    return Shrunk(placed, plan, small)


def _tensors(function: Function) -> list[Any]:
    return [p for p in function.parameters if isinstance(p.type, TensorType)]


def _drawn(random: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Numbers that sums keep small; indices that any tensor has."""
    kind = to_numpy(dtype)
    if dtype.name == "bool":
        return random.random(shape) < 0.5
    if dtype.is_float:
        return random.standard_normal(shape).astype(np.float32).astype(kind)
    return random.integers(0, 2, shape).astype(kind)


def _laid(type_: TensorType, array: Any) -> Any:
    """The same, with the axis last in memory that the program takes for it."""
    if type_.unit is None:
        return array
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, type_.unit, -1)), -1, type_.unit)


def _difference(found: Any, expected: Any) -> float:
    a, b = (np.asarray(one).astype(np.float64) for one in (found, expected))
    if a.shape != b.shape or (np.isfinite(a) != np.isfinite(b)).any():
        return math.inf
    same = np.isfinite(b)
    largest = max(float(np.abs(b[same]).max(initial=0.0)), 1e-3)
    return float(np.abs(a - b)[same].max(initial=0.0)) / largest / RELATIVE[np.asarray(found).dtype.itemsize]
