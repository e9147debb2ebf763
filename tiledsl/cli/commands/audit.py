"""`tiledsl audit`: what a kernel of a Python file, or all of it, moves, and how long it should take, beside the least
that it could."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

from tiledsl.cli.arguments import add_constants, add_json, add_specs, constants_of
from tiledsl.cli.as_json import audit_data, show
from tiledsl.cli.audit_file import Arguments, audit_names
from tiledsl.cli.python_files import load_kernel, load_names, split_target


def add_audit_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser("audit", help="predict what kernels and formulas move, and how long they take")
    parser.add_argument(
        "target", metavar="FILE.py[:KERNEL]",
        help="a kernel; or all kernels, formulas, graphs and modules that a file names, the worst first",
    )  # fmt: skip
    every = "one argument, in order: f32[4096,512], int, float; of a file for all, or for the kernel that is named"
    add_specs(parser, every, "[KERNEL:]SPEC")
    add_constants(parser)
    parser.add_argument(
        "--arch",
        default="sm_90",
        help="a GPU's architecture, which needs no GPU (sm_90: an H200; sm_90:132x3350: an H100), or cpu",
    )
    add_json(parser)
    parser.set_defaults(run=_audit)


def _audit(options: argparse.Namespace) -> int:
    constants = constants_of(options)
    arguments = Arguments.parse(cast("list[str]", options.spec), constants)
    if options.target.endswith(".py"):
        file = Path(options.target)
        found = audit_names(file, load_names(file), arguments, options.arch)
        show(options, found, found.data())
        return 0
    file, name = split_target(options.target)
    audit = load_kernel(file, name).audit(*arguments.of(name), arch=options.arch, **constants)
    show(options, audit, audit_data(audit))
    return 0
