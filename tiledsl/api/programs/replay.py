"""What a database found, held against the code of today: a program's text is compiled again, and where its code is
another one than was measured, the plans are measured again."""

from __future__ import annotations

from collections.abc import Iterator

from tiledsl.api.calls.cpu_tasks import cpu_task
from tiledsl.api.calls.targets import target_of
from tiledsl.api.calls.tuning import search_one
from tiledsl.autotune.measuring.given import DrawnArrays
from tiledsl.autotune.measuring.staff import Staff
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.records.record import Search
from tiledsl.autotune.searching.search import Searches, check_budget
from tiledsl.autotune.searching.task import Budget
from tiledsl.autotune.sources import PinnedPlan
from tiledsl.backend_cpu.calls.program import CpuProgram
from tiledsl.backend_cuda.program import CudaProgram, code_digest
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.machine import describe_cpu
from tiledsl.runtime.programs.interface import Interface, ScalarParameter, interface_of
from tiledsl.runtime.programs.plan_source import GROUPING, PlanQuestion
from tiledsl.support.errors import TileError


def replay(database: Database, seconds: float) -> Iterator[tuple[str, PlanQuestion, str]]:
    """For the last search of each question: its kernel, and what became of it. `seconds`: for a search that is made
    again."""
    check_budget(Budget(seconds))
    with Writer(database) as writer:
        for question in list(database.entries.searches):
            search = database.best(question)
            text = database.entries.programs.get(question.program)
            assert search is not None
            if text is None:
                yield search.kernel, question, "the text of its program is missing"
                continue
            try:
                yield search.kernel, question, _replayed(writer, question, search, text.text, seconds)
            except TileError as error:
                yield search.kernel, question, f"it can no longer be compiled: {error.message}"


def _replayed(writer: Writer, question: PlanQuestion, search: Search, text: str, seconds: float) -> str:
    module = parse_module(text)
    if question.program.startswith(GROUPING):
        return f"builds make {search.winner} of its ops, as long as the model has both for about as fast"
    interface = interface_of(module.entry)
    program = target_of(question.target).compile(module).program
    if isinstance(program, CudaProgram):
        return _of_gpu(program, question, search)
    assert isinstance(program, CpuProgram)
    if describe_cpu(program.machine) != question.device:
        return "it is of another machine"
    if program.identity == question.program:
        return "its code is as it was"
    sizes = dict(question.sizes)
    arguments = DrawnArrays.of(interface, sizes, question.strides)
    prepared = cpu_task(program, interface, text, sizes, question.strides, arguments, _numbers(interface))
    with Staff() as staff:
        outcome = search_one(Searches(writer), prepared, Budget(seconds), staff)
    known = "known" if outcome.known else "measured again"
    return f"its code has changed; {known}: {outcome.gain:.3f} times as fast as the model's pick"


def _of_gpu(program: CudaProgram, question: PlanQuestion, search: Search) -> str:
    """Whether the code of the winner is as it was, which takes no GPU."""
    told: list[str] = []
    variant = program.tuned(PinnedPlan(search.winner, told.append), question)
    if variant is None:
        return f"its plan can no longer be compiled: {told[0]}"
    return "its code is as it was" if code_digest(variant) == search.code else "its code has changed"


def _numbers(interface: Interface) -> list[int | float]:
    return [1 for parameter in interface.parameters if isinstance(parameter, ScalarParameter)]
