"""Vector clocks: what of the others' doings has certainly happened before what an agent does now.

Time has components: one for each agent, and one for each thing that things under way are counted by (an agent's groups
of copies, of bulk stores, of products; the phases of an mbarrier). A component counts its own steps. An access is
marked with its component and step; it is over for an agent whose clock has reached that step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Steps: TypeAlias = "npt.NDArray[np.int32]"
COPIES, READS, STORES, PRODUCTS, PASSES, LEADS = range(6)
"""What an agent has components of time for besides its own: copies (`gpu.copy`), what bulk stores read, what they
write, products; how often it has waited for a phase; and what the first thread of a role does by itself."""
KINDS = 6


@dataclass
class Clock:
    """`seen`: up to which step of each component all is over. `fenced`: and followed by a proxy fence of its threads,
    `fenced_globally`: by one that speaks of global memory too.

    The first `agents` components are those of agents, the others those of things under way.
    """

    agents: int
    seen: Steps
    fenced: Steps
    fenced_globally: Steps

    @staticmethod
    def start(agents: int, components: int) -> Clock:
        """Nothing has happened."""
        seen, fenced, fenced_globally = (np.zeros(components, np.int32) for _ in range(3))
        return Clock(agents, seen, fenced, fenced_globally)

    def copy(self) -> Clock:
        return Clock(self.agents, *(np.copy(steps) for steps in self._all))

    @property
    def _all(self) -> tuple[Steps, Steps, Steps]:
        return self.seen, self.fenced, self.fenced_globally

    def join(self, other: Clock) -> None:
        """Learns what the other knows."""
        for mine, others in zip(self._all, other._all):
            np.maximum(mine, others, out=mine)

    def learn(self, component: int, step: int) -> None:
        """All that `component` did up to `step` is over, through whichever proxy."""
        for steps in self._all:
            steps[component] = max(int(steps[component]), step)

    def has_seen(self, component: int, step: int) -> bool:
        return bool(self.seen[component] >= step)


def is_made_at_once(components: Any, agents: int) -> Any:
    """Of components of time, which are those of accesses that are over when they were made, for their own thread."""
    kinds = components - agents
    return (kinds < 0) | ((kinds % KINDS == LEADS) & (kinds < agents * KINDS))
