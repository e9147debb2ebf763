"""How the blocks of a cluster exchange partial results: by writes that a barrier in the receiver's memory counts.

A barrier of the whole cluster would also wait for all that was written to global memory, and forget all that was read
from there. Here nobody waits but for the values themselves. In every run of a fold, a block

1. tells its own barrier how many bytes it will get (`expect_bytes`, by one thread),
2. sends its partial results to all blocks, itself too; the bytes are counted there when they have arrived,
3. waits until all bytes have come (every thread), and
4. reads them from its own memory.

Runs take turns with two barriers and two places for the values: run r uses those of r % 2, and waits for the phase
r / 2 of the barrier. Between a thread's step 4 in run r and any step 2 of its block in run r + 1 lies a barrier of the
block; this is the one between the warps, or one of its own. So, with blocks X and Y:

- Y sends in run r + 2 only after its wait of run r + 1. That needs what X sent in run r + 1, and so all threads of X
  have read what came in run r: nothing is overwritten that will still be read.
- For the same reason all threads of X are past their wait of run r before a byte of run r + 2 can come. So bytes are
  counted in the phase that they belong to, and no phase goes by while a thread still waits for the parity of it.
- Bytes of run r + 1 may come before all of run r are there, as Y does not wait for the wait of X. The other barrier
  counts them. Bytes may also come before step 1: the phase cannot end without the one arrival that is part of step 1.
- What the warps of a block tell each other takes turns too. A thread writes there in run r + 2 after the block's
  barrier of run r + 1, and all have read what was there of run r before that.
- Every byte that is sent to a block is waited for by it. Nothing comes after its last fold, so it may end whenever it
  has nothing more to do.

A run is a run of the fold's buffer: the count of them is in a register, the same in all threads of the cluster, as all
of them come to the same folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.functions.index_text import sum_text
from tiledsl.backend_cuda.functions.storage import SharedMemory
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu.async_ops import Role
from tiledsl.ir.gpu.gpu_ops import Barrier, Launch
from tiledsl.ir.layouts.fold_plans import BARRIER


@dataclass(frozen=True)
class Exchange:
    """One run of a fold: C expressions."""

    run: str
    """The variable that counts the runs; empty where there is no more than one."""
    turn: str
    """Which of the two barriers and places this run has: 0 or 1."""
    barrier: str
    """The address of its barrier in shared memory."""
    begins: bool
    """Whether it must be waited for that all blocks have made their barriers, before anything is sent."""

    @property
    def parity(self) -> str:
        """The parity of the barrier's phase."""
        return f"{self.run} >> 1 & 1u" if self.run else "0u"


def begin_exchange(frame: KernelFrame, value: Value) -> Exchange:
    """Step 1 is left to the caller. `value` is the fold's buffer, which is no other fold's in another layout."""
    memory = frame.shared(value)
    begins = _make_barriers(frame, value, memory)
    address = frame.shared_base if memory.offset == 0 else f"{frame.shared_base} + {memory.offset}"
    if not frame.nesting and sum(value.users.values()) == 1:
        return Exchange("", "0", frame.define("unsigned", "arrivals", address), begins)
    run = _run_variable(frame, value)
    turn = frame.define("unsigned", "turn", f"{run} & 1u")
    return Exchange(run, turn, frame.define("unsigned", "arrivals", sum_text(address, f"{turn} * {BARRIER}")), begins)


def _run_variable(frame: KernelFrame, value: Value) -> str:
    def make() -> str:
        name = frame.names.fresh("run")
        frame.line(f"unsigned {name} = 0;")
        return name

    with frame.in_entry():
        return frame.once(("runs", value), make)


def _make_barriers(frame: KernelFrame, value: Value, memory: SharedMemory) -> bool:
    """Makes the barriers of a buffer in the kernel's entry; then the blocks wait for each other, once. Whether the
    second half of that is still to be done."""
    if value in frame.exchanged:
        return False
    line = f"{frame.use('begin_arrivals')}({memory.text()});"
    first = not frame.exchanged
    frame.exchanged.add(value)
    if not first:
        frame.entry.lines.insert(frame.barriers_end, f"        {line}")
        frame.barriers_end += 1
        return False
    # arriving early hides the wait, if every thread comes to this fold, and to no other barrier of the cluster before
    early = not frame.nesting and not frame.cluster_barriers
    with frame.in_entry():
        with frame.block("if (threadIdx.x == 0)"):
            frame.line(line)
            frame.barriers_end = len(frame.entry.lines)
        if _meet_before_roles(value):
            return False
        frame.line(f"{frame.use('cluster_begin')}();")
        if not early:
            frame.line(f"{frame.use('cluster_wait')}();")
    return early


def _meet_before_roles(value: Value) -> bool:
    """Whether all blocks meet anyway before their roles, in one of which the fold of this buffer is."""
    block = value.owner
    while isinstance(block, Op):
        block = block.parent
    while block is not None and block.parent is not None and not isinstance(block.parent, Launch):
        block = block.parent.parent
    before = takewhile(lambda op: not isinstance(op, Role), block.ops if block is not None else ())
    roles = block is not None and any(isinstance(op, Role) for op in block.ops)
    return roles and any(isinstance(op, Barrier) and op.scope == "cluster" for op in before)
