"""The name that may have been meant."""

from __future__ import annotations

import pytest

from tiledsl.support.suggest import distance, nearest, suggest


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("sclae", ["case", "scale"], "scale"),  # letters that changed places
        ("sclae", ["case"], None),
        ("output", ["a", "b", "out"], "out"),
        ("bb", ["a", "b"], "b"),
        ("z", ["x", "y"], None),
        ("X", ["x", "y"], "x"),
        ("factr", ["scale", "factor"], "factor"),
        ("maxmum", ["minimum", "maximum", "max"], "maximum"),
        ("foo", [], None),
    ],
)
def test_nearest(name: str, known: list[str], meant: str | None) -> None:
    assert nearest(name, known) == meant
    assert suggest(name, known, "no idea") == ("no idea" if meant is None else f"did you mean `{meant}`?")


@pytest.mark.parametrize(
    ("a", "b", "slips"), [("", "", 0), ("", "abc", 3), ("ab", "ba", 1), ("kitten", "sitting", 3), ("abcd", "acbd", 1)]
)
def test_distance(a: str, b: str, slips: int) -> None:
    assert distance(a, b) == distance(b, a) == slips
