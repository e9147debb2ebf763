"""Programs that exchange values through shared memory compute the same after places and barriers are chosen, and the
executor, which sees every race, sees none."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generators.random_shared import random_shared_program
from tests.support.gpu_code.gpu_programs import Array, run_gpu_module
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.gpu_ops import Barrier, Launch
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.verifier import Form, verify
from tiledsl.passes.gpu.sync.allocate_shared import AllocateShared, needs_of, place, total_bytes
from tiledsl.passes.gpu.sync.insert_barriers import InsertBarriers
from tiledsl.passes.manager import Pass, PassContext
from tiledsl.support.errors import TileError


def run(module: Module, size: int) -> Array:
    """What is in %out afterwards."""
    out = np.zeros(size, np.float32)
    run_gpu_module(module, np.random.default_rng(1).normal(size=512).astype(np.float32), out)
    return out


def after(text: str, *passes: Pass) -> Module:
    module = parse_module(text)
    for step in passes:
        module = step.run(module, PassContext())
    verify(module, Form.GPU)
    return module


def with_barriers_everywhere(text: str) -> Module:
    module = parse_module(text)
    for launch in [op for op in module.walk() if isinstance(op, Launch)]:
        for op in list(launch.body.walk()):
            if op.name.startswith("gpu.") and op.parent is not None:
                op.parent.insert_before(op, Barrier(op.location))
    return module


@given(st.integers(0, 2**32))
def test_places_and_barriers_keep_the_meaning(seed: int) -> None:
    text, size = random_shared_program(seed)
    expected = run(with_barriers_everywhere(text), size)
    np.testing.assert_array_equal(run(after(text, InsertBarriers()), size), expected)
    np.testing.assert_array_equal(run(after(text, AllocateShared(), InsertBarriers()), size), expected)
    tight = AllocateShared(limit=smallest(text))
    np.testing.assert_array_equal(run(after(text, tight, InsertBarriers()), size), expected)


def smallest(text: str) -> int:
    """The least memory that a program can do with."""
    (launch,) = (op for op in parse_module(text).walk() if isinstance(op, Launch))
    needs = needs_of(launch)
    return max(1, total_bytes(needs, place(needs)))


def test_the_executor_sees_a_missing_barrier() -> None:
    races = 0
    for seed in range(20):
        text, size = random_shared_program(seed)
        try:
            run(parse_module(text), size)
        except TileError:
            races += 1
    assert races > 5
