"""What `explain()` says of a kernel for GPUs: what it must move, and the code for each plan."""

from __future__ import annotations

import string
from collections.abc import Collection, Iterator, Mapping, Sequence

from tiledsl.api.reports.text_tables import columns, entries, notes, paragraph, shortened, size
from tiledsl.ir.symbolic import evaluate, symbols_of
from tiledsl.runtime.programs.artifact import Note
from tiledsl.runtime.programs.program import DeviceLaunchDescription
from tiledsl.runtime.programs.variant_report import FunctionReport, ProgramReport, TileReport

MOST_SIZES = 8
"""Sets of sizes that are shown for each variant."""
LONGEST_SOURCE = 40


def explain_variants(
    report: ProgramReport, launches: Sequence[DeviceLaunchDescription], said: Collection[Note], file: str
) -> list[str]:
    """Lines of text. `said`: notes that the reader has seen already. `file`: the kernel's."""
    open_ = bool(symbols_of(report.read_bytes) | symbols_of(report.written_bytes))
    lines = ["", "moves at least", *_traffic(report, launches)]
    if report.refused:
        lines += ["", "better plans that there are not", *notes(report.refused, file)]
    for number, variant in enumerate(report.variants):
        ran = [launch.sizes for launch in launches if launch.plan == variant.plan]
        sizes = [report.sizes] if number == 0 and report.has_default else []
        title = f"variant {number + 1} of {len(report.variants)}"
        lines += ["", *paragraph(title + _occasion(sizes, ran, open_), 0)]
        lines += entries(variant.words)
        lines += ["", *columns([_HEAD, *(_function(function, sizes + ran) for function in variant.functions)])]
        lines += _tiles(variant.tiles)
        more = [note for note in variant.notes if note not in said]
        if more:
            lines += ["", *notes(more, file)]
        if variant.left:
            lines += ["", "  better plans that were left"]
            for text in variant.left:
                lines += paragraph(text, 4, 6)
    return lines


def _traffic(report: ProgramReport, launches: Sequence[DeviceLaunchDescription]) -> list[str]:
    read, written = report.read_bytes, report.written_bytes
    symbols = symbols_of(read) | symbols_of(written)
    lines = [f"  {read} bytes from memory, {written} bytes to memory"] if symbols else []
    known = [sizes for sizes in [report.sizes, *(launch.sizes for launch in launches)] if symbols <= sizes.keys()]
    for sizes in (_different(known) if symbols else [report.sizes])[:MOST_SIZES]:
        amounts = evaluate(read, sizes), evaluate(written, sizes)
        seconds = _time(sum(amounts) / report.bytes_per_second)
        where = f"{_sizes(sizes)}: " if symbols else ""
        moved = f"{size(amounts[0])} from memory, {size(amounts[1])} to memory"
        lines.append(f"  {where}{moved}: {seconds} at {report.bytes_per_second / 1e12:.3g} TB/s")
    if report.partly:
        names = ", ".join(f"`{name}`" for name in report.partly)
        lines += paragraph(f"and what is moved of {names}, of which only the running program knows how much")
    return lines


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def _occasion(specified: Sequence[Mapping[str, int]], ran: Sequence[Mapping[str, int]], open_: bool) -> str:
    """For which sizes a variant was made, and which it ran on."""
    words: list[str] = []
    if specified and specified[0]:
        words.append(f"for {_sizes(specified[0])}")
    elif specified and not ran and open_:
        words.append("for sizes that are not told (name numbers in `tile.spec` for the code that they would get)")
    different = _different(ran)
    if different:
        shown = "; ".join(_sizes(sizes) or "fixed sizes" for sizes in different[:MOST_SIZES])
        rest = f" and {len(different) - MOST_SIZES} more" if len(different) > MOST_SIZES else ""
        words.append(f"ran on {shown}{rest}")
    return ": " + ", ".join(words) if words else ""


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())


def _different(sizes: Sequence[Mapping[str, int]]) -> list[Mapping[str, int]]:
    return list({tuple(one.items()): one for one in sizes}.values())


_HEAD = ("function", "blocks", "threads", "registers", "spills", "shared", "at once on a multiprocessor")


def _function(function: FunctionReport, sizes: Sequence[Mapping[str, int]]) -> tuple[str, ...]:
    spills = f"{function.spilled_bytes} B" if function.spilled_bytes else "none"
    resident = f"{function.resident_blocks} block{'s' * (function.resident_blocks != 1)}"
    return (
        function.name,
        _blocks(function, sizes),
        str(function.threads),
        str(function.registers),
        spills,
        size(function.shared_bytes) if function.shared_bytes else "none",
        f"{resident}, limited by {function.resident_limit}",
    )


def _blocks(function: FunctionReport, sizes: Sequence[Mapping[str, int]]) -> str:
    programs = function.programs
    if programs is None:
        count = "as many as fit"
    elif len(sizes) == 1 and symbols_of(programs) <= sizes[0].keys():
        count = str(max(0, evaluate(programs, sizes[0])))
    else:
        count = str(programs)
    if function.cluster == 1:
        return count
    return f"{count} clusters of {function.cluster}" if count.isdigit() else f"({count}) clusters of {function.cluster}"


def _tiles(tiles: Sequence[TileReport]) -> list[str]:
    """A table of tiles, and their layouts by letter below it."""
    if not tiles:
        return []
    letters = dict(zip(dict.fromkeys(tile.layout for tile in tiles), _letters()))
    rows = [
        (f"line {t.line}", shortened(t.source, LONGEST_SOURCE), t.type, t.level, t.takes, letters[t.layout])
        for t in tiles
    ]
    layouts = [(letter, layout) for layout, letter in letters.items()]
    return ["", *columns([("", "tile", "has room for", "in", "takes", "layout"), *rows]), *entries(layouts, 4)]


def _letters() -> Iterator[str]:
    """A, B, ... Z, A1, B1 ..."""
    number = 0
    while True:
        for letter in string.ascii_uppercase:
            yield f"{letter}{number}" if number else letter
        number += 1
