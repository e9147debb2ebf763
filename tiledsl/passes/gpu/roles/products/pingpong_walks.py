"""Which blocks of a program each of its consumers makes, where they take turns (`product_order.py`).

blocks of a program     0   1   2   3   4          with two consumers
made by consumer        0   1   0   1   0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiledsl.ir.core import Value
from tiledsl.passes.gpu.roles.block_walks import BlockWalk
from tiledsl.passes.gpu.roles.rings import Ring, carry_positions


class PingpongWalk(BlockWalk):
    """The blocks of a grid whose programs are persistent, as those of their consumers go through them."""

    def each_of(
        self,
        rings: Sequence[Ring],
        consumer: int,
        consumers: int,
        make: Callable[[Value], None],
        skip: Callable[[], None],
    ) -> None:
        """Makes every block that is the turn of one of the consumers.

        `make` gets the number of the block in the program; `skip` leaves out one that another consumer makes.
        """
        state = self.state

        def at(number: Value, act: Callable[[], None]) -> None:
            with state.scope(state.builder.block):  # what is defined there is forgotten afterwards
                self._place(self._starts(number))
                act()

        def turn(own: Value) -> None:
            number = state.arithmetic("add", state.arithmetic("mul", own, consumers), consumer)
            at(number, lambda: make(number))
            for further in range(1, consumers):
                at(state.arithmetic("add", number, further), skip)

        for number in range(consumer):
            at(state.constant(number), skip)
        own_turns = state.quotient_up(state.arithmetic("sub", self.turns, consumer), consumers)
        carry_positions(state, rings, own_turns, "turn", turn)
