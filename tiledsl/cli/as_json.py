"""What commands print with `--json`: the facts of reports as plain data. Times are seconds, sizes bytes."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from tiledsl.runtime.programs.program import PlannedProgram
from tiledsl.support.errors import TileError

if TYPE_CHECKING:
    from tiledsl.api.calls.tuning import TuneReport
    from tiledsl.api.graphs.check_model import ModelReport
    from tiledsl.api.graphs.check_steps import Compared
    from tiledsl.api.modules.module import Module
    from tiledsl.api.pages.audit import Audit
    from tiledsl.api.programs.checked_programs import CheckReport
    from tiledsl.autotune.records.record import Trial
    from tiledsl.backend_ref.emulator.emulate import EmulatorWarning
    from tiledsl.cli.verify_kernel import Verified
    from tiledsl.runtime.programs.artifact import Note


def json_text(data: object) -> str:
    """As it is printed. JSON has no word for numbers that are infinite or none: these are null."""
    return json.dumps(_finite(data), indent=2, allow_nan=False)


def _finite(data: Any) -> Any:
    match data:
        case float():
            return data if math.isfinite(data) else None
        case dict():
            return {key: _finite(value) for key, value in cast("dict[str, Any]", data).items()}
        case list() | tuple():
            return [_finite(value) for value in cast("list[Any]", data)]
        case _:
            return data


def show(options: argparse.Namespace, text: object, data: object) -> None:
    """Prints the text of something, for people; or, with `--json`, its facts."""
    print(json_text(data) if options.json else text)


def audit_data(audit: Audit) -> dict[str, Any]:
    """An audit, with each of its kernels."""
    kernels = [
        {
            "name": one.kernel.name, "place": str(one.kernel.location), "runs": one.runs, "plan": one.kernel.plan,
            "must_bytes": one.kernel.must_bytes, "moved_bytes": one.kernel.moved_bytes,
            "tensor_core_share": one.kernel.tensor_core_share, "predicted": one.kernel.predicted,
            "floor": one.kernel.floor, "ratio": one.kernel.ratio, "bound_by": one.kernel.bound,
            "exact": one.kernel.exact, "refused": list(one.refused),
        }
        for one in audit.kernels
    ]  # fmt: skip
    return {
        "name": audit.name, "arch": audit.arch, "predicted": audit.predicted, "floor": audit.floor,
        "ratio": audit.ratio, "must_bytes": audit.must_bytes, "moved_bytes": audit.moved_bytes, "kernels": kernels,
    }  # fmt: skip


def check_data(report: CheckReport) -> dict[str, Any]:
    """What `kernel.check` found, without the results."""
    return {"ok": report.ok, "errors": [error_data(error) for error in report.errors], "notes": list(report.notes)}


def model_data(report: ModelReport) -> dict[str, Any]:
    """What a comparison of a model found, without the results."""
    fault = report.launch
    return {
        "ok": report.ok, "name": report.name, "beside": report.than, "launches": report.launches,
        "results": [_compared(output) for output in report.outputs],
        "launch_at_fault": None if fault is None else {"number": fault.number, **_compared(fault.tensor)},
        "pass_at_fault": report.by_pass or None,
    }  # fmt: skip


def error_data(error: TileError) -> dict[str, Any]:
    """An error of the catalogue, with its place."""
    place = None if error.location is None else str(error.location)
    return {
        "kind": type(error).__name__, "code": error.code, "place": place, "message": error.message, "fix": error.fix,
    }  # fmt: skip


def warning_data(warning: EmulatorWarning) -> dict[str, Any]:
    """A warning of the emulator; `turns` of shared memory are what it costs."""
    return {
        "code": warning.code, "place": str(warning.location), "message": warning.message, "turns": warning.count,
    }  # fmt: skip


def verified_data(found: Verified) -> dict[str, Any]:
    """What `tiledsl verify` found; `wrong` is the smallest call that differs."""
    trial = found.wrong
    wrong = None if trial is None else {
        "sizes": dict(trial.sizes), "layout": trial.layout, "values": trial.values,
        "dtype": None if trial.dtype is None else trial.dtype.name, "seed": trial.seed, "how": found.reason,
    }  # fmt: skip
    return {"ok": trial is None, "calls": found.calls, "refused": found.refused, "wrong": wrong}


def module_data(module: Module) -> dict[str, Any]:
    """A module as `explain` tells it: launches in order, bytes, memory, decisions."""
    built = module.built
    schedule = built.schedule
    launches: list[dict[str, Any]] = []
    for step in schedule.steps:
        program, names = built.programs[step.program], [schedule.buffers[one.buffer].name for one in step.tensors]
        launches.append(
            {
                "kernel": step.name, "source": step.source or None, "ops": dict(Counter(step.ops)),
                "reads": [name for number, name in enumerate(names) if number not in step.written],
                "writes": [names[number] for number in step.written],
                "read_bytes": step.read_bytes, "written_bytes": step.written_bytes,
                "plan": program.description if isinstance(program, PlannedProgram) else None,
                "origin": program.origin if isinstance(program, PlannedProgram) else None,
            }
        )  # fmt: skip
    roles = {"arguments": "input", "weights": "constant", "results": "output"}
    memory = {
        name: sum(buffer.bytes for buffer in schedule.buffers if buffer.role == role) for name, role in roles.items()
    }
    return {
        "name": schedule.name, "arch": built.arch, "launches": launches, "seconds_to_compile": built.seconds,
        "memory": {**memory, "in_between": built.memory.bytes, "in_between_unshared": built.memory.unshared_bytes},
        "moved_bytes": schedule.traffic, "moved_bytes_unfused": module.unfused_bytes,
        "notes": note_data(module.notes),
    }  # fmt: skip


def note_data(notes: Sequence[Note]) -> list[dict[str, Any]]:
    """What passes decided, each once."""
    return [{"text": note.text, "pass": note.pass_name} for note in dict.fromkeys(notes)]


def array_data(name: str, value: Any) -> dict[str, Any]:
    """A result: dtype, shape and range of an array; how many there are in a sequence."""
    if not hasattr(value, "dtype"):
        return {"name": name, "dtype": None, "elements": 0 if value is None else len(value)}
    numbers = value.size and value.dtype.kind in "fiu"
    least, most = (value.min().item(), value.max().item()) if numbers else (None, None)
    return {"name": name, "dtype": str(value.dtype), "shape": list(value.shape), "least": least, "most": most}


def tune_data(report: TuneReport) -> dict[str, Any]:
    """What searches came to; trials as `tiledsl db export` writes them."""
    outcomes = [{**asdict(outcome), "gain": outcome.gain} for outcome in report.outcomes]
    kept = {"database": str(report.database), "notes": list(report.notes)}
    return {"finished": report.finished, **kept, "searches": outcomes}


def trial_data(trial: Trial) -> dict[str, Any]:
    """A plan of a search, without the question."""
    return {name: value for name, value in asdict(trial).items() if name != "question"}


def _compared(tensor: Compared) -> dict[str, Any]:
    figures = tensor.figures
    return {
        "name": tensor.name, "type": tensor.type, "largest_difference": float(figures.worst),
        "of_the_typical_size": float(figures.relative), "wrong": int(figures.wrong), "elements": int(figures.count),
    }  # fmt: skip
