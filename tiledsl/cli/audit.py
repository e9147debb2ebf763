"""`tiledsl audit`: what a kernel of a Python file moves, and how long it should take, beside the least it could."""

from __future__ import annotations

import argparse
from typing import cast

from tiledsl.cli.compile import load_kernel, parse_constant, parse_spec, split_target


def add_audit_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser("audit", help="predict what a kernel or a formula moves, and how long it takes")
    parser.add_argument("target", metavar="FILE.py:KERNEL")
    parser.add_argument(
        "--spec", action="append", default=[], metavar="SPEC", help="one argument, in order: f32[4096,512], int, float"
    )
    parser.add_argument(
        "--constexpr", action="append", default=[], metavar="NAME=VALUE", help="a compile-time argument"
    )
    parser.add_argument("--arch", default="sm_90", help="a GPU's architecture; no GPU is needed")
    parser.set_defaults(run=_audit)


def _audit(options: argparse.Namespace) -> int:
    file, name = split_target(options.target)
    kernel = load_kernel(file, name)
    specs = [parse_spec(text) for text in cast("list[str]", options.spec)]
    constants = dict(parse_constant(text) for text in cast("list[str]", options.constexpr))
    print(kernel.audit(*specs, arch=options.arch, **constants))
    return 0
