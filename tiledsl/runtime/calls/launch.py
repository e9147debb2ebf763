"""One kernel bound to the dtypes, shapes and strides of a call: what is left to do is pointers, outputs, go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tiledsl.ir.dtypes import to_numpy
from tiledsl.runtime.arrays.arrays import Array, element_strides, numpy_array, overlap, pointer, row_major
from tiledsl.runtime.arrays.output_memory import empty
from tiledsl.runtime.calls.binding import ArrayShape, Sizes, new_shape
from tiledsl.runtime.calls.short_calls import NewArrays, Quick, ShortCall
from tiledsl.runtime.programs.interface import Interface, Result, ScalarParameter, TensorParameter
from tiledsl.runtime.programs.program import BoundProgram, ChainedRuns, Chains, ExpectedArray, LoadedProgram
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

Outputs: TypeAlias = "tuple[Array, ...]"


@dataclass(frozen=True)
class NewArray:
    """Shape and dtype of a tensor to allocate."""

    shape: ArrayShape
    dtype: np.dtype[Any]

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements, row by row."""
        return row_major(self.shape)


def new_arrays(interface: Interface, sizes: Sizes) -> tuple[NewArray, ...]:
    """What to allocate at a call. Raises TileShapeError for a negative size."""
    return tuple(NewArray(new_shape(tensor, sizes), to_numpy(tensor.dtype)) for tensor in interface.new_tensors)


@dataclass(frozen=True)
class Scalar:
    """Where a run-time number stands among the arguments, and which integers fit it (None for floats)."""

    position: int
    parameter: ScalarParameter
    limits: tuple[int, int] | None


class Launch:
    """`arguments` are always in the order of the kernel's parameters, constants included."""

    def __init__(
        self,
        interface: Interface,
        positions: Sequence[int],
        program: LoadedProgram,
        sizes: Sizes,
        arguments: Sequence[object],
        outputs: Outputs | None,
        threads: int,
    ) -> None:
        """`positions` are those of the interface's parameters among the arguments."""
        self.interface = interface
        by_kind = list(zip(positions, interface.parameters))
        self.tensors = tuple(i for i, p in by_kind if isinstance(p, TensorParameter))
        self.scalars = scalars_of(positions, interface)
        self.written = tuple(i for i, p in by_kind if isinstance(p, TensorParameter) and p.written)
        slots = {number: slot for slot, number in enumerate(interface.outputs)} if outputs is not None else {}
        made = new_arrays(interface, sizes)
        self.made = tuple((slots.get(number, -1), new.shape, new.dtype) for number, new in enumerate(made))
        """For each new tensor, which of the arrays of `out` it is; if none (-1), what to allocate."""
        self.only_result = only_result(interface)
        arrays = [numpy_array(arguments[i]) for i in self.tensors]
        strides = [element_strides(array) for array in arrays]
        strides += [
            new.strides if outputs is None or number not in slots else element_strides(outputs[slots[number]])
            for number, new in enumerate(made)
        ]
        self._misaligned_bits = max((array.itemsize for array in arrays), default=1) - 1
        self.program = program
        self.bound: BoundProgram = program.bind(sizes, strides, threads)
        self.is_simple = isinstance(self.bound, Chains) and len(self.tensors) == len(arguments)
        """Whether it is made on nothing but arrays, so that `quick` may know them again."""
        behind = enumerate(self.made, len(arguments))
        self._apart = (*self.written, *(place for place, (slot, _, _) in behind if slot >= 0))
        """Places of the arrays that are written and were there before the call, among arguments and new tensors."""
        self._expected = self._all_expected(arguments, outputs) if self.is_simple else []
        self.quick: Quick | None = None
        """Runs on arrays just like those of the first call; gives `MISSED` for others. For `is_simple` ones."""
        if self.is_simple:
            whole = len(self.made) == 1 and self.only_result == 0
            returned = None if whole else self.returned
            count = 0 if outputs is None else len(outputs)
            new = NewArrays(self.made)
            self.quick = ShortCall([], self._room, new, returned, count, allocates=outputs is None).call

    def _all_expected(self, arguments: Sequence[object], outputs: Outputs | None) -> list[ExpectedArray]:
        """What the arguments and the new tensors of later calls are compared with."""
        known = [numpy_array(array) for array in arguments]
        expected = [(array.dtype, array.shape, array.strides) for array in known]
        for slot, shape, dtype in self.made:
            if outputs is None or slot < 0:
                expected.append((dtype, shape, row_major(shape, dtype.itemsize)))
            else:
                expected.append((outputs[slot].dtype, outputs[slot].shape, outputs[slot].strides))
        return expected

    @property
    def variants(self) -> list[BoundProgram]:
        """What the calls run on."""
        return [self.bound]

    def addresses(self, arguments: Sequence[object], outputs: Outputs | None) -> list[int] | None:
        """The addresses of the tensor arguments, or None where a tensor must not be used as it is.

        That is so for one that is misaligned, and for one that is written but read-only, or shares memory with another.
        """
        addresses: list[int] = []
        bits = 0
        for position in self.tensors:
            address = pointer(arguments[position])  # pyright: ignore[reportArgumentType]  # `Dispatcher` saw to it
            addresses.append(address)
            bits |= address
        if self.written and not self._may_write(arguments):
            return None
        if outputs is not None and not self._may_write_outputs(arguments, outputs):
            return None
        if bits & self._misaligned_bits and not self._aligned(arguments):
            return None
        return addresses

    def _aligned(self, arguments: Sequence[object]) -> bool:
        return all(numpy_array(arguments[position]).flags.aligned for position in self.tensors)

    def _may_write(self, arguments: Sequence[object]) -> bool:
        for position in self.written:
            array = numpy_array(arguments[position])
            if not array.flags.writeable:
                return False
            for other in self.tensors:
                if other != position and overlap(array, numpy_array(arguments[other])):
                    return False
        return True

    def _may_write_outputs(self, arguments: Sequence[object], outputs: Outputs) -> bool:
        for number, output in enumerate(outputs):
            if not output.flags.behaved:  # aligned and writeable
                return False
            for position in self.tensors:
                if overlap(output, numpy_array(arguments[position])):
                    return False
            for other in outputs[:number]:
                if overlap(output, other):
                    return False
        return True

    def run(
        self, addresses: list[int], arguments: Sequence[object], outputs: Outputs | None, given: Sequence[object]
    ) -> object:
        """Allocates, runs, and gives what the kernel returns. `addresses` are those of `addresses()`.

        `given` are the arguments as the user passed them: a kernel that returns a parameter returns that object.
        """
        made = self._allocated(addresses, outputs)
        self.bound(addresses, self.numbers(arguments))
        return self.returned(made, given)

    def _room(self) -> ChainedRuns | None:
        assert isinstance(self.bound, Chains)
        sources = [*self.tensors, *range(len(self.tensors), len(self._expected))]
        patches = [(source, 0, 0, pointer) for pointer, source in enumerate(sources)]
        return self.bound.chained([(self.bound, [0] * len(sources), ())], patches, self._expected, self._apart)

    def prepare(
        self, addresses: list[int], arguments: Sequence[object], outputs: Outputs | None, given: Sequence[object]
    ) -> tuple[Callable[[], None], object, object]:
        """As `run`, without running: what runs, what it gives, and what must be kept alive for it."""
        made = self._allocated(addresses, outputs)
        numbers = self.numbers(arguments)
        return lambda: self.bound(addresses, numbers), self.returned(made, given), (arguments, made)

    def numbers(self, arguments: Sequence[object]) -> list[int | float]:
        return [number_of(scalar, arguments[scalar.position]) for scalar in self.scalars]

    def _allocated(self, addresses: list[int], outputs: Outputs | None) -> list[Array]:
        """The arrays of the new tensors, those of `out` among them; their addresses are added to `addresses`."""
        made: list[Array] = []
        for slot, shape, dtype in self.made:
            array: Array = empty(shape, dtype) if outputs is None or slot < 0 else outputs[slot]
            made.append(array)
            addresses.append(pointer(array))
        return made

    def returned(self, made: Sequence[Array], given: Sequence[object]) -> object:
        if self.only_result >= 0:
            return made[self.only_result]
        results = [self._result(result, made, given) for result in self.interface.results]
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    def _result(self, result: Result, made: Sequence[Array], given: Sequence[object]) -> object:
        return made[result.index] if result.kind == "new" else given[self.tensors[result.index]]


def scalars_of(positions: Sequence[int], interface: Interface) -> tuple[Scalar, ...]:
    """The run-time numbers among the arguments of a call; `positions` are those of the interface's parameters."""
    pairs = zip(positions, interface.parameters)
    return tuple(Scalar(i, p, _limits(p)) for i, p in pairs if isinstance(p, ScalarParameter))


def number_of(scalar: Scalar, value: Any) -> int | float:
    """The number that code gets for an argument. Raises TileTypeError for an integer that does not fit the dtype."""
    if scalar.limits is None:
        return float(value)
    number = int(value)
    low, high = scalar.limits
    if not low <= number <= high:
        parameter = scalar.parameter
        fail(
            "scalar-range", caller_location(),
            parameter=parameter.name, value=number, dtype=parameter.dtype, low=low, high=high,
        )  # fmt: skip
    return number


def only_result(interface: Interface) -> int:
    """The number of the new tensor that is all that the kernel returns; -1 if it returns something else."""
    one = len(interface.results) == 1 and interface.results[0].kind == "new"
    return interface.results[0].index if one else -1


def _limits(parameter: ScalarParameter) -> tuple[int, int] | None:
    dtype = parameter.dtype
    match dtype.kind:
        case "float":
            return None
        case "bool":
            return 0, 1
        case "uint":
            return 0, 2**dtype.bits - 1
        case "int":
            return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
