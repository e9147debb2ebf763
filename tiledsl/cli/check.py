"""`tiledsl check`: a kernel, run on random arguments with a shadow of the memory, which finds races.

tiledsl check examples/softmax.py:softmax --spec "f32[M,100]" --size M=30
"""

from __future__ import annotations

import argparse
from typing import cast

import numpy as np

from tiledsl.cli.compile import load_kernel, parse_constant, split_target
from tiledsl.cli.draw import draw_for_specs, parse_size


def add_check_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser(
        "check", help="run a kernel on the CPU, and find races and reads of what nothing was stored to"
    )
    parser.add_argument("target", metavar="FILE.py:KERNEL", help="a kernel or a formula")
    parser.add_argument(
        "--spec", action="append", default=[], metavar="SPEC",
        help="one argument, in order, drawn at random: f32[M,64], int, float or bool; or a number, which is passed",
    )  # fmt: skip
    parser.add_argument("--size", action="append", default=[], metavar="NAME=NUMBER", help="what a size is")
    parser.add_argument(
        "--constexpr", action="append", default=[], metavar="NAME=VALUE", help="a compile-time argument"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the arguments")
    parser.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    file, name = split_target(options.target)
    sizes = dict(parse_size(text) for text in cast("list[str]", options.size))
    arguments = draw_for_specs(options.spec, sizes, np.random.default_rng(options.seed))
    constants = dict(parse_constant(text) for text in cast("list[str]", options.constexpr))
    report = load_kernel(file, name).check(*arguments, **constants)
    print(report)
    return 0 if report.ok else 1
