"""`tiledsl.fuse(graph)`: a graph on its way to a module, and the modules that are built of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiledsl.api.calls.plan_sources import existing_plans
from tiledsl.api.calls.specs import arch_of_specs
from tiledsl.api.calls.targets import target_of
from tiledsl.api.graphs.graph import Graph
from tiledsl.api.graphs.kept_lowerings import read_or_lower
from tiledsl.api.graphs.measured_groupings import measured_groupings
from tiledsl.api.modules.build_module import build_module
from tiledsl.api.modules.module import Module
from tiledsl.api.reports.notebook import folded
from tiledsl.api.schedules.built_module import Build, Built, build_for
from tiledsl.api.schedules.module_weights import WeightCache
from tiledsl.ir.core import Module as IRModule
from tiledsl.ir.symbolic import symbol_name, symbols_of
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.types import TensorType
from tiledsl.passes.graph.analysis.step_traffic import graph_traffic
from tiledsl.passes.graph.pipeline import before_groups, graph_pipeline
from tiledsl.passes.graph.rewrites.set_sizes import SetSizes
from tiledsl.passes.manager import Pass, PassContext, PassManager
from tiledsl.runtime.arrays.arrays import is_foreign_array
from tiledsl.runtime.arrays.cuda_arrays import is_on_cuda
from tiledsl.runtime.calls.missed import MISSED
from tiledsl.runtime.calls.short_calls import Quick
from tiledsl.runtime.programs.artifact import Note
from tiledsl.runtime.programs.memory_plan import plan_memory
from tiledsl.runtime.programs.plan_source import PlanSource
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail
from tiledsl.support.fewer_collections import fewer_collections
from tiledsl.support.options import checks_calls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tiledsl.api.modules.module_kernels import ModuleKernel
    from tiledsl.api.pages.audit import Audit
    from tiledsl.api.programs.checked_programs import CheckReport
    from tiledsl.api.schedules.schedule_graph import Scheduled


class FusedGraph:
    """What `tiledsl.fuse` gives. Nothing is decided yet: how a graph is fused depends on what it is built for."""

    def __init__(self, graph: Graph, *, fuse: bool = True) -> None:
        self.graph = graph
        self._fuse = fuse
        self._last: tuple[object, tuple[IRModule, list[Note]]] | None = None
        """What it was lowered to last, and for what: who audits what he has built need not wait again."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """The sizes that the graph leaves open, by name."""
        types = [p.type for p in self.graph.module.entry.parameters]
        dims = [dim for t in types if isinstance(t, TensorType) for dim in t.shape]
        return tuple(dict.fromkeys(name for dim in dims for name in sorted(symbols_of(dim))))

    def lowered(
        self, arch: str = "cpu", sizes: Mapping[str, int] | None = None, context: PassContext | None = None
    ) -> IRModule:
        """The module of IR that is built: calls of tile programs, which stand after the entry.

        Raises TileShapeError if a size of the graph is not among `sizes`.
        """
        return PassManager(self._passes(arch, sizes or {}), between=False).run(self.graph.module, context)

    def lowered_before(
        self, arch: str, sizes: Mapping[str, int], groupings: Mapping[str, bool] | None = None
    ) -> tuple[IRModule, list[Note]]:
        """`lowered`, with what passes had to say; from the disk cache where it was lowered before. `groupings`: what
        was measured of kernels that may be one, as `PassContext` has it."""
        given = f"fuse={self._fuse} {sorted(sizes.items())}"
        key, passes = (arch, given, tuple(sorted((groupings or {}).items()))), self._passes(arch, sizes)
        known = self._last  # another thread may put another one there
        if known is None or known[0] != key:
            known = key, read_or_lower(self.graph.module, passes, arch, given, groupings or {})
            self._last = known
        return known[1]

    def before_groups(self, arch: str, sizes: Mapping[str, int]) -> IRModule | None:
        """The graph as it is when its ops become kernels; None where each op is one."""
        if not self._fuse:
            return None
        self._check_sizes(sizes)
        passes = [SetSizes(tuple(sizes.items())), *before_groups(target_of(arch).name)]
        return PassManager(passes, between=False).run(self.graph.module)

    def _passes(self, arch: str, sizes: Mapping[str, int]) -> list[Pass]:
        self._check_sizes(sizes)
        return [SetSizes(tuple(sizes.items())), *graph_pipeline(target_of(arch).name, fuse=self._fuse)]

    def _check_sizes(self, sizes: Mapping[str, int]) -> None:
        missing = [name for name in self.symbols if name not in sizes]
        if missing:
            known = ", ".join(f"{name}=128" for name in missing)
            fail("fuse-sizes", caller_location(), graph=self.graph.name, missing=", ".join(missing), example=known)

    def unfused_bytes(self, sizes: Mapping[str, int]) -> int:
        """What the graph reads and writes if each of its ops runs by itself, with these sizes."""
        module = self.graph.module
        if sizes:
            module = PassManager([SetSizes(tuple(sizes.items()))]).run(module)
        return graph_traffic(module.entry)

    def audit(self, arch: str = "sm_90", **sizes: int) -> Audit:
        """What the kernels move and how long they are predicted to take, beside the least that they could.

        `arch`: a GPU's, none of which is needed, or `cpu`: the one at hand. `sizes`: those that the graph leaves open.
        Nothing is compiled to machine code. Raises TileError.
        """
        from tiledsl.api.pages.audit import audit_schedule, audited_machine  # costs start-up time
        from tiledsl.api.schedules.schedule_graph import schedule_graph

        arch = audited_machine(self.graph.name, arch).name
        lowered, _ = self.lowered_before(arch, sizes)
        return audit_schedule(schedule_graph(lowered, self.graph.inputs, self.graph.constants), arch)

    def ir(self, arch: str = "cpu", **sizes: int) -> str:
        """The IR text of `lowered`."""
        return print_module(self.lowered(arch, sizes))

    def build(
        self,
        arch: str | None = None,
        *,
        tuning: str | Path | None = None,
        device: str | None = None,
        freeze: bool = False,
        **sizes: int,
    ) -> BuiltGraph:
        """A module: kernels that are compiled, memory that is planned. It is called with arrays as the graph is.

        `arch`: `cpu`, `reference`, a GPU's (`sm_90`; no GPU is needed now), or None: that of the arrays of each call.
        `sizes`: those that the graph leaves open. Those not given are taken from each call, and a module made for each.
        `tuning`: the folder of a database, whose plans are taken where it has some; no GPU is needed for that. By
        default that of the environment, and what ships. `device`: the GPU that the module will run on, in words, or
        how they begin (`NVIDIA H200`): plans that were measured there are taken. By default the device at hand.
        `freeze`: no weight changes any more, so what depends on weights alone is computed once. Without it, that is
        done where no change could go unseen: copies on a device, read-only arrays, tensors of PyTorch.
        Raises TileError for what cannot be compiled.
        """
        plans = None if tuning is None else existing_plans(tuning)
        built = BuiltGraph(self, arch, sizes, plans=plans, device=device, freeze=freeze)
        if arch is not None and all(name in sizes for name in self.symbols):
            try:
                built.module(arch, dict(sizes))
            except TileError as error:
                raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's
        return built

    def __repr__(self) -> str:
        return f"<fused {self.graph!r}>"

    def _repr_html_(self) -> str:
        return folded(repr(self), self.graph.ir)


class BuiltGraph:
    """What `tiledsl.fuse(graph).build(arch)` gives: called with arrays, it runs the kernels.

    Results have the structure that the formula returns. Threads may share it.
    """

    def __init__(
        self,
        fused: FusedGraph,
        arch: str | None,
        sizes: Mapping[str, int],
        build: Build | None = None,
        plans: PlanSource | None = None,
        device: str | None = None,
        *,
        freeze: bool = False,
    ) -> None:
        """`build`: what compiles the functions of a schedule; `plans`: what is asked for plans before the model is, by
        default what the thread that builds a module asks then; `device`, `freeze`: as `FusedGraph.build` has them."""
        self.fused = fused
        self.arch = arch
        self._sizes = dict(sizes)
        self._lock = threading.Lock()
        self._modules: dict[tuple[str, tuple[tuple[str, int], ...]], Module] = {}
        self._graph = fused.graph
        self._cache = WeightCache()
        self._freeze = freeze
        self._build = partial(build_for, plans=plans, device=device) if build is None else build
        self._groupings = partial(measured_groupings, plans, device) if build is None else _none_measured
        self._checks = build is None and checks_calls()
        self._plain = not fused.symbols
        self._only: Module | None = None
        self.quick: Quick | None = None
        """`Module.quick` of the last call."""
        self._known: dict[object, Module] = {}
        """What calls with arguments of some shapes, somewhere, have come to."""

    def __call__(self, *args: object, out: object = None, **named: object) -> Any:
        """Runs the module on arrays, where they are. Raises TileError before anything is written."""
        if self.quick is not None and not named:
            result = self.quick(args, out)
            if result is not MISSED:
                return result
        if self._checks:
            self._check(args, named)
        module = self._only
        if module is None:
            key = None if named else _likeness(args)
            module = self._known.get(key)
            if module is None:
                module = self._for(self._graph.flatten(*args, **named))
                if key is not None:
                    self._known[key] = module
        result = module(*args, out=out, **named)
        if not self._checks:
            self.quick = module.quick
        return result

    def _check(self, args: Sequence[object], named: Mapping[str, object]) -> None:
        """Raises TileError for what a call on arrays in CPU memory does wrong, before it is made."""
        from tiledsl.api.programs.checked_programs import raise_unasked  # it is hardly ever asked for

        if not any(is_foreign_array(v) and is_on_cuda(v) for v in self._graph.flatten(*args, **named)):
            raise_unasked(check_graph(self._graph, args, named, None))

    def module(self, arch: str, sizes: Mapping[str, int]) -> Module:
        """The module for an architecture and the sizes that the graph leaves open."""
        arch = target_of(arch).name
        key = (arch, tuple(sorted(sizes.items())))
        with self._lock:
            found = self._modules.get(key)
            if found is None:
                with fewer_collections():
                    found = self._made(arch, sizes)
                self._modules[key] = found
                if self._plain and self.arch is not None:
                    self._only = found
        return found

    def _made(self, arch: str, sizes: Mapping[str, int]) -> Module:
        lowered, notes = self.fused.lowered_before(arch, sizes, self._groupings(arch))
        graph = self._graph
        return build_module(
            lowered, graph.constants, graph.inputs, arch, notes,
            graph.tensor_arguments, graph.result, self.fused.unfused_bytes(sizes), self._cache, self._build,
            freeze=self._freeze,
        )  # fmt: skip

    @property
    def sizes(self) -> dict[str, int]:
        """Those that were given when it was built."""
        return dict(self._sizes)

    @property
    def modules(self) -> list[Module]:
        """Those made so far."""
        return list(self._modules.values())

    def explain(self, html: str | None = None) -> str:
        """What was decided, and what it costs: groups, buffers, bytes, time. `html`: a file to write the page to."""
        return "\n\n".join(module.explain(html=html) for module in self.modules) or f"{self!r}: not built yet"

    def audit(self, arch: str = "sm_90") -> Audit:
        """What the kernels move and how long they should take: `FusedGraph.audit`, for the sizes and the target that it
        is built for; `arch` where it is built for none. Raises TileError."""
        return self.fused.audit(self.arch or arch, **self._sizes)

    @property
    def kernels(self) -> dict[str, ModuleKernel]:
        """The kernels by name: `Module.kernels`. Raises TileError unless it is built for one target, and one set of
        sizes."""
        return self._one("kernels").kernels

    def traffic(self) -> tuple[int, int | None]:
        """Bytes that a call reads and writes, and the same if each op ran by itself: `Module.traffic`.

        Raises TileError unless it is built for one target, and one set of sizes.
        """
        return self._one("traffic").traffic()

    def save(self, path: str) -> None:
        """Writes the module to a file that `tiledsl.load` reads. Raises TileError unless it is built for one target."""
        self._one("save").save(path)

    def _one(self, what: str) -> Module:
        modules = self.modules
        if len(modules) != 1:
            fail("fuse-one-module", caller_location(), what=what, graph=self._graph.name, count=len(modules))
        return modules[0]

    def _for(self, leaves: Sequence[object]) -> Module:
        arch = self.arch or arch_of_specs(leaves)
        return self.module(arch, self._sizes_of(leaves))

    def _sizes_of(self, leaves: Iterable[Any]) -> dict[str, int]:
        """The open sizes, from the shapes of a call's arrays; what contradicts them is told when they are checked."""
        sizes = dict(self._sizes)
        types = {p.name: p.type for p in self._graph.module.entry.parameters}
        for name, leaf in zip(self._graph.inputs, leaves):
            type_ = types[name]
            assert isinstance(type_, TensorType)
            for dim, size in zip(type_.shape, getattr(leaf, "shape", ())):
                symbol = symbol_name(dim)
                if symbol is not None:
                    sizes.setdefault(symbol, int(size))
        return sizes

    def __repr__(self) -> str:
        return f"<built {self._graph!r} for {self.arch or 'wherever its arrays are'}>"

    def _repr_html_(self) -> str:
        return folded(repr(self), self.explain)


def check_graph(graph: Graph, args: Sequence[object], named: Mapping[str, object], out: object) -> CheckReport:
    """`kernel.check` of a formula: runs the kernels that its graph becomes with a shadow of the memory.

    Raises TileError as a call does.
    """
    from tiledsl.api.programs.checked_programs import (  # costs start-up time
        CheckedProgram,
        Recorder,
        refuse_device_arrays,
    )

    refuse_device_arrays(("an argument", leaf) for leaf in graph.flatten(*args, **named))
    recorder = Recorder()

    def build(scheduled: Scheduled, arch: str) -> Built:
        programs: Any = tuple(CheckedProgram(function, recorder) for function in scheduled.functions)
        return Built(arch, "", scheduled.schedule, plan_memory(scheduled.schedule), programs)

    return recorder.report(BuiltGraph(FusedGraph(graph), "reference", {}, build=build)(*args, out=out, **named))


def _none_measured(arch: str) -> Mapping[str, bool]:
    """What programs are made of that are not run as they are: the model decides on their kernels."""
    del arch
    return {}


def _likeness(args: Sequence[Any]) -> object:
    """Equal for arguments that one module is for: arrays of the same shapes on the same device. None for structures."""
    try:
        return tuple([(value.__class__, value.shape, getattr(value, "device", None)) for value in args])
    except AttributeError:
        return None
