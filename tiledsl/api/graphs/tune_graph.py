"""`tiledsl.tune` of graphs and modules: their launches are tasks, of which those that weigh most are searched first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tiledsl.api.calls.tuning import TuneReport, TuneRequest, search_one
from tiledsl.api.graphs.fused import BuiltGraph, FusedGraph
from tiledsl.api.graphs.tune_groupings import groupings_here, tune_groupings
from tiledsl.api.schedules.built_module import Built, compiled_for
from tiledsl.api.schedules.schedule_graph import schedule_graph
from tiledsl.api.schedules.tune_schedule import DEVICE, Extracted, tasks_of
from tiledsl.autotune.measuring.staff import Staff
from tiledsl.autotune.records.database import Writer
from tiledsl.autotune.searching.outcome import Outcome
from tiledsl.autotune.searching.scheduler import Scheduler, Weighed
from tiledsl.autotune.searching.search import FEWEST_SECONDS, Searches, check_budget
from tiledsl.autotune.searching.task import Budget


def tune_graph(fused: FusedGraph, arch: str, sizes: Mapping[str, int], request: TuneRequest) -> TuneReport:
    """Searches for plans for all that a module of the graph launches; `request.seconds` are for all of them."""
    with Staff() as staff:
        if arch.startswith("sm_") and request.fleet is None:
            staff.begin(DEVICE)
        check_budget(request.budget)
        began = time.monotonic()
        decided = tune_groupings(fused, arch, sizes, request, staff)
        lowered, _ = fused.lowered_before(arch, sizes, groupings_here(request, arch))
        scheduled = schedule_graph(lowered, fused.graph.inputs, fused.graph.constants)
        left = max(FEWEST_SECONDS, request.seconds - (time.monotonic() - began if decided.outcomes else 0))
        report = tune_built(compiled_for(scheduled, arch), replace(request, seconds=left), staff)
    notes = (*decided.late, *decided.failed, *report.notes)
    outcomes, complete = (*decided.outcomes, *report.outcomes), report.complete and not decided.late
    return replace(report, outcomes=outcomes, notes=notes, complete=complete)


def tune_built(
    built: Built, request: TuneRequest, staff: Staff, clock: Callable[[], float] = time.monotonic
) -> TuneReport:
    """The same for a module that was compiled. `clock` gives seconds."""
    check_budget(request.budget)
    plans = request.plans()
    plans.refresh()
    extracted, left_out = tasks_of(built, libraries=request.libraries)
    outcomes: list[Outcome] = []
    with Writer(plans.database) as writer:
        searches = Searches(writer, request.listener, clock)
        open_ones: list[Extracted] = []
        known_ones: list[Extracted] = []
        for one in extracted:
            known = searches.known(one.prepared.task)
            if known is None:
                open_ones.append(one)
            else:
                known_ones.append(one)
                outcomes.append(known)
                request.listener.done(one.prepared.task, known)
        size = 1 if request.fleet is None else request.fleet.size
        others = [weighed(one) for one in known_ones] if open_ones else []
        scheduler = Scheduler([weighed(one) for one in open_ones], request.seconds, clock, size, others)
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    handed = scheduler.next()
                if handed is None:
                    return
                number, seconds = handed
                budget = Budget(max(seconds, FEWEST_SECONDS), request.trials)
                outcome = search_one(searches, open_ones[number].prepared, budget, request.fleet or staff)
                with lock:
                    scheduler.gained(number, 1 - 1 / outcome.gain)
                    outcomes.append(outcome)

        if size == 1:
            work()
        else:
            with ThreadPoolExecutor(size) as pool:
                for done in [pool.submit(work) for _ in range(size)]:
                    done.result()
        late = [open_ones[number].prepared.task.kernel for number in scheduler.left]
    notes = list(left_out)
    notes += [f"{open_ones[n].prepared.task.kernel}: too little of the whole to search for" for n in scheduler.skipped]
    notes += [f"{name}: there was no time left for it" for name in late]
    return TuneReport(tuple(outcomes), plans.database.folder, tuple(notes), complete=not late)


def weighed(one: Extracted) -> Weighed:
    """A task as the scheduler sees it: with the model's times, of which only ratios count."""
    task = one.prepared.task
    family = "product" if "tile.dot" in task.text else "fold" if "tile.reduce" in task.text else "stream"
    return Weighed(task.kernel, family, one.launches, task.pick.predicted or 0.0, task.floor or 0.0)


def fused_of(target: FusedGraph | BuiltGraph) -> tuple[FusedGraph, str | None, dict[str, int]]:
    """The graph of what was built of it, what it was built for, and with which sizes."""
    if isinstance(target, BuiltGraph):
        return target.fused, target.arch, target.sizes
    return target, None, {}
