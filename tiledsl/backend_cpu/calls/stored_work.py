"""The cost model's view of a grid as JSON, to be kept beside the machine code."""

from __future__ import annotations

from typing import Any

from tiledsl.ir.symbolic import Dim, dim_from_text
from tiledsl.passes.cpu.grid_work import Axis, GridWork, Task
from tiledsl.passes.cpu.moving_loops import Begins, MovingLoop


def work_to_json(work: GridWork) -> dict[str, Any]:
    """Plain lists and numbers; sizes that are no numbers as their texts."""
    return {
        "axes": [_axis_to_json(axis) for axis in work.axes],
        "loops": [_axis_to_json(axis) for axis in work.loops],
        "tasks": [_task_to_json(task) for task in work.tasks],
        "programs": _write(work.programs),
        "tiles": [[_write(d) for d in shape] for shape in work.tiles],
        "moving": [_moving_to_json(loop) for loop in work.moving],
    }


def work_from_json(stored: dict[str, Any]) -> GridWork:
    """The inverse of `work_to_json`."""
    return GridWork(
        tuple(_axis_from_json(axis) for axis in stored["axes"]),
        tuple(_axis_from_json(axis) for axis in stored["loops"]),
        tuple(
            Task(kind, tuple(map(_read, dims)), weight, tuple(loops), run, across, in_registers, _read(times))
            for kind, dims, weight, loops, run, across, in_registers, times in stored["tasks"]
        ),
        _read(stored["programs"]),
        tuple(tuple(map(_read, shape)) for shape in stored["tiles"]),
        tuple(
            MovingLoop(name, _read(length), _read(block), tuple(Begins(s, _read(a), _read(b)) for s, a, b in begins))
            for name, length, block, begins in stored["moving"]
        ),
    )


def _task_to_json(task: Task) -> list[Any]:
    dims = [_write(dim) for dim in task.dims]
    return [
        task.kind, dims, task.weight, task.loops, task.run, task.across, task.in_registers, _write(task.times),
    ]  # fmt: skip


def _moving_to_json(loop: MovingLoop) -> list[Any]:
    begins = [[one.symbol, _write(one.step), _write(one.total)] for one in loop.begins]
    return [loop.name, _write(loop.length), _write(loop.block), begins]


def _axis_to_json(axis: Axis) -> list[Any]:
    return [axis.symbol, None if axis.length is None else _write(axis.length), axis.limit, axis.unit, axis.kind]


def _axis_from_json(stored: list[Any]) -> Axis:
    symbol, length, limit, unit, kind = stored
    return Axis(symbol, None if length is None else _read(length), limit, unit, kind)


def _write(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _read(stored: int | str) -> Dim:
    return stored if isinstance(stored, int) else dim_from_text(stored)
