"""What was found before, up to a number."""

from __future__ import annotations

from tiledsl.support.latest_found import LatestFound


def test_the_first_ones_go_first() -> None:
    found = LatestFound[str, int](2)
    for number, key in enumerate("abb"):
        found.put(key, number)
    assert [found.get(key) for key in "abc"] == [0, 2, None]
    found.put("c", 3)
    assert [found.get(key) for key in "abc"] == [None, 2, 3]
    found.clear()
    assert found.get("c") is None
