"""Mistakes in how threads, copies and products wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.mutants.mutating import (
    Change,
    Mutator,
    change_operand,
    launch_of,
    set_attribute,
    threads_of,
)
from tiledsl.ir.core import Block, Op
from tiledsl.ir.gpu import async_ops, gpu_ops
from tiledsl.ir.gpu.async_ops import (
    BulkCommit,
    BulkWait,
    Exchange,
    MbarrierArrive,
    MbarrierExpect,
    Mbarriers,
    MbarrierWait,
    NamedBarrier,
    ProxyFence,
    TmaLoad,
    TmaStore,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from tiledsl.ir.gpu.gpu_ops import Atomic, Barrier, Commit, Copy, Load, Read, Wait, Write
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.tile_ops import For, While

SYNCHRONISATION: tuple[type[Op], ...] = (
    Barrier, NamedBarrier, ProxyFence, WgmmaFence, Wait, MbarrierWait, WgmmaWait, BulkWait, MbarrierArrive,
    MbarrierExpect, Commit, WgmmaCommit, BulkCommit,
)  # fmt: skip
TRANSFERS: tuple[type[Op], ...] = (TmaLoad, TmaStore, Exchange, Copy, Read, Write, Wgmma)
GROUPS: dict[type[Op], tuple[type[Op], ...]] = {
    Commit: (Copy, Wait, Commit),
    WgmmaCommit: (Wgmma, WgmmaWait, WgmmaCommit),
    BulkCommit: (TmaStore, BulkWait, BulkCommit),
}
"""What makes groups, and all that a group is to."""


def delete(op: Op) -> Iterator[Change]:
    """Leaves out what makes something wait, lets something go on, or counts it."""
    if not isinstance(op, (*SYNCHRONISATION, TmaLoad, TmaStore, Exchange)):
        return

    def apply(copy: Op) -> None:
        if isinstance(copy, WgmmaWait):
            for old, new in zip(copy.results, copy.values):
                old.replace_with(new)
        copy.erase()

    kind = f"delete-{op.name.removeprefix('gpu.').replace('_', '-')}"
    yield Change(kind, f"delete {op.name}", apply, _needless(op))


def _needless(op: Op) -> str:
    if isinstance(op, Barrier):
        if any(isinstance(other, Barrier) and other.scope == op.scope for other in _neighbours(op)):
            return "another barrier stands next to it"
        if op.scope == "block" and _is_last(op):
            return "nothing follows it"
    if isinstance(op, ProxyFence) and any(
        isinstance(other, ProxyFence) and other.scope == op.scope for other in _neighbours(op)
    ):
        return "another fence stands next to it"
    return ""


def _block(op: Op) -> Block:
    assert op.parent is not None
    return op.parent


def _counts(op: Op) -> bool:
    """Whether an op may be more than computing of values."""
    return op.effect != "pure" and not isinstance(op, gpu_ops.Buffer)


def _neighbours(op: Op) -> list[Op]:
    """The ops next to one in its block, but for those that only compute."""
    ops = [other for other in _block(op).ops if _counts(other)]
    at = ops.index(op)
    return ops[max(0, at - 1) : at] + ops[at + 1 : at + 2]


def _is_last(op: Op) -> bool:
    """Whether nothing that counts comes after an op in its launch."""
    inner = op
    while not isinstance(inner, gpu_ops.Launch):
        block = _block(inner)
        if any(_counts(other) and other.effect != "terminator" for other in block.ops[block.ops.index(inner) + 1 :]):
            return False
        outer = block.parent
        if outer is None or isinstance(outer, (For, While)):
            return False
        inner = outer
    return True


def repeat(op: Op) -> Iterator[Change]:
    """Does twice what counts."""
    if isinstance(op, (MbarrierArrive, MbarrierExpect, NamedBarrier, Commit, WgmmaCommit, BulkCommit)):
        reason = ""
        if isinstance(op, tuple(GROUPS)) and not _keeps_operands(op):
            reason = "a group more, which is empty: waits are for more than they must"
        elif isinstance(op, NamedBarrier) and _meets_alone(op):
            reason = "the role meets twice"
        yield Change(f"repeat-{op.name.removeprefix('gpu.').replace('_', '-')}", f"repeat {op.name}", _repeat, reason)


def _repeat(copy: Op) -> None:
    _block(copy).insert_before(copy, copy.clone({}))


def _meets_alone(op: NamedBarrier) -> bool:
    """Whether all who meet at a named barrier are of the role, which meets at this op."""
    return op.action == "sync" and op.threads == threads_of(op)


def _keeps_operands(op: Op) -> bool:
    """Whether it matters which wait ends a product: the one that names the registers that it reads."""
    return isinstance(op, (WgmmaCommit, WgmmaWait)) and any(
        isinstance(other, Wgmma) and not other.a_axes for other in launch_of(op).walk()
    )


def groups(op: Op) -> Iterator[Change]:
    """Lets one group more, or one fewer, be under way."""
    if isinstance(op, (Wait, WgmmaWait, BulkWait)):
        yield set_attribute("groups-more", op, "groups", op.groups + 1)
        if op.groups:
            reason = "" if _keeps_operands(op) else "it waits for more than it must"
            yield set_attribute("groups-fewer", op, "groups", op.groups - 1, reason)


def read_or_done(op: Op) -> Iterator[Change]:
    """Waits for stores to have read, in place of to be done, or the other way round."""
    if isinstance(op, BulkWait) and op.read:
        yield set_attribute("bulk-read", op, "read", False, "it waits for more than it must")
    elif isinstance(op, BulkWait):
        stored = [other.tensor for other in launch_of(op).walk() if isinstance(other, TmaStore)]
        readers = (Load, TmaLoad, Copy, Atomic)
        back = any(isinstance(other, readers) and other.tensor in stored for other in launch_of(op).walk())
        reason = "" if back else "nobody reads what is stored before the launch is over"
        yield set_attribute("bulk-read", op, "read", True, reason)


def kept_values(op: Op) -> Iterator[Change]:
    """Does not say that it waits for a product, or for what a product reads."""
    if isinstance(op, WgmmaWait):
        for position, value in enumerate(op.values):
            words = f"%{value.name} not among the values of {op.name}"
            yield Change("wait-values", words, lambda copy, position=position: _leave_out(copy, position))


def _leave_out(copy: Op, position: int) -> None:
    assert isinstance(copy, WgmmaWait)
    values, results = list(copy.values), list(copy.results)
    results.pop(position).replace_with(values.pop(position))
    shorter = WgmmaWait(copy.location, values=values, groups=copy.groups)
    for old, new in zip(results, shorter.results):
        new.type = old.type
        old.replace_with(new)
    _block(copy).insert_before(copy, shorter)
    copy.erase()


def arrivals(op: Op) -> Iterator[Change]:
    """Phases of one arrival more, or one fewer."""
    if isinstance(op, Mbarriers):
        yield set_attribute("arrivals", op, "arrivals", op.arrivals + 1)
        if op.arrivals > 1:
            yield set_attribute("arrivals", op, "arrivals", op.arrivals - 1)


def expected_bytes(op: Op) -> Iterator[Change]:
    """Expects more bytes than come, or fewer."""
    if isinstance(op, MbarrierExpect):
        for bytes_ in (op.bytes + 16, op.bytes - 16, op.bytes // 2, 0):
            yield set_attribute("expect-bytes", op, "bytes", bytes_)


def parity(op: Op) -> Iterator[Change]:
    """Waits for the other parity."""
    if isinstance(op, MbarrierWait):
        yield change_operand("parity", f"flip the parity of {op.name}", "parity", 0, ("xor", 1))


def barrier_of_stage(op: Op) -> Iterator[Change]:
    """Takes the mbarrier of the next stage."""
    if isinstance(op, (MbarrierExpect, MbarrierArrive, MbarrierWait, TmaLoad)):
        count = op.barriers.shape[0]
        assert isinstance(count, int)
        if count > 1:
            words = f"mbarrier of the next stage for {op.name}"
            yield change_operand("stage-of-mbarrier", words, "index", 0, ("add", 1), ("mod", count))


def scope(op: Op) -> Iterator[Change]:
    """Speaks of the block in place of the cluster, or the other way round."""
    if isinstance(op, (Barrier, MbarrierArrive)) and launch_of(op).cluster > 1:
        other = "block" if op.scope == "cluster" else "cluster"
        reason = ""
        if isinstance(op, Barrier) and other == "cluster" and op.parent is launch_of(op).body:
            reason = "it waits for more than it must"
        yield set_attribute("scope", op, "scope", other, reason)
    if isinstance(op, ProxyFence):
        wider = op.scope == "shared"
        reason = "it speaks of shared memory too" if wider else ""
        yield set_attribute("fence-scope", op, "scope", "global" if wider else "shared", reason)


def arriving(op: Op) -> Iterator[Change]:
    """Others of the role arrive."""
    if not isinstance(op, MbarrierArrive):
        return
    threads = threads_of(op)
    count = {"thread": threads, "warp": threads // 32, "role": 1}
    for by in count:
        if by != op.by:
            one_warp = count[by] == count[op.by] and by in ("warp", "role") and op.by in ("warp", "role")
            yield set_attribute("arrive-by", op, "by", by, "the role is one warp" if one_warp else "")


def named_barrier(op: Op) -> Iterator[Change]:
    """Another barrier, other numbers of threads, another action."""
    if not isinstance(op, NamedBarrier):
        return
    used = {other.id for other in launch_of(op).walk() if isinstance(other, NamedBarrier)}
    others = sorted(used - {op.id}) or [op.id % 15 + 1]
    reason = "the role meets, at a barrier that nobody else uses" if _meets_alone(op) and len(used) == 1 else ""
    yield set_attribute("named-barrier", op, "id", others[0], reason)
    yield set_attribute("named-barrier", op, "threads", op.threads + 32)
    if op.threads > 32:
        yield set_attribute("named-barrier", op, "threads", op.threads - 32)
    yield set_attribute("named-barrier", op, "action", "arrive" if op.action == "sync" else "sync")


# Order


def swap(op: Op) -> Iterator[Change]:
    """Changes the order of two neighbours, one of which at least synchronises. `op` is the first one."""
    second = _next(op)
    if second is None or not isinstance(op, SYNCHRONISATION + TRANSFERS):
        return
    if isinstance(op, SYNCHRONISATION) or isinstance(second, SYNCHRONISATION):
        if not (_can_move_down(op, second) or _can_move_up(op, second)):
            return
        yield Change(
            "swap", f"swap {op.name} and {second.name} (line {second.location.line})", _swap, _commutes(op, second)
        )


def _next(op: Op) -> Op | None:
    """The next op of the block that synchronises or transfers, if it only computes up to there."""
    ops = _block(op).ops
    for other in ops[ops.index(op) + 1 :]:
        if isinstance(other, SYNCHRONISATION + TRANSFERS):
            return other
        if other.effect != "pure":
            return None
    return None


def _between(first: Op, second: Op) -> list[Op]:
    ops = _block(first).ops
    return ops[ops.index(first) + 1 : ops.index(second)]


def _can_move_down(first: Op, second: Op) -> bool:
    users = {user for value in first.results for user in value.users}
    return not users & {*_between(first, second), second}


def _can_move_up(first: Op, second: Op) -> bool:
    return not any(value.op in (first, *_between(first, second)) for value in second.operands)


def _swap(copy: Op) -> None:
    second = _next(copy)
    assert second is not None
    block = _block(copy)
    if _can_move_down(copy, second):
        block.ops.remove(copy)
        block.ops.insert(block.ops.index(second) + 1, copy)
    else:
        block.ops.remove(second)
        block.insert_before(copy, second)


def _commutes(a: Op, b: Op) -> str:
    """Why the order of two ops does not matter, if it does not."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, tuple(GROUPS)) and not isinstance(other, GROUPS[type(one)]):
            return f"{one.name} makes a group of what came before, and {other.name} is in none"
        if isinstance(one, WgmmaFence) and not isinstance(other, (Wgmma, WgmmaWait, WgmmaCommit, Read)):
            return f"{one.name} is about registers, and {other.name} writes none"
        if isinstance(one, ProxyFence) and isinstance(other, WgmmaWait):
            return f"{one.name} is about accesses by threads, and {other.name} makes none"
        if isinstance(one, Wait) and isinstance(other, (Read, Write)) and not _is_copied_to(other):
            return f"{one.name} is about copies, and none of them is to where {other.name} is"
        if isinstance(one, MbarrierExpect) and isinstance(other, TmaLoad) and _alone_arrives(one, other):
            return "the phase cannot be over before that arrival"
    waits = (MbarrierWait, WgmmaWait, Wait, BulkWait)
    if isinstance(a, waits) and isinstance(b, waits) and (isinstance(a, MbarrierWait) or isinstance(b, MbarrierWait)):
        return "it waits for both, and nothing happens in between"
    arrives = (MbarrierArrive, MbarrierExpect)
    if isinstance(a, arrives) and isinstance(b, arrives) and a.barriers is not b.barriers:
        return "it arrives at both, and nothing happens in between"
    if type(a) is type(b) and isinstance(a, (ProxyFence, WgmmaFence, Barrier, Commit, WgmmaCommit, BulkCommit)):
        return "the two are alike" if a.attributes == b.attributes else ""
    return ""


def _is_copied_to(op: Read | Write) -> bool:
    """Whether a copy may be to the buffer of an access, or to one that has bytes in common with it."""
    bytes_ = _bytes_of(op.buffer.op)
    for copy in launch_of(op).walk():
        if isinstance(copy, Copy):
            other = _bytes_of(copy.buffer.op)
            if bytes_ is None or other is None or (bytes_[0] < other[1] and other[0] < bytes_[1]):
                return True
    return False


def _bytes_of(buffer: Op | None) -> tuple[int, int] | None:
    """Where a buffer begins and ends, if that is known."""
    if not isinstance(buffer, gpu_ops.Buffer) or buffer.offset < 0:
        return None
    assert isinstance(buffer.layout, SharedLayout)
    return buffer.offset, buffer.offset + buffer.layout.bytes(buffer.shape, buffer.dtype)


def _alone_arrives(expect: MbarrierExpect, load: TmaLoad) -> bool:
    """Whether the phase that a load counts for needs no arrival but that of `expect`."""
    barriers = expect.barriers.op
    same = expect.barriers is load.barriers and expect.index is load.index
    return same and isinstance(barriers, async_ops.Mbarriers) and barriers.arrivals == 1


SYNCHRONISATION_MUTATORS: tuple[Mutator, ...] = (
    delete, repeat, groups, read_or_done, kept_values, arrivals, expected_bytes, parity, barrier_of_stage, scope,
    arriving, named_barrier, swap,
)  # fmt: skip
