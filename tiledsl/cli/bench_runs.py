"""Who runs a model for `tiledsl bench`, and how long calls take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tiledsl.api.graphs.fused import BuiltGraph, FusedGraph
from tiledsl.api.modules.module import Module
from tiledsl.api.reports.text_tables import size
from tiledsl.cli.bench_cases import Case
from tiledsl.cli.load_model import need
from tiledsl.support.errors import TileError, fail

AGAINST = ("eager", "compile", "onnxruntime")
FEWEST = 5
"""Calls that are timed at least."""
_UNKNOWN = "-"


@dataclass(frozen=True)
class Runner:
    """`run` makes one call, and ends when the results are there. `about` tells memory, kernels and the floor in
    seconds, as far as these are known, once a call was made."""

    run: Callable[[], object]
    about: Callable[[], tuple[str, str, float | None]]


@dataclass(frozen=True)
class Timed:
    """Seconds of a call: `median`, and `slow`, which nine of ten calls take at most."""

    median: float
    slow: float
    calls: int
    memory: str
    kernels: str
    share: str


def runners(case: Case, against: Sequence[str]) -> Iterator[tuple[str, Callable[[], Runner]]]:
    """By name, what prepares each way to run the case. Raises TileError for what cannot run such a model."""
    prepared: dict[str, Callable[[], Runner]] = {"tiledsl": lambda: _own(case)}
    for name in against:
        prepared[name] = _onnxruntime(case) if name == "onnxruntime" else _pytorch(case, name)
    yield from prepared.items()


def timed(prepare: Callable[[], Runner], seconds: float, clock: Callable[[], float] = time.perf_counter) -> Timed | str:
    """Calls for about so many seconds, after a few that are not timed; or why it cannot be run."""
    try:
        runner = prepare()
        for _ in range(3):
            runner.run()
    except TileError:
        raise
    except Exception as error:  # of another library, which the others can do without
        return f"{type(error).__name__}: {(str(error).strip() or 'no reason was given').splitlines()[0]}"
    times: list[float] = []
    began = clock()
    while len(times) < FEWEST or clock() - began < seconds:
        start = clock()
        runner.run()
        times.append(clock() - start)
    times.sort()
    median, slow = times[len(times) // 2], times[min(len(times) - 1, len(times) * 9 // 10)]
    memory, kernels, floor = runner.about()
    return Timed(median, slow, len(times), memory, kernels, _UNKNOWN if floor is None else f"{floor / median:.0%}")


def _own(case: Case) -> Runner:
    wait = _wait(case)
    call, arguments = case.call, [value for value in case.arguments if not isinstance(value, (int, float, bool))]
    given = case.arguments if case.graph is None else arguments

    def run() -> None:
        call(*given)
        wait()

    return Runner(run, lambda: _about(case))


def _about(case: Case) -> tuple[str, str, float | None]:
    modules = case.call.modules if isinstance(case.call, BuiltGraph) else [case.call]
    if not modules or not isinstance(modules[-1], Module):
        return _UNKNOWN, _UNKNOWN, None
    built = modules[-1].built
    weights = sum(built.schedule.buffers[number].bytes for number in built.schedule.constants)
    floor = None
    if case.graph is not None and built.arch.startswith("sm_"):
        floor = FusedGraph(case.graph).audit(built.arch, **dict(case.sizes or {})).floor
    return size(built.memory.bytes + weights), str(len(built.schedule.steps)), floor


def _pytorch(case: Case, name: str) -> Callable[[], Runner]:
    if case.torch_model is None:
        fail("command-against", None, model=case.name, against=name, reason="it is no model of PyTorch")
    torch = need("torch", "torch", f"`--against {name}`")

    def prepare() -> Runner:
        model = case.torch_model if name == "eager" else torch.compile(case.torch_model)
        wait = _wait(case)

        def run() -> None:
            with torch.no_grad():
                model(*case.arguments)
            wait()

        def about() -> tuple[str, str, float | None]:
            if case.device == "cpu":
                return _UNKNOWN, _UNKNOWN, None
            return size(torch.cuda.max_memory_allocated()), _UNKNOWN, None

        if case.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        return Runner(run, about)

    return prepare


def _onnxruntime(case: Case) -> Callable[[], Runner]:
    if not case.onnx:
        fail("command-against", None, model=case.name, against="onnxruntime", reason="it is no file of ONNX")
    onnxruntime = need("onnxruntime", "", "`--against onnxruntime`")

    def prepare() -> Runner:
        wanted = ["CUDAExecutionProvider"] if case.device == "cuda" else []
        session = onnxruntime.InferenceSession(case.onnx, providers=[*wanted, "CPUExecutionProvider"])
        names = [value.name for value in session.get_inputs()]
        values = [value.cpu().numpy() if hasattr(value, "cpu") else value for value in case.arguments]
        given = dict(zip(names, values))
        return Runner(lambda: session.run(None, given), lambda: (_UNKNOWN, _UNKNOWN, None))

    return prepare


def _wait(case: Case) -> Callable[[], object]:
    """What waits until all that was launched is done."""
    if case.device == "cpu":
        return lambda: None
    return need("torch", "torch", "`--device cuda`").cuda.synchronize
