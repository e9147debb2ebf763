"""What a kernel reads from outside of itself is part of its cache key, and is watched."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any, cast

import pytest

from tiledsl import tile
from tiledsl.runtime.calls.captured import Captured, Watched, changed

BLOCK = 64
PAIR = (1, 2.5)
OTHER = "not read"
settings = ModuleType("settings")
vars(settings).update(depth=3, width=4)


@tile.func
def helper(x: Any) -> Any:
    return x * BLOCK


def kernel_function(x: Any) -> Any:
    return helper(x) + settings.depth + PAIR[0] + tile.f32.bits


def closure(value: object) -> FunctionType:
    def inner(x: Any) -> Any:
        return x + value

    return cast("FunctionType", inner)


def captured() -> Captured:
    return Captured(cast("FunctionType", kernel_function))


def first_changed(captured: Captured) -> Watched | None:
    return changed(tuple(captured.watched))


def test_what_is_watched() -> None:
    names = {watched.name for watched in captured().watched}
    assert names == {"helper", "BLOCK", "settings", "depth", "PAIR"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BLOCK", 128),
        ("BLOCK", 64.0),
        ("PAIR", (1, 2)),
        ("helper", tile.func(kernel_function)),
    ],
)
def test_changed_global(name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    before = captured()
    assert first_changed(before) is None
    monkeypatch.setitem(globals(), name, value)
    changed = first_changed(before)
    assert changed is not None
    assert changed.name == name
    assert captured().texts != before.texts


def test_changed_member_of_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    before = captured()
    monkeypatch.setattr(settings, "width", 5)
    assert first_changed(before) is None
    assert captured().texts == before.texts
    monkeypatch.setattr(settings, "depth", 5)
    assert first_changed(before) is not None
    assert captured().texts != before.texts


def test_what_is_not_read_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    before = captured()
    monkeypatch.setitem(globals(), "OTHER", 1)
    assert first_changed(before) is None
    assert captured().texts == before.texts


def test_closures() -> None:
    assert Captured(closure(1)).texts == Captured(closure(1)).texts
    assert Captured(closure(1)).texts != Captured(closure(2)).texts
    assert Captured(closure(1)).texts != Captured(closure(1.0)).texts


def test_source_that_cannot_be_read() -> None:
    namespace: dict[str, Any] = {}
    # a file name of its own: `python -c` has a source for "<string>" on Python 3.13 and later
    exec(compile("def f(x): return x", "<nowhere>", "exec"), namespace)
    first = Captured(namespace["f"]).texts
    exec(compile("def f(x): return x + 1", "<nowhere>", "exec"), namespace)
    assert Captured(namespace["f"]).texts != first
