"""Use lists, moving and copying of ops."""

from __future__ import annotations

import pytest

from tests.support.every_op import TILE
from tiledsl.ir import tile_ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Module, free_names
from tiledsl.ir.dtypes import f16, f32, i64
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.types import WHOLE, Slice, TensorType, scalar
from tiledsl.ir.verifier import verify
from tiledsl.support.location import BUILTIN, Location


def new_builder() -> Builder:
    return Builder(Block([(scalar(f32), "x"), (scalar(f32), "y")]), BUILTIN)


def test_users_are_counted_by_slot() -> None:
    builder = new_builder()
    x, y = builder.block.arguments
    product = builder.map("mul", x, x)
    assert product.op is not None
    assert (x.users, y.users) == ({product.op: 2}, {})
    assert product.op.operands == (x, x)
    x.replace_with(y)
    assert (x.users, y.users) == ({}, {product.op: 2})
    assert product.op.fields["inputs"] == (y, y)


def test_set_field() -> None:
    builder = new_builder()
    x, y = builder.block.arguments
    op = builder.emit(tile_ops.Map, fn="add", inputs=[x, y])
    op.set_field("inputs", [y, y])
    assert op.inputs == (y, y)
    assert (x.users, y.users) == ({}, {op: 2})


def test_subscripts_that_are_no_values_are_no_operands() -> None:
    block = Block([(TensorType(f32, (8, 8, 8)), "x"), (scalar(i64), "i")])
    tensor, i = block.arguments
    load = Builder(block, BUILTIN).emit(tile_ops.Load, tensor=tensor, indices=[i, WHOLE, Slice(0, 4)])
    assert load.operands == (tensor, i)
    load.replace_operand(i, i)
    assert load.indices == (i, WHOLE, Slice(0, 4))


def test_erasing_takes_an_op_out_of_all_use_lists() -> None:
    module = parse_module(TILE)
    for op in reversed(module.entry.body.ops):
        op.erase()
    assert module.entry.body.ops == []
    assert all(not parameter.users for parameter in module.entry.parameters)


def test_what_is_used_is_not_erased() -> None:
    builder = new_builder()
    one = builder.constant(1.0, f32)
    builder.cast(one, f16)
    assert one.op is not None
    with pytest.raises(AssertionError, match="still used"):
        one.op.erase()


def test_a_copy_shares_nothing() -> None:
    module = parse_module(TILE)
    text = print_module(module, locations=True)
    copy = module.clone()
    verify(copy)
    assert print_module(copy, locations=True) == text
    for op in reversed(copy.entry.body.ops):
        op.erase()
    verify(module)
    assert print_module(module, locations=True) == text


def test_a_copy_of_an_op_reads_mapped_values() -> None:
    builder = new_builder()
    x, y = builder.block.arguments
    total = builder.map("add", x, y)
    assert total.op is not None
    values = {x: y}
    copy = total.op.clone(values)
    assert copy.operands == (y, y)
    assert values[total] is copy.result


def test_walking_is_in_order_and_enters_bodies() -> None:
    module = parse_module("func @f(%c: bool) { tile.if(%c) then() { tile.yield([]) } otherwise() { tile.yield([]) } }")
    assert [op.name for op in module.walk()] == ["tile.if", "tile.yield", "tile.yield"]


def test_the_builder_gives_its_location() -> None:
    builder = new_builder()
    there = Location("there.py", 3)
    with builder.at(there):
        builder.constant(1, i64)
    inner = Block()
    with builder.inside(inner):
        builder.constant(2, i64)
    builder.constant(3, i64)
    assert [op.location for op in builder.block.ops] == [there, BUILTIN]
    assert len(inner.ops) == 1


def test_the_builder_leaves_out_what_changes_nothing() -> None:
    builder = new_builder()
    (x, _) = builder.block.arguments
    assert builder.cast(x, f32) is x
    assert builder.broadcast(x, ()) is x
    assert builder.broadcast(x, (3,)).shape == (3,)


def test_functions_by_name() -> None:
    function = Function("f", Block(), [], BUILTIN)
    module = Module([function])
    assert module.function("f") is module.entry is function
    with pytest.raises(KeyError):
        module.function("g")


def test_free_names() -> None:
    assert free_names({"x", "x_1"}, "x") == "x_2"
    assert free_names({"x": 1}, "y") == "y"


def test_fields_are_checked_when_an_op_is_built() -> None:
    with pytest.raises(AssertionError, match="needs dtype"):
        tile_ops.Constant(BUILTIN, value=1)
    with pytest.raises(AssertionError, match="has no field other"):
        tile_ops.Constant(BUILTIN, value=1, dtype=f32, other=2)
    with pytest.raises(AssertionError, match="needs source"):
        tile_ops.Cast(BUILTIN, dtype=f32)


def test_the_op_whose_body_is_given_a_value() -> None:
    module = parse_module(TILE, "every_op.tir")
    given = 0
    for function in module.functions:
        assert all(parameter.op_around is None for parameter in function.parameters)
        for op in function.walk():
            assert all(result.op_around is None for result in op.results)
            for body in op.bodies.values():
                assert all(argument.op_around is op for argument in body.arguments)
                given += len(body.arguments)
    assert given > 3
