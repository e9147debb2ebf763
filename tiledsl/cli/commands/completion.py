"""`tiledsl completion SHELL`: a script that completes commands, their options and files in bash, zsh or fish.

eval "$(tiledsl completion bash)"                                        in ~/.bashrc
eval "$(tiledsl completion zsh)"                                         in ~/.zshrc, behind compinit
tiledsl completion fish > ~/.config/fish/completions/tiledsl.fish
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence

from tiledsl.cli.parser import Command, Option, described


def add_completion_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser: argparse.ArgumentParser,
) -> None:
    """`parser` is the whole command line, whose commands and options are completed."""
    own = commands.add_parser("completion", help="print a script that completes command lines in a shell")
    own.add_argument("shell", metavar="SHELL", choices=tuple(SHELLS), help=", ".join(SHELLS))

    def run(options: argparse.Namespace) -> int:
        print(completion(options.shell, described(parser)), end="")
        return 0

    own.set_defaults(run=run)


def completion(shell: str, commands: Sequence[Command]) -> str:
    """The script for one of `SHELLS`."""
    return SHELLS[shell](commands)


def _bash(commands: Sequence[Command]) -> str:
    values = [
        f"        {command.name}:{name}) words={_quoted(' '.join(option.choices))} ;;"
        for command in commands
        for option in command.options
        for name in option.names or (command.name,)  # an argument by its place stands behind the command
        if option.choices
    ]
    options = [f"        {command.name}) words={_quoted(' '.join(_flags(command)))} ;;" for command in commands]
    return f"""\
_tiledsl() {{
    local now="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}" words=
    if [[ $COMP_CWORD -eq 1 ]]; then
        COMPREPLY=($(compgen -W {_quoted(" ".join(command.name for command in commands))} -- "$now"))
        return
    fi
    case "$command:$before" in
{_lines(values)}    esac
    if [[ -z $words && $now == -* ]]; then
        case "$command" in
{_lines(options)}        esac
    fi
    if [[ -n $words ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$now"))
    else
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$now"))
    fi
}}
complete -F _tiledsl tiledsl
"""


def _zsh(commands: Sequence[Command]) -> str:
    named = [f"        {_quoted(f'{command.name}:{_plain(command.help)}')}" for command in commands]
    cases: list[str] = []
    for command in commands:
        specs = [spec for option in command.options for spec in _zsh_option(option)]
        cases.append(f"        {command.name}) _arguments {' '.join(map(_quoted, specs))} '*:file:_files' ;;")
    return f"""\
#compdef tiledsl
_tiledsl() {{
    local -a commands
    commands=(
{_lines(named)}    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{_lines(cases)}    esac
}}
compdef _tiledsl tiledsl
"""


def _zsh_option(option: Option) -> list[str]:
    if not option.names:
        return [f"1:{_plain(option.metavar)}:({' '.join(option.choices)})"] if option.choices else []
    value = f":value:({' '.join(option.choices)})" if option.choices else f":{_plain(option.metavar)}:_files"
    return [f"*{name}[{_plain(option.help)}]{value if option.takes_value else ''}" for name in option.names]


def _fish(commands: Sequence[Command]) -> str:
    lines: list[str] = []
    for command in commands:
        alone = "complete -c tiledsl -n __fish_use_subcommand"
        lines.append(f"{alone} -f -a {command.name} -d {_quoted(_plain(command.help))}")
        for option in command.options:
            if option.names or option.choices:
                lines.append(_fish_option(command.name, option))
    return "\n".join([*lines, ""])


def _fish_option(command: str, option: Option) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    choices = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else " -r" if option.takes_value else ""
    seen = _quoted(f"__fish_seen_subcommand_from {command}")
    named = "".join(f" {name}" for name in names)
    return f"complete -c tiledsl -n {seen}{named}{choices} -d {_quoted(_plain(option.help))}"


def _flags(command: Command) -> list[str]:
    return [name for option in command.options for name in option.names]


def _plain(text: str) -> str:
    """Text without the signs that zsh reads in descriptions, on one line."""
    return " ".join(text.translate({ord(sign): " " for sign in "[]():;`\\"}).split())


def _quoted(text: str) -> str:
    return shlex.quote(text)


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


SHELLS: dict[str, Callable[[Sequence[Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
