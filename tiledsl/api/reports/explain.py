"""What was compiled, why, and what was chosen, as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tiledsl.api.reports.explain_variants import explain_variants
from tiledsl.api.reports.text_tables import columns, entries, notes, paragraph, size
from tiledsl.ir.types import format_shape
from tiledsl.runtime.programs.artifact import Artifact
from tiledsl.runtime.programs.interface import Interface
from tiledsl.runtime.programs.program import DeviceLaunchDescription, HasVariants, Program


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
    lines = [*paragraph(f"{name}, compiled for {arch}: {cause}", 0, 2), "", "specialised on"]
    lines += entries((parameter, key) for parameter, key in specialisation.items())
    lines += ["", "tensors"]
    lines += entries(_tensors(artifact.interface))
    if artifact.interface.facts:
        lines += ["", "sizes known to divide: " + ", ".join(map(str, artifact.interface.facts))]
    tiles = [] if isinstance(program, HasVariants) else _tiles(program)
    if tiles:
        lines += ["", "tiles, by level, and where they live"]
        lines += columns(tiles)
    if artifact.notes:
        lines += ["", "what the compiler chose, and why"]
        lines += notes(artifact.notes, artifact.interface.location.file)
    on_device = [launch for launch in launches if isinstance(launch, DeviceLaunchDescription)]
    if isinstance(program, HasVariants):
        lines += explain_variants(program.report(), on_device, artifact.notes, artifact.interface.location.file)
    for number, launch in enumerate(launch for launch in launches if launch not in on_device):
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
    from tiledsl.backend_cpu.calls.program import BoundDescription  # costs start-up time

    if not isinstance(launch, BoundDescription):
        return [f"  {launch}"]
    blocks = ", ".join(f"{name} = {block}" for name, block in launch.blocks.items()) or "none to choose"
    lines = [f"  blocks: {blocks}{', by a plan that was measured' * launch.measured}"]
    phases = zip(launch.programs, launch.threads, launch.scratch_bytes)
    for phase, (programs, threads, scratch) in enumerate(phases):
        counted = f"{programs} program{'s' * (programs != 1)} on {threads} thread{'s' * (threads != 1)}"
        lines.append(f"  grid {phase + 1}: {counted}, {scratch / 1024:.1f} KiB of scratch for each")
    moved = f"{size(launch.read_bytes)} loaded, {size(launch.written_bytes)} stored"
    lines.append(f"  traffic: {moved}; {launch.operations / 1e6:.4g} million operations")
    shares = ", ".join(f"{name} {share:.0%}" for name, share in launch.shares.items())
    lines.append(f"  predicted: {launch.predicted * 1e6:.3g} us: {shares}")
    return lines


def _tiles(program: Program) -> list[tuple[str, ...]]:
    from tiledsl.backend_cpu.calls.program import CpuProgram  # costs start-up time

    if not isinstance(program, CpuProgram):
        return []
    return [(f"line {t.line}", t.source, t.type, t.level, t.where) for t in program.tiles]
