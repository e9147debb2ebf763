"""The page about a module: what repeats is shown once, labels are whole, and a browser agrees."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from itertools import combinations, groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from tiledsl import ops, tile
from tiledsl.api.pages.draw_module import BESIDE, arranged
from tiledsl.api.pages.module_nodes import LETTER, LINE, nodes_and_edges
from tiledsl.api.pages.repeated_launches import FEW, Part, repeated_parts
from tiledsl.api.reports.source_lines import source_text
from tiledsl.ir.dtypes import f32
from tiledsl.runtime.programs.schedule import Schedule, Step
from tiledsl.support.location import BUILTIN, Location

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
RANDOM = np.random.default_rng(0)


def schedule_of(names: str) -> Schedule:
    """A launch for each letter."""
    steps = [Step(name, ord(name), (), (), (), {}, 0, 0) for name in names]
    return Schedule("model", (), (), (), (), tuple(steps))


def written(parts: Any, names: str) -> str:
    """`a(bc)3d`"""
    return "".join(
        f"({written(part.inside, names)}){part.count}" if part.inside else names[part.first] for part in parts
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("", ""),
        ("a" * FEW, "a" * FEW),
        ("a" + "bc" * 20 + "d", "a(bc)20d"),
        ("x" + "a" * 30 + "y" + "bcd" * 4 + "z", "x(a)30y(bcd)4z"),
        ("abcdefghijklm" * 3, "(abcdefghijklm)3"),
        (("p" + "ab" * 8) * 3 + "q", "(p(ab)8)3q"),
        ("abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz"),
        ("abcdefghijklaabbccdd", "abcdefghijklaabbccdd"),
    ],
)
def test_what_repeats_is_one_part(names: str, expected: str) -> None:
    assert written(repeated_parts(schedule_of(names)), names) == expected


def test_parts_cover_all_launches_in_order() -> None:
    def launches(parts: Any) -> list[int]:
        return [number for part in parts for number in part.launches]

    def check(parts: Any) -> None:
        for part in parts:
            if part.inside:
                assert launches(part.inside) == list(range(part.first, part.first + part.period))
                check(part.inside)

    for _ in range(30):
        pieces = ["".join(RANDOM.choice(list("abc"), 3)) * int(RANDOM.integers(1, 6)) for _ in range(6)]
        names = "".join(pieces)
        parts = repeated_parts(schedule_of(names))
        assert launches(parts) == list(range(len(names)))
        check(parts)
        for part in parts:
            turns = [names[part.first + n * part.period :][: part.period] for n in range(part.count)]
            assert len(set(turns)) == 1


@pytest.mark.parametrize(
    ("place", "others", "expected"),
    [
        (("/x/model.py", 12), [("/x/model.py", 12), ("/x/model.py", 14), ("/x/model.py", 15)], "model.py:12, 14-15"),
        (("/x/model.py", 30), [("/x/model.py", 12)], "model.py:30"),
        (("node `mm` (MatMul) of model.onnx", 0), [("node `mm` (MatMul) of model.onnx", 0)],
         "node `mm` (MatMul) of model.onnx"),
        ((BUILTIN.file, 1), [(BUILTIN.file, 1)], ""),
    ],
)  # fmt: skip
def test_the_lines_of_a_launch(place: tuple[str, int], others: list[tuple[str, int]], expected: str) -> None:
    assert source_text(Location(*place), [Location(*other) for other in others]) == expected


# Models


def lstm(xs: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    """Unrolled."""
    size = h.shape[1]
    for t in range(xs.shape[0]):
        gates = xs[t] @ w + h @ u + b
        i, f, o, z = (gates[:, n * size : (n + 1) * size] for n in range(4))
        c = tile.sigmoid(f) * c + tile.sigmoid(i) * tile.tanh(z)
        h = tile.sigmoid(o) * tile.tanh(c)
    return h, c


def weights(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def residual(x: Any, narrow: Any, middle: Any, wide: Any, skip: Any = None, stride: int = 1) -> Any:
    y = tile.relu(ops.conv2d(x, narrow))
    y = tile.relu(ops.conv2d(y, middle, stride=stride, padding=1))
    y = ops.conv2d(y, wide)
    return tile.relu(y + (x if skip is None else ops.conv2d(x, skip, stride=stride)))


def resnet(x: Any, blocks: Any) -> Any:
    """Blocks as those of ResNet-50."""
    for block in blocks:
        x = residual(x, *block)
    return tile.mean(x, axis=(2, 3))


def blocks_of(*stages: tuple[int, int, int]) -> list[Any]:
    """For each stage: blocks, channels, stride."""
    blocks: list[Any] = []
    before = 4
    for count, channels, stride in stages:
        for number in range(count):
            shapes = (channels, before, 1, 1), (channels, channels, 3, 3), (2 * channels, channels, 1, 1)
            skip = (weights(2 * channels, before, 1, 1), stride) if number == 0 else ()
            blocks.append((*(weights(*shape) for shape in shapes), *skip))
            before = 2 * channels
    return blocks


@cache
def module(name: str) -> Any:
    if name == "lstm":
        shapes = (16, 2, 3), (2, 4), (2, 4), (3, 16), (4, 16), (16,)
        graph = tiledsl.trace(lstm, *(tile.spec(shape, f32) for shape in shapes))
    else:
        blocks = blocks_of((3, 4, 1), (4, 4, 2), (6, 8, 2), (3, 8, 2))

        def model(x: Any) -> Any:
            return resnet(x, blocks)

        graph = tiledsl.trace(model, tile.spec((1, 4, 16, 16), f32))
    (built,) = tiledsl.fuse(graph).build("reference").modules
    return built


MODELS = ["lstm", "resnet"]


@pytest.mark.parametrize("name", MODELS)
def test_the_drawing_of_a_large_module_is_small(name: str) -> None:
    schedule = module(name).built.schedule
    parts = repeated_parts(schedule)
    nodes, _ = nodes_and_edges(schedule, parts)
    shown = [node for node in nodes if node.kind in ("kernel", "repeat")]
    assert len(shown) == len(parts)
    assert len(shown) <= len(schedule.steps) / 2
    assert any(node.kind == "repeat" and node.link for node in nodes)
    for node in shown:
        assert f"{Path(__file__).name}:" in " ".join(node.lines), "a box without a line of the user's"


@pytest.mark.parametrize("name", MODELS)
def test_labels_stand_apart_and_within_the_drawing(name: str) -> None:
    schedule = module(name).built.schedule
    for parts in (repeated_parts(schedule), [Part(number) for number in range(len(schedule.steps))]):
        nodes, edges = nodes_and_edges(schedule, parts)
        found = arranged(nodes, edges)
        labels: list[tuple[float, float, float]] = []
        for edge in edges:
            x, y = found.places[edge.nodes[-1]]
            left = x + nodes[edge.nodes[-1]].width / 2 + BESIDE
            for place, label in enumerate(edge.labels):
                labels.append((y - BESIDE - (edge.line + place) * LINE, left, left + len(label) * LETTER))
        assert all(left >= 0 and right <= found.width for _, left, right in labels)
        for _, line in groupby(sorted(labels), key=lambda label: label[0]):
            for (_, left, right), (_, other_left, other_right) in combinations(line, 2):
                assert right <= other_left or other_right <= left


_MEASURE = """<script>
document.querySelectorAll("details").forEach(one => one.open = true);
const wrong = [], box = one => one.getBoundingClientRect();
for (const group of document.querySelectorAll("svg g.kernel, svg g.repeat, svg g.input, svg g.output")) {
  const outer = box(group.querySelector("rect"));
  for (const text of group.querySelectorAll("text")) {
    const inner = box(text);
    if (inner.left < outer.left || inner.right > outer.right || inner.top < outer.top || inner.bottom > outer.bottom)
      wrong.push("outside of its box: " + text.textContent);
  }
}
for (const svg of document.querySelectorAll("svg")) {
  const all = box(svg), labels = [...svg.querySelectorAll(".label text")].map(one => [box(one), one.textContent]);
  for (const [one, text] of labels) if (one.left < all.left || one.right > all.right) wrong.push("cut: " + text);
  for (let n = 0; n < labels.length; n++) for (let m = 0; m < n; m++) {
    const [one, other] = [labels[n][0], labels[m][0]];
    const over = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
    if (one.left < other.right && other.left < one.right && over > 3)
      wrong.push(labels[n][1] + " over " + labels[m][1]);
  }
}
for (const link of document.querySelectorAll("a[href]"))
  if (!document.getElementById(link.getAttribute("href").slice(1))) wrong.push("leads nowhere: " + link.innerHTML);
document.title = "measured " + document.querySelectorAll("svg text").length + " texts; " + wrong.join(" | ");
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
@pytest.mark.parametrize("name", MODELS)
def test_a_browser_shows_every_text_whole(name: str, tmp_path: Path) -> None:
    assert CHROMIUM is not None
    page = tmp_path / "page.html"
    module(name).explain(html=page)
    page.write_text(page.read_text(encoding="utf-8") + _MEASURE, encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    shown = subprocess.run([*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120)
    title = re.search(r"<title>(.*?)</title>", shown.stdout, re.DOTALL)
    assert title is not None, shown.stderr
    count = re.fullmatch(r"measured (\d+) texts; ", title.group(1))
    assert count is not None, title.group(1)
    assert int(count.group(1)) > 50


@pytest.mark.parametrize("name", MODELS)
def test_the_page_of_a_large_module_stands_alone(name: str, tmp_path: Path) -> None:
    module(name).explain(html=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not re.search(r"src=|@import|url\((?!#)|https?://(?!www\.w3\.org/2000/svg)", page)
    links = set(re.findall(r'href="([^"]*)"', page))
    assert links
    assert links <= {f"#{name}" for name in re.findall(r'<details id="([^"]*)"', page)}
    assert page.count("<details") == page.count("</details>")
