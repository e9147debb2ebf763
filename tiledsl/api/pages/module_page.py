"""A page about a module: its kernels drawn, and what `explain()` says. One HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tiledsl.api.pages.draw_module import DRAWING_STYLE, draw_module
from tiledsl.api.pages.explain_module import explain_module, without_launches
from tiledsl.api.pages.module_nodes import part_name, title_of
from tiledsl.api.pages.repeated_launches import FEW, Part, repeated_parts
from tiledsl.api.schedules.built_module import Built
from tiledsl.runtime.programs.artifact import Note
from tiledsl.runtime.programs.schedule import Schedule

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem; color: #1b1f24; background: #fff; }
pre { font: 12px/1.45 ui-monospace, monospace; overflow-x: auto; background: #f6f8fa; padding: 1rem; }
.drawing { overflow-x: auto; border: 1px solid #d0d7de; }
details { margin: 0.5rem 0 0.5rem 1rem; }
summary { cursor: pointer; }
"""


_SCRIPT = """
function open_target() {
  const wanted = document.getElementById(location.hash.slice(1));
  for (let one = wanted; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  if (wanted) wanted.scrollIntoView();
}
addEventListener("hashchange", open_target);
open_target();
"""
MOST_DRAWN = 200
"""Launches up to which all repetitions of a part are drawn."""


def module_page(built: Built, notes: Sequence[Note], unfused_bytes: int | None) -> str:
    """The text of the page."""
    schedule = built.schedule
    name = escape(f"{schedule.name}, built for {built.arch}")
    parts = repeated_parts(schedule)
    repeats = "".join(_repeated(schedule, part) for part in parts if part.inside)
    folded = " A part that repeats is one box, with what is in it once; it leads to a drawing of it." if repeats else ""
    overview, launches = explain_module(built, notes, unfused_bytes), ""
    if len(schedule.steps) > FEW:
        overview, launches = without_launches(built, notes, unfused_bytes)
        launches = f"<details><summary>All launches, in order</summary><pre>{escape(launches)}</pre></details>\n"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f"<style>{_STYLE}{DRAWING_STYLE}</style></head>\n<body><h1>{name}</h1>\n"
        "<p>Boxes are launches of kernels, with the lines of the program that each computes, what it reads and writes, "
        "and the weights that it reads. Edges are buffers in global memory; what lies within a box stays in registers, "
        f"shared memory or caches.{folded}</p>\n{_drawing(schedule, parts)}{repeats}"
        f"<pre>{escape(overview)}</pre>\n{launches}<script>{_SCRIPT}</script></body></html>\n"
    )


def module_drawing(schedule: Schedule) -> str:
    """The drawing of the page alone: SVG that brings its colours along."""
    return draw_module(schedule, repeated_parts(schedule), DRAWING_STYLE)


def _drawing(schedule: Schedule, parts: Sequence[Part]) -> str:
    return f'<div class="drawing">\n{draw_module(schedule, parts)}\n</div>\n'


def _repeated(schedule: Schedule, part: Part) -> str:
    """A part that repeats: its first repetition, then, if these are few enough to be looked at, all of them."""
    inside = "".join(_repeated(schedule, one) for one in part.inside if one.inside)
    every = ""
    if len(part.launches) <= MOST_DRAWN:
        drawing = _drawing(schedule, [Part(number) for number in part.launches])
        every = f"<details><summary>all {len(part.launches)} launches</summary>{drawing}</details>\n"
    title = f"{title_of(part)}, up to launch {part.launches.stop}: the first time"
    return (
        f'<details id="{part_name(part)}"><summary>{escape(title)}</summary>\n'
        f"{_drawing(schedule, part.inside)}{inside}{every}</details>\n"
    )
