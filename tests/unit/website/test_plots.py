"""Plots of ratios: what is in them, and where."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from website.plots import PLOTS, Plot, Row, Wanted, plots, svg, with_plots

GPU = {
    "run": {"device": "A GPU", "date": "2026-01-02", "commit": "abc"},
    "table": [
        ["op a 1", "5", "0.50", "-"], ["op b 2", "5", "2.00", "1.00"],
        ["other", "1", "9.00", ""], ["geomean", "", "3.0", ""],
    ],
}  # fmt: skip
CPU = {
    "device": "A CPU", "cores": 2, "date": "2026-01-02", "commit": "abc",
    "figures": [{"what": "GEMM", "value": 1.5, "unit": "x"}, {"what": "import", "value": 0.1, "unit": "s"}],
}  # fmt: skip


def folder_of(path: Path, **files: object) -> Path:
    for name, data in files.items():
        (path / f"{name}.json").write_text(json.dumps(data))
    return path


def test_rows_of_a_gpu(tmp_path: Path) -> None:
    wanted = Wanted("gpu", "Ops", (("A", 2), ("B", 3)), rows="op", drop="op ")
    (plot,) = plots(wanted, folder_of(tmp_path, gpu=GPU))
    assert plot == Plot(
        "Ops", "A GPU; 2026-01-02, commit abc", ("A", "B"), (Row("a 1", (0.5, None)), Row("b 2", (2.0, 1.0)))
    )
    assert [row.values for row in plot.rows] == ["0.50 / -", "2.00 / 1.00"]


def test_rows_of_a_cpu(tmp_path: Path) -> None:
    (plot,) = plots(Wanted("cpu-*", "On a CPU", (("NumPy", 0),)), folder_of(tmp_path, **{"cpu-x": CPU}))
    assert plot.measured == "A CPU, 2 cores; 2026-01-02, commit abc"
    assert plot.rows == (Row("GEMM", (1.5,)),)


def test_faster_is_to_the_right_of_one() -> None:
    drawing = svg(Plot("T <x>", "m", ("A", "B"), (Row("slow & old", (0.5, None)), Row("fast", (4.0, 2.0)))))
    assert "T &lt;x&gt;" in drawing
    figure = ElementTree.fromstring(drawing.replace("<br>", "<br/>"))
    one = next(float(line.attrib["x1"]) for line in figure.iter("line") if line.attrib["class"] == "one")
    circles = [float(circle.attrib["cx"]) for circle in figure.iter("circle")]
    (other,) = (float(mark.attrib["x"]) + 3 for mark in figure.iter("rect"))
    assert circles[0] < one < other < circles[1]
    assert one - circles[0] == pytest.approx(other - one, abs=0.2)  # half as fast and twice as fast, on the same scale
    width = float(next(figure.iter("svg")).attrib["viewBox"].split()[2])
    assert all(0 <= float(text.attrib["x"]) <= width for text in figure.iter("text"))


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_has_rows_with_every_peer(name: str) -> None:
    drawn = plots(PLOTS[name])
    assert drawn
    for plot in drawn:
        assert len(plot.rows) > 4
        for peer in range(len(plot.peers)):
            assert any(row.ratios[peer] is not None for row in plot.rows)
        assert re.search(r"\d{4}-\d\d-\d\d, commit \w+", plot.measured)


def test_columns_are_those_of_the_peers() -> None:
    """The column of a ratio stands behind that of the peer's time, or says whose it is."""
    for wanted in PLOTS.values():
        if wanted.file.startswith("gpu"):
            path = Path(__file__).parents[3] / "benchmarks" / "results" / f"{wanted.file}.json"
            columns = json.loads(path.read_text())["columns"]
            for peer, at in wanted.peers:
                assert columns[at] == f"of {peer}" or (columns[at], columns[at - 1].split()[0]) == ("x", peer)


def test_pages_get_their_plots() -> None:
    assert with_plots("a\n<!-- plot: cpu -->\nb").startswith('a\n<figure class="ratios">')
    with pytest.raises(KeyError):
        with_plots("<!-- plot: nothing -->")
