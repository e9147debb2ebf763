"""Pages as they are written for readers of the repository, as pages for MkDocs.

A line of text, a list behind it (a table, likewise) and a link out of docs/:

    Parts are:
    - rows, see [examples/softmax.py](../examples/softmax.py)
=>
    Parts are:

    - rows, see [examples/softmax.py](examples/softmax.md)
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from functools import cache

from website import ROOT

_FENCE = re.compile(r"\s*(`{3,})(.*)$")
_ITEM = re.compile(r"(\s*)([-*]|\d+\.) +\S")
_ROW = re.compile(r"\s*\|")
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^)#:\s]+)((?:#[^)\s]*)?)\)")
_KINDS = {
    "python gpu": 'python title="on a GPU"',
    "python tuning": 'python title="takes as long as it is told"',
    "python cluster": 'python title="on a cluster"',
    "python triton": 'python title="Triton"',
    "python numpy": 'python title="NumPy"',
    "python pytorch": 'python title="PyTorch"',
    "cuda": 'cpp title="CUDA"',
    "": "text",
}
"""Words behind a fence that Python-Markdown would not take for a language."""
_PAIR = re.compile(
    r"^```(python (?:triton|numpy|pytorch)|cuda)\n(.*?)^```\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
"""Code of another library, and right behind it the same in this one."""
PAIRED = "side-by-side"
"""The class of a frame with two blocks."""
FOLDERS = ("examples",)
"""Folders that have a page on the site."""


def for_mkdocs(text: str, page: str) -> str:
    """The text of `page`, a path from the root of the repository, as a page of the site."""
    beside = _PAIR.sub(_side_by_side, text)
    return "\n".join(_with_blank_lines(_fences(beside, lambda line: _moved_links(line, page))))


def place_on_site(path: str) -> str:
    """Where a file is on the site: `docs/ir.md` at `ir.md`, `examples/gemm.py` at `examples/gemm.md`."""
    if path in FOLDERS:
        return f"{path}/index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    stem, _, kind = path.rpartition(".")
    return f"{stem}.md" if kind in ("py", "ipynb") else path


def _side_by_side(pair: re.Match[str]) -> str:
    """Both blocks in a frame that stands them beside each other where there is room."""
    theirs = f"```{pair[1]}\n{pair[2]}```"
    ours = f'```python title="tiledsl"\n{pair[3]}```'
    return f'<div class="{PAIRED}" markdown>\n\n{theirs}\n\n{ours}\n\n</div>'


def _fences(text: str, change: Callable[[str], str]) -> Iterator[tuple[str, bool]]:
    """Lines, and whether each belongs to a fenced block; those outside are changed."""
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence:
            yield line, True
            fence = "" if found and found[1] == fence and not found[2] else fence
        elif found:
            fence = found[1]
            words = found[2].strip()
            yield line[: found.end(1)] + _KINDS.get(words, words), True
        else:
            yield change(line), False
    yield "", False


def _with_blank_lines(lines: Iterator[tuple[str, bool]]) -> Iterator[str]:
    """Lists and tables begin blocks of their own, as elsewhere in Markdown; nested items are indented by four."""
    before, in_list, in_table = "", False, False
    for line, fenced in lines:
        item, row = _ITEM.match(line), _ROW.match(line) is not None
        if fenced:
            in_list = in_table = False
        else:
            if before.strip() and ((item and not in_list) or (row and not in_table)):
                yield ""
            if item:
                line = " " * (len(item[1]) // 2 * 4) + line[len(item[1]) :]
            in_list = item is not None or (in_list and bool(line.strip()))
            in_table = row
        yield line
        before = line


@cache
def _title(page: str) -> str:
    """What a page is called, to stand for the name of its file."""
    first = (ROOT / page).read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("# ")


def _moved_links(line: str, page: str) -> str:
    folder, here = posixpath.dirname(page), posixpath.dirname(place_on_site(page))

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        words = _title(target) if link[1].endswith(".md") else link[1]
        return f"[{words}]({posixpath.relpath(place_on_site(target), here or '.')}{link[3]})"

    return _LINK.sub(moved, line)
