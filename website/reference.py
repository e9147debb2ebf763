"""What the reference pages list: directives of mkdocstrings for every public name, by the module that it is of; tables.

A page has `<!-- reference: ops -->` in the line where the list goes; what else stands there is for readers of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module

from tiledsl import tile
from tiledsl.cli.main import make_parser
from tiledsl.cli.parser import Command, Option, described
from tiledsl.frontend.language import foreign_words
from website.errors import errors


def with_reference(text: str) -> str:
    """A page with the lists that it asks for. Raises KeyError for one that there is not."""
    return re.sub(r"<!-- reference: (\w+) -->.*", lambda found: LISTS[found[1]](), text)


def ops() -> str:
    """The library of ops: a section for each of its modules, in the order of `__all__`."""
    library = import_module("tiledsl.ops")
    modules: dict[str, list[str]] = {}
    for name in library.__all__:
        modules.setdefault(getattr(library, name).__wrapped__.__module__, []).append(name)
    untyped = "show_signature_annotations: false"  # all are Any: arrays, or what a trace writes down
    return "\n\n".join(_section(module, members, "ops.", untyped) for module, members in modules.items())


def language() -> str:
    """The words of `tile`: a section for each module that has some, by `__all__`. No dtypes, no classes."""
    modules: dict[str, list[str]] = {}
    for name in tile.__all__:
        word = getattr(tile, name)
        module = getattr(word, "__module__", "")
        if module.startswith("tiledsl.frontend.language.") and not isinstance(word, type) and callable(word):
            modules.setdefault(module, []).append(name)
    return "\n\n".join(_section(module, words, "tile.") for module, words in modules.items())


def foreign() -> str:
    """What is answered to words of NumPy, PyTorch, Triton and CUDA: a table for each kind of them."""
    tables = {
        "Functions": foreign_words.FUNCTIONS,
        "Methods and attributes of tensors and tiles": foreign_words.METHODS,
        "Arguments that no word has": foreign_words.ARGUMENTS,
        "Arguments that have another name": {w: f"write `{name}=`" for w, name in foreign_words.KEYWORDS.items()},
    }
    return "\n\n".join(_table(title, words) for title, words in tables.items())


def _table(title: str, advice: Mapping[str, str]) -> str:
    """Words that are answered alike share a row."""
    words: dict[str, list[str]] = {}
    for word, answer in advice.items():
        words.setdefault(answer.format(x="x"), []).append(word)
    rows = [f"| {', '.join(f'`{word}`' for word in alike)} | {_cell(answer)} |" for answer, alike in words.items()]
    return "\n".join([f"## {title}", "", "| word | here |", "| --- | --- |", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _section(module: str, members: list[str], prefix: str, *options: str) -> str:
    title = re.split(r"[.:]\s|[.:]$", (import_module(module).__doc__ or "").strip())[0]
    return "\n\n".join([f"## {title}", *(_directive(f"{module}.{name}", prefix + name, *options) for name in members)])


def _directive(path: str, heading: str, *options: str) -> str:
    lines = [f"::: {path}", "    options:", f"      heading: {heading}", f"      toc_label: {heading}"]
    return "\n".join([*lines, *(f"      {option}" for option in options)])


def commands() -> str:
    """Every command of `tiledsl`: a section for each, with a table of what it takes."""
    return "\n\n".join(map(_command, described(make_parser())))


def _command(command: Command) -> str:
    taken = [option for option in command.options if "--help" not in option.names]
    words = [option.metavar for option in taken if not option.names] + ["[OPTIONS]"] * any(o.names for o in taken)
    lines = [f"## tiledsl {command.name}", "", _cell(command.help[:1].upper() + command.help[1:]) + ".", ""]
    lines += ["```", " ".join(["tiledsl", command.name, *words]), "```"]
    if taken:
        lines += ["", "| argument | what it is |", "| --- | --- |"]
        lines += [f"| `{_written(option)}` | {_cell(option.help)} |" for option in taken]
    return "\n".join(lines)


def _written(option: Option) -> str:
    names = ", ".join(option.names)
    value = "|".join(option.choices) if option.choices and not option.metavar.isupper() else option.metavar
    return " ".join(part for part in (names, value if option.takes_value else "") if part).replace("|", "\\|")


LISTS: dict[str, Callable[[], str]] = {
    "ops": ops,
    "language": language,
    "words": foreign,
    "commands": commands,
    "errors": errors,
}
