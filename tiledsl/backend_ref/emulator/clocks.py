"""Vector clocks: what of the others' doings has certainly happened before what an agent does now.

Time has components: one for each agent, and one for each thing that things under way are counted by (an agent's groups
of copies, of bulk stores, of products; the phases of an mbarrier). A component counts its own steps. An access is
marked with its component and step; it is over for an agent whose clock has reached that step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Steps: TypeAlias = "npt.NDArray[np.int32]"
COPIES, READS, STORES, PRODUCTS, PASSES = range(5)
"""What an agent has components of time for besides its own: copies (`gpu.copy`), what bulk stores read, what they
write, products; and how often it has waited for a phase."""
KINDS = 5


@dataclass
class Clock:
    """`seen`: up to which step of each component all is over. `fenced`: and followed by a proxy fence of its threads.

    The first `agents` components are those of agents, the others those of things under way.
    """

    agents: int
    seen: Steps
    fenced: Steps

    @staticmethod
    def start(agents: int, components: int) -> Clock:
        """Nothing has happened."""
        return Clock(agents, np.zeros(components, np.int32), np.zeros(components, np.int32))

    def copy(self) -> Clock:
        return Clock(self.agents, np.copy(self.seen), np.copy(self.fenced))

    def join(self, other: Clock) -> None:
        """Learns what the other knows."""
        np.maximum(self.seen, other.seen, out=self.seen)
        np.maximum(self.fenced, other.fenced, out=self.fenced)

    def learn(self, component: int, step: int) -> None:
        """All that `component` did up to `step` is over, through whichever proxy."""
        self.seen[component] = max(int(self.seen[component]), step)
        self.fenced[component] = max(int(self.fenced[component]), step)

    def has_seen(self, component: int, step: int) -> bool:
        return bool(self.seen[component] >= step)


def common(clocks: list[Clock]) -> Clock:
    """What all of them know."""
    found = clocks[0].copy()
    for clock in clocks[1:]:
        np.minimum(found.seen, clock.seen, out=found.seen)
        np.minimum(found.fenced, clock.fenced, out=found.fenced)
    return found
