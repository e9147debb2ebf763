"""Warpgroups of one role begin their products in turn, so that one multiplies while another one computes.

gpu.turn() {action = begin}           at the start of the role
gpu.turn() {action = take}            before the products of a turn of the loop
gpu.turn() {action = pass}            when they have begun
gpu.turn() {action = end}             at the end of the role
"""

from __future__ import annotations

from tiledsl.ir.core import Block
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.gpu.warpgroup_instructions import WARPGROUP
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.support.errors import Location

TURNS = True
FIRST_BARRIER = 8
"""The number of the first warpgroup's named barrier."""


def hand_over(state: Lowering, action: str, location: Location) -> None:
    """Takes the turn, or passes it on, where several warpgroups do the same, each for rows of its own."""
    grid = state.grid
    apart = grid.threads > WARPGROUP and grid.warps[1] == 1
    if TURNS and grid.roles == "cooperative" and apart:
        state.takes_turns = True
        with state.builder.at(location):
            state.emit(async_ops.Turn, id=FIRST_BARRIER, action=action)


def begin_and_end(state: Lowering, role: Block, location: Location) -> None:
    """At the end of a role: what its turns take before and after them."""
    if state.takes_turns:
        role.insert_before(role.ops[0], async_ops.Turn(location, id=FIRST_BARRIER, action="begin"))
        state.emit(async_ops.Turn, id=FIRST_BARRIER, action="end")
