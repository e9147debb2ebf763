"""What is done when an object goes."""

from __future__ import annotations

import gc

import pytest

from tiledsl.support.when_dropped import when_dropped


class Owner:
    """Something that holds something."""


def test_it_is_done_once() -> None:
    done: list[int] = []
    owner = Owner()
    when_dropped(owner, done.append, 1)
    when_dropped(owner, done.append, 2)
    gc.collect()
    assert not done
    del owner
    gc.collect()
    assert sorted(done) == [1, 2]


def test_what_it_raises_is_not_seen(capsys: pytest.CaptureFixture[str]) -> None:
    owner = Owner()
    when_dropped(owner, int, "no number")
    del owner
    gc.collect()
    assert capsys.readouterr().err == ""
