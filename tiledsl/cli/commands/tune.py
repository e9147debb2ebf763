"""`tiledsl tune`: measured plans for a kernel or a graph, kept in a database that calls and builds read.

tiledsl tune examples/gemm.py:gemm --spec "f32[512,512]" --spec "f32[512,512]" --seconds 30
tiledsl tune models.py:graph --size B=8 --seconds 120 --db tuned
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tiledsl.api import Kernel
from tiledsl.api.graphs.graph import Graph
from tiledsl.api.kernels.tune import tune
from tiledsl.cli.arguments import add_constants, add_json, add_sizes, add_specs, constants_of, sizes_of
from tiledsl.cli.as_json import show, tune_data
from tiledsl.cli.commands.database import opened, write_page
from tiledsl.cli.draw import draw_for_specs
from tiledsl.cli.load_model import TARGET, load_target
from tiledsl.cli.tune_table import Table
from tiledsl.support.errors import fail

INTERRUPTED = 130
"""The exit code of a command that was interrupted."""


def add_tune_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser("tune", help="measure plans, and keep the best ones for later calls")
    parser.add_argument("target", metavar="MODEL", help=f"{TARGET}; NAME is a kernel, a formula or a graph")
    add_specs(parser)
    add_sizes(parser)
    add_constants(parser)
    parser.add_argument("--arch", help="of a graph: a GPU's, the first of which is measured on; default: the CPU")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long all of it may take; default: 60")
    parser.add_argument("--trials", type=int, default=20, help="plans that are measured of each program; default: 20")
    parser.add_argument("--db", metavar="FOLDER", help="the database; default: the one that calls read")
    parser.add_argument(
        "--resume", action="store_true", help="go on with a database that has to be there; what it has is not measured"
    )
    parser.add_argument(
        "--libraries", action="store_true", help="try calls of cuBLASLt too, on GPUs: `pip install tiledsl[library]`"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the arguments")
    parser.add_argument("--html", metavar="FILE", help="a page about all searches of the database, when it is done")
    add_json(parser)
    parser.set_defaults(run=_tune)


def _tune(options: argparse.Namespace) -> int:
    model = load_target(options.target)
    sizes = sizes_of(options)
    if options.resume and options.db and not Path(options.db).exists():
        fail("tuning-absent", None, folder=options.db)
    arguments: list[object] = []
    named: dict[str, Any] = {**sizes, "arch": options.arch}
    if isinstance(model, Kernel):
        arguments = [*draw_for_specs(options.spec, sizes, np.random.default_rng(options.seed))]
        named = constants_of(options)
    elif not isinstance(model, Graph):
        fail("tuning-nothing", None, kind=type(model).__name__)
    table = Table(options.seconds, sys.stderr if options.json else None)
    try:
        with table:
            report = tune(
                model, *arguments,
                seconds=options.seconds, trials=options.trials, database=options.db, listener=table,
                libraries=options.libraries, **named,
            )  # fmt: skip
    except KeyboardInterrupt:
        text = "interrupted: what was measured is kept, and the next search goes on from there"
        show(options, text, {"finished": False, "interrupted": True})
        return INTERRUPTED
    text = str(report)
    if options.html is not None:
        write_page(opened(str(report.database)), options.html)
        text += f"\nwritten to {options.html}"
    show(options, text, {**tune_data(report), "page": options.html})
    return 0
