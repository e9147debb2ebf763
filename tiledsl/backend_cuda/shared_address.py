"""Byte offsets into a buffer of shared memory, swizzled.

An offset is the sum of a part that a thread computes once and one that is known for each access. The swizzle XORs bits,
so where the two parts have no bits in common that it looks at, the second part is swizzled at compile time:

    at ^ 64, (at ^ 64) + 2048, ...

What changes within the kernel, like the stage of a pipeline, is added last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiledsl.backend_cuda.index_text import operand_text, sum_text, table_text
from tiledsl.backend_cuda.kernel_frame import KernelFrame
from tiledsl.backend_cuda.storage import SharedMemory
from tiledsl.ir.core import Value
from tiledsl.ir.layouts import Integers, Swizzle
from tiledsl.passes.analysis.sizes import constant_of


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
        width = buffer.dtype.bytes
        strides = [stride * width for stride in buffer.layout.strides(buffer.shape)]
        known = 0
        self._moving: list[tuple[str, int]] = []
        for offset, stride in zip(offsets, strides):
            constant = constant_of(offset)
            if constant is None:
                self._moving.append((frame.scalar(offset), stride))
            else:
                known += constant * stride
        terms: list[str] = []
        of_threads: Integers = np.zeros(1, np.int64)
        parts: Integers = np.full(max(1, len(accesses[0]) if accesses else 1), known, np.int64)
        for place, thread, access in zip(places, threads, accesses):
            stride = strides[place]
            if thread.text != "0":
                terms.append(_times(thread.text, stride))
            of_threads = of_threads + thread.values * stride
            parts = parts + np.asarray(access, np.int64) * stride
        self._place(frame, " + ".join(terms) or "0", parts, of_threads)

    def _place(self, frame: KernelFrame, of_thread: str, parts: Integers, of_threads: Integers) -> None:
        """Sets the texts `at` (swizzled, known from the start of the kernel) and `moving` (added to it); `late` where
        the swizzle cannot be done before the sum is known."""
        swizzle = self.swizzle
        moving = " + ".join(_times(text, stride) for text, stride in self._moving) or "0"
        self.late = False
        self.flips: list[int] = [0] * len(parts)
        self.steps: list[int] = [int(part) for part in parts]
        if swizzle is not None:
            top = 1 << (swizzle.base + swizzle.bits + swizzle.shift)
            low = parts % top
            used = 0
            for value in np.unique(of_threads % top):
                used |= int(value)
            apart = all(stride % top == 0 for _, stride in self._moving) and not np.any(low & used)
            self.late = not apart
            if apart:
                self.flips = [int(swizzle.apply(part)) for part in low]
                self.steps = [int(part) for part in parts - low]
                of_thread = of_thread if of_thread == "0" else _swizzled(frame, of_thread, swizzle)
        if self.late:
            linear = sum_text(of_thread, moving)
            self.at, self.moving = frame.once(("linear", linear), lambda: frame.define("unsigned", "at", linear)), "0"
            return
        self.at = "0" if of_thread == "0" else frame.once_in_entry("unsigned", "at", of_thread)
        self.moving = "0"
        if moving != "0":
            self.moving = frame.once(("moving", moving), lambda: frame.define("unsigned", "from", moving))

    def tables(self) -> list[Sequence[int]]:
        """What has to be said of each access."""
        return [self.flips, self.steps, [flip + step for flip, step in zip(self.flips, self.steps)]]

    def text(self, frame: KernelFrame, number: str) -> str:
        """The byte offset of an access from the start of the shared memory."""
        base = self.buffer.offset
        if self.late:
            assert self.swizzle is not None
            offset = _swizzled(frame, sum_text(self.at, table_text(self.steps, number)), self.swizzle)
            return sum_text(offset, str(base))
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
