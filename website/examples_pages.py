"""A page for each example and notebook, and one that lists them: the file's own words, then its source."""

from __future__ import annotations

import ast
import json
from pathlib import Path

HEAD = """\
# Examples

Each is one file that runs by itself (`python examples/softmax.py`) and checks its result.

| example | what it is |
| --- | --- |
"""


def examples_pages(folder: Path) -> dict[str, str]:
    """The text of each page by its path on the site: `examples/index.md`, `examples/gemm.md` and so on."""
    files = [file for file in sorted(folder.rglob("*.py")) if file.name != "__init__.py"]
    paths = [file.relative_to(folder) for file in files]
    words = [ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "" for file in files]
    rows = [f"| [{path}]({path.with_suffix('.py').as_posix()}) | {_first(doc)} |" for path, doc in zip(paths, words)]
    pages = {"examples/index.md": HEAD + "\n".join(rows) + "\n"}
    for path, file, doc in zip(paths, files, words):
        source = file.read_text(encoding="utf-8").rstrip()
        at = f"examples/{path.with_suffix('.md').as_posix()}"
        pages[at] = f'# {path.stem}\n\n{_first(doc)}\n\n```python title="examples/{path.as_posix()}"\n{source}\n```\n'
    for file in sorted(folder.rglob("*.ipynb")):
        path = file.relative_to(folder)
        pages[f"examples/{path.with_suffix('.md').as_posix()}"] = _notebook(file.read_text(encoding="utf-8"))
        pages["examples/index.md"] += f"| [{path}]({path.as_posix()}) | a notebook |\n"
    return pages


def _notebook(text: str) -> str:
    """Its cells one after the other; what they print is not kept in the file."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    return "\n\n".join(f"```python\n{source}\n```" if kind == "code" else source for kind, source in cells) + "\n"


def _first(doc: str) -> str:
    """The first paragraph, on one line."""
    return " ".join(doc.split("\n\n")[0].split()).replace("|", "\\|")
