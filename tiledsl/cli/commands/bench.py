"""`tiledsl bench`: how long calls of a model take, for batches and dtypes, beside other ways to run it.

tiledsl bench models.py:encoder --spec "f32[B,128,384]" --batch 1 8 --dtype f32 f16 --against eager compile
tiledsl bench model.onnx --batch 1 8 --against onnxruntime
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import asdict

from tiledsl.api.reports.text_tables import columns
from tiledsl.cli.arguments import add_json, add_sizes, add_specs, sizes_of
from tiledsl.cli.as_json import show
from tiledsl.cli.bench_cases import BATCH, Case, cases_of
from tiledsl.cli.bench_runs import AGAINST, Timed, runners, timed
from tiledsl.cli.load_model import TARGET, load_target
from tiledsl.cli.parser import positive_int, seconds
from tiledsl.ir.dtypes import ALL
from tiledsl.support.progress import Progress, to_stderr

HEAD = ("batch", "dtype", "run by", "median", "90% within", "a second", "memory", "kernels", "of the floor")


def add_bench_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser("bench", help="time calls of a kernel or a model, beside other ways to run it")
    parser.add_argument("target", metavar="MODEL", help=f"{TARGET}; NAME is a kernel, a formula, a graph or a model")
    add_specs(parser)
    add_sizes(parser)
    parser.add_argument(
        "--batch", nargs="+", type=positive_int, default=[], metavar="NUMBER",
        help=f"what the size `{BATCH}` is, or the only one that is open: a row for each",
    )  # fmt: skip
    floats = [dtype.name for dtype in ALL if dtype.is_float]
    parser.add_argument("--dtype", nargs="+", choices=floats, default=[], help="what floats are: a row for each")
    parser.add_argument("--against", nargs="+", choices=AGAINST, default=[], help="what else runs the model")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where it runs")
    parser.add_argument("--seconds", type=seconds, default=1.0, help="how long each is timed; default: 1")
    add_json(parser)
    parser.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> int:
    model = load_target(options.target)
    sizes = sizes_of(options)
    batches: Sequence[int | None] = options.batch or [None]
    dtypes: Sequence[str | None] = options.dtype or [None]
    rows: list[tuple[str, ...]] = [HEAD]
    data: list[dict[str, object]] = []
    progress = Progress("timing", len(batches) * len(dtypes) * (1 + len(options.against)))
    failed: list[str] = []
    for batch, dtype in itertools.product(batches, dtypes):
        case = cases_of(options.target, model, options.spec, sizes, batch, dtype, options.device)
        for name, runner in runners(case, options.against):
            if options.seconds >= 1:
                to_stderr(f"{name}{_where(case)} ...")
            found = timed(runner, options.seconds)
            if isinstance(found, str):
                failed.append(f"{name}{_where(case)}: {found}")
            else:
                rows.append(_row(case, name, found))
                data.append({"batch": case.batch, "dtype": case.dtype, "run_by": name, **asdict(found)})
            progress.step()
    lines = [f"{options.target} on {options.device}", *columns(rows), *(f"  {text}" for text in failed)]
    facts = {"target": options.target, "device": options.device, "timed": data, "failed": failed}
    show(options, "\n".join(lines), facts)
    return 0


def _where(case: Case) -> str:
    said = [f"batch {case.batch}"] if case.batch is not None else []
    said += [case.dtype] if case.dtype is not None else []
    return f" ({', '.join(said)})" if said else ""


def _row(case: Case, name: str, found: Timed) -> tuple[str, ...]:
    return (
        "" if case.batch is None else str(case.batch), case.dtype or "", name, _time(found.median), _time(found.slow),
        f"{(case.batch or 1) / found.median:.4g}", found.memory, found.kernels, found.share,
    )  # fmt: skip


def _time(seconds: float) -> str:
    unit, factor = ("us", 1e6) if seconds < 1e-3 else ("ms", 1e3) if seconds < 1 else ("s", 1.0)
    return f"{seconds * factor:.4g} {unit}"
