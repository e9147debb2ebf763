"""Calls of kernels in tensor form: traced once for each kind of arguments, then run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from tiledsl.api.graphs.fused import BuiltGraph, FusedGraph, check_graph
from tiledsl.api.graphs.graph import Graph
from tiledsl.api.reports.notebook import folded
from tiledsl.frontend.trace.structures import Keyed, Sequenced, Static, Structure, structure_of
from tiledsl.frontend.trace.trace_function import is_tensor_like, trace_function
from tiledsl.runtime.calls.captured import Captured, Watched, changed
from tiledsl.runtime.calls.missed import MISSED
from tiledsl.runtime.calls.parameters import Parameters
from tiledsl.runtime.calls.short_calls import Quick
from tiledsl.runtime.programs.plan_source import ACTIVE_PLANS
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

_PLAIN = (int, float, bool, str, type(None))
"""Classes of arguments that are constants of the graph, known by their text."""

if TYPE_CHECKING:
    from tiledsl.api.calls.tuning import TuneReport, TuneRequest
    from tiledsl.api.modules.module_kernels import ModuleKernel
    from tiledsl.api.programs.checked_programs import CheckReport
    from tiledsl.api.programs.emulate import Emulated, Request


@dataclass(frozen=True)
class _Traces:
    """What was traced while that which the formula reads from outside stayed the same."""

    watched: tuple[Watched, ...]
    graphs: dict[object, tuple[Graph, BuiltGraph]]
    calls: dict[object, FormulaCall]
    """Calls of nothing but arrays and plain numbers, by what tells graphs apart."""


class TensorForm:
    """All that is traced of one kernel. Threads may share it."""

    def __init__(self, function: FunctionType, parameters: Parameters) -> None:
        self._function = function
        self._parameters = parameters
        self._lock = threading.Lock()
        self._traces = _Traces((), {}, {})

    def call(self, args: tuple[object, ...], kwargs: Mapping[str, object], out: object) -> Called:
        """Runs the kernel on arrays. Raises TileError."""
        traces = self._current()
        likeness = None if kwargs else _likeness(args)
        if likeness is not None:
            likeness = ACTIVE_PLANS.get(), likeness
        call = traces.calls.get(likeness)
        if call is None:
            values = self._parameters.arrange(args, kwargs)
            traces, graph, run = self._found(values)
            if likeness is None:
                given = dict(zip(self._parameters.names, values))
                return Called(run(*(given[name] for name in graph.tensor_arguments), out=out), None, traces.watched)
            names = self._parameters.names
            taken = [place for place, name in enumerate(names[: len(args)]) if name in graph.tensor_arguments]
            call = traces.calls[likeness] = FormulaCall(run, args, taken)
        return Called(call.run(*call.arrays(args), out=out), call.quick, traces.watched)

    def check(self, values: tuple[object, ...], out: object) -> CheckReport:
        """Runs the formula with a shadow of the memory; `values` are in the order of the parameters."""
        graph = self.graph_of(values)
        given = dict(zip(self._parameters.names, values))
        return check_graph(graph, [given[name] for name in graph.tensor_arguments], {}, out)

    def tune(self, values: tuple[object, ...], request: TuneRequest) -> TuneReport:
        """Searches for plans for the kernels that the formula becomes where its arrays are. Later calls take them."""
        from tiledsl.api.calls.specs import arch_of_specs  # costs start-up time
        from tiledsl.api.graphs.tune_graph import tune_graph

        graph = self.graph_of(values)
        given = dict(zip(self._parameters.names, values))
        arch = arch_of_specs(graph.flatten(*(given[name] for name in graph.tensor_arguments)))
        report = tune_graph(FusedGraph(graph), arch, {}, request)
        with self._lock:
            self._traces = _Traces((), {}, {})
        return report

    def emulated(self, values: tuple[object, ...], out: object, request: Request) -> Emulated:
        """Runs the kernels that the formula becomes on a GPU in the emulator."""
        from tiledsl.api.graphs.emulate_graph import emulate_graph  # costs start-up time

        graph = self.graph_of(values)
        given = dict(zip(self._parameters.names, values))
        return emulate_graph(graph, [given[name] for name in graph.tensor_arguments], {}, out, request)

    def prepare(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], out: object
    ) -> tuple[Callable[[], object], object, object]:
        """A call for `Kernel.bind`: its outputs are written anew each time."""
        result = self.call(args, kwargs, out).result
        leaves: list[Any] = []
        structure_of(result, "result", is_tensor_like, leaves)
        outputs: object = leaves[0] if len(leaves) == 1 else tuple(leaves)
        return lambda: self.call(args, kwargs, outputs).result, result, (args, kwargs)

    def graph_of(self, values: tuple[object, ...]) -> Graph:
        """The graph for arguments (or specs) in the order of the parameters."""
        return self._found(values)[1]

    def compile(self, specs: tuple[object, ...], named: Mapping[str, object], arch: str | None) -> CompiledFormula:
        """The formula compiled for arguments like these."""
        return CompiledFormula(self.graph_of(self._parameters.arrange(specs, named)), arch)

    def explain(self) -> str:
        """What became of each graph so far."""
        return "\n\n".join(run.explain() for _, run in list(self._traces.graphs.values()))

    def _found(self, values: tuple[object, ...]) -> tuple[_Traces, Graph, BuiltGraph]:
        key = (ACTIVE_PLANS.get(), *map(_key, values))
        with self._lock:
            traces = self._current()
            if not traces.graphs:
                traces = self._traces = _Traces(tuple(Captured(self._function).watched), {}, {})
            found = traces.graphs.get(key)
            if found is None:
                found = traces.graphs[key] = self._traced(values)
            return traces, *found

    def _current(self) -> _Traces:
        """What was traced; nothing if what the formula reads from outside is no longer what it was then."""
        traces = self._traces
        return traces if changed(traces.watched) is None else _Traces((), {}, {})

    def _traced(self, values: tuple[object, ...]) -> tuple[Graph, BuiltGraph]:
        traced = trace_function(self._function, (), dict(zip(self._parameters.names, values)))
        graph = Graph(traced.module, traced.inputs, traced.constants, traced.arguments, traced.result)
        return graph, runner_of(graph)


def runner_of(graph: Graph) -> BuiltGraph:
    """What runs the graph of a formula that is called: fused, where its arrays are."""
    return FusedGraph(graph).build(None)


class Called(NamedTuple):
    """What came of a call. `quick` makes the next ones like it while nothing that is `watched` changes."""

    result: Any
    quick: Quick | None
    watched: tuple[Watched, ...]


class FormulaCall:
    """Calls like one of nothing but arrays and plain numbers, all in order."""

    def __init__(self, run: BuiltGraph, args: tuple[object, ...], taken: Sequence[int]) -> None:
        """`taken`: which of the arguments are arrays, which `run` takes."""
        self.run = run
        self._count = len(args)
        self._taken = tuple(taken)
        self._static = [(n, value.__class__, repr(value)) for n, value in enumerate(args) if n not in taken]

    def arrays(self, args: tuple[object, ...]) -> tuple[object, ...]:
        """The arguments that the graph takes."""
        return args if not self._static else tuple([args[place] for place in self._taken])

    @property
    def quick(self) -> Quick | None:
        """The short way, with all arguments; None where the module has none."""
        return self.run.quick if not self._static or self.run.quick is None else self._run_quickly

    def _run_quickly(self, args: tuple[Any, ...], out: Any) -> object:
        quick = self.run.quick
        if quick is None or len(args) != self._count:
            return MISSED
        for place, kind, text in self._static:
            if args[place].__class__ is not kind or repr(args[place]) != text:
                return MISSED
        return quick(self.arrays(args), out)


class CompiledFormula:
    """What `compile` gives for a kernel in tensor form: its fused graph, built for an architecture."""

    def __init__(self, graph: Graph, arch: str | None) -> None:
        self.graph = graph
        self.fused = FusedGraph(graph)
        self.built = self.fused.build(arch)
        self.arch = arch or "cpu"

    def __call__(self, *args: object, out: object = None, **kwargs: object) -> Any:
        """Runs it on the arguments of the formula that hold arrays. Raises TileError."""
        return self.built(*args, out=out, **kwargs)

    def ir(self, level: str = "graph") -> str:
        """The text of level `graph`, as it was traced, or `tile`: the programs that its groups become."""
        if level not in ("graph", "tile"):
            fail("level-unknown", caller_location(), arch=self.arch, level=level, known="`graph`, `tile`")
        return self.graph.ir() if level == "graph" else self.fused.ir(self.arch)

    def explain(self) -> str:
        """What was decided, and what it costs."""
        return self.built.explain()

    @property
    def kernels(self) -> dict[str, ModuleKernel]:
        """The kernels that the formula became, by name: `Module.kernels`."""
        return self.built.kernels

    def __repr__(self) -> str:
        return f"<{self.graph!r} for {self.arch}>"

    def _repr_html_(self) -> str:
        return folded(repr(self), self.explain)


def _likeness(args: tuple[Any, ...]) -> object:
    """Equal for arrays and numbers that give one graph; None if an argument is neither. Cheaper than `_key`."""
    try:
        key = tuple([
            (a.__class__, repr(a)) if a.__class__ in _PLAIN else (a.__class__, a.dtype, a.shape) for a in args
        ])  # fmt: skip
        hash(key)
        return key if all(a.__class__ in _PLAIN or is_tensor_like(a) for a in args) else None
    except (AttributeError, TypeError):
        return None


def _key(value: object) -> object:
    """Equal for arguments that give one graph: dtypes and shapes of arrays, and all of what is no array."""
    leaves: list[Any] = []
    structure = structure_of(value, "x", is_tensor_like, leaves)
    try:
        hash(structure)
    except TypeError:
        return object()  # a static argument that cannot be compared: traced anew
    return (structure, tuple(_static_texts(structure)), tuple((str(leaf.dtype), tuple(leaf.shape)) for leaf in leaves))


def _static_texts(structure: Structure) -> Iterator[str]:
    """What tells numbers apart that are equal to each other: 1, 1.0 and True; 0.0 and -0.0."""
    match structure:
        case Static(value=bool() | int() | float() as number):
            yield repr(number)
        case Sequenced(_, items):
            for item in items:
                yield from _static_texts(item)
        case Keyed(items):
            for _, item in items:
                yield from _static_texts(item)
        case _:
            return
