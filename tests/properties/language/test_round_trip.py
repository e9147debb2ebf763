"""Text and modules: what is written is read back as the same module, for every module."""

from __future__ import annotations

from hypothesis import given

from tests.support.generators.random_graphs import RandomGraph, graph_modules
from tests.support.generators.random_modules import RandomProgram, results_agree, tile_programs
from tiledsl.ir.compare import same_module
from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.verifier import Form, verify


def check_round_trip(module: Module, form: Form) -> None:
    verify(module, form)
    assert parse_module(print_module(module, locations=True)) == module
    text = print_module(module)
    again = parse_module(text)
    verify(again, form)
    assert same_module(again, module, locations=False)
    assert print_module(again) == text
    assert module.clone() == module


@given(tile_programs())
def test_tile(program: RandomProgram) -> None:
    check_round_trip(program.module, Form.TILE)


@given(graph_modules())
def test_graph(graph: RandomGraph) -> None:
    check_round_trip(graph.module, Form.GRAPH)


@given(tile_programs())
def test_what_is_read_back_runs_alike(program: RandomProgram) -> None:
    again = program.with_module(parse_module(print_module(program.module)))
    assert results_agree(again.execute(), program.execute())
