"""How command lines are read: by argparse, with its complaints as errors of the catalogue.

`described` gives commands and their options as data, for the overview, for completion in shells, and for documentation.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tiledsl.support.errors import fail
from tiledsl.support.suggest import suggest

WRONG_LINES = ("command-unknown", "command-option", "command-line")
"""Errors of the command line itself: the exit code is 2, as that of other programs."""


class _CommandParser(argparse.ArgumentParser):
    """Raises TileSyntaxError where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        fail("command-line", None, command=self.prog, message=message, notes=[" ".join(self.format_usage().split())])


def empty_parser(program: str, description: str) -> argparse.ArgumentParser:
    """A parser for a program, to which commands are added; they are read like it."""
    return _CommandParser(prog=program, description=description)


def positive_int(text: str) -> int:
    """A type of arguments: a whole number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"`{text}` is no whole number above 0")
    return int(text)


def seconds(text: str) -> float:
    """A type of arguments: a time, which may be 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"`{text}` is no time in seconds")
    return number


@dataclass(frozen=True)
class Option:
    """An option, or an argument by its place, which has no names. `choices` is what it may be, where that is a list."""

    names: tuple[str, ...]
    metavar: str
    help: str
    choices: tuple[str, ...] = ()
    takes_value: bool = True


@dataclass(frozen=True)
class Command:
    """A command with what it takes; `help` is one line."""

    name: str
    help: str
    options: tuple[Option, ...]


def described(parser: argparse.ArgumentParser) -> tuple[Command, ...]:
    """The commands of a parser, in their order."""
    actions: list[Any] = list(parser._actions)  # pyright: ignore[reportPrivateUsage]  # argparse has no public list
    subparsers = next(action for action in actions if hasattr(action, "add_parser"))
    helps = {action.dest: action.help or "" for action in subparsers._choices_actions}
    return tuple(Command(name, helps[name], _options(sub)) for name, sub in subparsers.choices.items())


def _options(parser: argparse.ArgumentParser) -> tuple[Option, ...]:
    found: list[Option] = []
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]  # see above
        metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        choices = tuple(str(choice) for choice in action.choices or ())
        takes_value = action.nargs != 0
        found.append(Option(tuple(action.option_strings), metavar, action.help or "", choices, takes_value))
    return tuple(found)


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """The options of a command line. Raises TileSyntaxError for a command or an option that there is not."""
    commands = {command.name: command for command in described(parser)}
    first = words[0] if words else ""
    if first and not first.startswith("-") and first not in commands:
        fail(
            "command-unknown", None, command=first, hint=suggest(first, commands, "`tiledsl` alone lists all commands")
        )
    options, rest = parser.parse_known_args(words)
    if rest:
        command = f"{parser.prog} {first}" if first in commands else parser.prog
        known = [name for option in commands[first].options for name in option.names] if first in commands else []
        hint = suggest(rest[0].partition("=")[0], known, f"`{command} --help` lists what there is")
        fail("command-option", None, command=command, option=rest[0], hint=hint)
    return options
