"""What notebooks show of objects: their `repr`, and behind it, folded, the text that explains them."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from tiledsl.support.errors import TileError

_PRE = "font: 12px/1.45 ui-monospace, monospace; overflow-x: auto; max-height: 40em; padding: 0.5em"


def folded(title: str, text: Callable[[], str]) -> str:
    """HTML of a title that opens to a text; of the title alone where there is no text yet (it raises TileError)."""
    head = f"<code>{escape(title)}</code>"
    try:
        body = text()
    except TileError:
        return head
    return f"<details><summary>{head}</summary>{plain(body)}</details>"


def plain(text: str) -> str:
    """HTML of a text as it is."""
    return f'<pre style="{_PRE}">{escape(text)}</pre>'


def framed(title: str, page: Callable[[], str]) -> str:
    """HTML of a title with a page of its own below it, which folds away."""
    head = f"<code>{escape(title)}</code>"
    try:
        body = escape(page(), quote=True)
    except TileError:
        return head
    frame = f'<iframe srcdoc="{body}" style="width: 100%; height: 40em; border: 0"></iframe>'
    return f"<details open><summary>{head}</summary>{frame}</details>"
