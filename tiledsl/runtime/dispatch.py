"""From a call to a launch: the short way for arguments like those of an earlier call, the careful way for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from tiledsl.ir.dtypes import DType, from_numpy
from tiledsl.runtime import specialise
from tiledsl.runtime.arrays import (
    Array,
    as_array,
    element_strides,
    fail_not_array,
    is_addressable,
    is_array,
    is_numpy,
    numpy_array,
    overlap,
    repeats_elements,
)
from tiledsl.runtime.binding import bind_sizes
from tiledsl.runtime.interface import Interface, TensorParameter
from tiledsl.runtime.launch import Launch, NewArray, Outputs, new_arrays
from tiledsl.runtime.parameters import Parameters
from tiledsl.runtime.program import LoadedProgram
from tiledsl.runtime.specialise import ArgumentKey
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

MOST_LAUNCHES = 2048
"""Launches that are remembered; past it all are forgotten (a program with ever new shapes must not grow)."""

_NUMBERS = (int, float, bool)


@dataclass(frozen=True)
class Variant:
    """One specialisation of a kernel, loaded."""

    interface: Interface
    program: LoadedProgram


Choose: TypeAlias = Callable[[tuple[ArgumentKey, ...]], Variant]
"""Finds or compiles the specialisation for the keys of a call."""


class Dispatcher:
    """Calls one kernel. Safe to use from several threads at once."""

    def __init__(self, parameters: Parameters, choose: Choose, threads: Callable[[], int]) -> None:
        """`threads` is asked, for each new launch, how many threads to run it on."""
        self.parameters = parameters
        self._choose = choose
        self._threads = threads
        self._constant = tuple(name in parameters.constants for name in parameters.names)
        self._launches: dict[tuple[object, ...], Launch] = {}

    @property
    def launches(self) -> list[Launch]:
        return list(self._launches.values())

    def call(self, args: tuple[object, ...], kwargs: Mapping[str, object], out: object) -> object:
        """Runs the kernel. Raises TileError before anything is written if the arguments do not fit."""
        if kwargs or len(args) != len(self._constant):
            args = self.parameters.arrange(args, kwargs)
        outputs: Any = (out,) if out.__class__ is np.ndarray else out if out.__class__ is tuple else None
        if out is None or outputs is not None:
            signature = self._signature(args, outputs)
            launch = self._launches.get(signature) if signature is not None else None
            if launch is not None:
                addresses = launch.addresses(args, outputs)
                if addresses is not None:
                    return launch.run(addresses, args, outputs, args)
        return self._call_carefully(args, out)

    def _signature(self, args: Sequence[Any], outputs: Outputs | None) -> tuple[object, ...] | None:
        """What a launch is remembered by; None for arguments that must be looked at first."""
        signature: list[object] = []
        for value, constant in zip(args, self._constant):
            kind: Any = value.__class__
            if kind is np.ndarray:
                signature += (value.dtype, value.shape, value.strides)
            elif constant or kind is str or kind is DType or value is None:
                # repr tells -0.0 from 0.0, and (1,) from (True,)
                signature += (kind, value if kind is int else repr(value))
            elif kind in _NUMBERS or specialise.is_numpy_number(value):
                signature.append(kind)
            else:
                return None
        if outputs is not None:
            for output in outputs:
                if output.__class__ is not np.ndarray:
                    return None
                signature += ("out", output.dtype, output.shape, output.strides)
        return tuple(signature)

    # The careful way

    def _call_carefully(self, given: tuple[object, ...], out: object) -> object:
        arguments, copies = self._accept(given)
        keys = self._keys(arguments)
        interface = self._choose(keys).interface
        copies |= self._separate(interface, arguments)
        # a copy has other strides, and so perhaps another key
        variant = self._choose(self._keys(arguments)) if copies else self._choose(keys)
        interface = variant.interface
        positions = self.positions(interface)
        tensors = [
            numpy_array(arguments[i]) for i, p in zip(positions, interface.parameters) if isinstance(p, TensorParameter)
        ]
        sizes = bind_sizes(interface, [array.shape for array in tensors])
        made = new_arrays(interface, sizes)
        targets = None if out is None else check_outputs(interface, [made[i] for i in interface.outputs], out)
        self._check_apart(interface, arguments, targets or ())
        direct = targets if targets is not None and _can_write(interface, targets, tensors) else None
        signature = self._signature(arguments, direct)
        assert signature is not None
        launch = self._launches.get(signature)
        if launch is None:
            launch = Launch(interface, positions, variant.program, sizes, arguments, direct, self._threads())
            if len(self._launches) >= MOST_LAUNCHES:
                self._launches = {}
            self._launches[signature] = launch
        addresses = launch.addresses(arguments, direct)
        assert addresses is not None, "an argument is still misaligned, or overlaps one that is written"
        result = launch.run(addresses, arguments, direct, given)
        written = self._written(interface)
        for position, original in copies.items():
            if position in written:
                np.copyto(original, numpy_array(arguments[position]))
        if targets is None:
            return result
        return _delivered(interface, result, targets, _as_tuple(out))

    def positions(self, interface: Interface) -> list[int]:
        """Where the interface's parameters stand among the arguments."""
        names = self.parameters.names
        return [names.index(parameter.name) for parameter in interface.parameters]

    def _written(self, interface: Interface) -> dict[int, TensorParameter]:
        """The parameters that the kernel writes to, by position."""
        return {
            position: parameter
            for position, parameter in zip(self.positions(interface), interface.parameters)
            if isinstance(parameter, TensorParameter) and parameter.written
        }

    def _accept(self, given: Sequence[object]) -> tuple[list[object], dict[int, Array]]:
        """The arguments with every array as a NumPy array that code can address, and the originals of those copied."""
        arguments: list[object] = []
        originals: dict[int, Array] = {}
        for position, (name, value, constant) in enumerate(zip(self.parameters.names, given, self._constant)):
            if constant or not is_array(value):
                arguments.append(value)
                continue
            array = as_array(value, name)
            if not is_addressable(array):
                originals[position] = array
                array = np.array(array, order="C")
            arguments.append(array)
        return arguments, originals

    def _keys(self, arguments: Sequence[object]) -> tuple[ArgumentKey, ...]:
        return tuple(
            argument_key(name, value, constant)
            for name, value, constant in zip(self.parameters.names, arguments, self._constant)
        )

    def _separate(self, interface: Interface, arguments: list[object]) -> dict[int, Array]:
        """Copies every written tensor that shares memory with another one. Gives the originals by position.

        Raises TileTypeError for tensors that cannot be written, and for two written ones that share memory.
        """
        written = self._written(interface)
        originals: dict[int, Array] = {}
        arrays = {i: value for i, value in enumerate(arguments) if is_numpy(value)}
        names = self.parameters.names
        for position in written:
            array: Array = arrays[position]
            _check_writable(names[position], array, interface.name)
            for other, other_array in arrays.items():
                if other == position or not overlap(array, other_array):
                    continue
                if other in written:
                    first, second = sorted((position, other))
                    fail(
                        "out-shared", caller_location(),
                        first=names[first], second=names[second], kernel=interface.name,
                    )  # fmt: skip
                originals[position] = array
        for position, array in originals.items():
            arguments[position] = np.array(array, order="C")
        return originals

    def _check_apart(self, interface: Interface, arguments: Sequence[object], targets: Outputs) -> None:
        """Raises TileTypeError for an array of `out` that shares memory with a parameter that is written."""
        for position, parameter in self._written(interface).items():
            for target in targets:
                if overlap(target, numpy_array(arguments[position])):
                    first, kernel = parameter.name, interface.name
                    fail("out-shared", caller_location(), first=first, second="out", kernel=kernel)


def argument_key(name: str, value: object, constant: bool) -> ArgumentKey:
    """What a call specialises on for one argument. Raises TileTypeError for a value that can be no argument."""
    if constant or value is None or isinstance(value, (str, DType)):
        return specialise.constant_key(value, name)
    if is_numpy(value):
        return specialise.tensor_key(value)
    key = specialise.scalar_key(value)
    if key is not None:
        return key
    fail_not_array(value, name)


def check_outputs(interface: Interface, made: Sequence[NewArray], out: object) -> Outputs:
    """`out` as a tuple of arrays, each fit for its output. Raises TileTypeError or TileShapeError if one is not."""
    location = caller_location()
    kernel = interface.name
    if not made:
        fail("out-nothing", location, kernel=kernel)
    given = _as_tuple(out)
    if len(given) != len(made):
        advice = "one array" if len(made) == 1 else f"a tuple of {len(made)} arrays"
        fail("out-count", location, given=len(given), expected=len(made), kernel=kernel, advice=advice)
    arrays: list[Array] = []
    for number, (value, new) in enumerate(zip(given, made)):
        name = "out" if len(made) == 1 else f"out[{number}]"
        if not is_array(value):
            shape, dtype, kind = new.shape, new.dtype, type(value).__name__
            fail("out-not-array", location, parameter=name, kind=kind, shape=shape, dtype=dtype)
        array = as_array(value, name)
        if array.dtype != new.dtype:
            expected, actual = from_numpy(new.dtype), from_numpy(array.dtype)
            fail("out-dtype", location, parameter=name, actual=actual, expected=expected, kernel=kernel)
        if array.shape != new.shape:
            fail("out-shape", location, parameter=name, actual=array.shape, expected=new.shape, kernel=kernel)
        _check_writable(name, array, kernel)
        for earlier, other in enumerate(arrays):
            if overlap(array, other):
                fail("out-shared", location, first=f"out[{earlier}]", second=name, kernel=kernel)
        arrays.append(array)
    return tuple(arrays)


def _as_tuple(out: object) -> tuple[object, ...]:
    return tuple(cast("Sequence[object]", out)) if isinstance(out, (tuple, list)) else (out,)


def _delivered(interface: Interface, result: object, targets: Outputs, given: Sequence[object]) -> object:
    """The results in the arrays of `out`: what could not be written while the kernel ran is copied there now.

    `given` are these arrays as the user passed them, which is what the call returns.
    """
    results = result if specialise.is_tuple(result) else (result,)
    place = dict(zip(interface.outputs, zip(targets, given)))
    final: list[object] = []
    for value, returned in zip(results, interface.results):
        if returned.kind == "new":
            target, passed = place[returned.index]
            if value is not target:
                np.copyto(target, numpy_array(value))
            final.append(passed)
        else:
            final.append(value)
    return final[0] if len(final) == 1 else tuple(final)


def _can_write(interface: Interface, targets: Outputs, tensors: Sequence[Array]) -> bool:
    """Whether the kernel can write to the arrays of `out` themselves, rather than to arrays that are copied there."""
    for number, target in zip(interface.outputs, targets):
        unit = interface.new_tensors[number].unit
        if not is_addressable(target) or (unit is not None and element_strides(target)[unit] != 1):
            return False
        if any(overlap(target, tensor) for tensor in tensors):
            return False
    return True


def _check_writable(name: str, array: Array, kernel: str) -> None:
    if not array.flags.writeable:
        fail("out-read-only", caller_location(), parameter=name, kernel=kernel)
    if repeats_elements(array):
        fail("out-repeats", caller_location(), parameter=name, strides=array.strides, kernel=kernel)
