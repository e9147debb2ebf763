"""Modules: what `tiledsl.fuse(graph).build(arch)` gives. They are called with arrays."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tiledsl.api.built_module import Built, build_for
from tiledsl.api.module_weights import check_weights, host_array
from tiledsl.api.schedule_graph import Scheduled, schedule_graph
from tiledsl.api.targets import worker_threads
from tiledsl.ir.core import Module as IRModule
from tiledsl.ir.types import TensorType
from tiledsl.runtime.artifact import Note
from tiledsl.runtime.module_calls import CpuCalls
from tiledsl.runtime.module_on_cpu import ModuleOnCpu
from tiledsl.runtime.parameters import Parameters
from tiledsl.runtime.schedule import Schedule
from tiledsl.support.errors import TileError
from tiledsl.support.location import BUILTIN, Location


class Module:
    """A graph whose kernels are compiled and whose memory is planned.

    `module(*arrays, out=None)` takes the graph's arguments in order, or by name, as arrays of any supported library. It
    gives the result, or a tuple of them: new arrays, or those of `out`. Several threads may call it at once.
    """

    def __init__(
        self,
        schedule: Schedule,
        weights: Mapping[str, object],
        built: Built | None,
        scheduled: Scheduled | None,
        notes: Sequence[Note] = (),
        location: Location = BUILTIN,
    ) -> None:
        """Either `built` already, or to be built from `scheduled` at calls, for wherever their arrays are.

        `weights`: an array for each buffer of the schedule that is a constant, by name.
        """
        self.name = schedule.name
        self.schedule = schedule
        self.weights = weights
        self.notes = tuple(notes)
        self._scheduled = scheduled
        self._fixed = built
        self._built: dict[str, Built] = {} if built is None else {built.arch: built}
        self._lock = threading.Lock()
        names = [schedule.buffers[number].name for number in schedule.inputs]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])
        self._parameters = Parameters(self.name, signature, frozenset(), location)
        self._count = len(names)
        self._cpu: CpuCalls | None = None

    def __call__(self, *args: object, out: object = None, **named: object) -> Any:
        """Runs the module. Nothing is written when arguments do not fit. Raises TileError."""
        try:
            if named or len(args) != self._count:
                args = self._parameters.arrange(args, named)
            calls = self._cpu
            if calls is None:
                calls = self._calls_on_cpu()
            return calls(args, out)
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    def built_for(self, arch: str) -> Built:
        """The module for an architecture, built now if it was not yet."""
        with self._lock:
            found = self._built.get(arch)
            if found is None:
                assert self._scheduled is not None
                found = self._built[arch] = build_for(self._scheduled, arch)
        return found

    def _calls_on_cpu(self) -> CpuCalls:
        built = self._fixed or self.built_for("cpu")
        programs: Any = [program.load() for program in built.programs]
        buffers = built.schedule.buffers
        constants = {n: host_array(self.weights[buffers[n].name], buffers[n].name) for n in built.schedule.constants}
        runner = ModuleOnCpu(built.schedule, built.memory, programs, constants, worker_threads())
        self._cpu = CpuCalls(runner)
        return self._cpu

    def __repr__(self) -> str:
        archs = ", ".join(self._built) or "wherever its arrays are"
        return f"<module {self.name}{self._parameters.signature} for {archs}>"


def build_module(
    lowered: IRModule,
    constants: Mapping[str, object],
    inputs: Sequence[str],
    arch: str | None = None,
    notes: Sequence[Note] = (),
) -> Module:
    """A module of a lowered graph, as docs/graphs.md describes one.

    `inputs` are the parameters of the entry that calls pass, in order; `constants` has arrays for all others. `arch`:
    `cpu`, `reference`, a GPU's (`sm_90`; no GPU is needed), or None: that of the arrays of each call. `notes` are what
    passes had to say. Raises TileError for weights that do not fit, and for what cannot be compiled.
    """
    entry = lowered.entry
    types = {p.name: p.type for p in entry.parameters if p.name not in inputs and isinstance(p.type, TensorType)}
    check_weights(types, constants, entry.name)
    scheduled = schedule_graph(lowered, inputs, types.keys())
    built = None if arch is None else build_for(scheduled, arch)
    weights = {**{name: constants[name] for name in types}, **scheduled.literals}
    return Module(scheduled.schedule, weights, built, scheduled, notes, entry.location)
