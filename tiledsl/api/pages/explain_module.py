"""What a module does, and what it costs, as plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tiledsl.api.reports.text_tables import columns, paragraph, shortened, size
from tiledsl.api.schedules.built_module import Built
from tiledsl.ir.types import format_shape
from tiledsl.runtime.programs.artifact import Note
from tiledsl.runtime.programs.program import PlannedProgram
from tiledsl.runtime.programs.schedule import Buffer, Operand, Schedule, Step

MOST_OPS = 60
"""Letters of the ops of a kernel that a table shows."""


def explain_module(built: Built, notes: Sequence[Note], unfused_bytes: int | None) -> str:
    """The whole text."""
    head, rest = _chapters(built, notes, unfused_bytes)
    return "\n".join([*head, "", "launches, in order", *_launches(built), *rest])


def without_launches(built: Built, notes: Sequence[Note], unfused_bytes: int | None) -> tuple[str, str]:
    """The text, and apart from it what it says of each launch."""
    head, rest = _chapters(built, notes, unfused_bytes)
    return "\n".join([*head, *rest]), "\n".join(_launches(built))


def _chapters(built: Built, notes: Sequence[Note], unfused_bytes: int | None) -> tuple[list[str], list[str]]:
    """What stands before the launches, and behind them."""
    schedule = built.schedule
    kernels = len({step.name for step in schedule.steps})
    count = len(schedule.steps)
    first = (
        f"{schedule.name}, built for {built.arch}: {counted(kernels, 'kernel')}, {counted(count, 'launch')} in a call"
    )
    if built.compiled:
        made = sum(not function.from_disk for function in built.compiled)
        first += f"; {counted(made, 'program')} compiled, {len(built.compiled) - made} from the disk cache, "
        first += f"in {built.seconds:.2f} s"
    head = [*paragraph(first, 0, 2), "", "kernels"]
    head += columns([("name", "calls", "reads", "writes", "computes"), *_kernels(schedule)])
    rest = ["", "memory", *columns(_memory(built))]
    rest += ["", "traffic", *(f"  {line}" for line in traffic_lines(schedule, unfused_bytes))]
    if notes:
        rest += ["", "what was decided, and why"]
        for note in dict.fromkeys(notes):
            rest += paragraph(f"{note.text} [{note.pass_name}]", 2, 4)
    return head, rest


def counted(number: int, thing: str) -> str:
    """`1 kernel`, `2 launches`"""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}{'es' if thing.endswith('ch') else 's'}"


def traffic_lines(schedule: Schedule, unfused_bytes: int | None) -> list[str]:
    """How much is read and written, and what it would be without fusion."""
    lines = [f"{size(schedule.traffic)} read and written by all launches"]
    if unfused_bytes:
        share = schedule.traffic / unfused_bytes
        lines.append(f"{size(unfused_bytes)} if each op of the graph ran by itself: {share:.2f} of that")
    return lines


def buffer_text(buffer: Buffer) -> str:
    """`f32[8, 6]`"""
    return f"{buffer.dtype}{format_shape(buffer.shape)}"


def operand_text(schedule: Schedule, operand: Operand) -> str:
    """`x f32[8, 6]`, with strides where the operand is not all of the buffer in its order."""
    buffer, view = schedule.buffers[operand.buffer], operand.view
    plain = view.is_contiguous and view.offset == 0
    seen = "" if plain else f" from {view.offset}, strides {format_shape(view.strides)}"
    return f"{buffer.name} {buffer.dtype}{format_shape(view.shape)}{seen}"


def ops_text(step: Step) -> str:
    """`dot, 3 x add, exp`: each op once, in the order of its first use."""
    counts = Counter(step.ops)
    return ", ".join(op if number == 1 else f"{number} x {op}" for op, number in counts.items()) or "copy"


def _kernels(schedule: Schedule) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    by_name: dict[str, list[Step]] = {}
    for step in schedule.steps:
        by_name.setdefault(step.name, []).append(step)
    for name, steps in by_name.items():
        read, written = (sum(getattr(s, field) for s in steps) for field in ("read_bytes", "written_bytes"))
        ops = shortened(ops_text(steps[0]), MOST_OPS)
        rows.append((name, str(len(steps)), size(read), size(written), ops))
    return rows


def _launches(built: Built) -> list[str]:
    lines: list[str] = []
    schedule = built.schedule
    for number, step in enumerate(schedule.steps):
        made = [operand_text(schedule, step.tensors[n]) for n in step.written]
        read = [operand_text(schedule, t) for n, t in enumerate(step.tensors) if n not in step.written]
        traffic = f"{size(step.read_bytes)} read, {size(step.written_bytes)} written"
        source = f" [{step.source}]" if step.source else ""
        lines.append(f"  {number + 1}. {step.name}: {traffic}{source}")
        lines += paragraph(f"{'; '.join(read)} -> {'; '.join(made)}", 5, 7)
        program = built.programs[step.program]
        if isinstance(program, PlannedProgram):
            lines += paragraph(f"plan: {program.description}", 5, 7)
            if program.origin:
                lines += paragraph(f"plan is {program.origin}", 5, 7)
    return lines


def _memory(built: Built) -> list[tuple[str, ...]]:
    def total(role: str) -> str:
        return size(sum(buffer.bytes for buffer in built.schedule.buffers if buffer.role == role))

    memory = built.memory
    within = f"{size(memory.bytes)}, used again and again; {size(memory.unshared_bytes)} if each buffer had its own"
    return [
        ("arguments", total("input")),
        ("weights", total("constant")),
        ("results", total("output")),
        ("in between", within),
    ]
