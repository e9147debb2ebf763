"""What commands print with `--json`: the facts of reports as plain data. Times are seconds, sizes bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tiledsl.support.errors import TileError

if TYPE_CHECKING:
    from tiledsl.api.graphs.check_model import ModelReport
    from tiledsl.api.graphs.check_steps import Compared
    from tiledsl.api.pages.audit import Audit
    from tiledsl.api.programs.checked_programs import CheckReport


def json_text(data: object) -> str:
    """As it is printed."""
    return json.dumps(data, indent=2)


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


def _compared(tensor: Compared) -> dict[str, Any]:
    figures = tensor.figures
    return {
        "name": tensor.name, "type": tensor.type, "largest_difference": float(figures.worst),
        "of_the_typical_size": float(figures.relative), "wrong": int(figures.wrong), "elements": int(figures.count),
    }  # fmt: skip
