"""Which roles hear of what another role did, and have to: who arrives at mbarriers that others wait for."""

from __future__ import annotations

from tiledsl.ir.core import Op
from tiledsl.ir.gpu.async_ops import MbarrierArrive, MbarrierExpect, Mbarriers, MbarrierWait, NamedBarrier, Role
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.ir.gpu.gpu_rules import role_around
from tiledsl.ir.layouts.layout import WARP
from tiledsl.passes.gpu.sync.memory_effects import Access, accesses, overlap


def speaks_for_all(op: Op) -> bool:
    """Whether one thread arrives for all of its role."""
    return isinstance(op, MbarrierExpect) or (isinstance(op, MbarrierArrive) and op.by == "role")


def is_meeting(op: MbarrierWait, cluster: int) -> bool:
    """Whether the role of all blocks of the cluster meets: right before the wait all of its threads have arrived at
    the mbarriers of all blocks, which wait for them alone."""
    role, barriers, parent = role_around(op), op.barriers.op, op.parent
    if role is None or not isinstance(barriers, Mbarriers) or parent is None or parent.ops[0] is op:
        return False
    before = parent.ops[parent.ops.index(op) - 1]
    if not isinstance(before, MbarrierArrive) or before.barriers is not op.barriers or before.index is not op.index:
        return False
    arrivals = role.threads // WARP if before.by == "warp" else role.threads
    alone = [user for user in op.barriers.users if user is not op] == [before]
    return before.by != "role" and before.scope == "cluster" and alone and barriers.arrivals == arrivals * cluster


def conflict(later: Access, earlier: Access) -> bool:
    """Whether the order of two accesses matters."""
    return not later.kind == earlier.kind == "read" and overlap(later, earlier)


class RoleSignals:
    """Of one launch: who hears of an arrival, at once or from others who heard of it."""

    def __init__(self, launch: Launch) -> None:
        self._touched: dict[Role, list[Access]] = {}
        self._waiting: dict[object, set[Role]] = {}
        arriving: dict[Role, set[object]] = {}
        for role in launch.body.ops:
            if not isinstance(role, Role):
                continue
            ops = list(role.body.walk())
            self._touched[role] = [a for op in ops for a in accesses(op, cluster=launch.cluster > 1)]
            arriving[role] = set()
            for op in ops:
                if isinstance(op, (MbarrierExpect, MbarrierArrive)):
                    arriving[role].add(op.barriers)
                elif isinstance(op, MbarrierWait):
                    self._waiting.setdefault(op.barriers, set()).add(role)
                elif isinstance(op, NamedBarrier):
                    arriving[role].add(op.id)
                    self._waiting.setdefault(op.id, set()).add(role)
        self._next = {role: {r for one in ones for r in self._waiting.get(one, ())} for role, ones in arriving.items()}

    def hearing(self, op: Op) -> set[Role]:
        """The other roles that may learn what the role of an op did when it comes to the op."""
        own = role_around(op)
        where = op.id if isinstance(op, NamedBarrier) else op.barriers if isinstance(op, _ARRIVALS) else None
        # the same role of another block is another one
        others = isinstance(op, MbarrierArrive) and op.scope == "cluster"
        found: set[Role] = set()
        left = [role for role in self._waiting.get(where, ()) if others or role is not own]
        while left:
            role = left.pop()
            if role not in found:
                found.add(role)
                left += [other for other in self._next[role] if others or other is not own]
        return found

    def matters(self, op: Op, access: Access, *, to_async: bool = False) -> bool:
        """Whether one who hears of `op` does something that `access` must come before; or does so by TMA or products,
        if only those are meant.
        """
        return any(
            conflict(other, access)
            for role in self.hearing(op)
            for other in self._touched[role]
            if other.is_async or not to_async
        )


_ARRIVALS = (MbarrierExpect, MbarrierArrive)
