"""Mutants differ from their programs, are read back from their text, and there are some of every kind."""

from __future__ import annotations

import pytest

from tests.support.gpu_cases.lowered_programs import lowered_programs
from tests.support.hopper.hopper_programs import hopper_programs, wrapping_programs
from tests.support.hopper.hopper_text import HopperProgram
from tests.support.mutants.mutations import DEPENDENT, Mutant, counts, kinds, mutants
from tiledsl.ir.compare import same_module
from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module

KINDS = {
    "accumulate", "apart", "arrivals", "arrive-by", "bulk-read", "delete-barrier", "delete-bulk-commit",
    "delete-bulk-wait", "delete-commit", "delete-mbarrier-arrive", "delete-mbarrier-expect", "delete-mbarrier-wait",
    "delete-named-barrier", "delete-proxy-fence", "delete-tma-load", "delete-tma-store", "delete-wait",
    "delete-wgmma-commit", "delete-wgmma-fence", "delete-wgmma-wait", "expect-bytes", "extent-less", "extent-more",
    "fence-scope", "groups-fewer", "groups-more", "index", "modulo", "multicast", "named-barrier", "offset", "overlap",
    "parity", "repeat-bulk-commit", "repeat-commit", "repeat-mbarrier-arrive", "repeat-mbarrier-expect",
    "repeat-named-barrier", "repeat-wgmma-commit", "scope", "stage-of-buffer", "stage-of-mbarrier", "swap", "swizzle",
    "trips", "unmasked", "wait-values",
}  # fmt: skip


def chosen() -> list[HopperProgram]:
    """One program of each sort: the first of those whose names begin alike."""
    first: dict[str, HopperProgram] = {}
    for program in wrapping_programs():
        first.setdefault(program.name.split(":")[0].split(" ")[0], program)
    return list(first.values())


@pytest.mark.parametrize("program", chosen(), ids=str)
def test_each_differs_and_is_read_back(program: HopperProgram) -> None:
    before = print_module(program.module)
    found = list(mutants(program.module))
    for number, mutant in enumerate(found):
        assert not same_module(mutant.module, program.module, locations=False), mutant
        if number % 8 == 0 and not mutant.rejected:  # parsing takes its time
            assert same_module(parse_module(print_module(mutant.module)), mutant.module, locations=False), mutant
    assert print_module(program.module) == before
    caught, rejected, same = (sum(row[i] for row in counts(found).values()) for i in range(3))
    assert caught > 3 * same
    assert caught > 3 * rejected


def test_all_kinds() -> None:
    programs = (*hopper_programs(), *lowered_programs())
    assert set[str]().union(*(kinds(program.module) for program in programs)) == KINDS
    assert DEPENDENT < KINDS


def small(body: str) -> Module:
    return parse_module(f"""
func @f(%x: tensor<f32, [64], unit=0>, %y: tensor<f32, [64], unit=0>) {{
  %0 = tile.constant() {{value = 0, dtype = i64}}
  %N = tile.size() {{value = 64}}
  gpu.launch([%N]) {{blocks = [64], threads = 64, shared_bytes = 1024}} body(%n: i64) {{
    %s = gpu.buffer() {{shape = [64], dtype = f32, layout = rows(0), offset = 0}}
    {body}
  }}
  tile.return([])
}}""")


def described(module: Module, *kinds: str) -> list[str]:
    found = mutants(module, lambda kind: kind in kinds)
    return [f"{mutant}{f' ({mutant.equivalent})' * bool(mutant.equivalent)}" for mutant in found]


def test_words() -> None:
    copy = """
    gpu.copy(%x, [%n], [], %s, [%0]) {axes = [0], places = [0], vector = 1, shape = [64], layout = spatial(64)}
    gpu.commit()
    gpu.wait() {groups = 0}
    gpu.barrier()
    %t = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = spatial(64)}
    gpu.store(%y, [%n], %t, []) {axes = [0]}
    gpu.barrier()"""
    assert described(small(copy), "delete-barrier", "groups-more", "repeat-commit", "swap") == [
        "swap gpu.copy and gpu.commit (line 9) at line 8",
        "repeat gpu.commit at line 9 (a group more, which is empty: waits are for more than they must)",
        "swap gpu.commit and gpu.wait (line 10) at line 9",
        "`groups` 0 => 1 of gpu.wait at line 10",
        "swap gpu.wait and gpu.barrier (line 11) at line 10",
        "delete gpu.barrier at line 11",
        "swap gpu.barrier and gpu.read (line 12) at line 11",
        "delete gpu.barrier at line 14 (nothing follows it)",
    ]


def test_what_the_verifier_rejects() -> None:
    load = """
    %t = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = spatial(64)}
    %u = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 1000}
    gpu.write(%u, %t, [%0]) {places = [0]}"""
    found = {mutant.description: mutant for mutant in mutants(small(load), lambda kind: kind == "overlap")}
    first = found["`offset` 0 => 1000 of gpu.buffer at line 6"]
    assert first.rejected
    assert "stands at byte 1000" in first.problem
    assert not found["`offset` 1000 => 0 of gpu.buffer at line 9"].rejected


@pytest.mark.parametrize(
    ("kind", "line", "reason"),
    [
        ("multicast", "tma_load", "each block loads all of it itself"),
        ("groups-fewer", "wgmma_wait", "it waits for more than it must"),
        ("bulk-read", "bulk_wait", "nobody reads what is stored before the launch is over"),
        ("swap", "mbarrier_expect and gpu.tma_load", "the phase cannot be over before that arrival"),
        ("swap", "mbarrier_wait and gpu.wgmma_fence", "gpu.wgmma_fence is about registers, and gpu.mbarrier_wait"),
    ],
)
def test_what_means_the_same(kind: str, line: str, reason: str) -> None:
    def is_it(mutant: Mutant) -> bool:
        return line in mutant.description and mutant.equivalent.startswith(reason)

    found = (m for program in wrapping_programs() for m in mutants(program.module, lambda other: other == kind))
    assert any(is_it(mutant) for mutant in found)
