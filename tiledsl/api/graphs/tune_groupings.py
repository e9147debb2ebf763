"""Searches for groupings of a graph: near ties of the model's groups are tasks, each of which has two plans.

A decision is kept by what the tie is known by, so that builds of any graph that has it follow it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field

from tiledsl.api.calls.targets import target_of, worker_threads
from tiledsl.api.calls.tuning import Prepared, TuneRequest, search_one
from tiledsl.api.graphs.fused import FusedGraph
from tiledsl.api.graphs.grouping_workload import GroupingWorkload
from tiledsl.api.schedules.tune_schedule import DEVICE
from tiledsl.autotune.candidates.candidate import Candidate
from tiledsl.autotune.measuring.host import Fleet
from tiledsl.autotune.measuring.runner import Runner
from tiledsl.autotune.measuring.staff import Staff
from tiledsl.autotune.records.database import Writer
from tiledsl.autotune.searching.outcome import Outcome
from tiledsl.autotune.searching.search import FEWEST_SECONDS, Searches
from tiledsl.autotune.searching.task import Budget, Task
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.gpu_machine import architecture_of
from tiledsl.passes.graph.groups.alternatives import Alternative, alternatives
from tiledsl.passes.graph.groups.ties import Tie
from tiledsl.passes.machine import describe_cpu, host
from tiledsl.passes.manager import PassContext
from tiledsl.runtime.programs.cache import compiler_identity, digest, disk_cache
from tiledsl.runtime.programs.plan_source import APART, GROUPING, TOGETHER, PlanQuestion
from tiledsl.support.errors import TileError
from tiledsl.support.options import LOG, read_options

SHARE = 0.4
"""Of the seconds of a search for a module, for its groupings: what its kernels are counts more than how they run, and
plans are searched for those that are left."""
ONE_SECONDS = 10.0
"""For one tie, at most."""
ROUNDS = 2
"""How often near ties are looked for: one that was decided anew may bring others."""
LEAST_WORTH = 0.005
"""Of the seconds of the module by the model, below which a tie is not worth a search."""


@dataclass
class Decided:
    """What came of near ties. `late`: what there was no time for; `failed`: what could not be measured, and why."""

    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    late: list[str] = field(default_factory=list[str])
    failed: list[str] = field(default_factory=list[str])


def device_here(arch: str) -> str:
    """What a graph is measured on, in words. Raises TileRuntimeError where there is no GPU."""
    if arch == "cpu":
        return describe_cpu(host())
    from tiledsl.backend_cuda.driver import devices  # the driver

    return devices.describe_device(DEVICE)


def groupings_here(request: TuneRequest, arch: str) -> Mapping[str, bool]:
    """What was measured of a graph's groupings where it is searched for, as the database is now."""
    name, plans = target_of(arch).name, request.plans()
    if name == "reference":
        return {}
    plans.refresh()
    return plans.groupings(architecture_of(name), device_here(name))


def tune_groupings(
    fused: FusedGraph,
    arch: str,
    sizes: Mapping[str, int],
    request: TuneRequest,
    staff: Staff,
    clock: Callable[[], float] = time.monotonic,
) -> Decided:
    """Has near ties measured, what may be worth most first."""
    name, found = target_of(arch).name, Decided()
    if name == "reference":
        return found
    device = device_here(name)
    end = clock() + SHARE * request.seconds
    plans = request.plans()
    plans.refresh()
    with Writer(plans.database) as writer:
        searches = Searches(writer, request.listener, clock)
        for _ in range(ROUNDS):
            plans.refresh()
            decided = plans.groupings(architecture_of(name), device)
            done = {
                question.program.removeprefix(GROUPING)
                for question, found in plans.database.entries.searches.items()
                if question.program.startswith(GROUPING) and question.device == device and found[-1].finished
            }
            ties = read_or_find(fused, name, sizes, decided, done)
            found.late.clear()
            before = len(found.outcomes)
            for tie in ties:
                seconds, words = min(ONE_SECONDS, end - clock()), title(fused, tie)
                if seconds < FEWEST_SECONDS:
                    found.late.append(f"{words}: there was no time left for it")
                    continue
                prepared = grouping_task(words, tie, name, device)
                try:
                    found.outcomes.append(search_one(searches, prepared, Budget(seconds), request.fleet or staff))
                except TileError as error:  # one of the two cannot be compiled, or not be measured
                    found.failed.append(f"{words}: {error.message}")
            if not any(outcome.winner != outcome.pick for outcome in found.outcomes[before:]):
                break
    return found


def title(fused: FusedGraph, tie: Alternative) -> str:
    """`block: contract+add with reduce`"""
    return f"{fused.graph.name}: {tie.tie.words}"


def read_or_find(
    fused: FusedGraph, arch: str, sizes: Mapping[str, int], decided: Mapping[str, bool], done: Collection[str]
) -> list[Alternative]:
    """The near ties of a graph that no search was for (those of `done`), what may be worth most first; from the disk
    if they were looked for before."""
    options = read_options()
    disk = None if options.cache_directory is None else disk_cache(options.cache_directory, options.cache_bytes)
    text = print_module(fused.graph.module)
    given = f"{sorted(sizes.items())} {sorted(decided.items())} {sorted(done)}"
    entry = digest([compiler_identity(), target_of(arch).identity(), arch, "near ties", given, text])
    content = None if disk is None else disk.get(entry)
    if content is not None:
        with suppress(ValueError, KeyError, TypeError):
            return [_from_json(one) for one in json.loads(content)]
        LOG.warning("cache entry %s cannot be read; it is made anew", entry)
    module = fused.before_groups(arch, sizes)
    found = [] if module is None else alternatives(module, arch, PassContext(groupings=decided), done)
    worth = {id(one): one.places * max(one.seconds) for one in found}
    found.sort(key=lambda one: -worth[id(one)])
    found = [one for one in found if worth[id(one)] >= LEAST_WORTH * sum(worth.values())]
    if disk is not None:
        disk.put(entry, json.dumps([asdict(one) for one in found]).encode())
    return found


def _from_json(stored: dict[str, object]) -> Alternative:
    fields: dict[str, object] = {**stored, "tie": Tie(**stored["tie"]), "seconds": tuple(stored["seconds"])}  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownArgumentType]
    return Alternative(**fields)  # pyright: ignore[reportArgumentType]


def grouping_task(name: str, one: Alternative, arch: str, device: str) -> Prepared:
    """A near tie as a task. Both of its modules are compiled before anything is run, each by a thread, which raises
    TileError where one cannot be."""
    pick, other = (TOGETHER, APART) if one.tie.joined else (APART, TOGETHER)
    threads = worker_threads() if arch == "cpu" else 0
    question = PlanQuestion(GROUPING + one.tie.key, architecture_of(arch), device, (), threads=threads)
    kernels = ((pick, one.chosen), (other, one.other))
    workload = GroupingWorkload(one.text, arch, kernels, pick, device, DEVICE)
    candidate = Candidate(other, one.seconds[1], "the other decision")
    task = Task(name, question, one.text, pick, lambda winners, most: [candidate], lambda: one.seconds[0])

    def runner(who: Staff | Fleet) -> Runner:
        with ThreadPoolExecutor(2) as pool:  # for the disk, where those that measure find them
            for _ in pool.map(workload.module, (pick, other)):
                pass
        if isinstance(who, Fleet):
            return who.runner(workload)
        return who.crew(workload, workload.nbytes, on_gpu=arch != "cpu")

    return Prepared(task, runner)
