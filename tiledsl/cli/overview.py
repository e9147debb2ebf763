"""What `tiledsl` alone prints: the commands by what they are for."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.cli.parser import Command
from tiledsl.support.version import VERSION

TASKS = {
    "begin a kernel": ("new",),
    "see what becomes of a kernel or a model": ("compile", "explain"),
    "find a mistake": ("check", "verify", "emulate"),
    "find what is slow": ("audit", "bench", "profile"),
    "measure plans": ("tune", "db"),
    "run a model": ("run",),
    "work on the compiler": ("opt",),
    "set up this machine": ("doctor", "completion"),
}
"""The commands of each task, in the order in which they are met."""
_OTHERS = "more"
_WIDTH = 88


def overview(commands: Sequence[Command]) -> str:
    """All commands with a line about each, under the tasks that they are for; those of no task come last."""
    by_name = {command.name: command for command in commands}
    placed = {name for names in TASKS.values() for name in names}
    tasks = {**TASKS, _OTHERS: tuple(name for name in by_name if name not in placed)}
    lines = [f"tiledsl {VERSION}, a tile compiler in Python", "", "tiledsl COMMAND --help says what a command takes."]
    width = max(map(len, by_name)) + 4
    for task, names in tasks.items():
        known = [by_name[name] for name in names if name in by_name]
        if known:
            lines += ["", task, *(f"  {command.name:{width}}{_first(command.help)}" for command in known)]
    return "\n".join(lines)


def _first(help: str) -> str:
    """The first part of a help text, before a semicolon, on one line."""
    text = " ".join(help.split("; ")[0].split())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 4].rsplit(" ", 1)[0] + " ..."
