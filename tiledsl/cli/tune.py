"""`tiledsl tune`: measured plans for a kernel or a graph, kept in a database that calls and builds read.

tiledsl tune examples/gemm.py:gemm --spec "f32[512,512]" --spec "f32[512,512]" --seconds 30
tiledsl tune models.py:graph --size B=8 --seconds 120 --db tuned
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, cast

import numpy as np

from tiledsl.api import Kernel
from tiledsl.api.graphs.graph import Graph
from tiledsl.api.kernels.tune import tune
from tiledsl.cli.compile import parse_constant
from tiledsl.cli.draw import draw_for_specs, parse_size
from tiledsl.cli.load_model import TARGET, load_target
from tiledsl.cli.tune_table import Table
from tiledsl.support.errors import fail

INTERRUPTED = 130
"""The exit code of a command that was interrupted."""


def add_tune_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser("tune", help="measure plans, and keep the best ones for later calls")
    parser.add_argument("target", metavar="MODEL", help=f"{TARGET}; NAME is a kernel, a formula or a graph")
    parser.add_argument(
        "--spec", action="append", default=[], metavar="SPEC",
        help="one argument, in order, drawn at random: f32[M,64], int, float or bool; or a number, which is passed",
    )  # fmt: skip
    parser.add_argument("--size", action="append", default=[], metavar="NAME=NUMBER", help="what a size is")
    parser.add_argument(
        "--constexpr", action="append", default=[], metavar="NAME=VALUE", help="a compile-time argument"
    )
    parser.add_argument("--arch", help="of a graph: a GPU's, the first of which is measured on; default: the CPU")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long all of it may take; default: 60")
    parser.add_argument("--trials", type=int, default=20, help="plans that are measured of each program; default: 20")
    parser.add_argument("--db", metavar="FOLDER", help="the database; default: the one that calls read")
    parser.add_argument(
        "--resume", action="store_true", help="go on with a database that has to be there; what it has is not measured"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the arguments")
    parser.set_defaults(run=_tune)


def _tune(options: argparse.Namespace) -> int:
    model = load_target(options.target)
    sizes = dict(parse_size(text) for text in cast("list[str]", options.size))
    if options.resume and options.db and not Path(options.db).exists():
        fail("tuning-absent", None, folder=options.db)
    arguments: list[object] = []
    named: dict[str, Any] = {**sizes, "arch": options.arch}
    if isinstance(model, Kernel):
        arguments = [*draw_for_specs(options.spec, sizes, np.random.default_rng(options.seed))]
        named = dict(parse_constant(text) for text in cast("list[str]", options.constexpr))
    elif not isinstance(model, Graph):
        fail("tuning-nothing", None, kind=type(model).__name__)
    table = Table(options.seconds)
    try:
        with table:
            report = tune(
                model, *arguments,
                seconds=options.seconds, trials=options.trials, database=options.db, listener=table, **named,
            )  # fmt: skip
    except KeyboardInterrupt:
        print("interrupted: what was measured is kept, and the next search goes on from there")
        return INTERRUPTED
    print(report)
    return 0
