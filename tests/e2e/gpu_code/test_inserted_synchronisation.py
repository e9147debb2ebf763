"""Programs for Hopper lose the fences and barriers that they have by hand; passes put them in again, and no more."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from tests.support.hopper.hopper_programs import hopper_programs
from tests.support.hopper.hopper_text import Array, HopperProgram
from tests.support.hopper.strip_synchronisation import counts, inserted, stripped
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.ir.core import Function, Module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.verifier import Form, verify
from tiledsl.passes.gpu.sync.insert_barriers import InsertBarriers
from tiledsl.passes.gpu.sync.insert_proxy_fences import InsertProxyFences
from tiledsl.passes.manager import PassContext
from tiledsl.support.errors import TileError

PROGRAMS = pytest.mark.parametrize("program", hopper_programs(), ids=str)
SEEDS = (None, 0, 1)
MORE_SEEDS = (*SEEDS, *range(2, 12))
"""Some orders to try until one shows what is missing."""
MORE = {"through_the_cluster, 5 steps": Counter({"gpu.named_barrier": 1})}
"""What is put in that is not there by hand: two stores of parts of a tensor, whose distance is a size, come in turn."""
NOT_NEEDED = {
    **MORE,
    # its stage is never filled again: what its loop would need then is not needed
    "refill of 1 stages, 1 steps, by thread": Counter({"gpu.proxy_fence": 1}),
    # each warp overwrites those rows of A that it alone has read: that is there by hand too
    "gemm_epilogue, reuse: 2 stages, 5 steps, 64x64 bf16 by warp": Counter({"gpu.named_barrier": 1}),
}


def synchronised(module: Module) -> Module:
    for step in (InsertBarriers(), InsertProxyFences()):
        module = step.run(module, PassContext())
    return module


@cache
def restored(program: HopperProgram) -> Module:
    return synchronised(stripped(program.module))


def check(program: HopperProgram, module: Module, seed: int | None) -> None:
    def run(function: Function, arguments: list[Any]) -> tuple[Array, ...]:
        return emulate(function, arguments, seed=seed).results

    program.check(run, function=module.entry)


@PROGRAMS
def test_found_right_again(program: HopperProgram) -> None:
    module = restored(program)
    verify(module, Form.GPU)
    for seed in SEEDS:
        check(program, module, seed)


@PROGRAMS
def test_no_more_than_by_hand(program: HopperProgram) -> None:
    assert counts(restored(program)) == counts(program.module) + MORE.get(program.name, Counter())


@PROGRAMS
def test_again_they_find_nothing_to_do(program: HopperProgram) -> None:
    for module in (restored(program), program.module):
        again = synchronised(synchronised(module.clone()))
        once = synchronised(module.clone())
        assert print_module(again) == print_module(once)
    assert print_module(synchronised(restored(program).clone())) == print_module(restored(program))


@PROGRAMS
def test_each_is_needed(program: HopperProgram) -> None:
    """Without any one of them the emulator finds something wrong, in step or in some order."""
    found: Counter[str] = Counter()
    for number, op in enumerate(inserted(restored(program))):
        module = restored(program).clone()
        inserted(module)[number].erase()
        if not any(_is_wrong(program, module, seed) for seed in MORE_SEEDS):
            found[op.name] += 1
    assert found == NOT_NEEDED.get(program.name, Counter())


def _is_wrong(program: HopperProgram, module: Module, seed: int | None) -> bool:
    try:
        check(program, module, seed)
    except (TileError, AssertionError):
        return True
    return False
