"""Whether a model gives, compiled, what the reference executor gives; and if not, where it begins to differ.

Every launch runs twice on the same inputs, which are those that the compiled model has: compiled, and by the reference
executor. So the first launch that differs is at fault, however far the fault spreads. Where none does, and results
differ all the same, the fault is in what was made of the graph before: the passes are run one by one, and the graph
after each of them by the reference executor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tiledsl.api.calls.targets import target_of
from tiledsl.api.graphs.check_steps import CheckedSteps, Compared
from tiledsl.api.graphs.graph import Graph
from tiledsl.api.pages.explain_module import buffer_text, counted, ops_text
from tiledsl.api.reports.text_tables import columns, paragraph
from tiledsl.api.schedules.built_module import Build, build_for
from tiledsl.api.schedules.module_weights import host_array
from tiledsl.api.schedules.schedule_graph import schedule_graph
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.core import Module
from tiledsl.passes.graph.pipeline import graph_pipeline
from tiledsl.passes.graph.rewrites.set_sizes import SetSizes
from tiledsl.passes.manager import PassManager
from tiledsl.runtime.arrays.arrays import Array
from tiledsl.runtime.arrays.compare_arrays import compare
from tiledsl.runtime.programs.schedule import Buffer, Step
from tiledsl.support.progress import Progress


@dataclass(frozen=True)
class LaunchAtFault:
    """The first launch whose code gives something else than the reference, on the same inputs."""

    number: int
    launches: int
    step: Step
    tensor: Compared

    def __str__(self) -> str:
        place = f"{self.step.source}: " if self.step.source else ""
        return (
            f"launch {self.number + 1} of {self.launches}, `{self.step.name}` ({place}{ops_text(self.step)}), gives "
            "something else than the reference, on the same inputs: "
            f"`{self.tensor.name}` {self.tensor.type} {self.tensor.figures}"
        )


@dataclass(frozen=True)
class ModelReport:
    """What `check_model` found. `str()` has all of it; `ok` is whether all results are those of the reference.

    `results`: what the compiled model gave. `launch`: where compiled code begins to differ. `by_pass`: the pass after
    which the graph gives something else. `than`: what the results are compared with.
    """

    name: str
    launches: int
    outputs: tuple[Compared, ...]
    results: tuple[Array, ...]
    launch: LaunchAtFault | None = None
    by_pass: str = ""
    than: str = "the reference"

    @property
    def ok(self) -> bool:
        return self.launch is None and not any(output.figures.wrong for output in self.outputs)

    def __str__(self) -> str:
        rows = [("result", "type", "largest difference", "of the typical size", "")]
        for output in self.outputs:
            figures = output.figures
            verdict = f"differs {figures}" if figures.wrong else "the same, but for rounding"
            rows.append((output.name, output.type, f"{figures.worst:.3g}", f"{figures.relative:.2g}", verdict))
        launches = counted(self.launches, "launch")
        lines = [f"{self.name}, {launches}, beside {self.than}", *columns(rows)]
        if self.launch is not None:
            lines += paragraph(str(self.launch), 0, 2)
        elif self.by_pass:
            lines += paragraph(
                f"compiled code does what it should; the graph means something else after `{self.by_pass}`", 0
            )
        elif self.ok:
            lines.append("nothing differs")
        return "\n".join(lines)


def check_model(
    graph: Graph, arguments: Sequence[Array], sizes: Mapping[str, int], arch: str = "cpu", build: Build = build_for
) -> ModelReport:
    """Compares a graph, compiled for `arch`, with the reference executor. TileError: it cannot be compiled, or there
    is no device for `sm_90` or any other GPU.

    `arguments` are arrays in the order of `graph.inputs`, in CPU memory; `sizes` those that the graph leaves open. What
    takes long says so on standard error. `build` compiles the launches.
    """
    arch = target_of(arch).name
    passes = [SetSizes(tuple(sizes.items())), *graph_pipeline(arch)]
    lowered = PassManager(passes).run(graph.module)
    scheduled = schedule_graph(lowered, graph.inputs, graph.constants.keys())
    built = build(scheduled, arch)
    weights = {name: host_array(array, name) for name, array in graph.constants.items()}
    given = [*arguments, *weights.values()]
    expected = execute_graph(graph.module.entry, given, graph.module)
    steps = CheckedSteps(built, scheduled.functions)
    named = {**dict(zip(graph.inputs, arguments)), **weights, **scheduled.literals}
    fault, results = steps.run(named)
    launches = len(scheduled.schedule.steps)
    launch = None if fault is None else LaunchAtFault(fault[0], launches, *fault[1:])
    outputs = _compared([scheduled.schedule.buffers[n] for n in scheduled.schedule.outputs], results, expected)
    report = ModelReport(graph.name, launches, outputs, tuple(results), launch)
    if report.ok or launch is not None:
        return report
    return replace(report, by_pass=_pass_at_fault(graph, given, sizes, expected, arch))


def beside(report: ModelReport, expected: Sequence[Array], framework: str) -> ModelReport:
    """The results of a compiled model beside those of the framework that it comes from, in the same order."""
    pairs = zip(report.outputs, report.results, expected)
    outputs = tuple(replace(output, figures=compare(result, wanted)) for output, result, wanted in pairs)
    return ModelReport(report.name, report.launches, outputs, report.results, than=framework)


def _compared(buffers: Sequence[Buffer], results: Sequence[Array], expected: Sequence[Array]) -> tuple[Compared, ...]:
    names = ["out"] if len(results) == 1 else [f"out[{number}]" for number in range(len(results))]
    found = zip(names, buffers, results, expected)
    return tuple(Compared(name, buffer_text(b), compare(result, wanted)) for name, b, result, wanted in found)


def _pass_at_fault(
    graph: Graph, given: Sequence[Array], sizes: Mapping[str, int], expected: Sequence[Array], arch: str
) -> str:
    passes = [SetSizes(tuple(sizes.items())), *graph_pipeline(arch)]
    progress = Progress("running the graph after each pass", len(passes))
    order = [p.name for p in graph.module.entry.parameters]
    by_name = dict(zip(order, given))
    for count, last in enumerate(passes, 1):
        module: Module = PassManager(passes[:count]).run(graph.module)
        arrays = [by_name[parameter.name] for parameter in module.entry.parameters]
        results = execute_graph(module.entry, arrays, module)
        if any(compare(result, wanted).wrong for result, wanted in zip(results, expected)):
            return last.name
        progress.step()
    return ""
