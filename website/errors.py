"""Tables of all errors, from their catalogue."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from tiledsl.support import catalogue
from tiledsl.support.errors import ErrorSpec


def errors() -> str:
    """The classes of errors; then all messages, by what they are of, each with its class and its fix."""
    parts = [import_module(f"{catalogue.__name__}.{part.name}") for part in iter_modules(catalogue.__path__)]
    entries: list[tuple[ModuleType, dict[str, ErrorSpec]]] = [(part, part.ENTRIES) for part in parts]
    kinds = {spec.kind for _, specs in entries for spec in specs.values()}
    lines = ["| class | means | also a |", "| --- | --- | --- |", *sorted(map(_kind_row, kinds))]
    for part, specs in entries:
        lines += ["", f"## {_title(part)}", "", "| code | class | message | fix |", "| --- | --- | --- | --- |"]
        lines += [
            f"| `{code}` | `{spec.kind.__name__}` | {cell(spec.message)} | {cell(spec.fix)} |"
            for code, spec in sorted(specs.items())
        ]
    return "\n".join([*lines, ""])


def _title(part: ModuleType) -> str:
    """What the part's docstring says in its first words that its messages are of."""
    words = re.split(r"[.:]\s|[.:]$", (part.__doc__ or "").strip())[0].removeprefix("Messages of ").removeprefix("the ")
    return words[:1].upper() + words[1:]


def _kind_row(kind: type) -> str:
    also = ", ".join(f"`{base.__name__}`" for base in kind.__bases__ if base.__module__ == "builtins")
    return f"| `{kind.__name__}` | {cell((kind.__doc__ or '').splitlines()[0])} | {also} |"


def cell(text: str) -> str:
    """A message in a cell of a table: what Markdown or HTML would take for their own is escaped, outside of code."""
    parts = re.split(r"(``.*?``|`[^`]*`)", text.replace("\n", " ").replace("|", "\\|"))
    return "".join(part if part.startswith("`") else re.sub(r"([<>*_\[\]{}])", r"\\\1", part) for part in parts)
