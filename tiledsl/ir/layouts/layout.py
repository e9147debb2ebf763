"""Register layouts: where each element of a tile lives, as (thread, slot).

A layout is a product of factors, outermost first: `spatial(8, 4)` spreads 8 x 4 elements over threads, `local(1, 2)`
over the slots (registers) of one thread, `replicate(4)` says that groups of threads hold copies. The accumulator of an
m16n8 matrix instruction:

>>> accumulator = local(2, 1) * spatial(8, 4) * local(1, 2)
>>> accumulator.shape, accumulator.threads, accumulator.slots
((16, 8), 32, 4)
>>> accumulator.coordinates(thread=5, slot=3)
(9, 3)

Runs of threads may overlap: `spatial(16/4) * local(6)` are 16 runs of 6 elements that begin 4 apart, 66 in all, of
which two threads hold some each. Nothing but loads makes such tiles, and slices of them are what is computed with.

Inside, a layout is two lists of digits. The thread number and the slot number are written in mixed radix; each digit
counts along one axis with a stride (or along none: a replica). The coordinate along an axis is the sum of its digits
times their strides: it is the sum of a part that depends on the thread alone and one that depends on the slot alone,
which is what generated code relies on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
WARP = 32
"""Threads of a warp, which exchange values by shuffles."""


@dataclass(frozen=True)
class Digit:
    """One digit of a thread or slot number: it takes `size` values, each a step of `stride` along `axis`.

    `axis` is None for a replica: the digit does not matter.
    """

    size: int
    axis: int | None
    stride: int


def _merged(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    """Without digits of one value, and with neighbours that count on as one: the one form of each mapping."""
    found: list[Digit] = []
    for digit in digits:
        if digit.size == 1:
            continue
        last = found[-1] if found else None
        if last is not None and last.axis == digit.axis and (
            digit.axis is None or last.stride == digit.stride * digit.size
        ):  # fmt: skip
            found[-1] = Digit(last.size * digit.size, digit.axis, digit.stride)
        else:
            found.append(Digit(digit.size, digit.axis, 0 if digit.axis is None else digit.stride))
    return tuple(found)


def _count(digits: Iterable[Digit]) -> int:
    total = 1
    for digit in digits:
        total *= digit.size
    return total


class RegisterLayout:
    """An immutable layout; equal to another one if both place every element of the same shape alike."""

    __slots__ = ("__dict__", "_hash", "shape", "slot_digits", "thread_digits")

    def __init__(self, shape: Sequence[int], thread_digits: Iterable[Digit], slot_digits: Iterable[Digit]) -> None:
        """Digits are given outermost (most significant) first."""
        self.shape = tuple(shape)
        self.thread_digits = _merged(thread_digits)
        self.slot_digits = _merged(slot_digits)
        self._hash = hash((self.shape, self.thread_digits, self.slot_digits))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, RegisterLayout)
            and self._hash == other._hash
            and self.shape == other.shape
            and self.thread_digits == other.thread_digits
            and self.slot_digits == other.slot_digits
        )

    def __hash__(self) -> int:
        return self._hash

    @property
    def rank(self) -> int:
        return len(self.shape)

    @cached_property
    def threads(self) -> int:
        """How many threads hold the tile together, replicas included."""
        return _count(self.thread_digits)

    @cached_property
    def slots(self) -> int:
        """How many elements each thread holds."""
        return _count(self.slot_digits)

    @cached_property
    def replicas(self) -> int:
        """How many threads hold each element."""
        return _count(d for d in self.thread_digits if d.axis is None)

    def __mul__(self, inner: RegisterLayout) -> RegisterLayout:
        """The product: every element of this layout is a whole tile of `inner`."""
        assert self.rank == inner.rank, f"{self} * {inner}: ranks differ"

        def outer(digit: Digit) -> Digit:
            return Digit(digit.size, digit.axis, 0 if digit.axis is None else digit.stride * inner.shape[digit.axis])

        shape = tuple(a * b for a, b in zip(self.shape, inner.shape))
        threads = (*map(outer, self.thread_digits), *inner.thread_digits)
        slots = (*map(outer, self.slot_digits), *inner.slot_digits)
        return RegisterLayout(shape, threads, slots)

    # Where things are

    def thread_coordinates(self, thread: Any) -> tuple[Any, ...]:
        """The part of each coordinate that depends on the thread. `thread` is an int or an array of them."""
        return _coordinates(self.thread_digits, self.rank, thread)

    def slot_coordinates(self, slot: Any) -> tuple[Any, ...]:
        """The part of each coordinate that depends on the slot. `slot` is an int or an array of them."""
        return _coordinates(self.slot_digits, self.rank, slot)

    def coordinates(self, thread: Any, slot: Any) -> tuple[Any, ...]:
        """The coordinates of the element that a thread holds in a slot."""
        return tuple(a + b for a, b in zip(self.thread_coordinates(thread), self.slot_coordinates(slot)))

    @cached_property
    def table(self) -> tuple[Integers, ...]:
        """The coordinates of all elements: for each axis an array [threads, slots]."""
        threads = np.arange(self.threads, dtype=np.int64)[:, None]
        slots = np.arange(self.slots, dtype=np.int64)[None, :]
        zero = np.zeros((self.threads, self.slots), np.int64)
        return tuple(zero + axis for axis in self.coordinates(threads, slots))

    def place(self, coordinates: Sequence[Any]) -> tuple[Any, Any]:
        """The inverse: the first thread and the slot that hold the element at these coordinates (ints or arrays). Runs
        of threads must not overlap."""
        return _number(self.thread_digits, coordinates), _number(self.slot_digits, coordinates)

    def is_first(self, thread: Any) -> Any:
        """Whether a thread is the first of those that hold copies of its elements."""
        first: Any = np.asarray(thread) >= 0
        for digit, value in zip(self.thread_digits, _digits(self.thread_digits, thread)):
            if digit.axis is None:
                first = first & (np.asarray(value) == 0)
        return first

    def vector(self, axis: int) -> int:
        """How many neighbours along `axis` stand in consecutive slots, from slot 0 on."""
        last = self.slot_digits[-1] if self.slot_digits else None
        return last.size if last is not None and last.axis == axis and last.stride == 1 else 1

    # Layouts made of this one

    def reduced(self, axes: Sequence[int], keepdims: bool = False) -> RegisterLayout:
        """The layout of what is left when `axes` are folded: their threads become replicas, their slots go."""

        def kept(digit: Digit) -> Digit:
            if digit.axis is None or digit.axis in axes:
                return Digit(digit.size, None, 0)
            return Digit(digit.size, numbers[digit.axis], digit.stride)

        left = [axis for axis in range(self.rank) if keepdims or axis not in axes]
        numbers = {axis: number for number, axis in enumerate(left)}
        shape = [1 if axis in axes else self.shape[axis] for axis in left]
        slots = [kept(d) for d in self.slot_digits if d.axis not in axes]
        return RegisterLayout(shape, map(kept, self.thread_digits), slots)

    def expanded(self, axis: int) -> RegisterLayout:
        """With a new axis of size 1 before `axis`."""

        def moved(digit: Digit) -> Digit:
            up = digit.axis is not None and digit.axis >= axis
            return Digit(digit.size, digit.axis + 1, digit.stride) if up and digit.axis is not None else digit

        shape = (*self.shape[:axis], 1, *self.shape[axis:])
        return RegisterLayout(shape, map(moved, self.thread_digits), map(moved, self.slot_digits))

    def split(self, axis: int, by: int) -> RegisterLayout | None:
        """The layout of the tile with `axis` as two: which run of `by` neighbours it is, and which of these. None where
        a thread has a part of a run.

        >>> print((spatial(4) * local(8)).split(0, 2))
        spatial(4, 1) * local(4, 2)
        """
        if self.shape[axis] % by:
            return None

        def moved(digit: Digit) -> Iterator[Digit]:
            if digit.axis != axis:
                up = digit.axis is not None and digit.axis > axis
                yield Digit(digit.size, digit.axis + 1, digit.stride) if up and digit.axis is not None else digit
                return
            inner = min(digit.size, -(-by // digit.stride))  # what of it counts within a run
            if digit.size // inner > 1:
                yield Digit(digit.size // inner, axis, digit.stride * inner // by)
            if inner > 1:
                yield Digit(inner, axis + 1, digit.stride)

        def fits(digit: Digit) -> bool:
            inside = digit.axis == axis and digit.stride < by
            return not inside or (by % digit.stride == 0 and digit.size % min(digit.size, by // digit.stride) == 0)

        alone = all(digit.axis != axis or digit.stride % by == 0 for digit in self.thread_digits)
        if not alone or not all(map(fits, self.slot_digits)):
            return None
        shape = (*self.shape[:axis], self.shape[axis] // by, by, *self.shape[axis + 1 :])
        digits = ([part for digit in one for part in moved(digit)] for one in (self.thread_digits, self.slot_digits))
        return RegisterLayout(shape, *digits)

    def permuted(self, permutation: Sequence[int]) -> RegisterLayout:
        """The layout of the transposed tile: axis i of it is axis permutation[i] of this one."""
        numbers = {axis: number for number, axis in enumerate(permutation)}

        def moved(digit: Digit) -> Digit:
            return digit if digit.axis is None else Digit(digit.size, numbers[digit.axis], digit.stride)

        shape = tuple(self.shape[axis] for axis in permutation)
        return RegisterLayout(shape, map(moved, self.thread_digits), map(moved, self.slot_digits))

    def widened(self, axis: int, step: int, run: int) -> RegisterLayout | None:
        """The layout of what threads need whose elements along `axis` are each a window: a thread has `run` neighbours,
        and the first of the next thread stands `step` times as far on as in this layout, so that runs may overlap.

        None where a thread does not have one run along the axis.

        >>> print((spatial(16) * local(4)).widened(0, 1, 6))
        spatial(16/4) * local(6)
        """
        slots = [digit for digit in self.slot_digits if digit.axis == axis]
        own = slots[0].size if slots else 1
        threads = [digit for digit in self.thread_digits if digit.axis == axis]
        if len(slots) > 1 or (slots and slots[0].stride != 1) or run < step * own:
            return None
        if any(digit.stride % own for digit in threads):
            return None
        shape = list(self.shape)
        shape[axis] = run + step * sum((digit.size - 1) * digit.stride for digit in threads)
        spread = [Digit(d.size, d.axis, d.stride * step) if d.axis == axis else d for d in self.thread_digits]
        if not slots:
            return RegisterLayout(shape, spread, [Digit(run, axis, 1), *self.slot_digits])
        return RegisterLayout(shape, spread, [Digit(run, axis, 1) if d.axis == axis else d for d in self.slot_digits])

    def slots_of(self, thread: Any, coordinates: Sequence[Any]) -> tuple[Any, Any]:
        """The slot in which a thread has the element at these coordinates (ints or arrays), and whether it has it."""
        own = [axis - part for axis, part in zip(coordinates, self.thread_coordinates(thread))]
        slot = _number(self.slot_digits, own)
        held: Any = True
        for wanted, found in zip(own, self.slot_coordinates(slot)):
            held = held & (np.asarray(wanted) == found)
        return slot, held

    def divided(self, inner: RegisterLayout) -> RegisterLayout | None:
        """The layout whose product with `inner` this one is, or None if it does not end in `inner`."""
        if self.rank != inner.rank or any(a % b for a, b in zip(self.shape, inner.shape)):
            return None
        threads = _stripped(self.thread_digits, inner)
        slots = _stripped(self.slot_digits, inner, of_slots=True)
        if threads is None or slots is None:
            return None
        return RegisterLayout([a // b for a, b in zip(self.shape, inner.shape)], threads, slots)

    def crosses(self, axes: Sequence[int], group: int) -> bool:
        """Whether folding `axes` brings together elements of threads in different groups: `group` = 32 is a warp."""
        if self.threads <= group:
            return False
        unit = 1
        for digit in reversed(self.thread_digits):
            # the threads that differ in this digit alone stand within blocks of unit * size
            if digit.axis in axes and group % (unit * digit.size) != 0:
                return True
            unit *= digit.size
        return False

    def shared_axis(self, blocks: int) -> int | None:
        """The axis of which each of `blocks` blocks of threads has a run to itself; None if every block has all of the
        tile. Raises ValueError where blocks share it in another way.

        >>> (spatial(1, 2) * local(1, 4) * spatial(1, 64)).shared_axis(2)
        1
        """
        first = self.thread_digits[0] if self.thread_digits else Digit(1, None, 0)
        if first.size % blocks == 0 and first.axis is None:
            return None
        if first.size % blocks == 0 and first.axis is not None and first.stride * first.size == self.shape[first.axis]:
            return first.axis
        raise ValueError(f"{self} gives no block of {blocks} a run of its own")

    def part_of_block(self, blocks: int) -> RegisterLayout:
        """The tile that one of `blocks` blocks of threads holds, each of which has a run of one axis to itself.

        All blocks have a part alike, so they are replicas.

        >>> print((spatial(1, 2) * local(1, 4) * spatial(1, 64)).part_of_block(2))
        replicate(2) * local(1, 4) * spatial(1, 64)
        """
        first = self.thread_digits[0]
        axis = first.axis
        assert first.size % blocks == 0, f"{self} is not shared out over {blocks} blocks"
        if axis is None:  # every block has all of it
            return self
        assert first.stride * first.size == self.shape[axis], f"{self} gives no block a run of its own"
        shape = list(self.shape)
        shape[axis] //= blocks
        rest = Digit(first.size // blocks, axis, first.stride)
        return RegisterLayout(shape, [Digit(blocks, None, 0), rest, *self.thread_digits[1:]], self.slot_digits)

    def slot_of(self, part: RegisterLayout, axes: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
        """Which slot of `part`, a layout over this one's axes `axes` alone, goes with a slot of this layout.

        Gives (divisor, size, factor) triples: the slot is the sum of `slot // divisor % size * factor`. `part` must
        place its elements as this layout does (as `reduced` gives it).
        """
        numbers = {axis: number for number, axis in enumerate(axes)}
        found: list[tuple[int, int, int]] = []
        divisor = 1
        for digit in reversed(self.slot_digits):
            if digit.axis in numbers:
                factor = _slot_stride(part.slot_digits, numbers[digit.axis], digit.stride, digit.size)
                for size, one in factor:
                    found.append((divisor, size, one))
                    divisor *= size
            else:
                divisor *= digit.size
        return tuple(reversed(found))

    @cached_property
    def text(self) -> str:
        """What `layout_text.parse_layout` reads back."""
        return format_layout(self)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self} of {list(self.shape)}>"

    def show(self, most: int = 32) -> str:
        """A picture: for each element of the tile (rank 1 or 2), the threads that hold it and the slot."""
        from tiledsl.ir.layouts.pictures import picture  # only errors and people ask for it

        return picture(self, most)

    def _repr_svg_(self) -> str:
        """The same as a drawing, for notebooks."""
        from tiledsl.ir.layouts.drawings import register_drawing

        return register_drawing(self)


def _stripped(digits: Sequence[Digit], inner: RegisterLayout, of_slots: bool = False) -> list[Digit] | None:
    """What is left in front of the digits of `inner`, counted in whole tiles of it; None if they are not at the end."""
    left = list(digits)
    for digit in reversed(inner.slot_digits if of_slots else inner.thread_digits):
        last = left.pop() if left else None
        if last is None or (last.axis, last.stride) != (digit.axis, digit.stride) or last.size % digit.size:
            return None
        if last.size > digit.size:
            left.append(Digit(last.size // digit.size, last.axis, last.stride * digit.size))
    found: list[Digit] = []
    for digit in left:
        if digit.axis is None:
            found.append(digit)
            continue
        if digit.stride % inner.shape[digit.axis]:
            return None
        found.append(Digit(digit.size, digit.axis, digit.stride // inner.shape[digit.axis]))
    return found


def _digits(digits: Sequence[Digit], number: Any) -> list[Any]:
    """The value of each digit of a number."""
    values: list[Any] = []
    for digit in reversed(digits):
        values.append(number % digit.size)
        number = number // digit.size
    return values[::-1]


def _coordinates(digits: Sequence[Digit], rank: int, number: Any) -> tuple[Any, ...]:
    result: list[Any] = [0 * number] * rank
    for digit, value in zip(digits, _digits(digits, number)):
        if digit.axis is not None:
            result[digit.axis] = result[digit.axis] + value * digit.stride
    return tuple(result)


def _number(digits: Sequence[Digit], coordinates: Sequence[Any]) -> Any:
    total: Any = 0
    for digit in digits:
        value = 0 if digit.axis is None else coordinates[digit.axis] // digit.stride % digit.size
        total = total * digit.size + value
    return total


def _slot_stride(digits: Sequence[Digit], axis: int, stride: int, size: int) -> list[tuple[int, int]]:
    """How the slots of `digits` count while a digit of (`stride`, `size`) along `axis` does: (size, factor) pairs,
    innermost first. A digit of one layout may be cut in two in another."""
    found: list[tuple[int, int]] = []
    factor = 1
    for digit in reversed(digits):
        if digit.axis == axis:
            low, high = max(stride, digit.stride), min(stride * size, digit.stride * digit.size)
            if low < high:
                found.append((high // low, factor * (low // digit.stride)))
        factor *= digit.size
    product = 1
    for part, _ in found:
        product *= part
    assert product == size, "the layouts do not place their elements alike"
    return found


# Factors


def spatial(*extents: int) -> RegisterLayout:
    """`extents` elements, each with a thread of its own; the last axis counts fastest."""
    return RegisterLayout(extents, _row_major(extents), ())


def local(*extents: int) -> RegisterLayout:
    """`extents` elements, all in one thread; the last axis counts fastest."""
    return RegisterLayout(extents, (), _row_major(extents))


def replicate(count: int, rank: int) -> RegisterLayout:
    """One element of which `count` threads hold a copy each."""
    return RegisterLayout((1,) * rank, (Digit(count, None, 0),), ())


def _row_major(extents: Sequence[int]) -> list[Digit]:
    return [Digit(size, axis, 1) for axis, size in enumerate(extents)]


# As text


def format_layout(layout: RegisterLayout) -> str:
    """The product of factors that a layout is, outermost first: `local(2, 1) * spatial(8, 4) * local(1, 2)`.

    Some factor always tells the rank: where there are only replicas, the last one is `local(1, 1)`.
    """
    factors: list[str] = []
    threads, slots = list(layout.thread_digits), list(layout.slot_digits)
    room = list(layout.shape)
    while threads or slots:
        if threads and threads[0].axis is None:
            factors.append(f"replicate({threads.pop(0).size})")
            continue
        found = (
            _next_factor("local", slots, room, layout.rank)
            or _next_factor("spatial", threads, room, layout.rank)
            or _overlapping_factor(threads, room, layout.rank)
        )
        assert found is not None, "the digits of an axis are not in order"
        factors.append(found)
    if all(factor.startswith("replicate") for factor in factors):
        factors.append(f"local({', '.join(['1'] * layout.rank)})")
    return " * ".join(factors)


def _next_factor(kind: str, digits: list[Digit], room: list[int], rank: int) -> str | None:
    """Takes from `digits` the outermost ones that can be a factor by themselves: `room` is what each axis has left."""
    extents = [1] * rank
    last = -1
    taken = 0
    for digit in digits:
        if digit.axis is None or digit.axis <= last or digit.stride * digit.size != room[digit.axis]:
            break
        extents[digit.axis] = digit.size
        room[digit.axis] = digit.stride
        last = digit.axis
        taken += 1
    if not taken:
        return None
    del digits[:taken]
    return f"{kind}({', '.join(map(str, extents))})"


def _overlapping_factor(digits: list[Digit], room: list[int], rank: int) -> str | None:
    """The same where runs of threads overlap: `16/4` are 16 of them, 4 apart."""
    if not digits or (axis := digits[0].axis) is None:
        return None
    digit = digits.pop(0)
    room[axis] -= digit.stride * (digit.size - 1)
    extents = ["1"] * rank
    extents[axis] = f"{digit.size}/{digit.stride}"
    return f"spatial({', '.join(extents)})"
