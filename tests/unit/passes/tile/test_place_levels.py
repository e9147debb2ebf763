"""Levels that are chosen, and levels that are given."""

from __future__ import annotations

from tests.support.pass_runs import remarks_of, run_passes
from tests.support.tile_programs import GEMM, SOFTMAX
from tiledsl.ir.core import Module
from tiledsl.ir.types import TileType


def levels(module: Module) -> dict[str, str | None]:
    """The level of every named tile."""
    values = [v for op in module.walk() for v in op.results]
    values += [a for op in module.walk() for body in op.bodies.values() for a in body.arguments]
    return {v.name: v.type.level for v in values if isinstance(v.type, TileType) and v.type.shape}


def test_operands_of_a_dot_are_shared() -> None:
    found = levels(run_passes("place-levels", GEMM))
    assert {name for name, level in found.items() if level == "shared"} == {"at", "bt"}
    assert found["partial"] == "register"


def test_without_a_dot_all_is_in_registers() -> None:
    assert set(levels(run_passes("place-levels", SOFTMAX)).values()) == {"register"}
    assert remarks_of("place-levels", SOFTMAX) == []


def test_a_given_level_is_kept_and_noted() -> None:
    text = GEMM.replace("%at = tile.load(%a, [%m, %k])", "%at = tile.load(%a, [%m, %k]) : tile<f32, [m, k], register>")
    assert levels(run_passes("place-levels", text))["at"] == "register"
    (kept,) = [remark for remark in remarks_of("place-levels", text) if "as asked" in remark]
    assert "stays register as asked; an operand of a dot is usually in shared" in kept


def test_a_second_run_changes_nothing() -> None:
    assert levels(run_passes("place-levels,place-levels", GEMM)) == levels(run_passes("place-levels", GEMM))


def test_simplifying_beside_a_given_level_gives_no_level() -> None:
    text = GEMM.replace(
        "%at = tile.load(%a, [%m, %k])",
        """
        %a1 = tile.load(%a, [%m, %k]) : tile<f32, [m, k], register>
        %a2 = tile.transpose(%a1) {permutation = [1, 0]}
        %a3 = tile.reshape(%a2) {shape = [k, m, 1]}
        %a4 = tile.reshape(%a3) {shape = [k, m]}
        %at = tile.transpose(%a4) {permutation = [1, 0]}
        """,
    )
    found = levels(run_passes("canonicalise,dce", text))
    assert {name for name, level in found.items() if level is not None} == {"a1"}
