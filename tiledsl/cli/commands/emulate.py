"""`tiledsl emulate`: the GPU code of a kernel, run in the emulator with random arguments and many seeds.

tiledsl emulate examples/gemm.py:gemm --spec "bf16[M,256]" --spec "bf16[256,128]" --size M=128 --seeds 5 --plans all
tiledsl emulate copy.tir --size N=64
"""

from __future__ import annotations

import argparse
import itertools
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from tiledsl.api import Kernel
from tiledsl.cli.arguments import add_constants, add_json, add_sizes, add_specs, constants_of, sizes_of
from tiledsl.cli.as_json import error_data, show, warning_data
from tiledsl.cli.commands.opt import read_text
from tiledsl.cli.draw import Drawn, difference, draw_for_function, draw_for_specs
from tiledsl.cli.parser import positive_int
from tiledsl.cli.python_files import load_kernel, split_target
from tiledsl.runtime.arrays.arrays import Array, is_numpy
from tiledsl.support.errors import TileError

if TYPE_CHECKING:
    from tiledsl.api.programs.emulate import Code
    from tiledsl.backend_ref.emulator.emulate import EmulatorWarning

Found: TypeAlias = "tuple[Sequence[EmulatorWarning], str | None]"
"""What one run comes to: warnings, and what is wrong with the results."""
Begin: TypeAlias = "Callable[[Begun], None]"
"""Told what is being run."""


@dataclass(frozen=True)
class Begun:
    """What is being run: a plan, by its number and in words; or a function of GPU IR, by its name alone.

    `programs`: how many its grids have, where that is known before."""

    name: str
    plan: int | None
    programs: int | None

    def __str__(self) -> str:
        count = self.programs
        return self.name if count is None else f"{self.name}, {count} program{'s' * (count != 1)}"


def add_emulate_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser(
        "emulate", help="run a kernel's GPU code in the emulator, which finds races and deadlocks"
    )
    parser.add_argument("target", metavar="FILE.py:KERNEL|FILE.tir", help="a kernel, or GPU IR as text; - for stdin")
    add_specs(parser)
    add_sizes(parser, "what a size is; also a number that GPU IR takes")
    add_constants(parser)
    parser.add_argument("--arch", default="sm_90", help="a GPU's (default: sm_90); none is needed")
    parser.add_argument("--seed", type=int, default=0, help="of the arguments, and the first order of what happens")
    parser.add_argument("--seeds", type=positive_int, default=1, metavar="COUNT", help="how many orders to try")
    plans = parser.add_mutually_exclusive_group()
    plans.add_argument("--plan", type=int, default=0, help="which of the plans for such arguments (default: 0)")
    plans.add_argument("--plans", choices=["all"], help="try all of the plans")
    add_json(parser)
    parser.set_defaults(run=_emulate)


def _emulate(options: argparse.Namespace) -> int:
    target: str = options.target
    report = Report(range(options.seed, options.seed + options.seeds), quiet=options.json)
    sizes = sizes_of(options)
    random = np.random.default_rng(options.seed)
    if target == "-" or target.endswith(".tir"):
        _emulate_text(target, sizes, random, report)
    else:
        file, name = split_target(target)
        arguments = draw_for_specs(options.spec, sizes, random)
        constants = constants_of(options)
        plans = itertools.count() if options.plans else [options.plan]
        _emulate_kernel(load_kernel(file, name), arguments, constants, options.arch, plans, report)
    show(options, report.summary, {"target": target, "arch": options.arch, **report.data})
    return 1 if report.faults else 0


class Report:
    """Runs with each of the seeds, and prints a line for each, unless it is to be `quiet`."""

    def __init__(self, seeds: Iterable[int], *, quiet: bool = False) -> None:
        self.seeds = list(seeds)
        self.runs: list[dict[str, Any]] = []
        self.warnings: dict[str, EmulatorWarning] = {}
        self._quiet = quiet
        self._printed: set[str] = set()

    def run(self, seed: int, run: Callable[[Begin], Found]) -> None:
        """One run, which says what it is when it begins. Raises what is raised before that."""
        begun: list[Begun] = []
        try:
            warnings, fault = run(begun.append)
        except TileError as error:
            if not begun:
                raise
            fault, *more = str(error).strip().splitlines()
            self._count(begun[0], seed, fault, error)
            self._print_once("\n".join(more))
            return
        self._count(begun[0], seed, fault)
        for warning in warnings:
            text = str(warning).strip()
            self._print_once(text)
            self.warnings.setdefault(text, warning)

    def _count(self, begun: Begun, seed: int, fault: str | None, error: TileError | None = None) -> None:
        what = {"what": begun.name, "plan": begun.plan, "programs": begun.programs, "seed": seed}
        told = None if error is None else error_data(error)
        self.runs.append({**what, "ok": fault is None, "fault": fault, "error": told})
        if not self._quiet:
            print(f"{begun}, seed {seed}: {fault or 'ok'}", flush=True)

    def _print_once(self, text: str) -> None:
        if text and text not in self._printed and not self._quiet:
            print(textwrap.indent(text, "  "))
        self._printed.add(text)

    @property
    def faults(self) -> int:
        """How many of the runs went wrong."""
        return sum(not run["ok"] for run in self.runs)

    @property
    def data(self) -> dict[str, Any]:
        """For scripts."""
        warnings = [warning_data(warning) for warning in self.warnings.values()]
        return {"ok": not self.faults, "runs": self.runs, "warnings": warnings}

    @property
    def summary(self) -> str:
        """The last line."""
        count = len(self.runs)
        runs = "1 run" if count == 1 else f"{count} runs"
        found = f"something is wrong in {self.faults} of them" if self.faults else "nothing wrong was found"
        count = len(self.warnings)
        return f"{runs}, {found}" + (f", {count} warning{'s' * (count > 1)}" if count else "")


def _emulate_text(file: str, sizes: Mapping[str, int], random: np.random.Generator, report: Report) -> None:
    """Runs a function in GPU form; there is nothing to compare its results with."""
    from tiledsl.api.programs.emulate import programs_of  # here and below: these cost start-up time
    from tiledsl.backend_ref.emulator.emulate import emulate
    from tiledsl.ir.text.parser import parse_module
    from tiledsl.ir.verifier import Form, verify

    module = parse_module(sys.stdin.read() if file == "-" else read_text(file), "<stdin>" if file == "-" else file)
    verify(module, Form.GPU)
    function = module.entry
    arguments = draw_for_function(function, sizes, random)

    def run(seed: int, begin: Begin) -> Found:
        begin(Begun(f"@{function.name}", None, programs_of(function, sizes)))
        return emulate(function, _fresh(arguments), seed=seed).warnings, None

    for seed in report.seeds:
        report.run(seed, partial(run, seed))


def _emulate_kernel(
    kernel: Kernel,
    arguments: Sequence[Drawn],
    constants: Mapping[str, object],
    arch: str,
    plans: Iterable[int],
    report: Report,
) -> None:
    """Runs the code of each of the plans, as many as there are, and compares results with the reference's."""
    from tiledsl.api.programs.emulate import Request  # as above

    given = _fresh(arguments)
    compiled = kernel.compile(*given, arch="reference", **constants)
    expected = _tensors(compiled(*given), given)

    def run(plan: int, seed: int, begin: Begin) -> Found:
        def watch(code: Code) -> None:
            begin(Begun(f"plan {plan} ({code.plan})", plan, code.programs))

        given = _fresh(arguments)
        done = kernel.emulated(tuple(given), constants, None, Request(arch, plan, seed, watch))
        pairs = zip(_tensors(done.result, given), expected)
        differences = (difference(what, got, want) for (what, got), (_, want) in pairs)
        return done.warnings, next((text for text in differences if text is not None), None)

    def run_all_seeds(plan: int) -> bool:
        """Whether there is such a plan; error if there is none at all."""
        try:
            for seed in report.seeds:
                report.run(seed, partial(run, plan, seed))
        except TileError as error:
            if error.code != "emulate-plan" or not report.runs:
                raise
            return False
        return True

    for plan in plans:
        if not run_all_seeds(plan):
            break


def _tensors(result: object, given: Sequence[Drawn]) -> list[tuple[str, Array]]:
    """The arrays that a call gave and those that it was given, which it may have changed, each with what it is."""
    results = cast("tuple[object, ...]", result if isinstance(result, tuple) else (result,))
    named = [(f"result {number}", value) for number, value in enumerate(results)]
    named += [(f"argument {number}", value) for number, value in enumerate(given)]
    return [(what, value) for what, value in named if is_numpy(value)]


def _fresh(arguments: Sequence[Drawn]) -> list[Drawn]:
    return [np.copy(value, order="K") if is_numpy(value) else value for value in arguments]
