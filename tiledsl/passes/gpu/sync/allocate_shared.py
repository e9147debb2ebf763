"""Gives every buffer its place in shared memory; buffers that are never needed at the same time share it.

    %a = gpu.buffer() {shape = [64], dtype = f32}          %a = gpu.buffer() {..., offset = 0}
    ... last use of %a                              =>     ... last use of %a
    %b = gpu.buffer() {shape = [32], dtype = f32}          %b = gpu.buffer() {..., offset = 0}

Before and after: form `gpu`. After: every buffer has an offset, a multiple of its layout's alignment, and every launch
says how many bytes of shared memory its blocks take. The memory starts at an address that is a multiple of 1024.

A buffer is needed from its first use to its last one; through all of a loop around a use that it is defined outside of;
and, where `gpu.copy` fills it, until a `gpu.wait` for all copies has certainly been passed, else to the end. Whoever
lets a copy run past its last use gets that memory again only after such a wait. What is used in a role, by TMA or by
products of warpgroups is needed all the time, and so are mbarriers.

Threads that still read what others begin to overwrite are the matter of `insert-barriers`, which comes after this pass.
As memory that is used twice costs a barrier, small buffers share none while there is room. Memory through which the
blocks of a cluster fold is never shared: others may write there at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tiledsl.ir.core import Block, Module, Op
from tiledsl.ir.gpu.async_ops import Exchange, Mbarriers, TmaLoad, TmaStore, Wgmma
from tiledsl.ir.gpu.async_rules import MBARRIER_BYTES
from tiledsl.ir.gpu.gpu_ops import Buffer, Copy, Launch, Reuse, View, Wait
from tiledsl.ir.gpu.gpu_rules import role_around
from tiledsl.ir.gpu.tensor_maps import ALIGNMENT
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.tile_ops import For, Range, While
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu.layouts.linear_indices import ops_around
from tiledsl.passes.gpu.layouts.shared_accesses import SMALL_BYTES
from tiledsl.passes.gpu.sync.memory_effects import buffer_bytes, buffer_of, scratch_of
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext
from tiledsl.support.errors import Label, fail

_SHOWN = 6
"""How many buffers an error lists."""


@dataclass(frozen=True)
class AllocateShared:
    """Places large buffers first, each at the lowest free offset. Raises TileResourceError (`shared-too-much`) if that
    takes more than `limit` bytes; 0 is the limit of a block on `arch`, or its share of a multiprocessor.
    """

    name: ClassVar[str] = "allocate-shared"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU

    limit: int = 0
    arch: str = "sm_90"

    def run(self, module: Module, context: PassContext) -> Module:
        machine = gpu_machine(self.arch)
        for op in module.walk():
            if not isinstance(op, Launch):
                continue
            limit = self.limit or machine.shared_bytes_of_block(op.resident)
            _drop_unused(op)
            needs = needs_of(op)
            places = place(_apart(needs))
            if total_bytes(needs, places) > limit:
                places = place(needs)
            total = total_bytes(needs, places)
            if total > limit:
                _fail_too_much(op, needs, total, limit, self.arch)
            for need, offset in zip(needs, places):
                need.buffer.attributes["offset"] = offset
            op.attributes["shared_bytes"] = total
            if needs:
                text = f"{format_bytes(total)} of shared memory for {len(needs)} buffers, of {format_bytes(limit)}"
                context.remark(self.name, op.location, text)
        return module


@dataclass(frozen=True)
class Need:
    """What one buffer takes, and from when to when, in the order of the program's ops. `stages` tiles of it are one
    after the other in the buffer."""

    buffer: Buffer | Mbarriers
    bytes: int
    alignment: int
    first: int
    last: int
    stages: int = 1

    def meets(self, other: Need) -> bool:
        """Whether both are needed at some time."""
        return self.first <= other.last and other.first <= self.last


def _drop_unused(launch: Launch) -> None:
    for op in reversed(list(launch.walk())):
        if isinstance(op, (Buffer, Mbarriers, View, Reuse)) and not op.result.users:
            op.erase()


def _apart(needs: Sequence[Need]) -> list[Need]:
    """With small buffers needed all the time."""
    end = max((need.last for need in needs), default=0)
    return [replace(need, first=0, last=end) if need.bytes <= SMALL_BYTES else need for need in needs]


def needs_of(launch: Launch) -> list[Need]:
    """What each buffer of a launch takes."""
    order = _Order(launch)
    return [order.need(op) for op in launch.walk() if isinstance(op, (Buffer, Mbarriers))]


def place(needs: Sequence[Need]) -> list[int]:
    """An offset for each: no two that meet overlap."""
    offsets: dict[int, int] = {}
    for number in sorted(range(len(needs)), key=lambda number: -needs[number].bytes):
        need = needs[number]
        taken = sorted((offsets[other], offsets[other] + needs[other].bytes) for other in offsets
                       if needs[other].meets(need))  # fmt: skip
        offset = 0
        for start, stop in taken:
            if offset + need.bytes <= start:
                break
            offset = max(offset, -(-stop // need.alignment) * need.alignment)
        offsets[number] = offset
    return [offsets[number] for number in range(len(needs))]


def total_bytes(needs: Sequence[Need], places: Sequence[int]) -> int:
    """How much memory all of them take together."""
    return max((offset + need.bytes for need, offset in zip(needs, places)), default=0)


class _Order:
    """The ops of a launch by number: `start` of each, and `stop`, the last number inside of it."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.start: dict[Op, int] = {}
        self.stop: dict[Op, int] = {}
        self.waits: list[Wait] = []
        self.uses: dict[Op, list[Op]] = {}
        self._number(launch)
        self.end = self.stop[launch]

    def _number(self, op: Op) -> None:
        self.start[op] = len(self.start)
        if isinstance(op, Wait) and op.groups == 0:
            self.waits.append(op)
        if not isinstance(op, (View, Reuse)):
            for value in op.operands:
                buffer = buffer_of(value)
                if buffer is not None and buffer.op is not None:
                    self.uses.setdefault(buffer.op, []).append(op)
        for block in op.bodies.values():
            for inner in block.ops:
                self._number(inner)
        self.stop[op] = len(self.start) - 1

    def need(self, buffer: Buffer | Mbarriers) -> Need:
        if isinstance(buffer, Mbarriers):
            return Need(buffer, MBARRIER_BYTES * buffer.count, MBARRIER_BYTES, 0, self.end)
        assert isinstance(buffer.layout, SharedLayout)
        uses = self.uses.get(buffer, [])
        first, last = self.end, 0
        for use in uses:
            since, until = self._during(buffer, use)
            first, last = min(first, since), max(last, until)
        alignment = buffer.layout.alignment
        if any(isinstance(use, (TmaLoad, TmaStore, Exchange)) for use in uses):
            alignment = max(alignment, ALIGNMENT)
        for user in buffer.result.users:
            if isinstance(user, Reuse) and isinstance(user.layout, SharedLayout):
                alignment = max(alignment, user.layout.alignment)
        return Need(buffer, buffer_bytes(buffer), alignment, first, last, stages_of(buffer, uses))

    def _during(self, buffer: Buffer, use: Op) -> tuple[int, int]:
        """From when to when one use keeps its buffer."""
        kept = _blocks_around(buffer)
        since, until = self.start[use], self.stop[use]
        if self.launch.cluster > 1 and scratch_of(use) is not None:
            return 0, self.end
        if isinstance(use, (TmaLoad, TmaStore, Exchange, Wgmma)) or role_around(use) is not None:
            return 0, self.end
        if isinstance(use, Copy):
            around = _blocks_around(use)
            waits = [wait for wait in self.waits if self.start[wait] > since and wait.parent in around]
            if waits:
                until = self.start[waits[0]]
                kept = [block for block in kept if block in _blocks_around(waits[0])]
            else:
                until, kept = self.end, []
        for block in _blocks_around(use):
            loop = block.parent
            if block not in kept and isinstance(loop, (For, Range, While)):
                since, until = min(since, self.start[loop]), max(until, self.stop[loop])
        return since, until


def _blocks_around(op: Op) -> list[Block]:
    assert op.parent is not None
    around = [inner.parent for inner in ops_around(op.parent)]
    return [op.parent, *(block for block in around if block is not None)]


def stages_of(buffer: Buffer, uses: Sequence[Op]) -> int:
    """How many tiles, for loads ahead of their use, lie in a buffer: copies fill all axes but the first of it."""
    copies = [use for use in uses if isinstance(use, (Copy, TmaLoad))]
    staged = bool(copies) and all(0 not in copy.places for copy in copies)
    return buffer.shape[0] if staged else 1


def _fail_too_much(launch: Launch, needs: Sequence[Need], total: int, limit: int, arch: str) -> None:
    """Raises the error that lists what is needed where most is."""
    crowd = max(([other for other in needs if other.meets(replace(need, last=need.first))] for need in needs),
                key=lambda group: sum(need.bytes for need in group))  # fmt: skip
    crowd.sort(key=lambda need: -need.bytes)
    labels = [Label(need.buffer.location, describe(need)) for need in crowd[:_SHOWN]]
    notes: list[str] = []
    if len(crowd) > _SHOWN:
        rest = sum(need.bytes for need in crowd[_SHOWN:])
        notes.append(f"{len(crowd) - _SHOWN} more buffers: {format_bytes(rest)}")
    fail("shared-too-much", launch.location, labels=labels, notes=notes, needed=format_bytes(total), arch=arch,
         limit=format_bytes(limit), hint=_what_fits(needs, limit))  # fmt: skip


def _what_fits(needs: Sequence[Need], limit: int) -> str:
    most = max(need.stages for need in needs)
    for stages in range(most - 1, 0, -1):
        fewer = [replace(n, bytes=n.bytes // n.stages * min(n.stages, stages)) for n in needs]
        if total_bytes(fewer, place(fewer)) <= limit:
            return f"`num_stages={stages}` fits"
    one = " and `num_stages=1`" if most > 1 else ""
    return f"give smaller blocks (`block=`){one}"


def describe(need: Need) -> str:
    """`a[m, k]`: 4 stages x 16 KiB = 64 KiB"""
    source = need.buffer.location.source
    name = f"`{source}`" if source else f"%{need.buffer.result.name}"
    whole = format_bytes(need.bytes)
    if need.stages == 1:
        return f"{name}: {whole}"
    return f"{name}: {need.stages} stages x {format_bytes(need.bytes // need.stages)} = {whole}"


def format_bytes(count: int) -> str:
    """`64 KiB`, `12.5 KiB`, `96 bytes`"""
    return f"{count / 1024:.4g} KiB" if count >= 1024 else f"{count} bytes"
