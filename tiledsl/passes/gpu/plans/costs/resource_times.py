"""How long a grid keeps each resource busy, and what that comes to."""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.passes.gpu.plans.product_plans.warpgroup_cost import greatest


@dataclass(frozen=True)
class ResourceTimes:
    """Seconds that a grid keeps each resource busy. `starting`: the blocks, one after the other; `waiting`: of
    programs, for what they load. `exposed`: the share of what is not the slowest that no other program hides. `alone`:
    the same of the lesser of loading and computing."""

    memory: float = 0.0
    l2: float = 0.0
    lines: float = 0.0
    updates: float = 0.0
    products: float = 0.0
    arithmetic: float = 0.0
    special: float = 0.0
    starting: float = 0.0
    waiting: float = 0.0
    exposed: float = 0.0
    alone: float = 0.0

    @property
    def seconds(self) -> float:
        """All together: a little above the greatest, since nothing hides in full."""
        loaded, computed = max(self.memory, self.l2, self.lines, self.updates), max(self.arithmetic, self.special)
        others = loaded + computed + self.waiting - max(loaded, computed, self.waiting)
        hidden = greatest(*self._resources().values())
        return hidden + self.exposed * others + self.alone * min(loaded, computed)

    @property
    def bound(self) -> str:
        """The resource that takes longest."""
        return max(self._resources(), key=lambda name: vars(self)[name])

    def _resources(self) -> dict[str, float]:
        return {name: time for name, time in vars(self).items() if name not in ("exposed", "alone")}
