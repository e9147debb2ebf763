"""What was compiled, why, and what was chosen, as plain text of at most 100 columns or so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tiledsl.ir.types import format_shape
from tiledsl.runtime.artifact import Artifact
from tiledsl.runtime.interface import Interface
from tiledsl.runtime.program import Program


def explain(
    name: str,
    arch: str,
    specialisation: Mapping[str, str],
    cause: str,
    artifact: Artifact,
    program: Program,
    launches: Sequence[object],
) -> str:
    """The whole text. `launches` are what the back end says of each set of sizes that the kernel ran on."""
    lines = [f"{name}, compiled for {arch}: {cause}", "", "specialised on"]
    lines += _table((parameter, key) for parameter, key in specialisation.items())
    lines += ["", "tensors"]
    lines += _table(_tensors(artifact.interface))
    if artifact.interface.facts:
        lines += ["", "sizes known to divide: " + ", ".join(map(str, artifact.interface.facts))]
    tiles = _tiles(program)
    if tiles:
        lines += ["", "tiles, by level, and where they live"]
        lines += _columns(tiles)
    if artifact.notes:
        lines += ["", "what the compiler chose, and why"]
        lines += [f"  {note}" for note in artifact.notes]
    for number, launch in enumerate(launches):
        lines += ["", f"launch {number + 1}"]
        lines += _launch(launch)
    return "\n".join(lines)


def _tensors(interface: Interface) -> Iterable[tuple[str, str]]:
    for tensor in interface.tensors:
        where = "read and written in place" if tensor.written else "read"
        yield tensor.name, f"{tensor.dtype}{format_shape(tensor.shape)} in global memory, {where}"
    for number, made in enumerate(interface.new_tensors):
        role = "output" if number in interface.outputs else "temporary"
        yield made.name, f"{made.dtype}{format_shape(made.shape)} in global memory, {role}"


def _launch(launch: object) -> list[str]:
    from tiledsl.backend_cpu.program import BoundDescription  # costs start-up time

    if not isinstance(launch, BoundDescription):
        return [f"  {launch}"]
    blocks = ", ".join(f"{name} = {size}" for name, size in launch.blocks.items()) or "none to choose"
    lines = [f"  blocks: {blocks}"]
    phases = zip(launch.programs, launch.threads, launch.scratch_bytes)
    for phase, (programs, threads, scratch) in enumerate(phases):
        counted = f"{programs} program{'s' * (programs != 1)} on {threads} thread{'s' * (threads != 1)}"
        lines.append(f"  grid {phase + 1}: {counted}, {scratch / 1024:.1f} KiB of scratch for each")
    moved = f"{_size(launch.read_bytes)} loaded, {_size(launch.written_bytes)} stored"
    lines.append(f"  traffic: {moved}; {launch.operations / 1e6:.4g} million operations")
    return lines


def _tiles(program: Program) -> list[tuple[str, ...]]:
    from tiledsl.backend_cpu.program import CpuProgram  # costs start-up time

    if not isinstance(program, CpuProgram):
        return []
    return [(f"line {t.line}", t.source, t.type, t.level, t.where) for t in program.tiles]


def _size(count: float) -> str:
    """`3.5 MiB`"""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows]


def _table(rows: Iterable[tuple[str, str]]) -> list[str]:
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    return [f"  {name:{width}}  {text}" for name, text in rows]
