"""Roles that make tiles in turn ("pingpong"): while one multiplies, the others store what they have.

    role 0                                          role 1
    for the 1st, 3rd, ... block:                    for the 2nd, 4th, ... block:
      wait at barrier 1, but for the first block      wait at barrier 2
      multiply                                        multiply
      arrive at barrier 2, if there is another one    arrive at barrier 1, if there is another one
      store                                           store

The order is that of the blocks, so each stage that a role waits for has been reached by those before it: the phase that
it waits for is the next one that ends.
"""

from __future__ import annotations

from tiledsl.ir.core import Value
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.gpu.warpgroup_instructions import WARPGROUP
from tiledsl.passes.gpu.lower.lowering import Lowering


class ProductOrder:
    """When consumer `own` of several may multiply for block `number` of `blocks` of its program."""

    def __init__(self, state: Lowering, own: int, consumers: int, number: Value, blocks: Value) -> None:
        self.state = state
        self.own = own
        self.consumers = consumers
        self.number = number
        self.blocks = blocks
        self._has_begun = False

    def begin(self) -> None:
        """Before its products: those of the block before have begun."""
        self._has_begun = True
        if self.own:
            self._meet(self.own, "sync")
            return
        with self.state.when(self.state.builder.map("gt", self.number, self.state.constant(0))):
            self._meet(self.own, "sync")

    def end(self) -> None:
        """When its last product has begun: the next consumer may go on. Doing it again means nothing."""
        if not self._has_begun:
            return
        self._has_begun = False
        state = self.state
        after = state.arithmetic("add", self.number, 1)
        with state.when(state.builder.map("lt", after, self.blocks)):
            self._meet((self.own + 1) % self.consumers, "arrive")

    def _meet(self, consumer: int, action: str) -> None:
        """At the barrier of a consumer, with the one before it."""
        threads = 2 * self.state.grid.threads
        assert threads % WARPGROUP == 0
        self.state.emit(async_ops.NamedBarrier, id=1 + consumer, threads=threads, action=action)
