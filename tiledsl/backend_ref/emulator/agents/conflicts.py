"""Says in words what is wrong with two accesses that nothing puts in an order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tiledsl.backend_ref.emulator.agents.clocks import COPIES, PRODUCTS, READS, STORES, is_made_at_once
from tiledsl.backend_ref.emulator.agents.shadow import NOBODY, Conflict
from tiledsl.ir.core import Op
from tiledsl.support.errors import Label, fail

if TYPE_CHECKING:
    from tiledsl.backend_ref.emulator.agents.agent import Agent

_UNDER_WAY = {
    COPIES: ("copies to", "its group by `gpu.wait`", "put a `gpu.wait` (and a barrier, for other threads) before it"),
    READS: ("reads", "its group by `gpu.bulk_wait`", "let the storing thread `gpu.bulk_wait`, then put a barrier"),
    STORES: (
        "writes",
        "its group by `gpu.bulk_wait`",
        "let the storing thread `gpu.bulk_wait`, then put a barrier",
    ),
    PRODUCTS: ("reads", "its group by `gpu.wgmma_wait`", "put a `gpu.wgmma_wait` before the arrival or barrier"),
}


def fail_conflict(agent: Agent, op: Op, conflict: Conflict, where: str) -> NoReturn:
    """Raises the error of a conflict at `where` (in words)."""
    program, by = agent.program, conflict.by
    who = program.thread_name(conflict.thread)
    other = program.thread_name(conflict.other)
    label = [Label(by.location, f"the other: `{by.name}`")]
    at = op.location
    if conflict.only_unfenced:
        fail(
            "emulator-proxy-fence", at, labels=label, program=program.name, op=op.name, verb=conflict.verb, where=where,
            other=other, before=conflict.before, by=by.name,
        )  # fmt: skip
    if conflict.component == NOBODY:
        fail(
            "emulator-race-programs", at, labels=label, program=program.name, op=op.name, who=who, verb=conflict.verb,
            where=where, other="other programs" if conflict.step < 0 else agent.common.programs[conflict.step],
            before=conflict.before, by=by.name,
        )  # fmt: skip
    if conflict.before == "writes":
        fail("emulator-race-within", at, program=program.name, op=op.name, who=who, other=other, where=where)
    if not is_made_at_once(conflict.component, program.agents):
        owner, kind = program.kind_of(conflict.component)
        landed = program.members[owner].landed.get(conflict.component, 0) if owner >= 0 else 0
        if conflict.step > landed:
            _fail_under_way(agent, op, conflict, where, kind)
    fail(
        "emulator-race", at, labels=label, program=program.name, op=op.name, who=who, verb=conflict.verb, where=where,
        other=other, before=conflict.before, by=by.name,
    )  # fmt: skip


def _fail_under_way(agent: Agent, op: Op, conflict: Conflict, where: str, kind: int) -> NoReturn:
    program, by = agent.program, conflict.by
    if kind in _UNDER_WAY:
        does, what, fix = _UNDER_WAY[kind]
    else:
        barrier = program.mbarrier_of(conflict.component)
        name = barrier.name if barrier is not None else "its mbarrier"
        phase = conflict.step - 1
        does, what = "writes", f"phase {phase} of {name}"
        fix = f"put a `gpu.mbarrier_wait` for that phase (parity {phase & 1}) before it"
    fail(
        "emulator-race-under-way", op.location, labels=[Label(by.location, f"the other: `{by.name}`")],
        program=program.name, op=op.name, who=program.thread_name(conflict.thread), verb=conflict.verb, where=where,
        by=by.name, does=does, what=what, fix=fix,
    )  # fmt: skip
