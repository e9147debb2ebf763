"""The rewrite driver: rules fire until none fits, on values of every level, and leave use lists right."""

from __future__ import annotations

import pytest

from tiledsl.ir import tile_ops
from tiledsl.ir.core import Function, Module
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.verifier import Form, verify

RULES = Rules()


@RULES.on(tile_ops.Cast)
def cast_to_itself(op: tile_ops.Cast, rewriter: Rewriter) -> bool:
    # cast(x: t, t) => x
    if op.source.dtype != op.dtype:
        return False
    rewriter.replace(op, op.source)
    return True


@RULES.on(tile_ops.Map)
def double(op: tile_ops.Map, rewriter: Rewriter) -> bool:
    # x + x => x * 2
    if op.fn != "add" or op.inputs[0] is not op.inputs[1]:
        return False
    two = rewriter.constant(2.0, op.result.dtype)
    rewriter.replace(op, rewriter.map("mul", op.inputs[0], two))
    return True


@RULES.on(tile_ops.Map, tile_ops.Cast)
def drop_unused(op: tile_ops.Map | tile_ops.Cast, rewriter: Rewriter) -> bool:
    # a pure op without users => nothing
    if op.result.users:
        return False
    rewriter.erase(op)
    return True


PROGRAM = """
func @f(%x: tensor<f32, [M]>) {{
  %M = tile.size() {{value = M}} : i64
  tile.grid([%M]) {{blocks = [auto]}} body(%m: axis<m>) {{
    %t = tile.load(%x, [%m]) : tile<f32, [m]{level}>
{ops}
    tile.store(%x, [%m], %r)
  }}
  tile.return([])
}}
"""


def entry(ops: str, level: str = "") -> tuple[Module, Function]:
    module = parse_module(PROGRAM.format(ops=ops, level=level))
    return module, module.entry


def names_of(function: Function) -> list[str]:
    return [op.fn if isinstance(op, tile_ops.Map) else op.name for op in function.walk()]


def test_a_chain_is_taken_apart_to_its_end() -> None:
    ops = """
    %a = tile.cast(%t) {dtype = f32}
    %b = tile.cast(%a) {dtype = f32}
    %c = tile.cast(%b) {dtype = f32}
    %r = tile.map([%c, %c]) {fn = add}
    """
    module, function = entry(ops)
    assert RULES.apply(function)
    verify(module)
    assert names_of(function)[2:6] == ["tile.load", "tile.constant", "mul", "tile.store"]


def test_a_rule_sees_what_another_one_built_or_left_unused() -> None:
    ops = """
    %u = tile.map([%t, %t]) {fn = mul}
    %v = tile.map([%u]) {fn = neg}
    %r = tile.cast(%t) {dtype = f32}
    """
    module, function = entry(ops)
    assert RULES.apply(function)
    verify(module)
    assert names_of(function) == ["tile.size", "tile.grid", "tile.load", "tile.store", "tile.return"]


def test_nothing_to_do_changes_nothing() -> None:
    module, function = entry("%r = tile.map([%t]) {fn = neg}")
    before = module.clone()
    assert not RULES.apply(function)
    assert module == before


def test_new_tiles_of_a_placed_program_have_levels() -> None:
    module, function = entry("%r = tile.map([%t, %t]) {fn = add} : tile<f32, [m], shared>", ", register")
    verify(module, Form.TILE_PLACED)
    assert RULES.apply(function)
    verify(module, Form.TILE_PLACED)
    (product,) = [op for op in function.walk() if isinstance(op, tile_ops.Map)]
    assert product.result.tile.level == "shared"
    assert product.result.name == "r"


def test_emitted_ops_are_where_the_user_wrote_the_old_one() -> None:
    _, function = entry("%r = tile.map([%t, %t]) {fn = add}")
    (old,) = [op.location for op in function.walk() if isinstance(op, tile_ops.Map)]
    RULES.apply(function)
    assert [op.location for op in function.walk() if isinstance(op, (tile_ops.Map, tile_ops.Constant))] == [old, old]


def test_rules_combine() -> None:
    _, function = entry("%r = tile.map([%t, %t]) {fn = add}")
    assert not Rules().apply(function)
    assert Rules(Rules(), RULES).apply(function)


def test_rules_that_undo_each_other_are_found_out() -> None:
    swap = Rules()

    @swap.on(tile_ops.Map)
    def swap_operands(op: tile_ops.Map, rewriter: Rewriter) -> bool:  # pyright: ignore[reportUnusedFunction]
        # x + y => y + x, for ever
        rewriter.replace(op, rewriter.map(op.fn, *reversed(op.inputs)))
        return True

    _, function = entry("%r = tile.map([%t, %t]) {fn = add}")
    with pytest.raises(AssertionError, match="undo each other"):
        swap.apply(function)
