"""Byte offsets into a buffer of shared memory, swizzled.

An offset is the sum of a part that a thread computes once and one that is known for each access. The swizzle XORs bits,
so where the two parts have no bits in common that it looks at, the second part is swizzled at compile time:

    at ^ 64, (at ^ 64) + 2048, ...

What changes within the kernel, like the stage of a pipeline, is added last.

In a buffer of panels the fastest coordinate says the panel, and the place in it. Both parts of the sum are cut like
that if they never come to a whole panel together; else the coordinate is computed for each access, and then cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.functions.index_text import is_word, operand_text, sum_text, table_text
from tiledsl.backend_cuda.functions.storage import SharedMemory
from tiledsl.ir.core import Value
from tiledsl.ir.layouts.buffer_layout import Swizzle
from tiledsl.ir.layouts.layout import Integers
from tiledsl.passes.analysis.sizes import constant_of


@dataclass(frozen=True)
class BufferAxis:
    """How an axis of a buffer goes on in memory: in steps of `stride` bytes, or, by panels of `panel` elements, from
    one panel to the next in steps of `panel_stride`."""

    stride: int
    panel: int = 0
    panel_stride: int = 0

    def place(self, coordinate: Any) -> Any:
        """Where a coordinate is (an int or an array), in bytes."""
        if not self.panel:
            return coordinate * self.stride
        return coordinate // self.panel * self.panel_stride + coordinate % self.panel * self.stride

    def text(self, coordinate: str, most: int | None = None) -> str:
        """`place` in C, of a coordinate of at most `most`, as a term of a sum."""
        if not self.panel or (most is not None and most < self.panel):
            return _times(coordinate, self.stride)
        within = coordinate if is_word(coordinate) else f"({coordinate})"
        panel = _times(f"{within} / {self.panel}", self.panel_stride)
        return f"{panel} + {_times(f'{within} % {self.panel}', self.stride)}"

    def adds(self, threads: Integers, accesses: Integers, offset: int) -> bool:
        """Whether the place of a sum is the sum of the places: no sum goes into the next panel."""
        if not self.panel:
            return True
        parts = (threads, accesses, np.asarray([offset]))
        return sum(int((part % self.panel).max(initial=0)) for part in parts) < self.panel


def axes_of(buffer: SharedMemory) -> list[BufferAxis]:
    """For each axis of a buffer."""
    layout, width = buffer.layout, buffer.dtype.bytes
    found = [BufferAxis(stride * width) for stride in layout.strides(buffer.shape)]
    if layout.panel:
        fastest = layout.order[-1]
        found[fastest] = BufferAxis(width, layout.panel, layout.panel_stride(buffer.shape) * width)
    return found


def linear_text(frame: KernelFrame, buffer: SharedMemory, offsets: Sequence[Value]) -> str:
    """How many bytes from its start an element of a buffer is, before the swizzle."""
    terms: list[str] = []
    known = 0
    for offset, axis in zip(offsets, axes_of(buffer)):
        constant = constant_of(offset)
        if constant is None:
            terms.append(axis.text(frame.scalar(offset)))
        else:
            known += int(axis.place(constant))
    return sum_text(*terms, str(known))


@dataclass(frozen=True)
class ThreadPart:
    """What a thread adds to a coordinate: as C text, and all the values that it can have."""

    text: str
    values: Integers


class SharedAddresses:
    """The offsets of the accesses of one op; `text` gives one."""

    def __init__(
        self,
        frame: KernelFrame,
        buffer: SharedMemory,
        offsets: Sequence[Value],
        places: Sequence[int],
        threads: Sequence[ThreadPart],
        accesses: Sequence[Sequence[int]],
    ) -> None:
        """`threads`: for each tile axis what the thread adds. `accesses`: for each, what each access adds."""
        self.buffer = buffer
        self.swizzle = buffer.layout.swizzle
        axes = axes_of(buffer)
        known = 0
        self._moving: list[str] = []
        self._steps_of_moving: list[int] = []
        for offset, axis in zip(offsets, axes):
            constant = constant_of(offset)
            if constant is None:
                self._moving.append(axis.text(frame.scalar(offset)))
                self._steps_of_moving.append(axis.stride)
            else:
                known += int(axis.place(constant))
        terms: list[str] = []
        of_threads: Integers = np.zeros(1, np.int64)
        parts: Integers = np.full(max(1, len(accesses[0]) if accesses else 1), known, np.int64)
        self._across: tuple[BufferAxis, str, Sequence[int]] | None = None
        for place, thread, access in zip(places, threads, accesses):
            axis = axes[place]
            if not axis.adds(thread.values, np.asarray(access, np.int64), constant_of(offsets[place]) or 0):
                self._across = (axis, thread.text, access)
                continue
            if thread.text != "0":
                terms.append(axis.text(thread.text, int(thread.values.max())))
            of_threads = of_threads + axis.place(thread.values)
            parts = parts + axis.place(np.asarray(access, np.int64))
        self._place(frame, " + ".join(terms) or "0", parts, of_threads)

    def _place(self, frame: KernelFrame, of_thread: str, parts: Integers, of_threads: Integers) -> None:
        """Sets the texts `at` (swizzled, known from the start of the kernel) and `moving` (added to it); `late` where
        the swizzle cannot be done before the sum is known."""
        swizzle = self.swizzle
        moving = " + ".join(self._moving) or "0"
        self.late = self._across is not None
        self.flips: list[int] = [0] * len(parts)
        self.steps: list[int] = [int(part) for part in parts]
        if swizzle is not None and not self.late:
            top = 1 << (swizzle.base + swizzle.bits + swizzle.shift)
            low = parts % top
            used = 0
            for value in np.unique(of_threads % top):
                used |= int(value)
            apart = all(step % top == 0 for step in self._steps_of_moving) and not np.any(low & used)
            self.late = not apart
            if apart:
                self.flips = [int(swizzle.apply(part)) for part in low]
                self.steps = [int(part) for part in parts - low]
                of_thread = of_thread if of_thread == "0" else _swizzled(frame, of_thread, swizzle)
        if self.late:
            linear = sum_text(of_thread, moving)
            self.at = "0" if linear == "0" else frame.once_here("unsigned", "at", linear)
            self.moving = "0"
            return
        self.at = "0" if of_thread == "0" else frame.once_in_head("unsigned", "at", of_thread)
        self.moving = "0"
        if moving != "0":
            self.moving = frame.once(("moving", moving), lambda: frame.define("unsigned", "from", moving))

    def tables(self) -> list[Sequence[int]]:
        """What has to be said of each access."""
        found: list[Sequence[int]] = [
            self.flips,
            self.steps,
            [flip + step for flip, step in zip(self.flips, self.steps)],
        ]
        return found if self._across is None else [*found, self._across[2]]

    def text(self, frame: KernelFrame, number: str) -> str:
        """The byte offset of an access from the start of the shared memory."""
        base = self.buffer.offset
        if self.late:
            terms = [self.at, table_text(self.steps, number)]
            if self._across is not None:
                axis, thread, access = self._across
                terms.append(axis.text(sum_text(thread, table_text(access, number))))
            offset = sum_text(*terms)
            return sum_text(_swizzled(frame, offset, self.swizzle) if self.swizzle else offset, str(base))
        flip = table_text(self.flips, number)
        if self.at == "0":
            steps = [flip + step + base for flip, step in zip(self.flips, self.steps)]
            return sum_text(self.moving, table_text(steps, number))
        step = table_text([step + base for step in self.steps], number)
        at = self.at if flip == "0" else f"({self.at} ^ {operand_text(flip)})"
        return sum_text(self.moving, at, step)


def _times(text: str, factor: int) -> str:
    if factor == 1:
        return f"(unsigned){operand_text(text)}"
    return f"(unsigned){operand_text(text)} * {factor}u"


def _swizzled(frame: KernelFrame, text: str, swizzle: Swizzle) -> str:
    mask = ((1 << swizzle.bits) - 1) << swizzle.base
    return f"{frame.use('swizzled')}({text}, {swizzle.shift}, {mask:#x})"


def is_sum_of_digits(tables: Sequence[Sequence[int]]) -> bool:
    """Whether each table can be told by arithmetic on its index."""
    try:
        for table in tables:
            table_text(table, "v")
    except ValueError:
        return False
    return True
