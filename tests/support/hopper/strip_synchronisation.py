"""Programs for Hopper without the fences and barriers that passes are to put in, and how many there are."""

from __future__ import annotations

from collections import Counter

from tiledsl.ir.core import Module, Op
from tiledsl.ir.gpu.async_ops import MbarrierExpect, NamedBarrier, ProxyFence
from tiledsl.ir.gpu.gpu_ops import Barrier
from tiledsl.ir.gpu.gpu_rules import role_around


def is_inserted(op: Op) -> bool:
    """Whether a pass would have put the op there.

    Others stay: named barriers of several roles, and those before a `gpu.mbarrier_expect`. In a large role the latter
    see to it that all warps have passed a wait before the next phase can begin: they are about no memory.
    """
    if isinstance(op, (ProxyFence, Barrier)):
        return True
    if not isinstance(op, NamedBarrier) or op.parent is None:
        return False
    role = role_around(op)
    following = op.parent.ops[op.parent.ops.index(op) + 1]
    return role is not None and op.threads == role.threads and not isinstance(following, MbarrierExpect)


def inserted(module: Module) -> list[Op]:
    """All of these, in order."""
    return [op for op in module.walk() if is_inserted(op)]


def stripped(module: Module) -> Module:
    """A copy of the module without them."""
    copy = module.clone()
    for op in inserted(copy):
        op.erase()
    return copy


def counts(module: Module) -> Counter[str]:
    """How many of each op of the kind there are."""
    return Counter(op.name for op in inserted(module))
