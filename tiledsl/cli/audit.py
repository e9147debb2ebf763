"""`tiledsl audit`: what a kernel of a Python file, or all of it, moves, and how long it should take, beside the least
that it could."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

from tiledsl.cli.as_json import audit_data, json_text
from tiledsl.cli.audit_file import Arguments, audit_names
from tiledsl.cli.compile import load_kernel, load_names, parse_constant, split_target


def add_audit_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser("audit", help="predict what kernels and formulas move, and how long they take")
    parser.add_argument(
        "target", metavar="FILE.py[:KERNEL]",
        help="a kernel; or all kernels, formulas, graphs and modules that a file names, the worst first",
    )  # fmt: skip
    parser.add_argument(
        "--spec", action="append", default=[], metavar="[KERNEL:]SPEC",
        help="one argument, in order: f32[4096,512], int, float; of a file for all, or for the kernel that is named",
    )  # fmt: skip
    parser.add_argument(
        "--constexpr", action="append", default=[], metavar="NAME=VALUE", help="a compile-time argument"
    )
    parser.add_argument("--arch", default="sm_90", help="a GPU's architecture, which needs no GPU, or cpu")
    parser.add_argument("--json", action="store_true", help="as JSON, for scripts")
    parser.set_defaults(run=_audit)


def _audit(options: argparse.Namespace) -> int:
    constants = dict(parse_constant(text) for text in cast("list[str]", options.constexpr))
    arguments = Arguments.parse(cast("list[str]", options.spec), constants)
    if options.target.endswith(".py"):
        file = Path(options.target)
        found = audit_names(file, load_names(file), arguments, options.arch)
        print(json_text(found.data()) if options.json else found)
        return 0
    file, name = split_target(options.target)
    audit = load_kernel(file, name).audit(*arguments.of(name), arch=options.arch, **constants)
    print(json_text(audit_data(audit)) if options.json else audit)
    return 0
