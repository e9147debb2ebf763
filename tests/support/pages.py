"""Pages of documentation: their fenced blocks, and whether what they show is what is printed."""

from __future__ import annotations

import re


def python_of(page: str, *kinds: str) -> str:
    """The blocks of these kinds (`python`), at the lines where they stand; the other lines are empty."""
    fences = {f"```{kind}" for kind in kinds or ("python",)}
    lines: list[str] = []
    inside = False
    for line in page.splitlines():
        starts, ends = line in fences, inside and line == "```"
        inside = (inside or starts) and not ends
        lines.append(line if inside and not starts else "")
    return "\n".join(lines)


def blocks(page: str, kind: str) -> list[str]:
    """The fenced blocks of one kind, by the words behind the fence: `python`, `python gpu`, `bash`, none for output."""
    fenced = re.findall(r"^```([\w ]*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [text for words, text in fenced if words == kind]


def missing_lines(shown: str, printed: str) -> list[str]:
    """The lines of a block that are not among those printed; numbers, letters and widths of columns may be others."""
    known = {_plain(line) for line in printed.splitlines()}
    return [line for line in shown.splitlines() if line.strip() not in ("", "...") and _plain(line) not in known]


def _plain(line: str) -> str:
    return " ".join(re.sub(r"\d+(\.\d+)?", "#", re.sub(r" [A-Z]$", " #", line)).split())
