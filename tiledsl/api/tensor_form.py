"""Calls of kernels in tensor form: traced once for each kind of arguments, then run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tiledsl.api.fused import BuiltGraph, FusedGraph
from tiledsl.api.graph import Graph
from tiledsl.api.notebook import folded
from tiledsl.frontend.trace.structures import Keyed, Sequenced, Static, Structure, structure_of
from tiledsl.frontend.trace.trace_function import is_tensor_like, trace_function
from tiledsl.runtime.captured import Captured, Watched
from tiledsl.runtime.missed import MISSED
from tiledsl.runtime.parameters import Parameters
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

if TYPE_CHECKING:
    from tiledsl.api.check import CheckReport
    from tiledsl.api.emulate import Emulated, Request
    from tiledsl.api.module_kernels import ModuleKernel


class TensorForm:
    """All that is traced of one kernel. Threads may share it."""

    def __init__(self, function: FunctionType, parameters: Parameters) -> None:
        self._function = function
        self._parameters = parameters
        self._lock = threading.Lock()
        self._graphs: dict[object, tuple[Graph, BuiltGraph]] = {}
        self._quick: dict[object, BuiltGraph] = {}
        """What runs calls of nothing but arrays, by their types, dtypes and shapes."""
        self._recent: BuiltGraph | None = None
        """What ran the last call of nothing but arrays."""
        self._watched: tuple[Watched, ...] = ()

    def call(self, args: tuple[object, ...], kwargs: Mapping[str, object], out: object) -> Any:
        """Runs the kernel on arrays. Raises TileError."""
        recent = self._recent
        if recent is not None and recent.quick is not None and not kwargs and self._is_current():
            result = recent.quick(args, out)
            if result is not MISSED:
                return result
        likeness = None if kwargs else _likeness(args)
        run = self._quick.get(likeness)
        if run is not None and self._is_current():
            self._recent = run
            return run(*args, out=out)
        values = self._parameters.arrange(args, kwargs)
        graph, run = self._found(values)
        if likeness is not None and len(args) == len(values) and all(map(is_tensor_like, args)):
            self._quick[likeness] = run
        given = dict(zip(self._parameters.names, values))
        return run(*(given[name] for name in graph.tensor_arguments), out=out)

    def check(self, values: tuple[object, ...], out: object) -> CheckReport:
        """Runs the formula with a shadow of the memory; `values` are in the order of the parameters."""
        from tiledsl.api.check import check_graph  # costs start-up time

        graph = self._found(values)[0]
        given = dict(zip(self._parameters.names, values))
        return check_graph(graph, [given[name] for name in graph.tensor_arguments], {}, out)

    def emulated(self, values: tuple[object, ...], out: object, request: Request) -> Emulated:
        """Runs the kernels that the formula becomes on a GPU in the emulator."""
        from tiledsl.api.emulate_graph import emulate_graph  # costs start-up time

        graph = self.graph_of(values)
        given = dict(zip(self._parameters.names, values))
        return emulate_graph(graph, [given[name] for name in graph.tensor_arguments], {}, out, request)

    def prepare(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], out: object
    ) -> tuple[Callable[[], object], object, object]:
        """A call for `Kernel.bind`: its outputs are written anew each time."""
        result = self.call(args, kwargs, out)
        leaves: list[Any] = []
        structure_of(result, "result", is_tensor_like, leaves)
        outputs: object = leaves[0] if len(leaves) == 1 else tuple(leaves)
        return lambda: self.call(args, kwargs, outputs), result, (args, kwargs)

    def graph_of(self, values: tuple[object, ...]) -> Graph:
        """The graph for arguments (or specs) in the order of the parameters."""
        return self._found(values)[0]

    def compile(self, specs: tuple[object, ...], named: Mapping[str, object], arch: str | None) -> CompiledFormula:
        """The formula compiled for arguments like these."""
        return CompiledFormula(self.graph_of(self._parameters.arrange(specs, named)), arch)

    def explain(self) -> str:
        """What became of each graph so far."""
        return "\n\n".join(run.explain() for _, run in list(self._graphs.values()))

    def _found(self, values: tuple[object, ...]) -> tuple[Graph, BuiltGraph]:
        key = tuple(map(_key, values))
        with self._lock:
            if not self._is_current():
                self._quick.clear()
                self._recent = None
                self._graphs.clear()
            if key not in self._graphs:
                self._watched = tuple(Captured(self._function).watched)
                self._graphs[key] = self._traced(values)
            return self._graphs[key]

    def _is_current(self) -> bool:
        """Whether what the formula reads from outside is what it was when it was traced."""
        return all(watched.current is watched.value for watched in self._watched)

    def _traced(self, values: tuple[object, ...]) -> tuple[Graph, BuiltGraph]:
        traced = trace_function(self._function, (), dict(zip(self._parameters.names, values)))
        graph = Graph(traced.module, traced.inputs, traced.constants, traced.arguments, traced.result)
        return graph, runner_of(graph)


def runner_of(graph: Graph) -> BuiltGraph:
    """What runs the graph of a formula that is called: fused, where its arrays are."""
    return FusedGraph(graph).build(None)


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
    """Equal for arrays that give one graph; None if an argument has no dtype or shape. Cheaper than `_key`."""
    try:
        key = tuple([(a.__class__, a.dtype, a.shape) for a in args])
        hash(key)
        return key
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
