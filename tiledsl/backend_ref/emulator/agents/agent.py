"""An agent: some threads of a program that run together, one op after the other, as a coroutine.

A tile in registers is an array [threads, slots]: what each of the agent's threads holds in each slot. A buffer in
shared memory is the address where it starts, as an i64 of rank 0; its type tells the rest. Scalars are arrays of
rank 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tiledsl.backend_ref.emulator.agents.clocks import LEADS, PASSES, READS, STORES, Clock
from tiledsl.backend_ref.emulator.agents.program import Program
from tiledsl.backend_ref.emulator.agents.shadow import Accessor
from tiledsl.backend_ref.emulator.agents.waiting import Meeting, Steps
from tiledsl.backend_ref.execution import AxisBlock, Execution, RuntimeValue
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import DType, to_numpy
from tiledsl.ir.gpu.async_ops import Role, WgmmaWait
from tiledsl.ir.layouts.layout import Integers, RegisterLayout
from tiledsl.ir.types import Shape, TensorType, TileType
from tiledsl.support.errors import Label, fail

Concurrent: TypeAlias = Callable[[Any, Any], Steps]
"""Runs an op at which another agent may go first, or must."""


@dataclass(eq=False)
class InFlight:
    """An accumulator that a product adds to. `array` is what it will be."""

    op: Op
    group: int
    array: Array
    done: bool = False


@dataclass(eq=False)
class Team:
    """The threads that run one body: of a launch, or of a role. `first` to `first + threads` of each block."""

    first: int
    threads: int
    meeting: Meeting


@dataclass(frozen=True)
class Transfer:
    """The elements of a buffer that an access of shared memory is about, once it is known to be a legal one."""

    inside: Array
    """Which registers the buffer has an element for: [threads, slots]."""
    moved: Array
    """Those that are moved: of copies in several threads of a block, one writes."""
    bytes: Integers
    """Of each element that is moved, the addresses: [elements, bytes]."""
    threads: Integers
    """For each byte the thread, flat."""


@dataclass(eq=False)
class Agent(Execution):
    """Threads `start` to `stop` of a team, counted through its blocks; all are of one block."""

    program: Program = field(kw_only=True)
    team: Team = field(kw_only=True)
    number: int = field(kw_only=True)
    start: int = field(kw_only=True)
    stop: int = field(kw_only=True)
    clock: Clock = field(kw_only=True)
    concurrent: Mapping[type[Op], Concurrent] = field(kw_only=True)
    pauses_before: frozenset[type[Op]] = field(kw_only=True)
    """Ops before which another agent may go first."""
    common: Shared = field(kw_only=True)
    current: Op = field(init=False)
    """That it is at."""
    step: int = 1
    """The present step of its own component of time."""
    landed: dict[int, int] = field(default_factory=dict[int, int])
    """Up to which step of components of what it has under way its threads have waited, each for its own."""
    own_fenced: tuple[dict[int, int], dict[int, int]] = field(
        default_factory=lambda: (dict[int, int](), dict[int, int]())
    )
    """Up to which step of components its threads have fenced, each its own accesses: of shared, of global memory."""
    passes: int = 0
    """How many phases of mbarriers it has waited for."""
    first_only: set[Value] = field(default_factory=set[Value])
    """Tiles of which only the first replicas are defined."""
    stored: set[Op] = field(default_factory=set[Op])
    """Stores and atomics that it has come to."""
    is_over: bool = False
    undefined: dict[int, tuple[Array, Op, str]] = field(default_factory=dict[int, tuple[Array, Op, str]])
    """Tiles read from bytes that nothing was written to, by identity: with the op that read them, and which byte."""
    touched: dict[int, Array] | None = None
    """Tiles whose registers were touched since the last `gpu.wgmma_fence`, by identity; None: nobody asks."""
    background_operands: list[tuple[int, Value, Array, Any]] = field(default_factory=list[Any])
    """Operands in registers of products under way: the group of each, the value, what it is, the product."""
    background: dict[int, Any] = field(default_factory=dict[int, Any])
    """What this agent has under way, by kind."""

    # Who it is

    @property
    def size(self) -> int:
        """How many threads it is."""
        return self.stop - self.start

    @property
    def block(self) -> int:
        """The block that its threads are of."""
        return self.start // self.team.threads

    @property
    def leads(self) -> bool:
        """Whether it has the first thread of the team in its block."""
        return self.start % self.team.threads == 0

    @property
    def name(self) -> str:
        """`threads 32 to 63`, by their numbers in the block."""
        first = self.team.first + self.start % self.team.threads
        block = f" of block {self.block}" if self.program.blocks > 1 else ""
        return f"threads {first} to {first + self.size - 1}{block}"

    @property
    def threads(self) -> int:
        """Of the whole team."""
        return self.team.threads * self.program.blocks

    @property
    def rows(self) -> Integers:
        """The numbers of its threads in the team."""
        return np.arange(self.start, self.stop, dtype=np.int64)

    def marks(self) -> Integers:
        """The numbers by which its threads are told apart in the whole program."""
        block, own = np.divmod(self.rows, self.team.threads)
        return block * self.program.block_threads + self.team.first + own

    @property
    def first_thread(self) -> int:
        """The number of the team's first thread in its block."""
        return self.block * self.program.block_threads + self.team.first

    # Layouts, as far as they are about its threads

    def table(self, layout: RegisterLayout) -> tuple[Integers, ...]:
        """The coordinates of what its threads hold."""
        return tuple(axis[self.start : self.stop] for axis in layout.table)

    # Values

    def array(self, value: Value) -> Array:
        """What a tensor, a tile or a scalar is; reading it touches its registers."""
        found = self.untouched(value)
        if self.touched is not None and found.ndim:
            self.touched[id(found)] = found
        return found

    def untouched(self, value: Value) -> Array:
        """The same, for products. An accumulator in flight is nothing that may be read."""
        found: Any = self.values[value]
        if isinstance(found, InFlight):
            op = self.current
            label = Label(found.op.location, "the product")
            fail(
                "emulator-accumulator", op.location, labels=[label], program=self.program.name, op=op.name,
                value=value.name, by=found.op.name,
            )  # fmt: skip
        assert not isinstance(found, AxisBlock)
        if self.undefined and id(found) in self.undefined:
            _, op, where = self.undefined[id(found)]
            label = [Label(self.current.location, f"used here: `{self.current.name}`")]
            fail(
                "emulator-uninitialised", op.location, labels=label, program=self.program.name, op=op.name, where=where
            )
        return found

    def _fits(self, value: Value, result: RuntimeValue | InFlight) -> bool:
        if isinstance(result, InFlight):
            return True
        if isinstance(result, AxisBlock):
            return False
        type_ = value.type
        if isinstance(type_, TileType) and type_.shape:
            if type_.level == "shared":
                return result.shape == () and result.dtype == np.int64
            layout = value.layout
            if layout.threads != self.threads and value.op is not None:
                problem = f"{layout} is of {layout.threads} threads, the program has {self.threads}"
                fault(value.op, problem)
            rows = self.size
            return result.shape == (rows, layout.slots) and result.dtype == to_numpy(type_.dtype)
        return isinstance(type_, TensorType | TileType) and super()._fits(value, result)

    # Running

    def steps(self, block: Block, arguments: Sequence[Any]) -> Steps:
        """Runs a block, as `run` does; others may go on at some of its ops."""
        self.values.update(zip(block.arguments, arguments))
        for op in block.ops:
            if op.effect == "terminator":
                return tuple(self.values[value] for value in op.operands)
            if isinstance(op, Role):  # its threads are other agents
                break
            self.current = op
            kind = type(op)
            if kind in self.pauses_before:
                yield None
                self.current = op
            concurrent = self.concurrent.get(kind)
            if concurrent is not None:
                results: Sequence[Any] = yield from concurrent(self, op)
            else:
                results = self.executors[kind](self, op)
            for value, result in zip(op.results, results):
                assert self._fits(value, result), f"{op} gives {result!r} for {value}"
                self.values[value] = result
                self._touch(kind, result)
        return ()

    def _touch(self, kind: type[Op], result: Array | InFlight) -> None:
        """Registers were written: not by a wait, which gives back what products wrote."""
        if self.touched is not None and kind is not WgmmaWait and not isinstance(result, InFlight) and result.ndim:
            self.touched[id(result)] = result

    # Time

    def accessor(self, op: Op, threads: Integers, *, atomic: bool = False) -> Accessor:
        """Some of this agent's threads, now, through the generic proxy."""
        by_first = self.leads and bool((threads == self.first_thread).all())
        component = self.program.component(self.number, LEADS) if by_first else self.number
        return Accessor(op, component, self.step, self.clock, self.landed, atomic=atomic, own_fenced=self.own_fenced)

    def under_way(self, op: Op, component: int, step: int, *, is_async: bool) -> Accessor:
        """Something that this agent begins now, and that is over at a step of another component."""
        return Accessor(op, component, step, self.clock, self.landed, is_async, own_fenced=self.own_fenced)

    def release(self, *, alone: bool = False) -> Clock:
        """What is over for those who learn of this moment: all that its threads know and did.

        `alone`: one thread tells it, which knows of the others only what they told it at a barrier before.
        """
        released = self.clock.copy()
        released.learn(self.program.component(self.number, PASSES), self.passes)
        first = self.program.component(self.number, LEADS)
        released.seen[first] = self.step
        by_first = [self.program.component(self.number, kind) for kind in (READS, STORES)]
        if not alone:
            released.seen[self.number] = self.step
        for component, step in self.landed.items():
            if not alone or component in by_first:
                released.seen[component] = max(released.seen[component], step)
        for steps, fenced in zip((released.fenced, released.fenced_globally), self.own_fenced):
            for component, step in fenced.items():
                if not alone or component == first:
                    steps[component] = max(steps[component], step)
        self.step += 1
        return released

    def fence(self, *, globally: bool) -> None:
        """What its threads did so far is done before what they do through the async proxy, or those who they tell."""
        done = {self.number: self.step, self.program.component(self.number, LEADS): self.step, **self.landed}
        self.own_fenced[0].update(done)
        if globally:
            self.own_fenced[1].update(done)
        self.step += 1

    def knows(self, component: int, step: int, thread: int) -> bool:
        """Whether what a thread did at that step is over for all of this agent's threads, or was their own doing."""
        marks = self.marks()
        return self.clock.has_seen(component, step) or bool(len(marks) == 1 and marks[0] == thread)


@dataclass(eq=False)
class Shared:
    """What all programs of an emulation have in common."""

    addresses: dict[int, int] = field(default_factory=dict[int, int])
    """The address modulo 16 of the first element of each tensor, by the identity of its array."""
    transfers: dict[tuple[Any, ...], Transfer] = field(default_factory=dict[tuple[Any, ...], Transfer])
    """What is known of accesses of shared memory: loops come back to the same places."""
    conflicts: dict[Op, tuple[int, int, int]] = field(default_factory=dict[Op, tuple[int, int, int]])
    """Turns, turns without conflicts and how often, for each op that has bank conflicts."""
    programs: list[str] = field(default_factory=list[str])
    """The names of those of the launch that is run, so far."""
    quiet: set[Op] = field(default_factory=set[Op])
    """Ops that have none."""
    read_bytes: int = 0
    """Of tensors: each element as often as it is asked for; what several threads hold copies of, once."""
    written_bytes: int = 0
    """Likewise; atomics count as both."""


def fault(op: Op, problem: str) -> Any:
    """GPU IR whose layouts do not fit what its ops do: a pass has made it, or a person wrote it."""
    fail("emulator-layout", op.location, op=op.name, problem=problem)


def static(shape: Shape) -> tuple[int, ...]:
    """A shape that is known, as those of all tiles are in GPU form."""
    sizes = tuple(size for size in shape if isinstance(size, int))
    assert len(sizes) == len(shape)
    return sizes


def poison(dtype: DType, shape: tuple[int, ...] = ()) -> Array:
    """What memory and registers hold that nothing was written to: NaN, -1, the largest unsigned, true."""
    kind = to_numpy(dtype)
    if dtype.kind == "bool":
        return np.ones(shape, kind)
    return np.full(shape, np.frombuffer(b"\xff" * kind.itemsize, kind)[0], kind)
