"""Bytes counted from a loop nest are the bytes that run, whatever the blocks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.executed_work import Meter, counted, open_blocks
from tests.support.generators.random_modules import RandomProgram, tile_programs
from tiledsl.ir.types import BlockSize
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import loop_nest, loop_nests


def sizes_of_block(size: BlockSize) -> st.SearchStrategy[int]:
    if size.kind == "auto":
        return st.integers(1, 17)
    return st.integers(1, size.size // size.unit).map(lambda units: units * size.unit)


@given(program=tile_programs(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_random_programs(program: RandomProgram, data: st.DataObject) -> None:
    entry = program.module.entry
    blocks = {name: data.draw(sizes_of_block(size), label=name) for name, size in open_blocks(entry).items()}
    moved, exact = counted(entry, program.sizes, blocks)
    assert moved.read >= 0
    assert moved.written >= 0
    if exact:
        with pytest.MonkeyPatch.context() as patch:
            executed = Meter(patch).run(entry, program.arguments(), blocks)
        assert executed == moved, (blocks, executed, moved)


@given(program=tile_programs(), data=st.data())
@settings(max_examples=30, deadline=None)
def test_counts_for_other_blocks_are_those_of_a_nest_that_was_not_counted_before(
    program: RandomProgram, data: st.DataObject
) -> None:
    entry = program.module.entry
    nests, open_ = loop_nests(entry), open_blocks(entry)
    for _ in range(3):
        blocks = {name: data.draw(sizes_of_block(size), label=name) for name, size in open_.items()}
        for nest in nests:
            fresh = loop_nest(nest.grid)
            counts, others = (WorkCounts(one, program.sizes, blocks) for one in (nest, fresh))
            assert [*map(counts.moved, nest.accesses)] == [*map(others.moved, fresh.accesses)], blocks
            assert [*map(counts.turns, nest.loops)] == [*map(others.turns, fresh.loops)], blocks
