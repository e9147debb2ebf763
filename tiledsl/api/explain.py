"""What was compiled, why, and what was chosen, as plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tiledsl.ir.types import format_shape
from tiledsl.runtime.artifact import Artifact
from tiledsl.runtime.interface import Interface
from tiledsl.runtime.program import Program

WIDTH = 110
"""Columns at which sentences are wrapped. Tables are as wide as they are."""


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
        lines += _notes(artifact)
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


def _notes(artifact: Artifact) -> list[str]:
    """One paragraph for each, behind its line; the file is named where it is not the kernel's own."""
    lines: list[str] = []
    for note in artifact.notes:
        own = note.file == artifact.interface.location.file
        place = f"line {note.line}" if own else f"{Path(note.file).name}:{note.line}"
        text = f"  {place}  {note.text} [{note.pass_name}]"
        lines += textwrap.wrap(text, WIDTH, subsequent_indent=" " * (len(place) + 4), break_long_words=False)
    return lines


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
