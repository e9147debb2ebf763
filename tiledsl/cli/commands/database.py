"""`tiledsl db`: what a database of measured plans has, and what is done to it.

tiledsl db show tuned
tiledsl db top tuned --kernel gemm
tiledsl db report tuned --html tuned.html
tiledsl db check tuned
tiledsl db merge tuned from_another_machine
tiledsl db prune tuned --keep 4
tiledsl db replay tuned
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tiledsl.api.programs.replay import replay
from tiledsl.api.reports.text_tables import columns
from tiledsl.autotune.records.database import Database, described
from tiledsl.autotune.records.record import Trial
from tiledsl.autotune.records.upkeep import TOP, compact, every_entry, export, merge, prune, top
from tiledsl.cli.arguments import add_json
from tiledsl.cli.as_json import show, trial_data
from tiledsl.runtime.programs.plan_source import PlanQuestion
from tiledsl.support.errors import fail

Act = Callable[[Database, argparse.Namespace], int]


def add_database_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser("db", help="look into a database of measured plans, check it, merge it, prune it")
    acts = parser.add_subparsers(required=True, metavar="WHAT", help="what to do with it")
    searches = _add(acts, "show", "every search, with what it found", _show)
    best = _add(acts, "top", "the best plans of each question", _top)
    for one in (searches, best):
        one.add_argument("--kernel", default="", help="that one alone")
    best.add_argument("--count", type=int, default=TOP, help=f"how many of each; default: {TOP}")
    checked = _add(acts, "check", "read all lines; those that are no good are listed, and make the exit code 1", _check)
    for one in (searches, best, checked):
        add_json(one)
    page = _add(acts, "report", "write a page about all searches", _report)
    page.add_argument("--html", required=True, metavar="FILE", help="the page")
    page.add_argument("--kernel", default="", help="that one alone")
    other = _add(acts, "merge", "copy what other databases have", _merge)
    other.add_argument("others", nargs="+", metavar="FOLDER", help="the other databases")
    pruned = _add(acts, "prune", "drop plans that are not among the best, and lines that are no good", _prune)
    pruned.add_argument("--keep", type=int, default=TOP, help=f"how many of each question stay; default: {TOP}")
    written = _add(acts, "export", "write all of it to one file", _export)
    written.add_argument("file", help="the file; its name should end in .jsonl")
    _add(acts, "compact", "make one file of all", _compact)
    again = _add(acts, "replay", "make the code of the winners again, and measure what has changed", _replay)
    again.add_argument("--seconds", type=float, default=10.0, help="for each search; default: 10")


def _add(
    acts: argparse._SubParsersAction[argparse.ArgumentParser],  # pyright: ignore[reportPrivateUsage]
    name: str,
    text: str,
    act: Act,
) -> argparse.ArgumentParser:
    parser = acts.add_parser(name, help=text)
    parser.add_argument("folder", metavar="DB", help="the folder of the database")
    parser.set_defaults(run=lambda options: act(opened(options.folder), options))  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType, reportUnknownArgumentType]
    return parser


def opened(folder: str) -> Database:
    """The database of a folder, read. Raises TileRuntimeError where there is none."""
    if not Path(folder).exists():
        fail("tuning-absent", None, folder=folder)
    database = Database(Path(folder))
    database.refresh()
    return database


def _questions(database: Database, kernel: str = "") -> Iterator[tuple[str, PlanQuestion]]:
    """Every question, with the name of its kernel."""
    entries = database.entries
    for question in dict.fromkeys([*entries.searches, *entries.trials]):
        text = entries.programs.get(question.program)
        name = "?" if text is None else text.kernel
        if kernel in ("", name):
            yield name, question


def _show(database: Database, options: argparse.Namespace) -> int:
    rows = [("kernel", "sizes", "target", "tried", "failed", "gain", "winner", "when")]
    data: list[dict[str, Any]] = []
    for name, question in _questions(database, options.kernel):
        trials, best = database.entries.trials.get(question, []), database.best(question)
        plans = {trial.plan for trial in trials}
        failed = {trial.plan for trial in trials if trial.state != "ok"}
        gain, winner, when = "", "not finished", ""
        if best is not None:
            gain = "1" if best.ratio is None else f"{1 / best.ratio.median:.3f}"
            winner = "the model's pick" if best.winner == best.pick else best.winner
            when = best.when[:16]
            if not best.finished:
                winner = "not finished"
        rows.append((name, _sizes(question), question.target, str(len(plans)), str(len(failed)), gain, winner, when))
        counts = {"tried": len(plans), "failed": len(failed)}
        data.append({**_told(name, question), **counts, "search": None if best is None else asdict(best)})
    show(options, "\n".join([*columns(rows), *_skipped(database)]), data)
    return 0


def _top(database: Database, options: argparse.Namespace) -> int:
    lines: list[str] = []
    data: list[dict[str, Any]] = []
    for name, question in _questions(database, options.kernel):
        lines.append(f"{name} with {_sizes(question)} on {question.device or question.target}")
        best = top(database.entries.trials.get(question, []), options.count)
        lines += columns([("x the pick's time", "us", "predicted", "error", "plan"), *map(_row, best)])
        data.append({**_told(name, question), "plans": [trial_data(trial) for trial in best]})
    show(options, "\n".join([*lines, *_skipped(database)]), data)
    return 0


def _row(trial: Trial) -> tuple[str, ...]:
    ratio, times = trial.ratio, trial.times
    return (
        "" if ratio is None else f"{ratio.median:.3f}",
        "" if times is None else f"{times.median * 1e6:.4g}",
        "" if trial.predicted is None else f"{trial.predicted * 1e6:.4g}",
        "" if trial.error is None else f"{trial.error:.1e}",
        trial.plan,
    )


def _check(database: Database, options: argparse.Namespace) -> int:
    entries, files = sum(1 for _ in every_entry(database)), len(database.files())
    lines = described(database.skipped) if database.skipped else "all lines are whole"
    text = f"{entries} entries in {files} file{'s' * (files != 1)}; {lines}"
    data = {"entries": entries, "files": files, "skipped": [asdict(one) for one in database.skipped]}
    show(options, "\n".join([text, *(f"  {one}" for one in database.skipped)]), data)
    return 1 if database.skipped else 0


def _report(database: Database, options: argparse.Namespace) -> int:
    write_page(database, options.html, options.kernel)
    print(f"written to {options.html}")
    return 0


def write_page(database: Database, file: str, kernel: str = "") -> None:
    """A page about the searches of a database. Raises TileRuntimeError for a file that cannot be written."""
    from tiledsl.api.pages.search_page import search_page  # costs start-up time

    try:
        Path(file).write_text(search_page(database, kernel), encoding="utf-8")
    except OSError as error:
        fail("command-page", None, file=file, reason=error.strerror or str(error))


def _merge(database: Database, options: argparse.Namespace) -> int:
    print(f"{merge(database, map(opened, options.others))} entries are new")
    return 0


def _prune(database: Database, options: argparse.Namespace) -> int:
    before = sum(1 for _ in every_entry(database))
    print(f"{prune(database, options.keep)} of {before} entries are left")
    return 0


def _export(database: Database, options: argparse.Namespace) -> int:
    print(f"{export(database, Path(options.file))} entries are in {options.file}")
    return 0


def _compact(database: Database, options: argparse.Namespace) -> int:
    del options
    print(f"{compact(database)} entries are in one file")
    return 0


def _replay(database: Database, options: argparse.Namespace) -> int:
    rows = [("kernel", "sizes", "target", "what became of it")]
    for name, question, text in replay(database, options.seconds):
        rows.append((name, _sizes(question), question.target, text))
    print("\n".join(columns(rows)))
    return 0


def _skipped(database: Database) -> list[str]:
    return [f"{described(database.skipped)}; `tiledsl db check` lists them"] if database.skipped else []


def _told(name: str, question: PlanQuestion) -> dict[str, Any]:
    """A question, for scripts."""
    return {
        "kernel": name, "sizes": dict(question.sizes), "target": question.target, "device": question.device,
        "program": question.program,
    }  # fmt: skip


def _sizes(question: PlanQuestion) -> str:
    return ", ".join(f"{name}={size}" for name, size in question.sizes)
