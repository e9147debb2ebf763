"""Every declared op can be written and read."""

from __future__ import annotations

from tests.support.every_op import GRAPH, TILE
from tests.support.gpu_code.every_gpu_op import ASYNC, GPU, WINDOWS
from tiledsl.ir.core import OPS, Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.verifier import Form, verify


def names_of(module: Module) -> set[str]:
    return {op.name for op in module.walk()}


def test_every_op_has_an_example() -> None:
    given = set[str]().union(*(names_of(parse_module(text)) for text in (TILE, GRAPH, GPU, ASYNC, WINDOWS)))
    assert given == set(OPS)


def test_every_field_has_an_example() -> None:
    modules = [parse_module(text) for text in (TILE, GRAPH, GPU, ASYNC, WINDOWS)]
    ops = [op for module in modules for op in module.walk()]
    for name, kind in OPS.items():
        mine = [op for op in ops if op.name == name]
        for attribute, field in kind.attribute_fields.items():
            assert any(op.attributes[attribute] != field.default for op in mine), (name, attribute)
        for operand in kind.operand_fields:
            values = [op.fields[operand] for op in mine]
            assert any(value is not None and value != () for value in values), (name, operand)


def test_the_text_of_the_examples_is_what_is_printed() -> None:
    assert print_module(parse_module(TILE)) == TILE
    assert print_module(parse_module(GRAPH)) == GRAPH
    assert print_module(parse_module(GPU)) == GPU
    assert print_module(parse_module(ASYNC)) == ASYNC
    assert print_module(parse_module(WINDOWS)) == WINDOWS
    assert parse_module(print_module(parse_module(GPU), locations=True)) == parse_module(GPU)


def test_the_examples_are_legal() -> None:
    verify(parse_module(TILE), Form.TILE)
    verify(parse_module(GRAPH), Form.GRAPH)
    verify(parse_module(GPU), Form.GPU)
    verify(parse_module(ASYNC), Form.GPU)
