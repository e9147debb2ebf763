"""Pages about searches, made of records: what they show, and that nothing of a record is read as HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support.fakes.tuning_records import DEVICE, TEXT, search, trial
from tiledsl.api.pages.search_page import once, search_page, searched
from tiledsl.api.pages.search_plots import MOST_RATIO, Point, convergence, interval, scatter
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.records.record import Entry, Ratio, Search

ALONE = {"meta", "link", "br", "circle", "line", "path"}
PICK = replace(trial("m=64, 1 threads", 1.0), why="the model's pick")
WON = trial("m=8, 1 threads", 0.9)


class Tree(HTMLParser):
    """Reads a page, and holds that each element ends where it should."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ALONE:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ALONE:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and "style" not in self.open:
            self.words.append(data.strip())


def page_of(folder: Path, entries: Sequence[Entry], kernel: str = "") -> tuple[str, str]:
    """The page, and its words."""
    with Writer(Database(folder)) as writer:
        for entry in entries:
            writer.add(entry)
    database = Database(folder)
    database.refresh()
    page, tree = search_page(database, kernel), Tree()
    tree.feed(re.sub(r"<(circle|line|path)([^>]*)/>", r"<\1\2>", page.removeprefix("<!doctype html>\n")))
    assert tree.open == []
    return page, " ".join(tree.words)


def test_a_search(tmp_path: Path) -> None:
    slow, wrong = trial("m=1, 1 threads", 1.5), trial("m=3, 1 threads", state="wrong")
    page, words = page_of(tmp_path, [TEXT, PICK, slow, WON, wrong, search()])
    assert "gemm M=64, N=32 a CPU, 2 cores 4 1 1.111 1.099 to 1.124 1.5 finished" in words
    assert "The winner is 1.111 times as fast (1.099 to 1.124 with 99%); 9 plans were measured in 1.5 s" in words
    table = words[words.rindex("why it failed") :]
    assert [table.index(plan) for plan in ("m=8", "m=64", "m=1,", "m=3")] == sorted(
        table.index(plan) for plan in ("m=8", "m=64", "m=1,", "m=3")
    ), "the best first, what failed last"
    assert "wrong 2 1.0e-07 it is so" in table
    assert "near 3 1 0.900" in words, "where plans came from"
    assert "func @gemm() {" in words
    assert page.count('class="plot"') == 2
    assert page.count('<circle class="winner"') == 2
    assert "prefers-color-scheme: dark" in page
    assert "http" not in page.replace("http-equiv", ""), "it needs no network"


def test_where_the_model_stays_its_pick_is_no_winner(tmp_path: Path) -> None:
    page, words = page_of(tmp_path, [TEXT, PICK, WON, search(winner=PICK.plan)])
    assert "The model's pick stays" in words
    assert '<circle class="winner"' not in page


def test_a_search_without_an_end(tmp_path: Path) -> None:
    _, words = page_of(tmp_path, [TEXT, PICK])
    assert "No search of it has come to its end: calls take the model's pick." in words
    assert "not finished" in words


def test_nothing_that_was_timed_and_nothing_at_all(tmp_path: Path) -> None:
    page, words = page_of(tmp_path, [trial(state="crash"), search()])
    assert 'class="plot"' not in page
    assert "crash 2 1.0e-07 it is so" in words
    _, words = page_of(tmp_path / "empty", [])
    assert words.endswith("There is no search in this database.")


def test_one_kernel_and_other_devices(tmp_path: Path) -> None:
    on_gpu = [replace(trial(), question=DEVICE), replace(search(), question=DEVICE, kernel="softmax")]
    entries: list[Entry] = [TEXT, PICK, search(), *on_gpu]
    _, words = page_of(tmp_path, entries)
    assert "a GPU, for sm_90" in words
    database = Database(tmp_path)
    database.refresh()
    assert [one.kernel for one in searched(database, "softmax")] == ["softmax"]
    assert "gemm with" not in search_page(database, "softmax")


def test_records_are_text(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>"
    entries = [replace(TEXT, text=bad, kernel=bad), replace(WON, plan=bad, why=bad), trial(bad + "2", state="refused")]
    ended: Search = replace(search(winner=bad), versions={bad: bad}, when=bad)
    page, words = page_of(tmp_path, [*entries, ended])
    assert "<script" not in page
    assert bad in words


def test_lines_that_were_skipped_are_said(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_bytes(b"what is this\n")
    _, words = page_of(tmp_path, [PICK, search()])
    assert "1 line was skipped: 1 damaged" in words


def test_each_plan_stands_once_as_it_was_measured_best() -> None:
    short, long = (replace(WON, ratio=Ratio(number, number, number, pairs)) for number, pairs in ((0.8, 8), (0.9, 200)))
    failed = trial(WON.plan, state="timeout")
    assert once([short, long, failed, PICK]) == (long, PICK)
    assert once([failed, short]) == (short,)
    assert once([failed, replace(failed, reason="again")]) == (replace(failed, reason="again"),)


def numbers(text: str, pattern: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text)]


def test_the_best_so_far_never_gets_worse() -> None:
    points = [Point(n, ratio, "") for n, ratio in enumerate((1.0, 1.3, 0.95, 0.97, 9.0, 0.8), 1)]
    plot = convergence(points)
    (path,) = re.findall(r'class="best" d="([^"]*)"', plot)
    heights = numbers(path, r"(?:V|M\d+\.\d )(\d+\.\d)")
    assert len(heights) == 3, "at 1, 0.95 and 0.8"
    assert heights == sorted(heights), "less time lies lower"
    assert min(numbers(plot, r'cy="(-?\d+\.\d)"')) > 0, f"what takes more than {MOST_RATIO} stays within"


@pytest.mark.parametrize("scale", [1e-9, 1e-6, 1e-3, 1.0])
def test_dots_lie_on_the_line_where_predictions_are_right(scale: float) -> None:
    plot = scatter([Point(2 * scale, 2 * scale, ""), Point(7 * scale, 7 * scale, "")])
    (line,) = re.findall('<line class="equal"[^>]*>', plot)
    x1, y1, x2, y2 = numbers(line, r'[xy][12]="(\S+)"')
    for x, y in zip(numbers(plot, r'cx="(\S+)"'), numbers(plot, r'cy="(\S+)"')):
        assert (y - y1) / (y2 - y1) == pytest.approx((x - x1) / (x2 - x1), abs=1e-3)
    assert len(re.findall("<text", plot)) > 4


def test_bounds_stay_within_their_bar() -> None:
    drawn = numbers(interval(0.5, 1.0, 5.0, 0.9, 2.0), r'(?:x1|x2|cx)="(\S+)"')
    assert min(drawn) >= 0
    assert max(drawn) <= 120
