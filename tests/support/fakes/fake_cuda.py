"""CUDA as the runtime sees it, on a machine without: arrays of several libraries on a fake driver's devices, and GPU
programs that are run by the reference executor.

The "device" memory is the host's, so a program finds its tensors at the addresses that it is given.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.fakes.fake_driver import FakeDriver, Node, fake_driver
from tiledsl.api.calls import targets
from tiledsl.api.calls.targets import Made, Target
from tiledsl.api.programs import specialisations
from tiledsl.api.schedules import built_module, saved_module
from tiledsl.backend_cuda.driver import call_driver as driver
from tiledsl.backend_ref.program import ReferenceProgram
from tiledsl.ir.core import Module
from tiledsl.runtime.programs.plan_source import PlansFor
from tiledsl.runtime.programs.variant_report import ProgramReport

kernel_module = importlib.import_module("tiledsl.api.kernels.kernel")  # `tiledsl.api.kernels.kernel` is the function


@dataclass(frozen=True)
class Run:
    """One call of a program on a device."""

    device: int
    stream: int
    alignment: tuple[int, ...]
    pointers: tuple[int, ...]
    scalars: tuple[int | float, ...]
    strides: tuple[tuple[int, ...], ...]


@dataclass
class Bound:
    """A program that was bound for a device."""

    program: HostProgram
    run: Any
    device: int
    alignment: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def description(self) -> str:
        return f"aligned to {self.alignment}"

    def __call__(self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int) -> None:
        run = Run(self.device, stream, self.alignment, tuple(pointers), tuple(scalars), self.strides)
        self.program.runs.append(run)
        for address, bytes_ in zip(pointers, self.alignment):
            assert address % bytes_ == 0, "the program was promised another alignment"
        self.run(pointers, scalars)

    @property
    def launcher(self) -> Callable[[Sequence[int], Sequence[int | float], int], None]:
        return self

    def prepare(self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int) -> Callable[[], None]:
        return lambda: self(pointers, scalars, stream)

    def record(
        self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int, behind: bool
    ) -> HostRecorded:
        return HostRecorded(self, tuple(scalars), tuple(pointers))


class HostRecorded:
    """A launch in a graph of the fake driver."""

    failure_record = None
    ends_with_a_kernel = True

    def __init__(self, bound: Bound, scalars: tuple[int | float, ...], pointers: tuple[int, ...]) -> None:
        self._bound, self._scalars = bound, scalars
        self._node = Node(self._at(pointers), self._at)
        driver.bindings().captured.append(self._node)

    def _at(self, pointers: Sequence[int]) -> Callable[[int], None]:
        return lambda stream: self._bound(pointers, self._scalars, stream)

    def update(self, executable: Any, pointers: Sequence[int]) -> bool:
        (status,) = driver.bindings().cuGraphExecKernelNodeSetParams(executable, self._node, tuple(pointers))
        return int(status) == 0


@dataclass(frozen=True)
class HostVariant:
    source: str = "// CUDA C"
    cubin: bytes = b"cubin"
    ir: str = "gpu ir"
    resources: Mapping[str, object] = field(default_factory=lambda: {"k": {"registers": 32}})


@dataclass
class HostProgram:
    """A GPU program that the reference executor runs."""

    reference: ReferenceProgram
    runs: list[Run]
    binds: int = 0

    def to_bytes(self) -> bytes:
        return self.reference.to_bytes()

    def load(self) -> HostProgram:
        return self

    def default_variant(self) -> HostVariant:
        return HostVariant()

    def with_sizes(self, sizes: Mapping[str, int]) -> HostProgram:
        return self

    def planned(
        self,
        sizes: Mapping[str, int],
        alignment: tuple[int, ...],
        lying: tuple[int, ...] = (),
        /,
        *,
        chained: bool,
        plans: PlansFor | None = None,
    ) -> HostPlan:
        return HostPlan(self, alignment)

    def watch(self, listener: object) -> None: ...

    def report(self) -> ProgramReport:
        return ProgramReport({}, 0, 0, (), 1e12, (), has_default=False)

    def bind_cuda(
        self,
        symbols: Mapping[str, int],
        strides: Sequence[tuple[int, ...]],
        alignment: tuple[int, ...],
        device: int,
        lying: tuple[int, ...] = (),
    ) -> Bound:
        self.binds += 1
        run = self.reference.load().bind(symbols, strides, 1)
        return Bound(self, run, device, alignment, tuple(strides))


@dataclass(frozen=True)
class HostPlan:
    """The same, planned for an alignment."""

    program: HostProgram
    alignment: tuple[int, ...]

    @property
    def plan(self) -> str:
        return f"aligned to {self.alignment}"

    description = plan
    origin = ""

    def to_bytes(self) -> bytes:
        return self.program.to_bytes()

    def load(self) -> HostPlan:
        return self

    def bind_cuda(
        self,
        symbols: Mapping[str, int],
        strides: Sequence[tuple[int, ...]],
        alignment: tuple[int, ...],
        device: int,
        lying: tuple[int, ...] = (),
    ) -> Bound:
        assert alignment == self.alignment
        return self.program.bind_cuda(symbols, strides, alignment, device)


class FakeArray:
    """An array of an unknown library on a device: it has the CUDA array interface."""

    def __init__(self, values: Any, driver: FakeDriver, *, device: int = 0, stream: int | None = None) -> None:
        self.host = values
        self.read_only = False
        self._stream = stream
        base = values if values.base is None else values.base
        driver.own(base, device)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "version": 3,
            "shape": self.host.shape,
            "strides": self.host.strides,
            "typestr": self.host.dtype.str,
            "data": (self.host.ctypes.data, self.read_only),
            "stream": self._stream,
        }


@dataclass(frozen=True)
class FakeDtype:
    """`torch.float32`"""

    name: str

    def __str__(self) -> str:
        return f"torch.{self.name}"


class FakeTensor:
    """A tensor of the fake PyTorch, over NumPy's memory."""

    def __init__(self, host: Any, device: int = 0, *, requires_grad: bool = False, negated: bool = False) -> None:
        self.host = host
        self.number = device
        self.requires_grad = requires_grad
        self.negated = negated
        self._version = 0
        """How often it was changed."""

    @property
    def dtype(self) -> FakeDtype:
        return FakeDtype(name=str(self.host.dtype.name))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.host.shape

    @property
    def is_cuda(self) -> bool:
        return self.number >= 0

    def stride(self) -> tuple[int, ...]:
        return tuple(stride // self.host.itemsize for stride in self.host.strides)

    def data_ptr(self) -> int:
        return self.host.ctypes.data if self.host.size else 0

    def get_device(self) -> int:
        return self.number

    def is_neg(self) -> bool:
        return self.negated

    def detach(self) -> FakeTensor:
        return FakeTensor(self.host, self.number)

    def clone(self, memory_format: object = None) -> FakeTensor:
        return FakeTensor(np.array(self.host, order="C"), self.number)

    def contiguous(self) -> FakeTensor:
        return self.clone()

    def view(self, dtype: FakeDtype) -> FakeTensor:
        return FakeTensor(self.host.view(dtype.name), self.number)

    def copy_(self, other: FakeTensor) -> None:
        self.host[...] = other.host
        self._version += 1

    def __dlpack__(self) -> object:
        return self.host.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.number) if self.number >= 0 else (1, 0)


class FakeParameter(FakeTensor):
    """`torch.nn.Parameter`"""


class FakeTorch(ModuleType):
    """The module `torch`. `streams` has the current stream of each device."""

    Tensor = FakeTensor
    contiguous_format = "contiguous"

    def __init__(self) -> None:
        super().__init__("torch")
        self.streams: dict[int, int] = {}
        self.grad = True
        self.allocated: list[FakeTensor] = []
        self.nn = SimpleNamespace(Parameter=FakeParameter)
        self._C = SimpleNamespace(_cuda_getCurrentRawStream=self._stream)

    def _stream(self, device: int) -> int:
        return self.streams.get(device, 0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return FakeDtype(name=name)

    def is_grad_enabled(self) -> bool:
        return self.grad

    @contextmanager
    def no_grad(self) -> Generator[None]:
        before, self.grad = self.grad, False
        yield
        self.grad = before

    def device(self, kind: str, number: int) -> int:
        return number

    def empty(self, shape: tuple[int, ...], *, dtype: FakeDtype, device: int) -> FakeTensor:
        numpy_dtype = getattr(ml_dtypes, dtype.name, None) or dtype.name
        made = FakeTensor(aligned(np.zeros(shape, np.dtype(numpy_dtype))), device)
        self.allocated.append(made)
        return made


def aligned(values: Any, offset: int = 0) -> Any:
    """A copy whose memory starts at a multiple of 256 bytes, plus `offset`."""
    storage: Any = np.zeros(values.nbytes + 512, np.uint8)
    start = -storage.ctypes.data % 256 + offset
    copy: Any = storage[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


@dataclass
class FakeCuda:
    """Everything together. `programs` are those compiled for GPUs, in order."""

    driver: FakeDriver
    torch: FakeTorch
    programs: list[HostProgram]

    @property
    def runs(self) -> list[Run]:
        return [run for program in self.programs for run in program.runs]

    def tensor(self, values: Any, device: int = 0, *, offset: int = 0, **named: Any) -> FakeTensor:
        """A tensor on a device with these values."""
        return FakeTensor(aligned(np.asarray(values), offset), device, **named)

    def array(self, values: Any, **named: Any) -> FakeArray:
        return FakeArray(aligned(np.asarray(values)), self.driver, **named)


@contextmanager
def fake_cuda(**fields: Any) -> Generator[FakeCuda]:
    """Within, kernels called on the arrays of a fake library run on the devices of a fake driver."""
    programs: list[HostProgram] = []

    def compiled(module: Module) -> Made:
        made = targets.target_of("reference").compile(module)
        assert isinstance(made.program, ReferenceProgram)
        programs.append(HostProgram(made.program, []))
        return Made(programs[-1], made.stages, made.notes)

    def loaded(data: bytes) -> HostProgram:
        programs.append(HostProgram(ReferenceProgram.from_bytes(data), []))
        return programs[-1]

    real = targets.target_of

    def target_of(arch: str) -> Target:
        return Target(arch, lambda: "fake", compiled, loaded) if arch.startswith("sm_") else real(arch)

    def saved_program(arch: str) -> Callable[[bytes], Any]:
        return target_of(arch).from_bytes

    with fake_driver(**fields) as fake, pytest.MonkeyPatch.context() as patch:
        torch = FakeTorch()
        patch.setitem(sys.modules, "torch", torch)
        for module in (specialisations, kernel_module, built_module, saved_module):
            patch.setattr(module, "target_of", target_of)
        patch.setattr(saved_module, "saved_program", saved_program)
        yield FakeCuda(fake, torch, programs)
