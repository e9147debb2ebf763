"""What the runtime asks of a back end: programs that can be kept as bytes, loaded, and bound to the sizes of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union, runtime_checkable

if TYPE_CHECKING:
    import numpy as np

    from tiledsl.runtime.programs.plan_source import PlansFor
    from tiledsl.runtime.programs.variant_report import ProgramReport, VariantMade

WIDEST = 16
"""Bytes of the widest access to a device's memory: alignment beyond it does not matter."""


class BoundProgram(Protocol):
    """A program ready to run for certain sizes and strides."""

    @property
    def description(self) -> object:
        """What was chosen for these sizes (blocks, threads ...); its `str` is shown by `explain()`."""
        ...

    def __call__(self, pointers: Sequence[int], scalars: Sequence[int | float], /) -> None:
        """Runs on tensors at these addresses. TileRuntimeError: a failed assertion."""
        ...


ExpectedArray: TypeAlias = "tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...]]"
"""dtype, shape, and strides in bytes, which do not matter for axes of one element."""


KeptMemory: TypeAlias = tuple[int, int]
"""Memory that a call reads besides its arrays, and must not write to: its address, and how many bytes."""


class ChainedRuns(Protocol):
    """Runs of several programs, made by a single call. Not to be called twice at once."""

    def run(self, addresses: Sequence[int], /) -> None:
        """TileRuntimeError: a failed assertion."""
        ...

    def run_on(self, arrays: tuple[object, ...], /) -> bool:
        """`run` with the addresses of these arrays; False, and nothing done, unless all are as they were expected, and
        those that are written can be and share no memory with any other, nor with what is kept."""
        ...


@runtime_checkable
class Chains(BoundProgram, Protocol):
    """A program that can be run by a single call with others that go before or come after."""

    def chained(
        self,
        runs: Sequence[ChainedRun],
        patches: Sequence[tuple[int, int, int, int]],
        expected: Sequence[ExpectedArray],
        written: Sequence[int],
        kept: Sequence[KeptMemory] = (),
        /,
    ) -> ChainedRuns | None:
        """These runs, in order, on arrays that are known when they are made: `expected`, of which those of these
        numbers are `written`.

        A patch `source, added, run, pointer`: the address of array number `source`, plus that many bytes, is that
        pointer of that run. None where not all of the programs can be chained.
        """
        ...


ChainedRun: TypeAlias = tuple[Chains, Sequence[int], Sequence[Union[int, float]]]
"""A program with the pointers and the scalars of one run."""


class LoadedProgram(Protocol):
    """Code in memory."""

    def bind(self, symbols: Mapping[str, int], strides: Sequence[tuple[int, ...]], threads: int, /) -> BoundProgram:
        """Prepares for a call. `strides` are in elements: of the tensor parameters, then of the new tensors."""
        ...


class BoundDeviceProgram(Protocol):
    """A program on a CUDA device, ready to run for certain sizes, strides and alignments. Threads may share it."""

    @property
    def description(self) -> object:
        """What was chosen for these sizes; its `str` is shown by `explain()`."""
        ...

    def __call__(self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int, /) -> None:
        """Launches on a stream and waits for nothing. `pointers` are in the order of the strides that it was bound to.

        TileRuntimeError: a launch that failed, or what an earlier one left (a fault, a failed assertion).
        """
        ...

    @property
    def launcher(self) -> Callable[[Sequence[int], Sequence[int | float], int], None]:
        """A function that does what a call does: Python calls a function faster than an object."""
        ...

    def prepare(self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int, /) -> Callable[[], None]:
        """A launch with these very arguments, to be repeated."""
        ...

    def record(self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int, behind: bool, /) -> object:
        """For the back end's `DeviceServices.record`: launches on a stream that is being captured."""
        ...


class DeviceProgram(Protocol):
    """Code for CUDA devices, loaded on each device at its first use there."""

    def bind_cuda(
        self,
        symbols: Mapping[str, int],
        strides: Sequence[tuple[int, ...]],
        alignment: tuple[int, ...],
        device: int,
        lying: tuple[int, ...] = (),
        /,
    ) -> BoundDeviceProgram:
        """Prepares for a call. `strides` are in elements: of the tensor parameters, then of the new tensors.

        `alignment[i]`, one of 1, 2, 4, 8, 16: what the address of tensor `i`, in bytes, and all of its strides but unit
        ones are multiples of. `lying[i]`: how tensor `i` lies (`ir/lying.py`).
        """
        ...


AnyLoadedProgram: TypeAlias = Union[LoadedProgram, DeviceProgram]


class Program(Protocol):
    """Compiled code, not loaded yet."""

    def to_bytes(self) -> bytes: ...
    def load(self) -> AnyLoadedProgram: ...


class GpuVariant(Protocol):
    """GPU code for one plan, as people read it."""

    @property
    def source(self) -> str:
        """CUDA C."""
        ...

    @property
    def cubin(self) -> bytes: ...

    @property
    def assembly(self) -> str:
        """The machine code as text. TileRuntimeError where there is nothing to make it with."""
        ...

    @property
    def ir(self) -> str:
        """The GPU IR as text."""
        ...

    @property
    def resources(self) -> Mapping[str, object]:
        """By CUDA function: registers, spilled bytes, bytes of shared memory."""
        ...


@runtime_checkable
class PlannedProgram(Program, Protocol):
    """Code for one plan: `bind_cuda` of what `load()` gives takes any sizes and alignments that the plan is for."""

    @property
    def variant(self) -> GpuVariant:
        """The code."""
        ...

    @property
    def plan(self) -> str:
        """The plan as text; programs that were planned from one program and have equal plans are equal."""
        ...

    @property
    def description(self) -> str:
        """The plan and what its code takes of the device, for people."""
        ...

    @property
    def origin(self) -> str:
        """Where the plan comes from, in words; empty: the model chose it, and nobody had another."""
        ...


@runtime_checkable
class HasVariants(Program, Protocol):
    """A program that has code for more than one plan."""

    def planned(
        self,
        sizes: Mapping[str, int],
        alignment: tuple[int, ...],
        lying: tuple[int, ...] = (),
        /,
        *,
        chained: bool,
        plans: PlansFor | None = None,
    ) -> PlannedProgram:
        """The code that `bind_cuda` would choose for these sizes and alignments, as a program of its own.

        `chained`: whether it is launched among others of ours, beside whose ends it may begin. `plans`: asked for a
        plan before the model is."""
        ...

    def default_variant(self) -> GpuVariant:
        """The code for the sizes that the kernel was specified with, or for large ones."""
        ...

    def with_sizes(self, sizes: Mapping[str, int], /) -> Program:
        """The same program with other sizes in mind for its default variant."""
        ...

    def watch(self, listener: Callable[[VariantMade], None], /) -> None:
        """Has every further variant told to `listener`."""
        ...

    def report(self) -> ProgramReport:
        """What people may want to know of the program and of its variants so far."""
        ...


@runtime_checkable
class DeviceLaunchDescription(Protocol):
    """What a launch on a device says of itself: the sizes of its arrays, and the plan of the code that it runs."""

    @property
    def sizes(self) -> Mapping[str, int]: ...

    @property
    def plan(self) -> str: ...
