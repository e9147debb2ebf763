"""Ops of a graph as different kernels, measured by another process: two ways to group them are two plans."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from tiledsl.api.modules.build_module import build_module
from tiledsl.api.modules.module import Module
from tiledsl.api.schedules.built_module import build_for
from tiledsl.autotune.measuring.cases import Case, redrawn
from tiledsl.autotune.measuring.given import repeated
from tiledsl.autotune.measuring.runner import Checked
from tiledsl.autotune.measuring.tensors import Tensor, memory_of
from tiledsl.autotune.measuring.verify import Oracle, arrays_of, complete, verify
from tiledsl.autotune.sources import NoPlans
from tiledsl.backend_cuda.program import digest_of_source
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Value
from tiledsl.ir.core import Module as IRModule
from tiledsl.ir.dtypes import from_numpy, to_numpy
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.groups.group import Group
from tiledsl.passes.graph.pipeline import after_groups
from tiledsl.passes.machine import describe_cpu, host
from tiledsl.passes.manager import Pass, PassManager
from tiledsl.runtime.arrays.arrays import Array, pointer, row_major
from tiledsl.runtime.programs.cache import digest
from tiledsl.runtime.programs.memory_plan import ALIGNMENT
from tiledsl.runtime.programs.schedule import Schedule
from tiledsl.support.location import BUILTIN

SAMPLE = 200e-6
"""Seconds of a sample, at least."""
MOST_CALLS = 200
SPREAD = 0.25
"""Of the numbers of tensors: sums of products of them stay within f16 when they are multiplied again."""
MOST_WORK = 1 << 24
"""Multiply-adds, above which the reference is not run: the model's kernels are what others are compared with then."""


@dataclass(frozen=True)
class GroupingWorkload:
    """`text`: the ops as a graph; `kernels`: of each plan, as `Group.kernels` has them; `pick`: the plan of the model;
    `device`: in words, on a CPU, which has to be that; `number`: of the GPU."""

    text: str
    arch: str
    kernels: tuple[tuple[str, str], ...]
    pick: str
    device: str
    number: int = 0

    @property
    def nbytes(self) -> int:
        """Of what goes in and out."""
        function = parse_module(self.text).entry
        return sum(math.prod(tensor.shape) * tensor.dtype.itemsize for tensor in tensors_of_graph(function))

    def open(self) -> GroupingBench:
        if self.arch != "cpu":
            return GroupingBench(self, OnGpu(self.number))
        here = describe_cpu(host())
        if here != self.device:
            raise ValueError(f"this machine is another one: {here}, and not {self.device}")
        return GroupingBench(self, OnCpu())

    def module(self, plan: str) -> Module:
        """The module by one of the plans. Raises TileError for what cannot be compiled."""
        entry = parse_module(self.text).entry
        passes: list[Pass] = [Group(arch=self.arch, kernels=dict(self.kernels)[plan]), *after_groups(self.arch)]
        lowered = PassManager(passes).run(IRModule([entry]))
        names = [parameter.name for parameter in entry.parameters]
        build = partial(build_for, plans=NoPlans())
        return build_module(lowered, {}, names, self.arch, build=build)


class Runs(Protocol):
    """A module where it runs."""

    def run(self, arrays: Sequence[Array], /) -> None:
        """Once, on arrays in CPU memory: inputs, then outputs."""
        ...

    def begin(self, arrays: Sequence[Array], /) -> None:
        """Has these arrays be those of samples."""
        ...

    def seconds(self) -> float:
        """Of a call, one sample."""
        ...


class Place(Protocol):
    """Where modules run."""

    def put(self, module: Module, /) -> Runs:
        """A module there."""
        ...


@dataclass
class GroupingBench:
    """The graph in this process."""

    workload: GroupingWorkload
    place: Place
    _runs: dict[str, Runs] = field(default_factory=dict[str, Runs])
    _codes: dict[str, str] = field(default_factory=dict[str, str])
    _begun: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self._function = parse_module(self.workload.text).entry
        self._oracle = Oracle(lambda case, arrays: run_reference(self._function, case, arrays))

    def prepare(self, *, others: bool = False) -> None:
        self._oracle.expected(self._other if others else self._given)

    def ready(self, plans: Sequence[str]) -> None:
        for plan in plans or dict(self.workload.kernels):
            self._begin(plan)

    def check(self, plan: str) -> Checked:
        self._put(plan)
        return self._verified(plan, self._given)

    def confirm(self, plan: str) -> Checked:
        return self._verified(plan, self._other)

    def seconds(self, plan: str) -> float:
        self._begin(plan)
        return self._runs[plan].seconds()

    @cached_property
    def _given(self) -> Case:
        return drawn_case(self._function)

    @cached_property
    def _other(self) -> Case:
        random = np.random.default_rng(1)
        contents = tuple(redrawn(array, random) for array in self._given.contents)
        return replace(self._given, name="random", contents=contents)

    def _put(self, plan: str) -> Runs:
        if plan not in self._runs:
            module = self.workload.module(plan)
            self._codes[plan] = _code(module)
            self._runs[plan] = self.place.put(module)
        return self._runs[plan]

    def _begin(self, plan: str) -> None:
        runs = self._put(plan)
        if plan not in self._begun:
            self._begun.add(plan)
            runs.begin(arrays_of(self._given))

    def _verified(self, plan: str, case: Case) -> Checked:
        faults = complete([case], partial(self._execute, self.workload.pick), self._oracle)
        if faults is not None:
            return faults
        return verify([case], partial(self._execute, plan), self._oracle, self._codes.get(plan, ""))

    def _execute(self, plan: str, case: Case, arrays: list[Array]) -> None:
        del case
        self._put(plan).run(arrays)


def _code(module: Module) -> str:
    """A digest of the code of a module."""
    codes: list[str] = []
    for program in module.built.programs:
        variant: Any = getattr(program, "variant", None)
        codes.append(getattr(program, "identity", "") if variant is None else digest_of_source(variant.source))
    return digest(codes)


def tensors_of_graph(function: Function) -> tuple[Tensor, ...]:
    """What goes into a graph, and what comes out of it."""
    returned = function.body.terminator
    results = () if returned is None else returned.operands
    inputs = [_tensor(value, "input", value.name) for value in function.parameters]
    return (*inputs, *(_tensor(value, "result", f"result {n}") for n, value in enumerate(results)))


def _tensor(value: Value, use: Any, name: str) -> Tensor:
    shape = tuple(sizes_of(value))
    return Tensor(name, use, shape, row_major(shape, 1), to_numpy(tensor_type(value).dtype))


def drawn_case(function: Function) -> Case:
    """Normal numbers for floats, and 0 for all else, which is a subscript wherever there is one."""
    tensors, random = tensors_of_graph(function), np.random.default_rng(0)
    contents: list[Array] = []
    for tensor in tensors:
        dtype = from_numpy(tensor.dtype)
        if tensor.is_given and dtype is not None and dtype.is_float:
            contents.append(repeated(random, 0.0, SPREAD, tensor.shape, tensor.dtype))
        elif tensor.is_given:
            contents.append(np.zeros(tensor.shape, tensor.dtype))
    return Case("given", {}, tensors, tuple(contents), ())


def run_reference(function: Function, case: Case, arrays: Sequence[Array]) -> bool:
    """Runs the ops with NumPy, where there is time for that; gives whether it did."""
    if work_of(function) > MOST_WORK:
        return False
    count = len(function.parameters)
    for array, result in zip(arrays[count:], execute_graph(function, list(case.contents))):
        np.copyto(array, result)
    return True


def work_of(function: Function) -> int:
    """The multiply-adds of the products of a graph, or its elements if there are more of these."""
    most = 0
    for op in function.body.ops:
        most += sum(math.prod(sizes_of(value)) for value in op.results)
        if isinstance(op, ops.Contract):
            a, b, _ = op.axis_names()
            most += math.prod(dict([*zip(a, sizes_of(op.a)), *zip(b, sizes_of(op.b))]).values())
    return most


# Where modules run


def calls_of_sample(once: float) -> int:
    """How many calls are a sample, by what one takes."""
    return max(1, min(MOST_CALLS, math.ceil(SAMPLE / max(once, 1e-9))))


@dataclass
class OnCpu:
    """In this process."""

    clock: Callable[[], float] = time.perf_counter

    def put(self, module: Module) -> Runs:
        return _RunsOnCpu(module, self.clock)


@dataclass
class _RunsOnCpu:
    module: Module
    clock: Callable[[], float]
    _arrays: Sequence[Array] = ()
    _calls: int = 1

    def run(self, arrays: Sequence[Array]) -> None:
        count = len(self.module.built.schedule.inputs)
        results = tuple(arrays[count:])
        self.module(*arrays[:count], out=results[0] if len(results) == 1 else results)

    def begin(self, arrays: Sequence[Array]) -> None:
        self._arrays = arrays
        self.run(arrays)
        started = self.clock()
        self.run(arrays)
        self._calls = calls_of_sample(self.clock() - started)

    def seconds(self) -> float:
        self.run(self._arrays)  # so that caches are as this plan leaves them, and not the one before
        started = self.clock()
        for _ in range(self._calls):
            self.run(self._arrays)
        return (self.clock() - started) / self._calls


class OnGpu:
    """On a CUDA device: all launches of a call one after the other, in a CUDA graph, as modules have them."""

    def __init__(self, number: int) -> None:
        """Raises TileRuntimeError without a driver or a device."""
        from tiledsl.backend_cuda.driver.services import CudaServices  # the driver
        from tiledsl.backend_cuda.driver.timing import device_seconds

        self.number = number
        self.services: Any = CudaServices()
        self.stream = self.services.own_stream(number)
        self.clock: Callable[[Callable[[], None]], float] = partial(device_seconds, number, self.stream)
        self._memory: dict[int, Any] = {}

    def put(self, module: Module) -> Runs:
        return _RunsOnGpu(module, self)

    def uploaded(self, arrays: Sequence[Array]) -> list[int]:
        """The addresses of copies on the device; all modules share them."""
        for number, array in enumerate(arrays):
            memory = memory_of(array)
            if number not in self._memory:
                self._memory[number] = self.services.allocate(max(1, memory.nbytes), self.number, self.stream)
            address = self._memory[number].address
            self.services.copy_to_device(address, pointer(memory), memory.nbytes, self.number, self.stream)
        return [self._memory[number].address for number in range(len(arrays))]


class _RunsOnGpu:
    def __init__(self, module: Module, place: OnGpu) -> None:
        self._place = place
        self._bound = module.on_device(place.number, place.stream)
        schedule: Schedule = self._bound.schedule
        self._name = schedule.name
        size = self._bound.plan.bytes + ALIGNMENT
        self._arena = place.services.allocate(size, place.number, place.stream)
        self._graph: Any = None
        self._calls = 1

    def run(self, arrays: Sequence[Array]) -> None:
        place = self._place
        addresses = place.uploaded(arrays)
        self._launch(addresses)
        for array, address in zip(arrays, addresses):
            whole = memory_of(array)
            place.services.copy_to_host(pointer(whole), address, whole.nbytes, place.number, place.stream)

    def begin(self, arrays: Sequence[Array]) -> None:
        place = self._place
        addresses = place.uploaded(arrays)
        self._launch(addresses)
        launches = self._bound.launches(addresses, self._arena.address)
        once = min(place.clock(lambda: self._launch(addresses)) for _ in range(3))
        self._calls = calls_of_sample(once)
        self._graph = place.services.record(place.number, self._name, BUILTIN, launches * self._calls)

    def seconds(self) -> float:
        return self._place.clock(lambda: self._graph.launch(self._place.stream)) / self._calls

    def _launch(self, addresses: Sequence[int]) -> None:
        for bound, pointers, numbers in self._bound.launches(addresses, self._arena.address):
            bound(pointers, numbers, self._place.stream)
