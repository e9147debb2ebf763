"""A page about searches, made of the records of a database alone: one HTML file that needs no network.

For each question: how good the model's predictions were, how the best plan came, where plans came from, and all plans
with their state, ratio and bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tiledsl.api.pages.search_plots import Kind, Point, convergence, interval, scatter
from tiledsl.autotune.records.database import Database, described
from tiledsl.autotune.records.record import Ratio, Search, Trial
from tiledsl.runtime.programs.plan_source import PlanQuestion

_STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --weak: #57606a; --page: #fff; --panel: #f6f8fa; --line: #d0d7de;
  --plan: #8c959f; --pick: #0969da; --winner: #bc4c00; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --weak: #9198a1; --page: #0d1117; --panel: #161b22;
  --line: #30363d; --plan: #7d8590; --pick: #58a6ff; --winner: #f0883e; --bad: #f85149; } }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: var(--text);
  background: var(--page); }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; overflow-wrap: anywhere; }
p { max-width: 60rem; } a { color: var(--pick); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.2rem 0.8rem 0.2rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  white-space: nowrap; }
th { color: var(--weak); font-weight: 600; } td.number, th.number { text-align: right; }
td.long { white-space: normal; min-width: 14rem; overflow-wrap: anywhere; }
code { font: 12px/1.45 ui-monospace, monospace; }
.wide { overflow-x: auto; margin: 1rem 0; }
.plots { display: flex; flex-wrap: wrap; gap: 1rem; }
.plots figure { flex: 1 1 22rem; margin: 0; background: var(--panel); border: 1px solid var(--line); padding: 0.5rem;
  min-width: 0; max-width: 36rem; }
figcaption { color: var(--weak); padding: 0 0.5rem; }
.plot { width: 100%; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--weak); }
svg .grid { stroke: var(--line); } svg .equal { stroke: var(--weak); stroke-dasharray: 4 3; }
svg .best { fill: none; stroke: var(--winner); stroke-width: 2; } svg .bounds { stroke: var(--plan); stroke-width: 2; }
svg circle { stroke: var(--panel); } svg .plan { fill: var(--plan); } svg .pick { fill: var(--pick); }
svg .winner { fill: var(--winner); }
.key { display: inline-block; width: 0.7em; height: 0.7em; border-radius: 50%; margin-right: 0.3em; }
.key.plan { background: var(--plan); } .key.pick { background: var(--pick); } .key.winner { background: var(--winner); }
tr.pick code { color: var(--pick); } tr.winner code { color: var(--winner); font-weight: 700; }
.bad { color: var(--bad); }
details { margin: 0.5rem 0; } summary { cursor: pointer; }
pre { font: 12px/1.45 ui-monospace, monospace; overflow-x: auto; background: var(--panel); padding: 1rem; }
"""
_KEY = (
    '<p><span class="key pick"></span>the model\'s pick &nbsp; <span class="key winner"></span>the winner &nbsp; '
    '<span class="key plan"></span>other plans</p>'
)


@dataclass(frozen=True)
class Searched:
    """One question with all that was tried of it: each plan once, as it was measured best, in the order in which plans
    were first tried. `search` is the last one that came to its end."""

    kernel: str
    question: PlanQuestion
    trials: tuple[Trial, ...]
    search: Search | None
    text: str = ""
    """Of the program."""

    @property
    def pick(self) -> str:
        """The model's plan, as far as a search says which that is."""
        return "" if self.search is None else self.search.pick

    @property
    def winner(self) -> str:
        """The plan that calls take; that of the model until a search came to its end."""
        return "" if self.search is None else self.search.winner

    def kind(self, trial: Trial) -> Kind:
        """What a plan is in plots and tables."""
        return "pick" if trial.plan == self.pick else "winner" if trial.plan == self.winner else "plan"


def searched(database: Database, kernel: str = "") -> list[Searched]:
    """All questions of a database, or those of one kernel."""
    entries, found = database.entries, list[Searched]()
    for question in dict.fromkeys([*entries.searches, *entries.trials]):
        program, search = entries.programs.get(question.program), database.best(question)
        name = program.kernel if program is not None else "?" if search is None else search.kernel
        if kernel in ("", name):
            trials = once(entries.trials.get(question, []))
            found.append(Searched(name, question, trials, search, "" if program is None else program.text))
    return found


def once(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Each plan once: as it was held against the pick for longest, or as it was tried last."""
    kept: dict[str, Trial] = {}
    for trial in trials:
        known = kept.get(trial.plan)
        if known is None or _pairs(trial.ratio) >= _pairs(known.ratio):
            kept[trial.plan] = trial
    return tuple(kept.values())


def _pairs(ratio: Ratio | None) -> int:
    return 0 if ratio is None else ratio.pairs


def search_page(database: Database, kernel: str = "") -> str:
    """The text of the page."""
    found = searched(database, kernel)
    title = escape(f"Searches in {database.folder.name}")
    skipped = f"<p>{escape(described(database.skipped))}</p>" if database.skipped else ""
    tasks = "\n".join(_task(number, one) for number, one in enumerate(found))
    summary = _summary(found) if found else "<p>There is no search in this database.</p>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n{skipped}{summary}\n{tasks}</body></html>\n"
    )


def _summary(found: Sequence[Searched]) -> str:
    head = ("kernel", "sizes", "where", "plans", "failed", "gain", "99%", "seconds", "state")
    rows: list[str] = []
    for number, one in enumerate(found):
        failed, ratio = sum(trial.state != "ok" for trial in one.trials), _ratio(one)
        gain = "" if ratio is None else _gain(ratio.median)
        bounds = "" if ratio is None else f"{_gain(ratio.high)} to {_gain(ratio.low)}"
        if one.search is not None and one.winner == one.pick:
            gain, bounds = "1", "the model's pick stays"
        seconds = "" if one.search is None else f"{one.search.seconds:.1f}"
        link, where = f'<a href="#task{number}">{escape(one.kernel)}</a>', one.question.device or one.question.target
        plans = str(len(one.trials))
        cells = (
            link, escape(_sizes(one)), escape(where), plans, str(failed), gain, bounds, seconds, _state(one),
        )  # fmt: skip
        rows.append(_cells(cells, numbers={3, 4, 5, 7}, long={2}))
    return _table(head, rows, numbers={3, 4, 5, 7})


def _ratio(one: Searched) -> Ratio | None:
    return None if one.search is None else one.search.ratio


def _gain(ratio: float) -> str:
    """How many times as fast: the other way round."""
    return f"{1 / ratio:.3f}" if ratio else "?"


def _state(one: Searched) -> str:
    return "finished" if one.search is not None and one.search.finished else "not finished"


def _sizes(one: Searched) -> str:
    return ", ".join(f"{name}={size}" for name, size in one.question.sizes)


def _task(number: int, one: Searched) -> str:
    timed = [trial for trial in one.trials if trial.times is not None]
    parts = [f'<h2 id="task{number}">{escape(one.kernel)} with {escape(_sizes(one) or "no sizes")}</h2>', _told(one)]
    if timed:
        parts += [_KEY, f'<div class="plots">{_scatter(one, timed)}{_convergence(one)}</div>']
    parts += [_origins(one), _plans(one)]
    if one.text:
        parts.append(f"<details><summary>The program</summary><pre>{escape(one.text)}</pre></details>")
    return "\n".join(parts)


def _told(one: Searched) -> str:
    """A paragraph on how it ended."""
    question, search = one.question, one.search
    where = f"{escape(question.device or question.target)}, for {escape(question.target)}"
    if search is None:
        return f"<p>On {where}. No search of it has come to its end: calls take the model's pick.</p>"
    ratio = _ratio(one)
    if search.winner == search.pick:
        end = "The model's pick stays"
    elif ratio is None:
        end = "Another plan won"
    else:
        end = f"The winner is {_gain(ratio.median)} times as fast ({_gain(ratio.high)} to {_gain(ratio.low)} with 99%)"
    versions = ", ".join(f"{name} {version}" for name, version in search.versions.items())
    return (
        f"<p>On {where}. {end}; {search.trials} plans were measured in {search.seconds:.1f} s; {_state(one)}. "
        f"{escape(search.when[:16])}, {escape(versions)}.</p>"
    )


def _scatter(one: Searched, timed: Sequence[Trial]) -> str:
    points = [
        Point(trial.predicted, trial.times.median, f"{trial.plan}: {_us(trial.predicted)} us predicted, "
              f"{_us(trial.times.median)} us measured", one.kind(trial))
        for trial in timed
        if trial.predicted and trial.times is not None and trial.times.median > 0
    ]  # fmt: skip
    if not points:
        return ""
    caption = "What the model predicted and what was measured. On the dashed line they are equal."
    return _figure(scatter(points), caption)


def _convergence(one: Searched) -> str:
    points = [
        Point(count, trial.ratio.median, f"{count}. {trial.plan}: {trial.ratio.median:.3f}", one.kind(trial))
        for count, trial in enumerate(one.trials, 1)
        if trial.ratio is not None and trial.state == "ok"
    ]
    if not points:
        return ""
    caption = "The best plan so far, by the median in the race. A winner has to be certain in finals too."
    return _figure(convergence(points), caption)


def _figure(plot: str, caption: str) -> str:
    return f"<figure>{plot}<figcaption>{escape(caption)}</figcaption></figure>"


def _origins(one: Searched) -> str:
    """Where plans came from, and what became of those."""
    groups: dict[str, list[Trial]] = {}
    for trial in one.trials:
        groups.setdefault(trial.why or "?", []).append(trial)
    if not groups:
        return ""
    rows: list[str] = []
    for why, trials in groups.items():
        ratios = [trial.ratio.median for trial in trials if trial.state == "ok" and trial.ratio is not None]
        failed = sum(trial.state != "ok" for trial in trials)
        best = f"{min(ratios):.3f}" if ratios else ""
        rows.append(_cells((escape(why), str(len(trials)), str(failed), best), numbers={1, 2, 3}))
    return _table(("where plans came from", "plans", "failed", "best"), rows, numbers={1, 2, 3})


def _plans(one: Searched) -> str:
    """All plans, the best first; what failed comes last."""
    if not one.trials:
        return ""
    right = [trial for trial in one.trials if trial.state == "ok"]
    right.sort(key=lambda trial: (trial.ratio is None, trial.ratio.median if trial.ratio is not None else 0.0))
    bounds = [bound for trial in right if trial.ratio is not None for bound in (trial.ratio.low, trial.ratio.high)]
    least, most = min([0.9, *bounds]), max([1.1, *(min(bound, 2.0) for bound in bounds)])
    numbers = {2, 5, 6, 7, 8}
    rows = [_plan(one, trial, (least, most), numbers) for trial in right]
    rows += [_plan(one, trial, (least, most), numbers) for trial in one.trials if trial.state != "ok"]
    head = ("plan", "state", "x pick's time", "", "99%", "pairs", "us", "predicted", "error", "from, or why it failed")
    return _table(head, rows, numbers)


def _plan(one: Searched, trial: Trial, bounds: tuple[float, float], numbers: set[int]) -> str:
    ratio, times = trial.ratio, trial.times
    state = "ok" if trial.state == "ok" else f'<span class="bad">{escape(trial.state)}</span>'
    cells = (
        f"<code>{escape(trial.plan)}</code>", state,
        "" if ratio is None else f"{ratio.median:.3f}",
        "" if ratio is None else interval(ratio.low, ratio.median, ratio.high, *bounds),
        "" if ratio is None else f"{ratio.low:.3f} to {ratio.high:.3f}",
        "" if ratio is None else str(ratio.pairs),
        "" if times is None else _us(times.median), _us(trial.predicted),
        "" if trial.error is None else f"{trial.error:.1e}",
        escape(trial.why if trial.state == "ok" else trial.reason or trial.why),
    )  # fmt: skip
    return _cells(cells, numbers, {0, 9}, one.kind(trial))


def _us(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:.4g}"


def _table(head: Sequence[str], rows: Sequence[str], numbers: set[int]) -> str:
    cells = "".join(
        f"<th{' class=number' if number in numbers else ''}>{escape(word)}</th>" for number, word in enumerate(head)
    )
    return f'<div class="wide"><table><tr>{cells}</tr>{"".join(rows)}</table></div>'


def _cells(cells: Sequence[str], numbers: set[int], long: set[int] | None = None, kind: str = "") -> str:
    """A row; the cells are HTML."""
    classes: Mapping[int, str] = {**dict.fromkeys(long or (), "long"), **dict.fromkeys(numbers, "number")}
    made = "".join(
        f"<td{f' class={classes[number]}' if number in classes else ''}>{cell}</td>"
        for number, cell in enumerate(cells)
    )
    return f"<tr{f' class={kind}' if kind else ''}>{made}</tr>"
