"""Roles, and how they meet: `gpu.role`, named barriers, mbarriers, fences of the proxies."""

from __future__ import annotations

from collections.abc import Callable

from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.functions import barrier_functions
from tiledsl.backend_cuda.functions.barrier_functions import change_registers, named_barrier, warpgroup_barrier
from tiledsl.backend_cuda.functions.index_text import operand_text, sum_text
from tiledsl.backend_cuda.functions.storage import SharedMemory
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.gpu import async_ops as ops
from tiledsl.ir.gpu.async_rules import registers_at_entry
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.ir.gpu.gpu_rules import turn_barriers
from tiledsl.ir.gpu.warpgroup_instructions import WARPGROUP
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import WARP
from tiledsl.passes.analysis.sizes import constant_of

assert barrier_functions  # it defines device functions

_LAST_BARRIER = 15
_MBARRIER_BYTES = 8


def emit_role(frame: KernelFrame, op: ops.Role, body: Callable[[KernelFrame, Block], None]) -> None:
    launch = _launch_of(op)
    barrier = _own_barrier(op, launch)
    condition = _among(frame, op.first, op.threads, launch.threads)
    change = _change_of_registers(frame, op, registers_at_entry(launch.threads, launch.resident))
    first = op.first // WARPGROUP * WARPGROUP
    end = -(-(op.first + op.threads) // WARPGROUP) * WARPGROUP
    if not change or (first, end - first) == (op.first, op.threads):
        with frame.role(condition, op.first, op.threads, barrier, change):
            body(frame, op.body)
        return
    # registers are those of whole warpgroups, also of those of whose warps the role has only some
    with frame.block(_among(frame, first, min(end, launch.threads) - first, launch.threads)):
        frame.line(change)
        with frame.role(condition, op.first, op.threads, barrier):
            body(frame, op.body)


def _launch_of(op: Op) -> Launch:
    launch = op.parent.parent if op.parent is not None else None
    assert isinstance(launch, Launch), "a role stands in the body of a launch"
    return launch


def _own_barrier(op: ops.Role, launch: Launch) -> int:
    """The named barrier that the threads of a role meet at: none that the program names, the last ones first."""
    named = {inner.id for inner in launch.body.walk() if isinstance(inner, ops.NamedBarrier)}
    named |= set(turn_barriers(launch))
    free = [number for number in range(_LAST_BARRIER, 0, -1) if number not in named]
    before = [role for role in launch.body.ops if isinstance(role, ops.Role)].index(op)
    return free[before] if before < len(free) else free[-1] if free else _LAST_BARRIER


def _among(frame: KernelFrame, first: int, threads: int, all_threads: int) -> str:
    """The `if` for some of the threads, told by the number of their warp, which all lanes know to be the same."""
    assert first % WARP == threads % WARP == 0, "a role has whole warps"
    tests: list[str] = []
    if first > 0:
        tests.append(f"{frame.warp} >= {first // WARP}")
    if first + threads < all_threads:
        tests.append(f"{frame.warp} < {(first + threads) // WARP}")
    return f"if ({' && '.join(tests)})" if tests else ""


def _change_of_registers(frame: KernelFrame, op: ops.Role, share: int) -> str:
    """The statement by which a role gets the registers that it asks for; empty if that is its `share`."""
    # threads that go on to another program would come back to its start with what they have left
    if not op.registers or op.registers == share or frame.nesting:
        return ""
    return f"{frame.preamble.use(change_registers(op.registers, increase=op.registers > share))}();"


def emit_named_barrier(frame: KernelFrame, op: ops.NamedBarrier) -> None:
    frame.line(f"{frame.preamble.use(named_barrier(op.action, op.id, op.threads))}();")


def emit_turn(frame: KernelFrame, op: ops.Turn) -> None:
    groups, group = frame.threads // WARPGROUP, f"{frame.warp} / {WARPGROUP // WARP}"
    waits = op.action in ("take", "end")
    function = frame.preamble.use(warpgroup_barrier("sync" if waits else "arrive"))
    number = {
        "begin": str(op.id), "end": str(op.id), "take": f"{op.id} + {group}",
        "pass": f"{op.id} + ({group} + 1) % {groups}",
    }[op.action]  # fmt: skip
    only = {"begin": f"if ({group} == {groups - 1}) ", "end": f"if ({group} == 0) "}.get(op.action, "")
    frame.line(f"{only}{function}({number});")


# Mbarriers


def emit_mbarriers(frame: KernelFrame, op: ops.Mbarriers) -> None:
    assert op.offset >= 0, "shared memory is not allocated"
    type_ = op.result.tile
    assert isinstance(type_.layout, SharedLayout)
    frame.values[op.result] = SharedMemory(frame.shared_memory, op.offset, (op.count,), type_.dtype, type_.layout)
    begin = frame.use("begin_mbarriers")
    frame.line(
        f"if (threadIdx.x == 0) {begin}({sum_text(frame.shared_base, str(op.offset))}, {op.count}, {op.arrivals});"
    )
    frame.mbarriers.append((op.offset, op.count))


def mbarrier_address(frame: KernelFrame, barriers: Value, index: Value) -> str:
    """The address of one of several mbarriers."""
    first = frame.shared(barriers).offset
    known = constant_of(index)
    if known is not None:
        return sum_text(frame.shared_base, str(first + _MBARRIER_BYTES * known))
    place = f"(unsigned){operand_text(frame.scalar(index))} * {_MBARRIER_BYTES}u"
    return sum_text(frame.shared_base, place, str(first))


def emit_mbarrier_expect(frame: KernelFrame, op: ops.MbarrierExpect) -> None:
    call = f"{frame.use('expect_bytes')}({mbarrier_address(frame, op.barriers, op.index)}, {op.bytes}u);"
    frame.line(f"if ({frame.issues}) {call}")


def emit_mbarrier_arrive(frame: KernelFrame, op: ops.MbarrierArrive) -> None:
    address = mbarrier_address(frame, op.barriers, op.index)
    if op.by == "warp":
        frame.line("__syncwarp();")  # what the other lanes did before is done too
    if op.scope == "cluster" and frame.cluster > 1:
        _arrive_everywhere(frame, op, address)
        return
    call = f"{frame.use('arrive')}({address});"
    match op.by:
        case "thread":
            frame.line(call)
        case "warp":
            frame.line(f"if ({frame.local_thread} % {WARP} == 0) {call}")
        case _:
            frame.line(f"if ({frame.issues}) {call}")


def _across_blocks(frame: KernelFrame, barriers: Value) -> str:
    """Blocks of a cluster tell each other which of their shared memory is read. Of what they have written to each
    other's, and of global memory, they speak only where they do that: it empties a cache each time."""
    if frame.cluster == 1:
        return ""
    from_afar = any(isinstance(user, ops.MbarrierArrive) and user.scope == "cluster" for user in barriers.users)
    return "_cluster" if frame.reads_what_it_writes or (from_afar and frame.writes_to_blocks) else ""


def _arrive_everywhere(frame: KernelFrame, op: ops.MbarrierArrive, address: str) -> None:
    """At the mbarriers of all blocks: one lane for each of them, or one thread for all."""
    arrive = frame.use(f"arrive_at{_across_blocks(frame, op.barriers)}")
    match op.by:
        case "thread":
            with frame.unrolled("b", frame.cluster) as block:
                frame.line(f"{arrive}({address}, {block});")
        case "warp":
            lane = f"{frame.local_thread} % {WARP}"
            frame.line(f"if ({lane} < {frame.cluster}) {arrive}({address}, {lane});")
        case _:
            with frame.block(f"if ({frame.issues})"), frame.unrolled("b", frame.cluster) as block:
                frame.line(f"{arrive}({address}, {block});")


def emit_mbarrier_wait(frame: KernelFrame, op: ops.MbarrierWait) -> None:
    wait = frame.use(f"wait_for_phase{_across_blocks(frame, op.barriers)}")
    known = constant_of(op.parity)
    parity = f"(unsigned){operand_text(frame.scalar(op.parity))}" if known is None else str(known & 1)
    frame.line(f"{wait}({mbarrier_address(frame, op.barriers, op.index)}, {parity});")


def emit_proxy_fence(frame: KernelFrame, op: ops.ProxyFence) -> None:
    frame.line(f"{frame.use(f'fence_{op.scope}_proxies')}();")
