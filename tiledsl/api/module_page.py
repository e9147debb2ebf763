"""A page about a module: its kernels drawn, and what `explain()` says. One HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tiledsl.api.built_module import Built
from tiledsl.api.draw_module import draw_module
from tiledsl.api.explain_module import explain_module
from tiledsl.runtime.artifact import Note

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem; color: #1b1f24; background: #fff; }
pre { font: 12px/1.45 ui-monospace, monospace; overflow-x: auto; background: #f6f8fa; padding: 1rem; }
.drawing { overflow-x: auto; border: 1px solid #d0d7de; }
svg text { font: 11px ui-monospace, monospace; fill: #1b1f24; }
svg .title { font-weight: 700; }
svg rect { stroke: #57606a; }
svg .kernel rect { fill: #ddf4ff; }
svg .input rect, svg .output rect { fill: #fff8c5; }
svg .edge path { fill: none; stroke: #8c959f; }
svg .edge text { fill: #57606a; paint-order: stroke; stroke: #fff; stroke-width: 3px; }
svg .edge:hover text { fill: #cf222e; }
svg .edge:hover path { stroke: #cf222e; stroke-width: 2; }
svg .tip { fill: #8c959f; }
"""


def module_page(built: Built, notes: Sequence[Note], unfused_bytes: int | None) -> str:
    """The text of the page."""
    name = escape(f"{built.schedule.name}, built for {built.arch}")
    text = escape(explain_module(built, notes, unfused_bytes))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{name}</h1>\n"
        "<p>Boxes are launches of kernels, with what each computes, reads and writes, and the weights that it reads. "
        "Edges are buffers in global memory; what lies within a box stays in registers, shared memory or caches.</p>\n"
        f'<div class="drawing">\n{draw_module(built.schedule)}\n</div>\n<pre>{text}</pre>\n</body></html>\n'
    )
