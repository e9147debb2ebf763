"""The arrays of `out`, and tensors that a kernel writes to: whether they are fit for that, wherever they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar, cast

from tiledsl.ir.dtypes import from_numpy
from tiledsl.runtime.arrays.arrays import ArrayLayout, element_strides, is_array, repeats_elements
from tiledsl.runtime.calls.launch import NewArray
from tiledsl.runtime.programs.interface import Interface
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

A = TypeVar("A", bound=ArrayLayout)


class Place(Protocol[A]):
    """Where the arrays of a call lie: in CPU memory, or on a device."""

    def read(self, value: object, parameter: str) -> A:
        """An array of any library. Raises TileError for one that cannot be used."""
        ...

    def overlap(self, a: A, b: A) -> bool:
        """Whether two arrays may share an element."""
        ...

    def addressable(self, array: A) -> bool:
        """Whether generated code can address the elements."""
        ...

    def check_writeable(self, array: A, parameter: str, kernel: str) -> None:
        """Raises TileTypeError for memory that must not be written to."""
        ...


def check_writable(place: Place[A], name: str, array: A, kernel: str) -> None:
    """Raises TileTypeError for an array that a kernel cannot write to."""
    place.check_writeable(array, name, kernel)
    if repeats_elements(array):
        fail("out-repeats", caller_location(), parameter=name, strides=array.strides, kernel=kernel)


def check_outputs(place: Place[A], interface: Interface, made: Sequence[NewArray], out: object) -> tuple[A, ...]:
    """`out` as a tuple of arrays, each fit for its output. Raises TileTypeError or TileShapeError if one is not."""
    return check_outputs_of(place, interface.name, made, out)


def check_outputs_of(place: Place[A], kernel: str, made: Sequence[NewArray], out: object) -> tuple[A, ...]:
    """The same, for the outputs of a kernel or module of that name."""
    location = caller_location()
    if not made:
        fail("out-nothing", location, kernel=kernel)
    given = as_tuple(out)
    if len(given) != len(made):
        advice = "one array" if len(made) == 1 else f"a tuple of {len(made)} arrays"
        fail("out-count", location, given=len(given), expected=len(made), kernel=kernel, advice=advice)
    arrays: list[A] = []
    for number, (value, new) in enumerate(zip(given, made)):
        name = "out" if len(made) == 1 else f"out[{number}]"
        if not is_array(value):
            shape, dtype, kind = new.shape, new.dtype, type(value).__name__
            fail("out-not-array", location, parameter=name, kind=kind, shape=shape, dtype=dtype)
        array = place.read(value, name)
        if array.dtype != new.dtype:
            expected, actual = from_numpy(new.dtype), from_numpy(array.dtype)
            fail("out-dtype", location, parameter=name, actual=actual, expected=expected, kernel=kernel)
        if array.shape != new.shape:
            fail("out-shape", location, parameter=name, actual=array.shape, expected=new.shape, kernel=kernel)
        check_writable(place, name, array, kernel)
        for earlier, other in enumerate(arrays):
            if place.overlap(array, other):
                fail("out-shared", location, first=f"out[{earlier}]", second=name, kernel=kernel)
        arrays.append(array)
    return tuple(arrays)


def can_write(place: Place[A], interface: Interface, targets: Sequence[A], tensors: Sequence[A]) -> bool:
    """Whether the kernel can write to the arrays of `out` themselves, rather than to arrays that are copied there."""
    for number, target in zip(interface.outputs, targets):
        unit = interface.new_tensors[number].unit
        if not place.addressable(target) or (unit is not None and element_strides(target)[unit] != 1):
            return False
        if any(place.overlap(target, tensor) for tensor in tensors):
            return False
    return True


def check_apart(place: Place[A], interface: Interface, written: Sequence[tuple[str, A]], targets: Sequence[A]) -> None:
    """Raises TileTypeError for an array of `out` that shares memory with a parameter (by name) that is written."""
    for name, array in written:
        for target in targets:
            if place.overlap(target, array):
                fail("out-shared", caller_location(), first=name, second="out", kernel=interface.name)


def shared_with_others(
    place: Place[A], kernel: str, names: Sequence[str], arrays: dict[int, A], written: Sequence[int]
) -> dict[int, int]:
    """The written tensors that share memory with another one, each with that one, all by position.

    Raises TileTypeError for tensors that cannot be written, and for two written ones that share memory.
    """
    sharing: dict[int, int] = {}
    for position in written:
        array = arrays[position]
        check_writable(place, names[position], array, kernel)
        for other, other_array in arrays.items():
            if other == position or not place.overlap(array, other_array):
                continue
            if other in written:
                first, second = sorted((position, other))
                fail("out-shared", caller_location(), first=names[first], second=names[second], kernel=kernel)
            sharing[position] = other
    return sharing


def as_tuple(out: object) -> tuple[object, ...]:
    """`out` as a call has it: an array or several."""
    return tuple(cast("Sequence[object]", out)) if isinstance(out, (tuple, list)) else (out,)
