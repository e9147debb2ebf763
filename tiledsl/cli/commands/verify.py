"""`tiledsl verify`: a kernel on the CPU, beside the reference executor, on random and adversarial calls.

tiledsl verify examples/gemm.py:gemm --spec "f32[M,K]" --spec "f32[K,N]" --dtype f32 f16 --runs 50
"""

from __future__ import annotations

import argparse
from typing import Any, cast

from tiledsl.cli.arguments import add_constants, add_json, add_specs, constants_of, parse_argument
from tiledsl.cli.as_json import show, verified_data
from tiledsl.cli.python_files import load_kernel, split_target
from tiledsl.cli.verify_kernel import SIZES, verify_kernel
from tiledsl.ir.dtypes import ALL, BY_NAME


def add_verify_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser(
        "verify", help="compare a kernel with the reference, on many sizes, layouts and values"
    )
    parser.add_argument("target", metavar="FILE.py:KERNEL", help="the kernel to compare with the reference")
    drawn = f"one argument, in order: f32[M,64] (sizes that are names are drawn from 1 to {SIZES[-1]}), int, float or "
    add_specs(parser, f"{drawn}bool; or a number, which is passed")
    add_constants(parser)
    floats = [dtype.name for dtype in ALL if dtype.is_float]
    parser.add_argument("--dtype", nargs="+", choices=floats, default=[], help="what floats are, in turn")
    parser.add_argument("--runs", type=int, default=30, help="how many calls are made; default: 30")
    parser.add_argument("--seed", type=int, default=0, help="of sizes and arguments")
    add_json(parser)
    parser.set_defaults(run=_verify)


def _verify(options: argparse.Namespace) -> int:
    kernel = load_kernel(*split_target(options.target))
    constants = constants_of(options)
    specs: list[Any] = [parse_argument(text) for text in cast("list[str]", options.spec)]
    dtypes = [BY_NAME[name] for name in cast("list[str]", options.dtype)] or [None]
    found = verify_kernel(kernel, specs, constants, dtypes, options.runs, options.seed)
    show(options, found, verified_data(found))
    return 0 if found.wrong is None else 1
